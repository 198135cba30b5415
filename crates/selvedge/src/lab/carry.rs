//! Whether this machine can carry a comparison, said before the lab begins; and the same fabric, slower.

use super::LabFailure;
use crate::results::{Results, SchemeResults};
use crate::scenario::Plan;
use config::{ConfigError, Document};
use std::time::Duration;
use units::{BitRate, Time};

/// A lab's packet-hops a second over those of the simulator on the same machine: 676,000 (docs/lab-results.md) of 5.7 million. The
/// simulator has become faster since, so that a lab carries less than this says.
const PART: f64 = 0.12;
/// Machines and scenarios differ: only what is so many times beyond is refused.
const SURELY: f64 = 2.0;
/// A shorter simulation does not tell how fast the machine is.
const ENOUGH: Duration = Duration::from_millis(50);

/// Refuses what no lab on this machine can carry, by the speed of the simulation that goes with it.
///
/// # Errors
/// The scheme, what it needs, and how much slower its fabric has to be.
pub(super) fn refuse(simulated: &Results) -> Result<(), LabFailure> {
    for scheme in &simulated.schemes {
        let (needed, carried) = speeds(scheme);
        if needed > SURELY * carried {
            return Err(LabFailure::Refused(format!(
                "{}: its traffic takes {:.2} million packet-hops a second, and a lab on this machine carries about {:.2}; add --scale {}",
                scheme.name,
                needed / 1e6,
                carried / 1e6,
                (needed / carried).ceil().min(1e6) as u32
            )));
        }
    }
    Ok(())
}

/// Packet-hops a second that the traffic needs, and that a lab on this machine carries.
fn speeds(scheme: &SchemeResults) -> (f64, f64) {
    let hops: u64 = scheme.runs.iter().map(|run| run.outcome.packet_hops).sum();
    let simulated: f64 = scheme.runs.iter().map(|run| run.outcome.ended_at.as_secs_f64()).sum();
    let wall: Duration = scheme.runs.iter().map(|run| run.wall).sum();
    judge(hops as f64, simulated, wall)
}

fn judge(hops: f64, simulated_s: f64, wall: Duration) -> (f64, f64) {
    match wall < ENOUGH || simulated_s <= 0.0 {
        true => (0.0, f64::INFINITY),
        false => (hops / simulated_s, PART * hops / wall.as_secs_f64()),
    }
}

/// Makes the links' rates a `scale`th and their delays `scale` times as long, so that as many bytes are under way as before.
///
/// # Errors
/// A topology file, whose links no key changes.
pub(super) fn scale(document: &mut Document, plan: &Plan, scale: u32) -> Result<(), ConfigError> {
    let place = format!("--scale {scale}");
    let topology = &plan.scenario.topology;
    if topology.path.is_some() {
        let remedy = "change rates and delays in the topology file";
        return Err(ConfigError::new(place, "is not for fabrics from a file", remedy));
    }
    let rates = [("rate", topology.rate), ("fabric_rate", topology.fabric_rate)];
    for (key, rate) in rates.into_iter().filter_map(|(key, rate)| Some((key, rate?))) {
        let slower = BitRate::from_bps((rate.as_bps() / u64::from(scale)).max(1));
        document.set_at(&place, &format!("topology.{key}={slower}"))?;
    }
    let delays = [("delay", topology.delay), ("fabric_delay", topology.fabric_delay)];
    for (key, delay) in delays.into_iter().filter_map(|(key, delay)| Some((key, delay?))) {
        let longer = Time::from_ps(delay.as_ps().saturating_mul(u64::from(scale)));
        document.set_at(&place, &format!("topology.{key}={longer}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Choice;

    #[test]
    fn a_short_simulation_says_nothing() {
        assert_eq!(judge(1e9, 1.0, Duration::from_millis(49)).0, 0.0);
        // 10 million hops in a second of the fabric, simulated in two: a lab carries 0.6 million a second.
        let (needed, carried) = judge(1e7, 1.0, Duration::from_secs(2));
        assert!((needed - 1e7).abs() < 1.0 && (carried - 0.6e6).abs() < 1.0, "{needed} {carried}");
    }

    #[test]
    fn a_slower_fabric_has_as_many_bytes_under_way() {
        let text = "duration = \"1ms\"\n[topology]\nkind = \"clos\"\nrate = \"10Gbps\"\nfabric_rate = \"4Gbps\"\n[[workload]]\nname = \"long\"\npattern = \"stride\"\nk = 4\n";
        let mut document = Document::parse("x.toml", text, "docs/scenarios.md").unwrap();
        let plan = Plan::new(&document, &Choice::default()).unwrap();
        scale(&mut document, &plan, 40).unwrap();
        let slower = Plan::new(&document, &Choice::default()).unwrap().scenario.topology;
        assert_eq!((slower.rate, slower.fabric_rate), (Some(BitRate::from_mbps(250)), Some(BitRate::from_mbps(100))));
        let before = &plan.scenario.topology;
        let delays = |delay: Option<Time>| delay.map(Time::as_ps);
        assert_eq!(delays(slower.delay), delays(before.delay).map(|ps| 40 * ps));
        assert!(slower.delay.is_some() && slower.fabric_delay.is_some(), "the defaults are scaled, too");
    }
}
