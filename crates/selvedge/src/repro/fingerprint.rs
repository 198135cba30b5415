//! What a record was measured with: a hash of the scenario and the checks, and one of the simulator's sources.

use super::file::{Check, Experiment, Mode, Published};
use config::ConfigError;

/// Hash of the sources that decide what a run yields (`build.rs` lists them), as 16 hexadecimal digits.
pub const SOURCES: &str = env!("SELVEDGE_SOURCES");

/// The commit that the binary was built from, if whoever built it said so.
pub(super) const COMMIT: Option<&str> = option_env!("SELVEDGE_COMMIT");

/// Keys of a scenario that are words for the reader.
const WORDS: [&str; 2] = ["title", "description"];

/// What decides a result in a mode, as 16 hexadecimal digits: what its file and the included ones say at each point that it needs, and
/// its checks. Defaults of the simulator are no part of it, they are in [`SOURCES`]; nor are the seeds of a full run, which looks decide.
///
/// # Errors
/// A file that makes no sense at a point.
pub fn configuration(experiment: &Experiment, result: &Published, mode: Mode) -> Result<String, ConfigError> {
    let mut hash = Fnv::new();
    for (label, _, document) in experiment.documents(mode, &|label| result.needs(label))? {
        let mut table = document.table().clone();
        for word in WORDS {
            table.remove(word);
        }
        if mode == Mode::Full {
            table.remove("seeds");
        }
        hash.add(&label);
        // A table that was read from TOML is TOML again.
        hash.add(&toml::to_string(&table).unwrap_or_default());
    }
    hash.checks(&result.checks);
    Ok(hash.text())
}

/// What decides a claim on real hosts, in the same form: the command and the checks.
pub(super) fn on_real_hosts(run: &str, checks: &[Check]) -> String {
    let mut hash = Fnv::new();
    hash.add(run);
    hash.checks(checks);
    hash.text()
}

/// FNV-1a of 64 bits: the same on every machine and in every version, which `std`'s hashes do not promise.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn checks(&mut self, checks: &[Check]) {
        for check in checks {
            self.add(&check.text);
            self.add(check.holds.source());
        }
    }

    fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv() {
        let mut hash = Fnv::new();
        for byte in *b"foobar" {
            hash.0 = (hash.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        assert_eq!(hash.0, 0x8594_4171_f739_67e8, "the authors' test vector");
        assert!(SOURCES.len() == 16 && SOURCES.bytes().all(|b| b.is_ascii_hexdigit()), "{SOURCES}");
    }

    #[test]
    fn a_configuration_follows_scenario_and_checks_and_in_quick_runs_seeds() {
        let (file, text) = super::super::embedded().find(|(file, _)| *file == "presto/fig15.toml").unwrap();
        let of = |text: &str, mode: Mode| {
            let experiment = Experiment::parse(file, text).unwrap();
            configuration(&experiment, &experiment.results[0], mode).unwrap()
        };
        let (full, quick) = (of(text, Mode::Full), of(text, Mode::Quick));
        assert_eq!(full.len(), 16);
        assert_ne!(full, quick, "other durations");
        let title = text.lines().find(|line| line.starts_with("title = ")).unwrap();
        for same in [format!("{text}\n# a comment\n"), text.replacen(title, "title = \"another\"", 1)] {
            assert_eq!((of(&same, Mode::Full), of(&same, Mode::Quick)), (full.clone(), quick.clone()));
        }
        let seeds: Vec<&str> = text.lines().filter(|line| line.starts_with("seeds = ")).collect();
        let reseeded = seeds.iter().fold(text.to_owned(), |text, line| text.replace(line, "seeds = \"7..9\""));
        assert_eq!(of(&reseeded, Mode::Full), full);
        assert_ne!(of(&reseeded, Mode::Quick), quick);
        let other = "include = \"testbed.toml\"\nswitch = { alpha = 2.0 }";
        assert_ne!(of(&text.replacen("include = \"testbed.toml\"", other, 1), Mode::Full), full);
        let check = "expr = \"";
        assert_ne!(of(&text.replacen(check, "expr = \"0 < 1 && ", 1), Mode::Full), full);
    }
}
