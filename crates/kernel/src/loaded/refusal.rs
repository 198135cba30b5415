//! What the verifier said last, for the message when the kernel refuses programs.

use std::cell::RefCell;

thread_local! {
    /// What libbpf says on this thread while somebody wants to know.
    static HEARD: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The verifier's log has an end that says why, after megabytes of how it got there.
const LINES: usize = 5;
const BEGIN: &str = "BEGIN PROG LOAD LOG";
const END: &str = "END PROG LOAD LOG";

fn hear(_: libbpf_rs::PrintLevel, said: String) {
    let unheard = HEARD.with_borrow_mut(|heard| match heard {
        Some(text) => {
            text.push_str(&said);
            None
        }
        None => Some(said),
    });
    if let Some(said) = unheard {
        eprint!("{said}");
    }
}

/// Loads an object. The error says, where the verifier refused a program, which one and why, on several lines.
///
/// # Errors
/// What the kernel or libbpf refuses.
#[cfg(any(bpf_object, limits_object, fastlane_object))]
pub(super) fn load(object: libbpf_rs::OpenObject, what: &'static str) -> super::Result<libbpf_rs::Object> {
    HEARD.set(Some(String::new()));
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, hear)));
    let loaded = object.load();
    let heard = HEARD.take().unwrap_or_default();
    loaded.map_err(|error| match last_words(&heard) {
        Some(words) => super::Error::Refused(what, error, words),
        None => super::Error::Bpf(what, error),
    })
}

/// The part of libbpf's text that says why a program was refused; else its first warning, if it has any.
fn last_words(heard: &str) -> Option<String> {
    let Some((before, log)) = heard.rsplit_once(BEGIN) else {
        let line = heard.lines().find(|line| !line.trim().is_empty())?;
        return Some(line.trim_start_matches("libbpf: ").to_owned());
    };
    let log = log.split(END).next().unwrap_or_default();
    let program = before.rsplit("prog '").next().and_then(|rest| rest.split('\'').next()).unwrap_or("?");
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.chars().all(|c| c == '-')).collect();
    let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    Some(format!("the verifier's last words on {program}:\n  {}", last.join("\n  ")))
}

#[cfg(test)]
mod tests {
    use super::last_words;

    #[test]
    fn the_end_of_the_verifiers_log_is_kept_with_the_programs_name() {
        let heard = "libbpf: prog 'selvedge_guest': BPF program load failed: Permission denied\n\
                     libbpf: prog 'selvedge_guest': -- BEGIN PROG LOAD LOG --\n\
                     0: (b7) r0 = 0\n1\n2\n3\n; a line\n5: (95) exit\nR4 is no good\nprocessed 6 insns\n\
                     -- END PROG LOAD LOG --\n\
                     libbpf: prog 'selvedge_guest': failed to load: -13\nlibbpf: failed to load object\n";
        let words = last_words(heard).unwrap();
        assert_eq!(
            words,
            "the verifier's last words on selvedge_guest:\n  3\n  ; a line\n  5: (95) exit\n  R4 is no good\n  processed 6 insns"
        );
    }

    #[test]
    fn without_a_log_the_first_warning_says_why() {
        let heard = "libbpf: failed to find BTF of the kernel\nlibbpf: failed to load object\n";
        assert_eq!(last_words(heard).unwrap(), "failed to find BTF of the kernel");
        assert_eq!(last_words(""), None);
    }
}
