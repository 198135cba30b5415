//! `host.era`: what a generation of Linux sets of `[host.tcp]`. docs/model.md has the table with its sources.

use config::{Document, Invalid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use units::Bytes;

/// A kernel, by the version whose defaults it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Era {
    #[serde(rename = "linux-3.11")]
    Linux3_11,
    #[serde(rename = "linux-3.18")]
    Linux3_18,
    #[serde(rename = "linux-6.18")]
    Linux6_18,
}

/// Keys of `[host.tcp]` that an era decides.
#[derive(Clone, Copy, Debug, Serialize)]
struct Settings {
    hystart_ticks: bool,
    max_reordering: u32,
    tsq_limit: Bytes,
    tsq_truesize: bool,
    tsq_floor: bool,
    tso_autosize: bool,
    tso_defer_near: bool,
    tso_rtt_log: u8,
    prr: bool,
    dctcp_cancels_ack: bool,
}

/// Linux since 3.2 has PRR, since 3.6 small queues of 128 KiB.
const LINUX_3_11: Settings = Settings {
    hystart_ticks: true,
    max_reordering: 127,
    tsq_limit: Bytes(128 << 10),
    tsq_truesize: true,
    tsq_floor: false,
    tso_autosize: false,
    tso_defer_near: false,
    tso_rtt_log: 0,
    prr: true,
    dctcp_cancels_ack: true,
};

const LINUX_3_18: Settings = Settings { tsq_floor: true, tso_autosize: true, ..LINUX_3_11 };

const LINUX_6_18: Settings = Settings {
    hystart_ticks: false,
    max_reordering: 300,
    tsq_limit: Bytes(4 << 20),
    tsq_floor: false,
    tso_defer_near: true,
    tso_rtt_log: 9,
    dctcp_cancels_ack: false,
    ..LINUX_3_18
};

impl Era {
    fn settings(self) -> Settings {
        match self {
            Era::Linux3_11 => LINUX_3_11,
            Era::Linux3_18 => LINUX_3_18,
            Era::Linux6_18 => LINUX_6_18,
        }
    }
}

/// The document with what its era sets. Keys that it gives itself stay.
pub(super) fn applied(document: &Document) -> Document {
    let mut document = document.clone();
    let named = document.table().get("host").and_then(|host| host.get("era")).cloned();
    // What is no era is refused where the scenario is read.
    let Some(era) = named.and_then(|name| name.try_into::<Era>().ok()) else { return document };
    let Ok(tcp) = Table::try_from(era.settings()) else { return document };
    let host = Table::from_iter([("tcp".to_owned(), Value::Table(tcp))]);
    document.beneath(&Table::from_iter([("host".to_owned(), Value::Table(host))]));
    document
}

/// An era is no matter of a scheme: keys of `[host.tcp]` would win over it, though the scheme is written later.
///
/// # Errors
/// A scheme that has one.
pub(super) fn only_for_all(scheme: &str, host: &Table) -> Result<(), Invalid> {
    match host.contains_key("era") {
        true => {
            let problem = "an era is for all schemes";
            Err(Invalid::new(
                format!("scheme.{scheme}.host.era"),
                problem,
                "write it in [host], or the scheme's own keys",
            ))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::{Choice, Plan};
    use config::{ConfigError, Document};

    fn plan(host: &str) -> Result<Plan, ConfigError> {
        let text = format!(
            "duration = \"1ms\"\n[topology]\nkind = \"dumbbell\"\npairs = 1\n{host}\n[[workload]]\nname = \"w\"\n\
             pattern = \"long\"\npairs = [[0, 1]]\n"
        );
        Plan::new(&Document::parse("s.toml", &text, "p").unwrap(), &Choice::default())
    }

    #[test]
    fn an_era_sets_what_the_file_does_not() {
        let tcp = |host: &str| plan(host).unwrap().scenario.host.tcp;
        let (none, old, new) = (tcp(""), tcp("[host]\nera = \"linux-3.11\""), tcp("[host]\nera = \"linux-6.18\""));
        assert!(!none.hystart_ticks && old.hystart_ticks && !new.hystart_ticks);
        assert_eq!((none.max_reordering, old.max_reordering, new.max_reordering), (300, 127, 300));
        assert_eq!((old.tso_autosize, new.tso_autosize, new.tso_rtt_log), (false, true, 9));
        let mixed = tcp("[host]\nera = \"linux-3.11\"\n[host.tcp]\nmax_reordering = 50\ncongestion = \"newreno\"");
        assert_eq!((mixed.max_reordering, mixed.hystart_ticks, mixed.tso_autosize), (50, true, false));
    }

    #[test]
    fn the_configuration_in_effect_has_the_keys_of_the_era() {
        let first = plan("[host]\nera = \"linux-3.18\"\n[scheme.x]\nhost = { tcp = { prr = false } }").unwrap();
        let again = Document::parse("effective.toml", &first.effective(), "p").unwrap();
        let again = Plan::new(&again, &Choice::default()).unwrap();
        assert_eq!(again.effective(), first.effective());
        let tcp = |plan: &Plan| plan.schemes[0].template().hosts.tcp.clone();
        assert_eq!(tcp(&again), tcp(&first));
        assert!(!tcp(&first).prr && tcp(&first).tsq_floor && tcp(&first).hystart_ticks);
    }

    #[test]
    fn what_is_no_era_is_refused() {
        for (host, says) in [
            ("[host]\nera = \"linux-3.12\"", "s.toml:6: host.era: unknown value `linux-3.12`; did you mean"),
            ("[host]\nera = 3", "s.toml:6: host.era: "),
            ("[scheme.x]\nhost = { era = \"linux-3.11\" }", "scheme.x.host.era: an era is for all schemes"),
        ] {
            let error = plan(host).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
