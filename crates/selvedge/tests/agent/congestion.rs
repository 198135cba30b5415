//! `[congestion]` on real traffic: Linux's TCP in the guests, marks on the way from host 0 to host 1.

use super::filter::Filter;
use super::world::{eventually, World, LEARNING, NAMED};
use std::io::Write;

const MARK: Filter =
    Filter { source: concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent/mark.bpf.c"), object: "agent-mark.o" };

/// Not a test of its own: `scripts/kernels/test` calls it for machines that have no clang.
#[test]
#[ignore = "builds for another machine"]
fn objects_for_another_machine() {
    MARK.build_for_another_machine();
}

/// The usual configurations with `table` behind them. `None`, with the reason printed, where it cannot be.
fn marked_world(name: &str, table: &str) -> Option<World> {
    let mut world = World::new(name)?;
    let object = world.socket(0).with_extension("o");
    if let Err(why) = MARK.put(&object) {
        eprintln!("skipped: {why}");
        return None;
    }
    world.succeed(&world.host(0), "tc qdisc add dev u0 clsact");
    filter(&world, "tc");
    for (i, port) in [NAMED, LEARNING].into_iter().enumerate() {
        world.configure(i, port);
        append(&world, i, table);
    }
    world.start_both();
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    Some(world)
}

/// Gives host 0's uplink a part of the compiled program.
fn filter(world: &World, section: &str) {
    let object = world.socket(0).with_extension("o");
    world
        .succeed(&world.host(0), &format!("tc filter add dev u0 egress bpf da obj {} sec {section}", object.display()));
}

/// A metric of host `i`'s agent, without labels.
fn metric(world: &World, i: usize, name: &str) -> u64 {
    let scrape = world.spawn(&world.host(i), "http 127.0.0.1:9464 0").wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&scrape.stdout).into_owned();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {text}"))
}

