//! `[tenants]` on real traffic: guests 0 and 2 of host 0 share its uplink.

use super::world::{eventually, Running, World, LEARNING, NAMED};
use std::time::{Duration, Instant};

const SECOND_GUEST: &str = "\n[[port]]\nnetwork = 7\ninterface = \"lxc2\"\naddresses = [\"10.7.1.3\"]\n";

/// Both hosts with `[tenants]` of these keys, if any; the weight of guest 0 is `weight`.
fn world(name: &str, keys: &str, weight: u32) -> Option<World> {
    world_of(name, keys, weight, false)
}

/// The same, `plain`: without a tunnel.
fn world_of(name: &str, keys: &str, weight: u32, plain: bool) -> Option<World> {
    let mut world = World::new(name)?;
    world.add_neighbour();
    let table = if keys.is_empty() { String::new() } else { format!("\n[tenants]\n{keys}\n") };
    let weight = if keys.is_empty() { String::new() } else { format!("\nweight = {weight}") };
    for (i, port) in [format!("{NAMED}{weight}"), LEARNING.to_owned()].iter().enumerate() {
        world.configure(i, port);
        let second = if i == 0 { SECOND_GUEST } else { "" };
        let text = std::fs::read_to_string(world.config(i)).unwrap() + second + table.as_str();
        std::fs::write(world.config(i), text).unwrap();
    }
    if plain {
        world.make_plain();
    }
    world.start_both();
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    Some(world)
}

/// What guest 1 got from the guest with that address, payload.
fn got(world: &World, from: &str) -> u64 {
    let flows = world.ask(1, &["flows"]);
    let of = |f: &&serde_json::Value| f["destination"].as_str().unwrap().starts_with(&format!("{from}:"));
    flows["flows"].as_array().unwrap().iter().filter(of).map(|f| f["in_bytes"].as_u64().unwrap()).sum()
}

/// Megabits a second that both guests of host 0 deliver, over a few seconds.
fn rates(world: &World, seconds: u64) -> [f64; 2] {
    rates_of(world, ["10.7.1.2", "10.7.1.3"], seconds)
}

#[allow(clippy::disallowed_methods, reason = "measures real traffic")]
fn rates_of<const N: usize>(world: &World, guests: [&str; N], seconds: u64) -> [f64; N] {
    let read = || guests.map(|from| got(world, from));
    let (before, begun) = (read(), Instant::now());
    std::thread::sleep(Duration::from_secs(seconds));
    let (after, took) = (read(), begun.elapsed().as_secs_f64());
    std::array::from_fn(|n| (after[n] - before[n]) as f64 * 8e-6 / took)
}

pub(super) fn pour(world: &World, guest: usize, port: u16, mbps: u32) -> [Running; 2] {
    let to = format!("10.7.2.2:{port}");
    let sink = Running(world.spawn(&world.guest(1), &format!("udp-sink {to} 0")));
    [sink, Running(world.spawn(&world.guest(guest), &format!("udp-pour {to} {mbps}")))]
}

pub(super) fn guest<'a>(tenants: &'a serde_json::Value, interface: &str) -> &'a serde_json::Value {
    tenants["guests"].as_array().unwrap().iter().find(|g| g["interface"] == interface).expect("a guest")
}

