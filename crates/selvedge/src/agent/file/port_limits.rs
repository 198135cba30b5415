//! The limits of one `[[port]]`.

use super::annotations::Bandwidth;
use super::limits::{check_ceiling, check_rate, LimitsTable, TenantTable};
use super::tables::PortTable;
use crate::parsed::Parsed;
use crate::word::in_range;
use agent_api::config::{LawKind, PortLimits, Rate};
use config::{Invalid, Wrong};
use edge::names::{Named, Names};
use units::BitRate;

/// What one `[[port]]` says, which stands at key `at`.
pub(super) fn check_port(
    at: &str,
    keys: &PortTable,
    table: &LimitsTable,
    tenants: &[TenantTable],
) -> Result<PortLimits, Wrong> {
    let mut wrong = Wrong::new();
    let mut fail = |key: &str, problem: String, remedy: &str| {
        wrong.add(Invalid::new(format!("{at}.{key}"), problem, remedy));
    };
    let annotated = |one: Option<Parsed<Bandwidth>>| one.map(|one| one.0 .0);
    let (egress, ingress) = (annotated(keys.annotations.egress), annotated(keys.annotations.ingress));
    for (key, both) in [
        ("egress_rate", egress.is_some() && keys.egress_rate.is_some()),
        ("ingress_rate", ingress.is_some() && keys.ingress_rate.is_some()),
    ] {
        if both {
            fail(key, "an annotation says it too".into(), "remove one of them");
        }
    }
    let has_egress = egress.is_some() || keys.egress_rate.is_some();
    let has_rate = has_egress || ingress.is_some() || keys.ingress_rate.is_some() || table.annotations.is_some();
    for (key, given) in [("law", keys.law.is_some()), ("k1", keys.k1.is_some()), ("k2", keys.k2.is_some())] {
        if given && !has_rate {
            let remedy = "add `egress_rate` or `ingress_rate`, or remove it";
            fail(key, "has no meaning without a rate".into(), remedy);
        }
    }
    if keys.egress_ceiling.is_some() && keys.egress_rate.is_none() {
        fail("egress_ceiling", "there is no egress_rate".into(), "add `egress_rate`, which is guaranteed");
    }
    if let Some(tenant) = &keys.tenant {
        if !tenants.iter().any(|known| known.name == *tenant) {
            let shown: String = tenant.chars().take(63).collect();
            fail("tenant", format!("there is no tenant {shown:?}"), "add a [[tenant]] of that name");
        }
        if !has_egress && table.annotations.is_none() {
            fail("tenant", "the port has no egress_rate".into(), "add `egress_rate`");
        }
    }
    wrong.note(table.pacing.shares(format!("{at}.egress_ceiling"), keys.egress_ceiling.is_some()));
    let own = wrong.note(keys.egress_rate.map(|rate| check_ceiling(at, rate, keys.egress_ceiling)).transpose());
    let mut rate = |key: &str, rate: Option<BitRate>| {
        wrong.note(rate.map(|rate| check_rate(format!("{at}.{key}"), rate)).transpose()).flatten()
    };
    let egress = rate("annotations", egress).map(Rate::fixed);
    let annotated = rate("annotations", ingress);
    let limits = PortLimits {
        egress: own.flatten().or(egress),
        ingress: annotated.or(rate("ingress_rate", keys.ingress_rate)),
        tenant: keys.tenant.clone(),
        law: keys.law.unwrap_or(table.law).0 .0,
        k1: keys.k1,
        k2: keys.k2,
    };
    if has_rate {
        wrong.note(check_thresholds(at, &limits, table.sparse_first));
    }
    wrong.or(limits)
}

fn check_thresholds(at: &str, limits: &PortLimits, sparse_first: bool) -> Result<(), Wrong> {
    let mut wrong = Wrong::new();
    let settings = limits.law.settings();
    for (key, given) in [("k1", limits.k1), ("k2", limits.k2)] {
        let (Some(size), path) = (given, format!("{at}.{key}")) else { continue };
        match settings.iter().find(|setting| setting.of_port == Some(key)) {
            Some(setting) => _ = wrong.note(in_range(path, setting, size)),
            None if settings.is_empty() => wrong.add(Invalid::new(path, "has no meaning without a law", "remove it")),
            None => {
                let has = |choice: &&Named<LawKind>| choice.settings.iter().any(|s| s.of_port == Some(key));
                let laws: Vec<String> =
                    LawKind::table().iter().filter(has).map(|choice| format!("{:?}", choice.name)).collect();
                let problem = format!("has no meaning with any law but {}", laws.join(", "));
                wrong.add(Invalid::new(path, problem, "remove it"));
            }
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let rates = [limits.egress.map(|rate| rate.ceiling), limits.ingress];
    for rate in rates.into_iter().flatten() {
        let checked = limits.law_for(rate, sparse_first).check().map_err(|error| {
            let text = error.to_string();
            let (problem, remedy) = text.split_once("; ").unwrap_or((&text, "correct it"));
            let key = if limits.k2.is_some() { "k2" } else { "k1" };
            Invalid::new(format!("{at}.{key}"), problem, remedy)
        });
        // Once for both directions.
        if wrong.note(checked).is_none() {
            break;
        }
    }
    wrong.or(())
}