fn succeed_ctl(world: &World, i: usize, args: &[&str]) {
    let output = world.ctl(i, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn append(world: &World, i: usize, text: &str) {
    let mut file = std::fs::File::options().append(true).open(world.config(i)).unwrap();
    writeln!(file, "\n{text}").unwrap();
}

/// A counter of a guest's kernel.
pub(super) fn of_kernel(world: &World, guest: usize, name: &str) -> u64 {
    let output = world.exec(&world.guest(guest), "cat /proc/net/netstat /proc/net/snmp");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let found = lines.chunks_exact(2).find_map(|pair| {
        let at = pair[0].split_whitespace().position(|word| word == name)?;
        pair[1].split_whitespace().nth(at)?.parse().ok()
    });
    found.unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// What host `i` says of its guest's TCP connection with port `port` at the other end.
fn congestion_of(world: &World, i: usize, port: u16) -> Option<serde_json::Value> {
    let flows = world.ask(i, &["flows"]);
    let to = format!(":{port}");
    let found = flows["flows"].as_array().unwrap().iter().find(|f| f["destination"].as_str().unwrap().ends_with(&to));
    found.map(|flow| flow["congestion"].clone())
}

#[test]
fn marks_shrink_windows_and_guests_see_none_of_it() {
    let Some(mut world) = marked_world("k", "[congestion]") else { return };
    world.transfer("10.7.2.2:9000", 100_000_000, |world| {
        eventually("the law takes hold", || {
            let Some(cc) = congestion_of(world, 0, 9000) else { return false };
            let alpha = cc["alpha"].as_f64().unwrap();
            alpha > 0.01 && alpha < 1.0 && cc["marked_bytes"].as_u64() > Some(100_000)
        });
        let cc = congestion_of(world, 0, 9000).unwrap();
        assert_eq!((cc["law"].as_str(), cc["peer_reports"].as_bool()), (Some("dctcp"), Some(true)), "{cc}");
        // Linux would give the receiver's several megabytes.
        assert!(cc["window_bytes"].as_u64() < Some(1_000_000), "{cc}");
        assert_eq!(cc["policed_segments"], 0, "Linux keeps to its window: {cc}");
        let text = world.ctl(0, &["flows", "--cc"]);
        assert!(String::from_utf8_lossy(&text.stdout).contains("dctcp"));
    });
    assert!(world.counter(0, "windows_lowered") > 100 && world.counter(0, "reports_received") > 100);
    assert!(world.counter(1, "packs_sent") > 100 && world.counter(1, "in_ce_segments") > 10);
    assert_eq!((world.counter(0, "drop_policed_segments"), world.counter(0, "drop_error_segments")), (0, 0));
    // The guests' ECN is off: to them nothing was ever capable, let alone marked. And every checksum was right.
    assert_eq!((of_kernel(&world, 1, "InCEPkts"), of_kernel(&world, 1, "InECT0Pkts")), (0, 0));
    for guest in 0..2 {
        assert_eq!((of_kernel(&world, guest, "InCsumErrors"), of_kernel(&world, guest, "InErrs")), (0, 0));
    }
    // Data both ways leaves no ACK to carry reports: they go in packets of their own, which the agent sends.
    world.exchange("10.7.2.2:9001", 20_000_000);
    assert!(world.counter(1, "facks_asked") > 0);
    assert!(world.counter(0, "facks_consumed") > 0, "{}", world.log(1));
    let scrape = world.spawn(&world.host(0), "http 127.0.0.1:9464 0").wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&scrape.stdout).contains("selvedge_windows_lowered_total "));
}

#[test]
fn guests_with_ecn_negotiate_it_and_see_no_marks() {
    let Some(mut world) = marked_world("l", "[congestion]\nlaw = \"cubic\"\nclamp = \"200KB\"") else { return };
    for guest in 0..2 {
        assert!(world.exec(&world.guest(guest), "sysctl -qw net.ipv4.tcp_ecn=1").status.success());
    }
    world.transfer("10.7.2.2:9000", 50_000_000, |world| {
        eventually("the clamp holds", || {
            congestion_of(world, 0, 9000).is_some_and(|cc| cc["window_bytes"].as_u64() <= Some(200_000))
        });
    });
    assert!(of_kernel(&world, 1, "InECT0Pkts") > 100, "ECN was negotiated through the edges");
    assert_eq!(of_kernel(&world, 1, "InCEPkts"), 0);
    assert!(world.counter(1, "in_ce_segments") > 0);
}

#[test]
fn connections_survive_the_loss_of_all_state_and_changes_of_the_law() {
    let Some(mut world) = marked_world("n", "[congestion]") else { return };
    let file = |world: &World, i, old: &str, new: &str| {
        let text = std::fs::read_to_string(world.config(i)).unwrap().replace(old, new);
        std::fs::write(world.config(i), text).unwrap();
    };
    world.transfer("10.7.2.2:9000", 200_000_000, |world| {
        // Another size of the table: new maps, without what was known.
        for i in 0..2 {
            assert!(world.end(i, "TERM"), "agents are started in the order of hosts");
            file(world, i, "max_flows = 1024", "max_flows = 2048");
            world.start(i, &[]);
        }
        // Off, on, and another law.
        for (old, new) in [
            ("[congestion]", "#[congestion]"),
            ("#[congestion]", "[congestion]"),
            ("[congestion]", "[congestion]\nlaw = \"newreno\""),
            ("law = \"newreno\"", "law = \"off\""),
            ("law = \"off\"", "law = \"dctcp\"\nclamp = \"100KB\""),
        ] {
            for i in 0..2 {
                file(world, i, old, new);
                let output = world.ctl(i, &["reload"]);
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    });
    // One that begins now is held to the new law from its first packet.
    world.transfer("10.7.2.2:9001", 20_000_000, |world| {
        eventually("the clamp is in force", || {
            congestion_of(world, 0, 9001).is_some_and(|cc| cc["window_bytes"].as_u64() <= Some(100_000))
        });
    });
    assert_eq!(world.counter(0, "drop_policed_segments"), 0, "what is under way when a law begins is let through");
}

/// A guest whose window was held down and that has nothing to send gets no ACK: the agent tells it when it may send more.
#[test]
fn a_guest_at_rest_is_told_of_a_wider_window() {
    let Some(mut world) = marked_world("w", "[congestion]\nlaw = \"none\"\nclamp = \"20KB\"") else { return };
    let told = |world: &World| -> Option<u64> {
        let sockets = world.exec(&world.guest(0), "ss -tinH dport = :9000");
        let text = String::from_utf8_lossy(&sockets.stdout).into_owned();
        text.split_whitespace().find_map(|word| word.strip_prefix("snd_wnd:")?.parse().ok())
    };
    world.transfer_and_rest("10.7.2.2:9000", 1_000_000, |world| {
        eventually("all is sent", || {
            congestion_of(world, 0, 9000).is_some_and(|cc| cc["window_bytes"] == 20_000)
                && world.counter(0, "out_bytes") > 1_000_000
        });
        let mut before = None;
        eventually("the clamp is what the guest was told last", || {
            before = told(world);
            before.is_none_or(|window| window <= 20_000)
        });
        let file = std::fs::read_to_string(world.config(0)).unwrap().replace("clamp = \"20KB\"", "");
        std::fs::write(world.config(0), file).unwrap();
        succeed_ctl(world, 0, &["reload"]);
        eventually("the agent tells the guest", || metric(world, 0, "selvedge_window_updates_sent_total") > 0);
        match before {
            Some(_) => eventually("the guest knows", || told(world) > Some(40_000)),
            None => println!("skipped: ss does not tell windows"),
        }
    });
    for guest in 0..2 {
        assert_eq!((of_kernel(&world, guest, "InCsumErrors"), of_kernel(&world, guest, "InErrs")), (0, 0));
    }
}

/// All that is in flight is lost, and the guest would wait for seconds: the edge infers a timeout and makes it retransmit. Of
/// use without SACK only, as Linux with SACK wants to be told what arrived.
#[test]
fn an_inferred_timeout_makes_a_guest_retransmit() {
    let Some(mut world) = marked_world("d", "[congestion]\nlaw = \"newreno\"") else { return };
    for guest in 0..2 {
        world.succeed(&world.guest(guest), "sysctl -qw net.ipv4.tcp_sack=0");
    }
    let route = "ip route change 10.7.0.0/16 dev eth0 proto kernel scope link src 10.7.1.2 rto_min 4s";
    world.succeed(&world.guest(0), route);
    world.transfer("10.7.2.2:9000", 1_000_000, |world| {
        // An attempt before the server listens makes the connection known too.
        eventually("the connection is in use", || world.counter(0, "out_bytes") > 500_000);
        // With one of eight packets marked the window is three to four segments, often too few for three duplicates.
        world.succeed(&world.host(0), "tc filter del dev u0 egress");
        eventually("the window has room for duplicates", || {
            congestion_of(world, 0, 9000).is_some_and(|cc| cc["window_bytes"].as_u64() >= Some(30_000))
        });
        filter(world, "lose");
        eventually("a timeout is inferred", || metric(world, 0, "selvedge_timeouts_inferred_total") > 0);
        eventually("the guest takes the duplicates", || of_kernel(world, 0, "TCPRenoRecovery") > 0);
        world.succeed(&world.host(0), "tc filter del dev u0 egress");
    });
    assert_eq!((of_kernel(&world, 0, "InCsumErrors"), of_kernel(&world, 0, "InErrs")), (0, 0));
}

#[test]
fn marks_shrink_windows_over_ipv6_too() {
    let Some(mut world) = marked_world("x", "[congestion]") else { return };
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -6 -c 1 -W 1 fd07:1::2").status.success() && world.ping("fd07:2::2", 1)
    });
    world.transfer("[fd07:2::2]:9000", 50_000_000, |world| {
        eventually("the law takes hold", || {
            let Some(cc) = congestion_of(world, 0, 9000) else { return false };
            let alpha = cc["alpha"].as_f64().unwrap();
            alpha > 0.01 && alpha < 1.0 && cc["marked_bytes"].as_u64() > Some(100_000)
        });
        let cc = congestion_of(world, 0, 9000).unwrap();
        assert_eq!((cc["peer_reports"].as_bool(), cc["policed_segments"].as_u64()), (Some(true), Some(0)), "{cc}");
        assert!(cc["window_bytes"].as_u64() < Some(1_000_000), "{cc}");
    });
    assert!(world.counter(0, "windows_lowered") > 100 && world.counter(1, "packs_sent") > 100);
    assert!(world.counter(1, "in_ce_segments") > 10);
    let text = world.exec(&world.guest(1), "cat /proc/net/snmp6");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let seen = |name| text.lines().find_map(|l| l.strip_prefix(name)?.trim().parse::<u64>().ok());
    assert_eq!((seen("Ip6InCEPkts"), seen("Ip6InECT0Pkts")), (Some(0), Some(0)));
    for guest in 0..2 {
        assert_eq!((of_kernel(&world, guest, "InCsumErrors"), of_kernel(&world, guest, "InErrs")), (0, 0));
    }
    world.exchange("[fd07:2::2]:9001", 20_000_000);
    assert!(world.counter(0, "facks_consumed") > 0, "{}", world.log(1));
}