#[test]
fn guests_share_the_uplink_by_weight_and_a_silent_one_leaves_its_part() {
    let Some(world) = world("ts", "uplink_rate = \"30Mbps\"\ninactive = \"500ms\"", 2) else { return };
    let first = pour(&world, 0, 9000, 60);
    let second = pour(&world, 2, 9001, 60);
    eventually("both are active", || {
        let tenants = world.ask(0, &["tenants"]);
        guest(&tenants, "lxc0")["fair_bps"] == 20_000_000 && guest(&tenants, "lxc2")["fair_bps"] == 10_000_000
    });
    eventually("both have used up their buckets", || {
        let tenants = world.ask(0, &["tenants"]);
        ["lxc0", "lxc2"].iter().all(|name| guest(&tenants, name)["dropped_segments"].as_u64() > Some(0))
    });
    let [a, b] = rates(&world, 3);
    // 1200 of 1316 bytes are payload.
    assert!((1.8..2.2).contains(&(a / b)), "{a} {b}");
    assert!((0.85 * 27.3..1.02 * 27.3).contains(&(a + b)), "{a} {b}");
    drop(first);
    eventually("the other one has it all", || guest(&world.ask(0, &["tenants"]), "lxc2")["fair_bps"] == 30_000_000);
    let tenants = world.ask(0, &["tenants"]);
    assert_eq!(guest(&tenants, "lxc0")["active"], false, "{tenants}");
    assert!(tenants["ticks"].as_u64() > Some(100) && tenants["hold"] == "drop", "{tenants}");
    assert!(guest(&tenants, "lxc2")["dropped_segments"].as_u64() > Some(100), "{tenants}");
    assert!(world.counter(0, "drop_over_rate_segments") > 100);
    let text = String::from_utf8_lossy(&world.ctl(0, &["tenants"]).stdout).into_owned();
    assert!(text.contains("aiad every 3.281 ms of 30Mbps") && text.contains("lxc2"), "{text}");
    assert!(text.contains(" us late on average"), "{text}");
    let scrape = world.spawn(&world.host(0), "http 127.0.0.1:9464 0").wait_with_output().unwrap();
    let scrape = String::from_utf8_lossy(&scrape.stdout).into_owned();
    crate::check_metrics(&scrape);
    assert!(scrape.contains("selvedge_tenant_fair_rate_bytes_per_second{interface=\"lxc2\"} 3750000"), "{scrape}");
    for line in
        ["active{interface=\"lxc0\"} 0", "active{interface=\"lxc2\"} 1", "weight{interface=\"lxc0\"} 2", "ticks_total "]
    {
        assert!(scrape.contains(&format!("selvedge_tenant_{line}")), "{line}: {scrape}");
    }
    // Without the table nobody is held any more.
    let text = std::fs::read_to_string(world.config(0)).unwrap();
    let text = text.replace("[tenants]\nuplink_rate = \"30Mbps\"\ninactive = \"500ms\"", "").replace("weight = 2", "");
    std::fs::write(world.config(0), text).unwrap();
    assert!(world.ctl(0, &["reload"]).status.success(), "{}", world.log(0));
    let [_, b] = rates(&world, 2);
    assert!(b > 35.0, "{b}");
    drop(second);
}

/// With weights of 4, 2 and 1 each has its part to within a twentieth, whatever it offers beyond.
#[test]
fn three_guests_have_their_weights() {
    let Some(world) = world("tv", "uplink_rate = \"21Mbps\"", 4) else { return };
    world.add_neighbour_as(4, "10.7.1.5");
    let text = std::fs::read_to_string(world.config(0)).unwrap();
    let third =
        format!("{SECOND_GUEST}weight = 2\n{}", SECOND_GUEST.replace("lxc2", "lxc4").replace("10.7.1.3", "10.7.1.5"));
    std::fs::write(world.config(0), text.replace(SECOND_GUEST, &third)).unwrap();
    assert!(world.ctl(0, &["reload"]).status.success(), "{}", world.log(0));
    eventually("the third guest reaches guest 1", || {
        world.exec(&world.guest(4), "ping -c 1 -W 1 10.7.2.2").status.success()
    });
    let floods = [(0, 9000), (2, 9001), (4, 9002)].map(|(guest, port)| pour(&world, guest, port, 40));
    let fair = |interface: &str| guest(&world.ask(0, &["tenants"]), interface)["fair_bps"].as_u64();
    eventually("all are active", || {
        ["lxc0", "lxc2", "lxc4"].map(fair) == [12, 6, 3].map(|mbps| Some(mbps * 1_000_000))
    });
    let held = |tenants: &serde_json::Value, name: &str| guest(tenants, name)["dropped_segments"].as_u64();
    eventually("all have used up their buckets", || {
        let tenants = world.ask(0, &["tenants"]);
        ["lxc0", "lxc2", "lxc4"].iter().all(|name| held(&tenants, name) > Some(0))
    });
    // Of all looks together: a rate holds on the average.
    let (mut seen, mut sum) = (Vec::new(), [0.0; 3]);
    let right = |[a, b, c]: [f64; 3]| [a / b, b / c].iter().all(|times| (1.9..2.1).contains(times));
    for _ in 0..6 {
        let before = [0, 2, 4].map(|n| sent_packets(&world, n));
        let found = rates_of(&world, ["10.7.1.2", "10.7.1.3", "10.7.1.5"], 5);
        let offered: [f64; 3] =
            std::array::from_fn(|n| (sent_packets(&world, 2 * n) - before[n]) as f64 * 9.6e-3 / 5.0);
        println!("{found:.2?} of {offered:.1?} Mb/s");
        // What another process kept from sending all its share has not had it.
        if offered.iter().all(|mbps| *mbps > 30.0) {
            sum = std::array::from_fn(|n| sum[n] + found[n]);
            seen.push(found);
            if right(sum) {
                break;
            }
        }
    }
    drop(floods);
    if seen.is_empty() {
        return println!("skipped: this machine was too busy to pour 40 Mb/s thrice");
    }
    assert!(right(sum), "{seen:.2?}");
}

