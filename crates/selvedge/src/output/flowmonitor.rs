//! Flow statistics in the XML form of ns-3's FlowMonitor, so that scripts written for it can read them.
//!
//! One file per run. Attributes that a model of segments does not keep (delay and jitter sums) are written as zero; see
//! docs/results-files.md.

use host::experiment::Experiment;
use host::outcome::{FlowRecord, Outcome};
use std::fmt::Write;
use units::Time;

/// The document.
pub(super) fn render(experiment: &Experiment, outcome: &Outcome) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" ?>\n<FlowMonitor>\n  <FlowStats>\n");
    let mss = u64::from(experiment.hosts.mss()).max(1);
    for flow in &outcome.flows {
        let last = flow.finish.unwrap_or(outcome.ended_at);
        let packets = flow.delivered.div_ceil(mss);
        let lost = u64::from(flow.retransmitted_segments);
        // Writing to a string cannot fail.
        let _ = writeln!(
            xml,
            "    <Flow flowId=\"{}\" timeFirstTxPacket=\"{}\" timeFirstRxPacket=\"{}\" timeLastTxPacket=\"{}\" \
             timeLastRxPacket=\"{}\" delaySum=\"+0.0ns\" jitterSum=\"+0.0ns\" lastDelay=\"+0.0ns\" txBytes=\"{}\" \
             rxBytes=\"{}\" txPackets=\"{}\" rxPackets=\"{}\" lostPackets=\"{}\" timesForwarded=\"0\" />",
            flow.id + 1,
            ns(flow.start),
            ns(flow.start),
            ns(last),
            ns(last),
            flow.delivered + lost * mss,
            flow.delivered,
            packets + lost,
            packets,
            lost,
        );
    }
    xml.push_str("  </FlowStats>\n  <Ipv4FlowClassifier>\n");
    for flow in &outcome.flows {
        let FlowRecord { id, src, dst, .. } = *flow;
        let _ = writeln!(
            xml,
            "    <Flow flowId=\"{}\" sourceAddress=\"{}\" destinationAddress=\"{}\" protocol=\"6\" sourcePort=\"{}\" \
             destinationPort=\"{}\" />",
            id + 1,
            address(src),
            address(dst),
            10_000 + id % 50_000,
            5001,
        );
    }
    xml.push_str("  </Ipv4FlowClassifier>\n</FlowMonitor>\n");
    xml
}

/// Host `n` as 10.x.y.z, counting from 10.0.0.1.
fn address(host: u32) -> String {
    let [_, a, b, c] = (host + 1).to_be_bytes();
    format!("10.{a}.{b}.{c}")
}

fn ns(time: Time) -> String {
    format!("+{}.{}ns", time.as_ps() / 1000, time.as_ps() % 1000 / 100)
}
