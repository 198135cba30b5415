//! Sizes of mechanisms in lines, beside those of the papers' patches. The papers' numbers are of other code: only their order can be compared.

use super::ROOT;
use std::path::Path;

/// All lines, comments too, as the papers count.
fn lines(files: &[&str]) -> usize {
    files.iter().map(|file| std::fs::read_to_string(Path::new(ROOT).join(file)).unwrap().lines().count()).sum()
}

/// Of Linux 3.18's `net/ipv4/tcp_dctcp.c`, which the dissertation names.
const LINUX_DCTCP: usize = 350;

/// Dissertation, section 3.4: about 1,200 lines beside DCTCP's 350, 3.4 times as many. Within a factor of two of that.
#[test]
fn acdc_has_a_few_times_the_lines_of_linuxs_dctcp() {
    let ours = lines(&[
        "datapath/vcc.h",
        "datapath/conntrack.h",
        "datapath/law.h",
        "datapath/dctcp.h",
        "datapath/ecn.h",
        "datapath/feedback.h",
        "datapath/option.h",
        "datapath/policy.h",
    ]);
    let times = ours as f64 / LINUX_DCTCP as f64;
    println!("{ours} lines, {times:.1} times DCTCP's");
    assert!((1.7..=6.8).contains(&times), "{ours} lines, {times} times DCTCP's");
}

/// Presto, section 4: about 600 lines in Open vSwitch and 900 in GRO. Here senders and receivers in the same order.
#[test]
fn prestos_sender_and_receiver_have_hundreds_of_lines_each() {
    let sender =
        lines(&["datapath/flowcell.h", "datapath/balance.h", "datapath/paths.h", "crates/edge/src/schedule.rs"]);
    let receiver = lines(&[
        "crates/edge/src/reorder/config.rs",
        "crates/edge/src/reorder/flow.rs",
        "crates/edge/src/reorder/mod.rs",
        "crates/edge/src/reorder/slots.rs",
    ]);
    println!("{sender} lines of the sender, {receiver} of the receiver");
    assert!((200..=1200).contains(&sender) && (300..=1800).contains(&receiver), "{sender} {receiver}");
}
