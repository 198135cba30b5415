//! FastLane on real traffic: what host 0 drops of its guest's TCP is sent again. Nothing here is about how fast that is
//! (bench/fastlane/run measures it); counts are compared.

use super::world::{eventually, World, LEARNING};
#[cfg(feature = "kernel")]
use kernel::state::quota::{TallyKey, TABLE_FASTLANE, TALLY_PORT};
#[cfg(feature = "kernel")]
use kernel::{KernelEdge, Options};

const PORT: &str = "interface = \"lxc0\"\naddresses = [\"10.7.1.2\", \"fd07:1::2\", \"10.7.1.9\"]";

/// Host 0 has `more` behind its port; both agents run and guest 1 is learned. `None` where it cannot be.
fn world(name: &str, more: &str, prepare: impl FnOnce(&World)) -> Option<World> {
    let mut world = World::new(name)?;
    prepare(&world);
    world.configure(0, &format!("{PORT}\n{more}"));
    world.configure(1, LEARNING);
    world.start_both();
    let status = world.ask(0, &["status"]);
    if status["problems"].to_string().contains("what this host drops is left to guests") {
        assert_eq!(world.doctor(0, &[], "fastlane"), "no", "{}", status["problems"]);
        eprintln!("skipped: {}", status["problems"]);
        return None;
    }
    assert_eq!(world.doctor(0, &[], "fastlane"), "yes");
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    Some(world)
}

/// A counter of a guest's kernel.
fn counted(world: &World, guest: usize, name: &str) -> u64 {
    let output = world.exec(&world.guest(guest), "cat /proc/net/netstat /proc/net/snmp");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let found = lines.chunks(2).find_map(|pair| {
        let [names, values] = pair else { return None };
        let at = names.split_whitespace().position(|word| word == name)?;
        values.split_whitespace().nth(at)?.parse().ok()
    });
    found.unwrap_or_else(|| panic!("no {name}"))
}

/// Segments that a receiver got twice.
fn duplicates(world: &World, guest: usize) -> u64 {
    counted(world, guest, "TCPDSACKOldSent") + counted(world, guest, "TCPDSACKOfoSent")
}