/// Megabits a second of the uplink that guests share, payload: packets of 1404 of 1588 bytes on the wire in the tunnel.
const SHARED: f64 = 27.0;
/// Less than a bucket holds: what keeps to it loses nothing.
const CLAMP: u64 = 30_000;

/// A share is one more ceiling, beside a port's limit and AC/DC's windows: whichever is the least holds, and a connection lives through
/// all changes. In an order in which each changes alone.
fn together(name: &str, hold: &str, plain: bool) {
    const ALL: [[bool; 3]; 8] = [
        [true, false, false],
        [true, true, false],
        [true, true, true],
        [true, false, true],
        [false, false, true],
        [false, true, true],
        [false, true, false],
        [false, false, false],
    ];
    let keys = format!("uplink_rate = \"30Mbps\"\nhold = {hold:?}");
    let table = format!("\n[tenants]\n{keys}\n");
    let Some(mut world) = world_of(name, &keys, 1, plain) else { return };
    let waits = hold == "delay";
    if waits && !world.exec(&world.host(0), "tc qdisc replace dev u0 root fq").status.success() {
        println!("skipped: tc cannot set fq here");
        return;
    }
    let whole = std::fs::read_to_string(world.config(0)).unwrap();
    assert!(whole.contains(&table));
    world.transfer("10.7.2.2:9000", 1_000, |world| {
        for [share, limit, congestion] in ALL {
            let mut text = if share { whole.clone() } else { whole.replace(&table, "") };
            let weight = if share { "weight = 1" } else { "" };
            let limits = if limit { "\negress_rate = \"10Mbps\"" } else { "" };
            text = text.replace("weight = 1", &format!("{weight}{limits}"));
            if congestion {
                text += &format!("\n[congestion]\nclamp = \"{CLAMP}B\"\n");
            }
            std::fs::write(world.config(0), text).unwrap();
            let reloaded = world.ctl(0, &["reload"]);
            assert!(reloaded.status.success(), "{}", String::from_utf8_lossy(&reloaded.stderr));
            let held = || match world.ask(0, &["tenants"]) {
                serde_json::Value::Null => None,
                tenants => Some(guest(&tenants, "lxc0").clone()),
            };
            let count = |key: &str| held().and_then(|guest| guest[key].as_u64());
            let windows = || ["windows_lowered", "drop_policed_segments"].map(|name| world.counter(0, name));
            rates(world, 1);
            let before = (count("segments"), count("dropped_segments"), count("delayed_segments"), windows());
            let [tcp, _] = rates(world, 3);
            let seen = format!("share {share}, limit {limit}, congestion control {congestion}: {tcp:.1} Mb/s");
            println!("{hold}, plain {plain}, {seen}");
            // What a share drops leaves tokens for 250 ms, which may be used up in these three seconds; where segments wait, 200 KB of them and a
            // bucket of 80 KB.
            let kept = if waits { 1.03 } else { 1.0 + 0.25 / 3.0 };
            // A limit counts 1464 bytes of a packet, and lets 64 KB go at once.
            let most = match (share, limit) {
                (_, true) => 9.9,
                (true, false) => kept * if plain { 29.0 } else { SHARED },
                (false, false) => f64::INFINITY,
            };
            // Segments are dropped by a share, and TCP waits for its timer. What it may send for so long it has when it comes back.
            let least = match (share, limit) {
                (true, true) if !waits => 0.1,
                (true, false) => SHARED * if waits { 0.7 } else { 0.3 },
                (_, true) => 5.0,
                (false, false) => 30.0,
            };
            assert!(tcp < most && tcp > least, "{seen}: {least} to {most}");
            assert_eq!(
                (before.0.is_some(), count("segments") > before.0),
                (share, share),
                "counted where there is one: {seen}"
            );
            if let Some(guest) = held() {
                assert_eq!(guest["fair_bps"], 30_000_000, "{guest}");
                assert!(guest["rate_bps"].as_u64() <= Some(30_000_000), "{guest}");
                // Behind the limit and within the window nothing exceeds it.
                let acts = count("dropped_segments") > before.1 || count("delayed_segments") > before.2;
                assert!(acts || limit || congestion, "{seen}: {guest}");
            }
            let limits = world.ask(0, &["limits"]);
            assert_eq!(limits.as_array().unwrap().iter().any(|l| l["in_force"] == true), limit, "{limits}");
            let flows = world.ask(0, &["flows"]);
            let of = |flow: &serde_json::Value| flow["congestion"]["window_bytes"].as_u64();
            let window = flows["flows"].as_array().unwrap().iter().filter_map(of).max();
            assert_eq!(window.is_some_and(|w| w <= CLAMP), congestion, "{seen}: {flows}");
            // Of a connection that it has seen begin. With a limit SPRING lowers windows, too.
            world.exchange("10.7.2.2:9100", 200_000);
            assert!(limit || (windows() != before.3) == congestion, "{seen}: {:?} {:?}", before.3, windows());
        }
    });
}

