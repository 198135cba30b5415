//! Links with a rate, and routers that mark what finds a long queue.

use crate::bpffs;
use crate::rig::{ok, selvedge, skip, tcp, Rig};
use crate::stream::Transfer;
use serde_json::Value as Json;

const TO: &str = "172.20.2.1:7000";
/// One path, so that there is one queue. Frames are packets: a segment of 64 KB would be a queue by itself.
const FABRIC: [&str; 12] =
    ["--hosts", "1", "--spines", "1", "--links", "1", "--wire", "mtu", "--rate", "50Mbps", "--buffer", "256KB"];

/// What the leaf's end of the link has counted; null where nothing counts.
fn marks(rig: &Rig) -> Json {
    let status: Json = serde_json::from_str(&ok(rig.verb("status", &["--json"]))).unwrap();
    let link = status["links"].as_array().unwrap().iter().find(|link| link["ends"][0] == "leaf1:s1-1");
    link.unwrap()["marks"][0].clone()
}

fn count(rig: &Rig, key: &str) -> u64 {
    marks(rig)[key].as_u64().unwrap()
}

/// With Reno, whatever the machine's default: it heeds marks, and leaves slow start only by marks and losses.
fn use_ecn(rig: &Rig, value: u8) {
    for guest in ["guest1.1", "guest2.1"] {
        rig.run(guest, &format!("sysctl -qw net.ipv4.tcp_ecn={value} net.ipv4.tcp_congestion_control=reno"));
    }
}

#[test]
fn marks_keep_the_queue_short_for_who_heeds_them() {
    if let Some(why) = selvedge::kernel_edge::available().err().or_else(bpffs::obstacle) {
        return skip(&why);
    }
    let Some(rig) = Rig::up("p", &[&FABRIC[..], &["--mark", "30KB"]].concat()) else { return };
    use_ecn(&rig, 1);
    Transfer::start(&rig, "guest1.1", "guest2.1", TO, 10_000_000).finish();
    let (marked, longest) = (count(&rig, "marked"), count(&rig, "longest_bytes"));
    assert!(tcp(&rig, "guest1.1", "TCPDeliveredCE") > 0);
    assert!(marked > 0 && marked < count(&rig, "packets"), "{}", marks(&rig));
    assert!(longest > 30_000, "{longest}");
    assert_eq!(count(&rig, "full"), 0, "{}", marks(&rig));
    let text = ok(rig.verb("status", &[]));
    assert!(text.contains("queue of leaf1:s1-1 "), "{text}");
    // Who is not ECN-capable is not marked, and fills the buffer.
    use_ecn(&rig, 0);
    Transfer::start(&rig, "guest1.1", "guest2.1", TO, 10_000_000).finish();
    assert!(count(&rig, "full") > 0, "{}", marks(&rig));
    assert_eq!(count(&rig, "marked"), marked);
    assert!(count(&rig, "longest_bytes") > longest);
}

#[test]
fn without_the_switch_nothing_marks() {
    let Some(rig) = Rig::up("q", &FABRIC) else { return };
    use_ecn(&rig, 1);
    Transfer::start(&rig, "guest1.1", "guest2.1", TO, 10_000_000).finish();
    assert_eq!(marks(&rig), Json::Null);
    assert_eq!(tcp(&rig, "guest1.1", "TCPDeliveredCE"), 0);
    let text = rig.run("leaf1", "tc qdisc show dev s1-1");
    assert!(text.contains("tbf") && text.contains("rate 50Mbit"), "{text}");
}

#[test]
fn queues_that_make_no_sense_are_one_line_and_change_nothing() {
    for (options, said) in [
        (&["--mark", "65KB"][..], "--mark 65KB: links without a rate have no queue; give --rate, too"),
        (&["--rate", "9Mbps", "--mark", "0B"], "--mark 0B: give 1B to less than the buffer, 256KB"),
        (&["--rate", "9Mbps", "--mark", "1MB"], "--mark 1MB: give 1B to less than the buffer, 256KB"),
        (&["--rate", "9Mbps,8Mbps"], "--rate: 2 rates for 4 links"),
    ] {
        let output = selvedge(&[&["lab", "kernel", "up", "--name", "xm"], options].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(said) && text.lines().count() == 1, "{text}");
    }
    assert!(!std::path::Path::new("/run/netns/sv-xm-leaf1").exists());
}