fn dropped_by(world: &World, device: &str) -> u64 {
    let output = world.exec(&world.host(0), &format!("tc -s qdisc show dev {device}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = text.split("(dropped ").skip(1).filter_map(|rest| rest.split(',').next()?.parse::<u64>().ok());
    all.max().unwrap_or(0)
}

/// A queue on the uplink that is short for what guests send at once.
fn short_queue(world: &World) {
    world.succeed(&world.host(0), "tc qdisc add dev u0 root tbf rate 50mbit burst 4kb limit 20kb");
}

#[test]
fn what_the_uplinks_queue_drops_is_sent_again_once() {
    let Some(mut world) = world("fl", "[fastlane]", |_| {}) else { return };
    short_queue(&world);
    for n in 0..20 {
        world.transfer_and_rest(&format!("10.7.2.2:{}", 9000 + n), 40_000, |_| {});
    }
    let dropped = dropped_by(&world, "u0");
    let [told, resent, foreign] =
        ["told_segments", "resent", "foreign_segments"].map(|name| world.counter(0, &format!("fastlane_{name}")));
    assert!(dropped > 20, "the queue was long enough: {dropped}");
    // ACKs and what nobody follows are told of by nobody.
    assert!(
        told + foreign <= dropped && told * 10 >= dropped * 8,
        "{told} of {dropped} were told of, {foreign} were not followed"
    );
    // On a busy machine the agent comes later than what makes its help needless.
    let needless = ["acked", "left", "stale", "outdated", "repeated", "told_guests"];
    let needless: Vec<u64> = needless.iter().map(|name| world.counter(0, &format!("fastlane_{name}"))).collect();
    let all = resent + needless.iter().sum::<u64>();
    assert!(
        all * 10 >= told * 9 && resent > 20,
        "{resent} packets were sent again of {told} segments, {needless:?} needed none"
    );
    let (by_guest, timeouts) = (counted(&world, 0, "RetransSegs"), counted(&world, 0, "TCPTimeouts"));
    let twice = duplicates(&world, 1);
    println!("{dropped} dropped, {told} told, {resent} sent again, {by_guest} by the guest, {timeouts} timeouts, {twice} twice");
    assert!(by_guest < dropped, "the guest sent {by_guest} segments again of {dropped}, the edge {resent}");
    assert!(timeouts <= 4, "{timeouts} timeouts of 20 connections");
    assert!(twice * 10 <= resent, "{twice} arrived twice of {resent}");

    // Without it the guest is on its own.
    world.configure(0, PORT);
    assert!(world.ctl(0, &["reload"]).status.success());
    assert!(!world.has_interface(0, "svagain0"));
    let before = counted(&world, 0, "RetransSegs");
    for n in 0..5 {
        world.transfer_and_rest(&format!("10.7.2.2:{}", 9100 + n), 40_000, |_| {});
    }
    assert_eq!(world.counter(0, "fastlane_told_segments"), told);
    assert!(counted(&world, 0, "RetransSegs") > before, "somebody must have");
}

/// Both ends' windows fall below what they have sent. Their pure ACKs then have numbers that the other end takes for old, and drops with
/// what they acknowledge, unless the edge gives them the next one.
#[test]
fn connections_whose_windows_fall_at_both_ends_go_on() {
    let Some(world) = world("fw", "[fastlane]", |_| {}) else { return };
    world.configure(1, &format!("{LEARNING}\n[fastlane]"));
    assert!(world.ctl(1, &["reload"]).status.success());
    for host in [0, 1] {
        world.succeed(&world.host(host), "tc qdisc add dev u0 root tbf rate 200mbit burst 64kb limit 90kb");
    }
    for round in 0..2 {
        let spawn = |guest: usize, role: &str, n| {
            world.spawn(&world.guest(guest), &format!("{role} 10.7.2.2:{} 6000000", 9000 + 10 * round + n))
        };
        let mut servers: Vec<_> = (0..8).map(|n| spawn(1, "both-server", n)).collect();
        let clients: Vec<_> = (0..8).map(|n| spawn(0, "both-client", n)).collect();
        let ended = clients.into_iter().filter_map(|mut client| client.wait().unwrap().success().then_some(())).count();
        if ended < servers.len() {
            servers.iter_mut().for_each(|server| drop(server.kill()));
        }
        servers.iter_mut().for_each(|server| drop(server.wait()));
        assert_eq!(ended, servers.len(), "connections stand still");
    }
}

/// What host 1 holds behind a hole was sent before the hole's packet is sent again. With a timestamp of later than that in front of it, the
/// guest would take it for a duplicate of long ago, and drop it (PAWS).
#[test]
fn what_is_held_behind_a_hole_outlives_what_fills_it() {
    let Some(mut world) = world("fo", "[fastlane]", |_| {}) else { return };
    if std::fs::File::options().read(true).write(true).open("/dev/net/tun").is_err() {
        eprintln!("skipped: /dev/net/tun does not open");
        return;
    }
    for i in 0..2 {
        let text = std::fs::read_to_string(world.config(i)).unwrap();
        let text = text.replace("[balance]\n", "[balance]\nflowcell = \"4KB\"\n");
        std::fs::write(world.config(i), text + "\n[receive]\nreorder = true\ntimeout = \"20ms\"\n").unwrap();
        assert!(world.ctl(i, &["reload"]).status.success(), "{}", world.log(i));
    }
    short_queue(&world);
    let held = |world: &World| world.ask(1, &["status"])["receiver"]["held_segments"].as_u64().unwrap();
    // On a busy machine guests send less at once, and less is held.
    for n in 0..200 {
        world.transfer_and_rest(&format!("10.7.2.2:{}", 9000 + n), 40_000, |_| {});
        if n >= 20 && held(&world) > 20 {
            break;
        }
    }
    let (held, resent) = (held(&world), world.counter(0, "fastlane_resent"));
    let (refused, timeouts) = (counted(&world, 1, "PAWSEstab"), counted(&world, 0, "TCPTimeouts"));
    println!("{held} held, {resent} sent again, {refused} refused as too old, {timeouts} timeouts");
    assert!(held > 20 && resent > 20, "{held} held, {resent} sent again");
    assert!(refused * 20 <= resent, "{refused} were refused");
}

#[test]
fn what_a_limits_queue_drops_enters_it_again() {
    let limit = "egress_rate = \"20Mbps\"\nlaw = \"off\"\n[fastlane]\n[limits]\nsparse_first = false";
    let Some(mut world) = world("fm", limit, World::add_routed) else { return };
    world.succeed(&world.guest(3), "sysctl -qw net.ipv4.tcp_congestion_control=reno");
    world.transfer_between(3, 1, "10.7.2.2:9000", 5_000_000, |world| {
        eventually("something was sent again", || world.counter(0, "fastlane_resent") > 20);
        super::limits::holds(world, "lxc0", "egress", 20e6);
    });
    assert_eq!(world.counter(0, "fastlane_failures"), 0);
}

#[test]
fn what_exceeds_a_share_passes_it_again() {
    let share = "[fastlane]\n[tenants]\nuplink_rate = \"50Mbps\"\ndepth = \"70KB\"\nbursts = 1";
    let Some(mut world) = world("fs", share, |_| {}) else { return };
    world.transfer("10.7.2.2:9000", 10_000_000, |world| {
        eventually("something was sent again", || world.counter(0, "fastlane_resent") > 20);
    });
    assert!(world.counter(0, "drop_over_rate_segments") > 0);
    assert_eq!(world.counter(0, "fastlane_failures"), 0);
}

/// Bursts whose last packets find no room in the other host's queue, where the guest would only notice by its timeout.
fn tails(world: &mut World, first_port: u16) -> u64 {
    let before = counted(world, 0, "TCPTimeouts");
    for n in 0..TAILS {
        let (from, at) = (world.guest(0), world.guest(1));
        world.transfer_in("segments-client", [&from, &at], &format!("10.7.2.2:{}", first_port + n as u16), 9, |_| {});
    }
    counted(world, 0, "TCPTimeouts") - before
}

const TAILS: u64 = 10;

#[test]
fn what_the_other_hosts_queue_drops_is_sent_again_at_this_ones_word() {
    let Some(mut world) = world("fp", "[fastlane]", |_| {}) else { return };
    world.configure(1, &format!("{LEARNING}\n[fastlane]"));
    assert!(world.ctl(1, &["reload"]).status.success());
    // No tail probes: what they repair need no timeout.
    world.succeed(&world.guest(0), "sysctl -qw net.ipv4.tcp_early_retrans=0");
    world.succeed(&world.host(1), "tc qdisc add dev lxc0 root tbf rate 50mbit burst 4kb limit 2kb");
    let with = tails(&mut world, 9000);
    let of = |world: &World, i, names: &[&str]| -> Vec<u64> {
        names.iter().map(|name| world.counter(i, &format!("fastlane_{name}"))).collect()
    };
    let [told, resent, unheld, sent_before] =
        of(&world, 1, &["told_peers", "resent_for_peers", "unheld", "unheld_sent"])[..]
    else {
        panic!()
    };
    let [heard, ignored, asked] = of(&world, 0, &["peers_told", "peers_ignored", "asked_peers"])[..] else { panic!() };
    let twice = duplicates(&world, 1);
    println!(
        "{told} told, {heard} heard, {ignored} ignored, {asked} times asked, {resent} sent again, {unheld} not held, of which {sent_before} were sent before"
    );
    println!("{with} timeouts, {twice} segments twice");
    assert!(told >= TAILS && heard <= told && heard * 10 >= told * 8, "{told} were told of, {heard} heard");
    assert!(asked >= TAILS && resent >= TAILS && resent + unheld >= asked, "asked {asked} times, {resent} sent again");
    // The word of a drop may come later than the guest sends again, and is not taken for the word of that copy's.
    assert!(unheld * 10 <= asked && sent_before <= unheld, "asked {asked} times, {unheld} for nothing");
    assert!(ignored < heard && resent <= heard, "{ignored} ignored of {heard}, {resent} sent again");
    assert!(twice <= told / 4, "{twice} arrived twice of {told}");
    assert_eq!(world.counter(1, "fastlane_failures"), 0);

    // Where the sender's edge does not act, the guest waits.
    world.configure(0, PORT);
    assert!(world.ctl(0, &["reload"]).status.success());
    let without = tails(&mut world, 9100);
    println!("without it {without} timeouts");
    assert!(without >= TAILS / 2 && with * 4 <= without, "{with} timeouts, without it {without}");
    assert_eq!(of(&world, 1, &["resent_for_peers"]), [resent]);
}

/// What finds no place in the schedule of the limit of what a guest gets is told of as what its queue drops, to this host's own guests' edge and
/// to another's, and passes the schedule again.
#[test]
fn what_a_schedule_has_no_place_for_is_sent_again() {
    let more = "ingress_rate = \"20Mbps\"\nlaw = \"off\"\n[[port]]\nnetwork = 7\ninterface = \"lxc2\"\n\
                addresses = [\"10.7.1.3\"]\n[fastlane]\n[limits]\npacing = \"virtual\"";
    let Some(mut world) = world("fv", more, World::add_neighbour) else { return };
    world.configure(1, &format!("{LEARNING}\n[fastlane]"));
    assert!(world.ctl(1, &["reload"]).status.success());
    let counted = |world: &World, i: usize, name: &str| world.counter(i, &format!("fastlane_{name}"));
    let dropped = |world: &World| {
        let limit = super::limits::limit(world, "lxc0", "ingress");
        super::limits::number(&limit, "dropped_segments")
    };
    // From the other host.
    world.transfer_between(1, 0, "10.7.1.2:9000", 5_000_000, |world| {
        eventually("the other host asked for it", || counted(world, 0, "resent_for_peers") > 20);
        super::limits::holds(world, "lxc0", "ingress", 20e6);
    });
    let (told, asked) = (counted(&world, 0, "told_peers"), counted(&world, 1, "asked_peers"));
    let (before, resent) = (dropped(&world), counted(&world, 0, "resent_for_peers"));
    println!("{before} dropped, {told} told, {asked} times asked, {resent} sent again");
    assert!(before > 0.0 && told > 20 && asked > 0 && resent <= told, "{before} {told} {asked} {resent}");
    assert_eq!(counted(&world, 0, "resent"), 0, "its own guests have sent nothing");
    // From the neighbour.
    world.transfer_between(2, 0, "10.7.1.2:9001", 5_000_000, |world| {
        eventually("it was sent again", || counted(world, 0, "resent") > 20);
        super::limits::holds(world, "lxc0", "ingress", 20e6);
    });
    assert!(dropped(&world) > before);
    for i in 0..2 {
        assert_eq!(counted(&world, i, "failures"), 0);
    }
}

/// Between two guests of this host what is dropped is the sender's, too; and an agent that was killed leaves nothing undone.
#[test]
fn guests_of_one_host_and_another_agent() {
    let neighbour = "[[port]]\nnetwork = 7\ninterface = \"lxc2\"\naddresses = [\"10.7.1.3\"]\n[fastlane]";
    let Some(mut world) = world("fn", neighbour, World::add_neighbour) else { return };
    world.succeed(&world.host(0), "tc qdisc add dev lxc2 root tbf rate 50mbit burst 4kb limit 20kb");
    let transfer = |world: &mut World, port: u16| {
        let (from, at) = (world.guest(0), world.guest(2));
        world.transfer_in("quiet-client", [&from, &at], &format!("10.7.1.3:{port}"), 200_000, |_| {});
    };
    transfer(&mut world, 9000);
    let resent = world.counter(0, "fastlane_resent");
    assert!(resent > 0, "{}", world.ask(0, &["counters"]));
    world.end(0, "KILL");
    transfer(&mut world, 9001);
    let again = world.start(0, &[]);
    assert_eq!(world.counter(0, "fastlane_resent"), 0, "counted since the agent began");
    transfer(&mut world, 9002);
    assert!(world.counter(0, "fastlane_resent") > 0);
    world.end(again, "TERM");
    assert!(world.stop(0).status.success());
    assert!(!world.has_interface(0, "svagain0"));
}

/// A frame of the tunnel in network 7, with a segment from 10.7.1.3 to 10.7.2.2:9000.
fn tunnelled(source_port: u16) -> Vec<u8> {
    let mut bytes = vec![0x08, 0, 0, 0, 0, 0, 7, 0];
    bytes.extend([0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x08, 0]);
    bytes.extend([0x45, 0, 0, 140, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 7, 1, 3, 10, 7, 2, 2]);
    bytes.extend(source_port.to_be_bytes());
    bytes.extend(9000u16.to_be_bytes());
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend([b'x'; 100]);
    bytes
}

/// What overflows a guest's own limit is its own, whatever it looks like: else it could have it sent in another's name.
#[test]
fn what_looks_like_the_tunnel_in_a_guests_queue_is_the_guests() {
    let more = "egress_rate = \"5Mbps\"\nlaw = \"off\"\n[[port]]\nnetwork = 7\ninterface = \"lxc2\"\n\
                addresses = [\"10.7.1.3\"]\n[fastlane]\n[limits]\nsparse_first = false";
    let Some(mut world) = world("fi", more, World::add_neighbour) else { return };
    let (victim, server) = (world.guest(2), world.guest(1));
    world.transfer_in("quiet-client", [&victim, &server], "10.7.2.2:9000", 20_000, |world| {
        let ports = || {
            let output = world.exec(&victim, "ss -Htn state established dst 10.7.2.2");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.split_whitespace().find_map(|word| word.strip_prefix("10.7.1.3:")?.parse::<u16>().ok())
        };
        eventually("the victim is connected", || ports().is_some());
        let mut payload = tunnelled(ports().unwrap());
        payload.resize(1000, 0);
        let file = world.dir.path().join("flood");
        std::fs::write(&file, payload.repeat(1000)).unwrap();
        // dd writes a datagram for each block, and ends when the server answers that nobody listens (at most one a second).
        let dd = format!("dd if={} bs=1000 status=none > /dev/udp/10.7.2.2/4789", file.display());
        // One socket's buffer does not fill the queue.
        let flood = format!("for i in 1 2 3 4 5 6 7 8 9 10; do {dd} 2> /dev/null & done; wait");
        let args = ["netns", "exec", &world.guest(0), "bash", "-c", &flood];
        assert!(std::process::Command::new("ip").args(args).status().unwrap().success());
        assert!(dropped_by(world, "svlimit0") > 100, "the queue was long enough");
        for name in ["told_segments", "resent"] {
            assert_eq!(world.counter(0, &format!("fastlane_{name}")), 0, "{}", world.ask(0, &["counters"]));
        }
    });
}

/// What waits to be sent again for a connection of its old network is then nobody's.
#[cfg(feature = "kernel")]
#[test]
fn a_port_that_moves_to_another_network_takes_no_connection_along() {
    let Some(mut world) = world("fm", "[fastlane]", |_| {}) else { return };
    let edge = KernelEdge::open(&Options { pins: world.pins(0), max_flows: 1024, ..Options::default() }).unwrap();
    let index = world.exec(&world.host(0), "cat /sys/class/net/lxc0/ifindex").stdout;
    let port: u32 = String::from_utf8(index).unwrap().trim().parse().unwrap();
    let followed = || {
        let key = TallyKey::new(TABLE_FASTLANE, TALLY_PORT, port);
        edge.tallies().unwrap().get(&key).map_or(0, |tally| tally.flows)
    };
    world.transfer_and_rest("10.7.2.2:9000", 40_000, |_| {});
    assert!(followed() > 0);
    // Nothing of it changes but the network.
    let text = std::fs::read_to_string(world.config(0)).unwrap();
    std::fs::write(world.config(0), text.replacen("network = 7", "network = 8", 1)).unwrap();
    assert!(world.ctl(0, &["reload"]).status.success());
    assert_eq!(followed(), 0);
    assert!(world.ask(0, &["status"])["problems"].as_array().unwrap().is_empty());
}