#[test]
fn shares_go_with_limits_and_with_congestion_control() {
    together("tm", "drop", false);
}

#[test]
fn shares_in_which_segments_wait_go_with_limits_and_with_congestion_control() {
    together("tq", "delay", false);
}

#[test]
fn shares_go_with_limits_and_with_congestion_control_without_a_tunnel() {
    together("pq", "drop", true);
}

#[test]
fn shares_in_which_segments_wait_go_with_limits_and_with_congestion_control_without_a_tunnel() {
    together("pr", "delay", true);
}

/// A link of 40 Mb/s with its queue at the end of host 0's uplink; its queue is marked. `child`: what waits behind the rate.
pub(super) fn narrow(world: &World, child: &str) -> bool {
    let host = world.host(0);
    let run = |command: &str| world.exec(&host, command).status.success();
    let made = run("tc qdisc replace dev u0 root handle 1: htb default 1")
        && run("tc class add dev u0 parent 1: classid 1:1 htb rate 40mbit ceil 40mbit burst 10k cburst 10k")
        && run(&format!("tc qdisc add dev u0 parent 1:1 {child}"));
    made
}

pub(super) fn mark(world: &World) {
    mark_at(world, 40);
}

/// The same at so many Mb/s.
fn mark_at(world: &World, mbps: u64) {
    let queue = kernel::marker::Queue {
        rate: units::BitRate::from_mbps(mbps),
        buffer: units::Bytes(150_000),
        threshold: units::Bytes(30_000),
    };
    let namespace = std::fs::File::open(format!("/run/netns/{}", world.host(0))).unwrap();
    std::thread::scope(|scope| {
        let attached = scope.spawn(|| {
            nix::sched::setns(&namespace, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            kernel::marker::attach("u0", &queue, &world.own_pin())
        });
        attached.join().unwrap().unwrap();
    });
}

/// TCP of guest 0 beside 100 Mb/s of datagrams of guest 2: what both deliver on average of 5 s, and then of the last 15 of up to 30 s, until that is
/// `enough`. `None` where the kernel lacks a qdisc.
#[allow(clippy::disallowed_methods, reason = "real traffic needs a while")]
pub(super) fn beside_a_flood(
    name: &str,
    keys: &str,
    child: &str,
    plain: bool,
    enough: fn([f64; 2]) -> bool,
) -> Option<[f64; 2]> {
    let mut world = world_of(name, keys, 1, plain)?;
    if !narrow(&world, child) {
        println!("skipped: tc cannot set htb with {child} here");
        return None;
    }
    if child == "fq" {
        // Or the agent would look again within half a minute.
        assert!(world.ctl(0, &["reload"]).status.success(), "{}", world.log(0));
        assert_eq!(world.ask(0, &["tenants"])["hold"], "delay", "{}", world.log(0));
    }
    mark(&world);
    let mut flood = pour(&world, 2, 9001, 100);
    let mut looks = Vec::new();
    let mean = |looks: &[[f64; 2]]| {
        let last = &looks[looks.len().saturating_sub(3)..];
        [0, 1].map(|n| last.iter().map(|look| look[n]).sum::<f64>() / last.len() as f64)
    };
    world.transfer("10.7.2.2:9000", 1_000, |world| {
        std::thread::sleep(Duration::from_secs(2));
        for _ in 0..6 {
            let (before, begun) = (sent_packets(world, 2), Instant::now());
            let both = rates(world, 5);
            let offered = (sent_packets(world, 2) - before) as f64 * 9.6e-3 / begun.elapsed().as_secs_f64();
            let tenants = world.ctl(0, &["tenants"]).stdout;
            println!("{keys}: {both:.1?} of {offered:.1} Mb/s\n{}", String::from_utf8_lossy(&tenants));
            assert!(
                flood.iter_mut().all(|part| part.0.try_wait().unwrap().is_none()) && offered > 1.0,
                "the flood ended"
            );
            // Another process had the processor: what comes in lumps with pauses between them is no flood.
            if offered > 80.0 {
                looks.push(both);
                if enough(mean(&looks)) {
                    break;
                }
            }
        }
    });
    if looks.is_empty() {
        println!("skipped: this machine was too busy to pour 100 Mb/s");
        return None;
    }
    Some(mean(&looks))
}

/// Packets that a guest has sent.
fn sent_packets(world: &World, guest: usize) -> u64 {
    let out = world.exec(&world.guest(guest), "cat /sys/class/net/eth0/statistics/tx_packets");
    String::from_utf8_lossy(&out.stdout).trim().parse().expect("a number")
}

/// Half of 40 Mb/s is 18.2 Mb/s of the datagrams' payload.
const HALF: f64 = 18.2;

/// TCP has half of its fair share at least, also where others take the processor from it; `bench/tenants/run` measures how much it has.
/// Datagrams have what is left, of which their guest's share drops some.
pub(super) fn has_its_share([tcp, datagrams]: [f64; 2]) -> bool {
    tcp > 0.5 * HALF && datagrams > 0.35 * HALF
}

pub(super) const FIFO: &str = "bfifo limit 150000";

#[test]
fn tcp_beside_a_flood_has_its_share_only_where_guests_are_held() {
    let starves = |[tcp, datagrams]: [f64; 2]| tcp < 0.3 * HALF && tcp < 0.5 * datagrams;
    if let Some(found) = beside_a_flood("tx", "", FIFO, false, starves) {
        assert!(starves(found), "{found:?}");
    }
    for (name, law) in [("ty", "aiad"), ("tz", "alpha")] {
        let keys = format!("uplink_rate = \"100Mbps\"\nrtt = \"200us\"\nlaw = {law:?}");
        if let Some(found) = beside_a_flood(name, &keys, FIFO, false, has_its_share) {
            assert!(has_its_share(found), "{law}: {found:?}");
        }
    }
}

/// With departure times, which an fq keeps to.
#[test]
fn what_exceeds_a_share_waits_where_there_is_an_fq() {
    let keys = "uplink_rate = \"100Mbps\"\nrtt = \"200us\"\nhold = \"delay\"";
    if let Some(found) = beside_a_flood("tw", keys, "fq", false, has_its_share) {
        assert!(has_its_share(found), "{found:?}");
    }
}

#[test]
fn without_an_fq_what_should_wait_is_dropped_and_the_status_says_so() {
    let Some(world) = world("tv", "uplink_rate = \"100Mbps\"\nhold = \"delay\"", 1) else { return };
    assert_eq!(world.ask(0, &["tenants"])["hold"], "drop");
    let status = world.ask(0, &["status"]);
    let problems = status["problems"].as_array().unwrap();
    assert!(problems.iter().any(|p| p.as_str().unwrap().contains("no fq there")), "{status}");
}

#[test]
fn the_log_says_when_new_pairs_are_refused_and_when_they_are_admitted_again() {
    let keys = "uplink_rate = \"100Mbps\"\nrtt = \"200us\"\nlaw = \"alpha\"\nadmission = [0.01, 0.005]";
    let Some(world) = world("ta", keys, 1) else { return };
    if !narrow(&world, FIFO) {
        println!("skipped: tc cannot set htb with {FIFO} here");
        return;
    }
    mark(&world);
    let flood = pour(&world, 0, 9000, 90);
    // Marks go back with these, too. They come in lumps all the same, of which alpha counts what an interval sent: it is small.
    let back = "10.7.1.2:9002";
    let _back = [(0, format!("udp-sink {back} 0")), (1, format!("udp-pour {back} 20"))]
        .map(|(guest, role)| Running(world.spawn(&world.guest(guest), &role)));
    // Before guest 2 asks for the first time: a pair that is known once is not refused.
    eventually("many are marked", || guest(&world.ask(0, &["tenants"]), "lxc0")["alpha"].as_f64() > Some(0.02));
    let asks = || world.exec(&world.guest(2), "ping -c 1 -W 1 10.7.2.2").status.success();
    eventually("the other guest is refused", || !asks() && world.log(0).contains("to 10.7.2.2 are marked: new pairs"));
    assert!(world.counter(0, "refused_segments") > 0);
    assert_eq!(guest(&world.ask(0, &["tenants"]), "lxc0")["refused_segments"], 0, "its pair is known");
    drop(flood);
    eventually("it is admitted", asks);
    // The agent looks once in a while, and later than that where it has no processor.
    eventually("the log says so", || {
        world.log(0).contains("10.7.2.2 are marked: new pairs with it are admitted again")
    });
    let log = world.log(0);
    assert!(log.find("are refused") < log.find("are admitted again"), "{log}");
}

/// Or rates would stay what they are, and a guest with a low one would keep it.
#[test]
fn a_timer_that_has_ended_begins_again() {
    let Some(world) = world("tt", "uplink_rate = \"100Mbps\"", 1) else { return };
    let ticks = || world.ask(0, &["tenants"])["ticks"].as_u64().expect("a number");
    let begun = ticks();
    eventually("rates are set", || ticks() > begun);
    // The timer ends with the configuration, of which the agent hears nothing.
    let options = kernel::Options { pins: world.pins(0), max_flows: 1024, ..kernel::Options::default() };
    kernel::KernelEdge::open(&options).unwrap().set_tenants(&kernel::state::Tenants::default()).unwrap();
    let mut last = ticks();
    eventually("nobody sets rates", || std::mem::replace(&mut last, ticks()) == last);
    for _ in 0..2 {
        assert!(world.ctl(0, &["reload"]).status.success(), "{}", world.log(0));
    }
    eventually("rates are set again", || ticks() > last);
}

/// Marks that the receiver's edge has counted, and that the sender's has heard of.
fn marks(world: &World) -> (u64, u64) {
    (world.counter(1, "marks_counted"), world.counter(0, "marks_heard"))
}

/// So slow that an agent which gets no processor for up to a second is not too late.
#[test]
#[allow(clippy::disallowed_methods, reason = "an agent of real time may be too late")]
fn what_receivers_counted_arrives_when_traffic_has_ended() {
    const MOST: u32 = 6;
    for (name, plain) in [("tm", false), ("tn", true)] {
        let Some(mut world) = world_of(name, "uplink_rate = \"100Mbps\"\nrtt = \"200us\"", 1, plain) else { return };
        mark_at(&world, 4);
        // False if some are missing because the agent was too late.
        let all_arrive = |world: &World, what: &str| {
            let (begun, mut all) = (Instant::now(), false);
            eventually(what, || {
                let (counted, heard) = marks(world);
                // Without a tunnel nobody repeats what the agent was too late to tell.
                let late = || world.counter(0, "marks_consumed") < world.counter(1, "marks_asked");
                all = counted == heard;
                all || plain
                    && heard < counted
                    && heard * 2 > counted
                    && begun.elapsed() > Duration::from_secs(15)
                    && late()
            });
            println!("plain {plain}: {what}: {:?}", marks(world));
            all
        };
        let flood = pour(&world, 0, 9000, 5);
        eventually("marks are heard", || marks(&world).1 > 300);
        drop(flood);
        let (mut looks, mut excused) = (1, u32::from(!all_arrive(&world, "all marks of datagrams")));
        while looks < 2 || excused == looks && looks < MOST {
            let before = marks(&world).1;
            world.transfer(&format!("10.7.2.2:{}", 9000 + looks), 1_000_000, |_| {});
            eventually("marks of a connection are heard", || marks(&world).1 > before);
            looks += 1;
            excused += u32::from(!all_arrive(&world, "all marks of a connection"));
        }
        println!("plain {plain}: an agent that was too late excused {excused} of {looks} looks");
        if excused == looks {
            println!("skipped: this machine was too busy for an agent to tell all marks");
        }
    }
}
