//! Rate limits on real traffic. Nothing here depends on how fast the machine is, as long as it can move 200 Mb/s: rates are
//! bounded from above at all times, from below at some time, and queues are compared in bytes.

use super::congestion::of_kernel;
use super::world::{eventually, finding, ip, World, LEARNING};
use std::time::{Duration, Instant};

const PORT: &str = "interface = \"lxc0\"\naddresses = [\"10.7.1.2\", \"fd07:1::2\", \"10.7.1.9\"]";
/// What one segment and the burst may add to what a limit lets pass in a while, bytes.
const SLACK: f64 = 200_000.0;

/// Host 0's port with `limits` behind it; both agents run and guest 1 is learned. `None` where it cannot be.
pub(super) fn limited_world(name: &str, limits: &str, prepare: impl FnOnce(&World)) -> Option<World> {
    let mut world = World::new(name)?;
    prepare(&world);
    world.configure(0, &format!("{PORT}\n{limits}"));
    world.configure(1, LEARNING);
    world.start_both();
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    Some(world)
}

fn reconfigure(world: &World, limits: &str) {
    world.configure(0, &format!("{PORT}\n{limits}"));
    let output = world.ctl(0, &["reload"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What host 0 says of a limit.
pub(super) fn limit(world: &World, interface: &str, direction: &str) -> serde_json::Value {
    let all = world.ask(0, &["limits"]);
    let found = all.as_array().unwrap().iter().find(|l| l["interface"] == interface && l["direction"] == direction);
    found.unwrap_or_else(|| panic!("no {direction} limit of {interface}: {all}")).clone()
}

pub(super) fn number(limit: &serde_json::Value, key: &str) -> f64 {
    limit[key].as_f64().unwrap_or_else(|| panic!("no {key} in {limit}"))
}

/// Bits per second that pass a limit: never more than `bps`, and at some time almost that.
#[allow(clippy::disallowed_methods, reason = "rates are of real time")]
pub(super) fn holds(world: &World, interface: &str, direction: &str, bps: f64) {
    eventually("the whole rate is used", || {
        let begin = Instant::now();
        let before = number(&limit(world, interface, direction), "sent_bytes");
        std::thread::sleep(Duration::from_millis(700));
        let after = number(&limit(world, interface, direction), "sent_bytes");
        let seconds = begin.elapsed().as_secs_f64();
        let bytes = after - before;
        assert!(bytes * 8.0 <= bps * seconds * 1.02 + SLACK * 8.0, "{bytes} bytes in {seconds} s at {bps} bit/s");
        (bytes + SLACK) * 8.0 >= bps * seconds * 0.95
    });
}

/// Of what waits, looked at often.
fn median_backlog(world: &World) -> f64 {
    let mut seen: Vec<f64> = (0..41).map(|_| number(&limit(world, "lxc0", "egress"), "backlog_bytes")).collect();
    seen.sort_by(f64::total_cmp);
    seen[20]
}

/// Segments by how long they were about to wait, of all that came to the limit.
fn delays(world: &World) -> Vec<u64> {
    let counts = limit(world, "lxc0", "egress")["delays"]["counts"].clone();
    serde_json::from_value(counts).unwrap()
}

/// The bucket of the median, over the next segments. Each bucket's bound is twice that of the one before.
fn median_delay(world: &World) -> usize {
    let (before, mut since) = (delays(world), Vec::new());
    eventually("segments are counted", || {
        since = delays(world).iter().zip(&before).map(|(after, before)| after - before).collect();
        since.iter().sum::<u64>() > 300
    });
    let half = since.iter().sum::<u64>() / 2;
    let below = |bucket: &usize| since[..=*bucket].iter().sum::<u64>() > half;
    (0..since.len()).find(below).unwrap()
}

fn show(world: &World, command: &str) -> String {
    String::from_utf8_lossy(&world.exec(&world.host(0), command).stdout).into_owned()
}

#[test]
fn spring_holds_the_rate_with_a_short_queue() {
    let plain = "egress_rate = \"200Mbps\"\nlaw = \"off\"\n[limits]\nsparse_first = false";
    let Some(mut world) = limited_world("q", plain, World::add_routed) else { return };
    // Which fills whatever queue there is, unlike BBR, should that be this machine's default.
    assert!(world.exec(&world.guest(3), "sysctl -qw net.ipv4.tcp_congestion_control=reno").status.success());
    // Nobody waits yet.
    let idle = delays(&world);
    assert!(world.exec(&world.guest(0), "ping -q -i 0.02 -c 20 10.7.2.2").status.success());
    let (count, sum) = (delays(&world)[0], |counts: &[u64]| counts.iter().sum::<u64>());
    assert!(count >= idle[0] + 20 && sum(&delays(&world)[1..]) == sum(&idle[1..]), "{idle:?} {:?}", delays(&world));
    let (mut long, mut short) = (0.0, 0.0);
    let (mut long_delay, mut short_delay) = (0, 0);
    world.transfer_between(3, 1, "10.7.2.2:9000", 10_000_000, |world| {
        holds(world, "lxc0", "egress", 200e6);
        eventually("a queue stands", || {
            long = median_backlog(world);
            long > 300_000.0
        });
        long_delay = median_delay(world);
    });
    reconfigure(&world, "egress_rate = \"200Mbps\"");
    world.transfer_between(3, 1, "10.7.2.2:9001", 10_000_000, |world| {
        holds(world, "lxc0", "egress", 200e6);
        eventually("the queue is short", || {
            short = median_backlog(world);
            short * 4.0 < long
        });
        short_delay = median_delay(world);
        holds(world, "lxc0", "egress", 200e6);
        let now = limit(world, "lxc0", "egress");
        assert!(number(&now, "windows_lowered") > 100.0 && number(&now, "window_cuts") > 0.0, "{now}");
        assert_eq!(number(&now, "unread_segments"), 0.0, "{now}");
        let text = world.ctl(0, &["limits"]);
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        assert!(text.contains("spring") && text.contains("200Mbps"), "{text}");
    });
    println!("{short} bytes wait with SPRING, {long} without; median delays are in the buckets {short_delay} and {long_delay}");
    assert!(short_delay + 2 <= long_delay, "a quarter at most: buckets {short_delay} and {long_delay}");
    let scrape = world.spawn(&world.host(0), "http 127.0.0.1:9464 0").wait_with_output().unwrap();
    let scrape = String::from_utf8_lossy(&scrape.stdout).into_owned();
    crate::check_metrics(&scrape);
    let metric = "selvedge_limit_windows_lowered_total{interface=\"lxc0\",direction=\"egress\"} ";
    assert!(scrape.contains(metric), "{scrape}");
    let value = |name: &str, le: &str| -> f64 {
        let name = format!("selvedge_limit_delay_seconds_{name}{{{le}interface=\"lxc0\",direction=\"egress\"}} ");
        let found = scrape.lines().find_map(|line| line.strip_prefix(&name));
        found.unwrap_or_else(|| panic!("no {name} in {scrape}")).parse().unwrap()
    };
    let count = value("count", "");
    assert!(count > 600.0 && value("bucket", "le=\"+Inf\",") == count && value("sum", "") > 0.0, "{scrape}");
    assert!(count <= sum(&delays(&world)) as f64, "what was scraped is not lost");
    let now = limit(&world, "lxc0", "egress");
    let [p50, p99] = ["p50_seconds", "p99_seconds"].map(|key| number(&now["delays"], key));
    assert!(0.0 < p50 && p50 <= p99, "{now}");
}

#[test]
fn limits_change_go_and_come_back_under_traffic() {
    let Some(mut world) = limited_world("r", "egress_rate = \"100Mbps\"", |_| {}) else { return };
    world.transfer("10.7.2.2:9000", 30_000_000, |world| {
        holds(world, "lxc0", "egress", 100e6);
        for (limits, bps) in [
            ("egress_rate = \"300Mbps\"\ningress_rate = \"1Gbps\"", Some(300e6)),
            ("egress_rate = \"150Mbps\"\nlaw = \"off\"", Some(150e6)),
            ("", None),
            ("egress_rate = \"200Mbps\"", Some(200e6)),
        ] {
            reconfigure(world, limits);
            match bps {
                Some(bps) => holds(world, "lxc0", "egress", bps),
                None => assert!(!world.has_interface(0, "svlimit0"), "nothing of a limit is left"),
            }
            assert_eq!(show(world, "tc qdisc show dev lxc0").contains("htb"), limits.contains("ingress"), "{limits}");
        }
        assert!(world.ask(0, &["status"])["problems"].as_array().unwrap().is_empty());
    });
    assert_eq!(world.counter(0, "drop_error_segments"), 0);
    reconfigure(&world, "");
    assert!(!show(&world, "tc qdisc show").contains("htb") && !world.has_interface(0, "svlimit1"));
    assert!(world.ping("10.7.2.2", 2));
}

#[test]
fn limits_outlive_the_agent_and_end_with_stop() {
    let limits = "egress_rate = \"100Mbps\"\ningress_rate = \"50Mbps\"";
    let Some(mut world) = World::new("s") else { return };
    world.configure(0, &format!("{PORT}\n{limits}"));
    world.configure(1, LEARNING);
    let [agent, _] = world.start_both();
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    let classes = "tc class show dev svlimit0";
    let before = show(&world, classes);
    assert!(before.contains("5e1f:1000") && before.contains("100Mbit"), "{before}");
    world.transfer("10.7.2.2:9000", 10_000_000, |world| {
        holds(world, "lxc0", "egress", 100e6);
        let sent = number(&limit(world, "lxc0", "egress"), "sent_bytes");
        let counted = delays(world);
        world.end(agent, "KILL");
        assert_eq!(show(world, classes), before, "limits need no agent");
        world.start(0, &[]);
        assert!(world.log(0).contains("maps: nothing to change"), "{}", world.log(0));
        assert!(number(&limit(world, "lxc0", "egress"), "sent_bytes") >= sent, "the class is the same");
        assert!(delays(world).iter().zip(&counted).all(|(after, before)| after >= before), "and its counters");
        holds(world, "lxc0", "egress", 100e6);
    });
    assert_eq!(show(&world, classes), before);
    assert!(show(&world, "tc qdisc show dev lxc0").contains("htb 5e1f:"));
    let output = world.stop(0);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!show(&world, "tc qdisc show").contains("htb") && !world.has_interface(0, "svlimit0"));
    assert!(!world.pins(0).exists());
    // And where no agent runs that could be asked.
    let agent = world.start(0, &[]);
    world.end(agent, "KILL");
    assert!(show(&world, "tc qdisc show").contains("htb"));
    assert!(world.stop(0).status.success());
    assert!(!show(&world, "tc qdisc show").contains("htb") && !world.has_interface(0, "svlimit0"));
}

#[test]
fn a_root_qdisc_that_somebody_set_stays() {
    let Some(world) = limited_world("t", "ingress_rate = \"50Mbps\"", |world| {
        let set = world.exec(&world.host(0), "tc qdisc add dev lxc0 root handle 77: pfifo limit 123");
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    }) else {
        return;
    };
    let problems = world.ask(0, &["status"])["problems"].to_string();
    assert!(problems
        .contains("port lxc0: no ingress limit is in force: lxc0 has a root qdisc that somebody set (pfifo 77:)"));
    assert!(problems.contains("tc qdisc del dev lxc0 root"), "{problems}");
    assert_eq!(limit(&world, "lxc0", "ingress")["in_force"], false);
    assert!(show(&world, "tc qdisc show dev lxc0").contains("pfifo 77: root"));
    assert!(world.exec(&world.host(0), "tc qdisc del dev lxc0 root").status.success());
    assert!(world.ctl(0, &["reload"]).status.success());
    assert_eq!(limit(&world, "lxc0", "ingress")["in_force"], true);
    assert!(world.ping("10.7.2.2", 1));
}

/// libvirt sets it for each tap of its networks.
#[test]
fn no_queue_that_somebody_set_gives_way() {
    let Some(world) = limited_world("no", "ingress_rate = \"50Mbps\"", |world| {
        let set = world.exec(&world.host(0), "tc qdisc add dev lxc0 root handle 77: noqueue");
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
        assert!(show(world, "tc qdisc show dev lxc0").contains("noqueue 77: root"));
    }) else {
        return;
    };
    assert_eq!(limit(&world, "lxc0", "ingress")["in_force"], true, "{}", world.ask(0, &["status"])["problems"]);
    assert!(world.ping("10.7.2.2", 1));
}

#[test]
fn queues_that_somebody_put_into_classes_stay() {
    let limits = "egress_rate = \"100Mbps\"\ningress_rate = \"50Mbps\"";
    let Some(mut world) = World::new("n") else { return };
    world.configure(0, &format!("{PORT}\n{limits}"));
    world.configure(1, LEARNING);
    let [agent, _] = world.start_both();
    let leaves = |world: &World| {
        let shown = ["svlimit0", "lxc0"].map(|device| show(world, &format!("tc qdisc show dev {device}"))).concat();
        shown.lines().filter(|line| line.contains("parent 5e1f:")).map(str::trim).collect::<Vec<_>>().join("\n")
    };
    // As the agent makes them, their bounds follow the rate.
    let before = leaves(&world);
    reconfigure(&world, &limits.replace("100Mbps", "400Mbps").replace("50Mbps", "200Mbps"));
    let after = leaves(&world);
    assert!(before.matches("bfifo").count() == 4 && after.matches("bfifo").count() == 4 && before != after, "{after}");
    for put in [
        "tc qdisc replace dev svlimit0 parent 5e1f:1000 pfifo limit 77",
        // The very kind that the agent uses.
        "tc qdisc replace dev lxc0 parent 5e1f:2 handle 77: bfifo limit 77777",
    ] {
        assert!(world.exec(&world.host(0), put).status.success(), "{put}");
    }
    // The bounds of what goes first follow the rate as ever.
    let bulk = |world: &World| {
        let all = leaves(world);
        let of_bulk = |line: &&str| line.contains("5e1f:1000 ") || line.contains("5e1f:2 ");
        all.lines().filter(of_bulk).collect::<Vec<_>>().join("\n")
    };
    let put = bulk(&world);
    assert!(put.contains("pfifo") && put.contains("limit 77p") && put.contains("limit 77777b"), "{put}");
    for change in [
        "egress_rate = \"100Mbps\"\ningress_rate = \"50Mbps\"\nlaw = \"off\"",
        "egress_rate = \"300Mbps\"\ningress_rate = \"80Mbps\"\nlaw = \"mark\"",
    ] {
        reconfigure(&world, change);
        assert_eq!(bulk(&world), put, "{change}");
    }
    world.end(agent, "KILL");
    let agent = world.start(0, &[]);
    assert_eq!(bulk(&world), put, "after a restart");
    world.end(agent, "TERM");
    world.start(0, &[]);
    assert_eq!(bulk(&world), put, "after another");
    // They follow their port to another class.
    let rates = "egress_rate = \"100Mbps\"\ningress_rate = \"50Mbps\"";
    let blue = "[[tenant]]\nname = \"blue\"\negress_rate = \"100Mbps\"";
    let later = "[limits]\nsparse_first = false";
    for change in [
        format!("{rates}\ntenant = \"blue\"\n{blue}"),
        format!("{rates}\ntenant = \"blue\"\n{later}\n{blue}"),
        format!("{rates}\n{later}"),
        rates.to_owned(),
    ] {
        reconfigure(&world, &change);
        let now = leaves(&world);
        // Where nothing goes first, what goes to the port has one class.
        let of_port = if change.contains(later) { "parent 5e1f:1 limit 77777b" } else { "parent 5e1f:2 limit 77777b" };
        assert!(now.contains(of_port) && now.contains("parent 5e1f:1000 limit 77p"), "{change}: {now}");
    }
    // One with classes would come back without them.
    let classful = "tc qdisc replace dev svlimit0 parent 5e1f:1000 handle 88: htb";
    assert!(world.exec(&world.host(0), classful).status.success(), "{classful}");
    reconfigure(&world, &format!("{rates}\ntenant = \"blue\"\n{blue}"));
    let now = leaves(&world);
    assert!(now.contains("bfifo 1000: parent 5e1f:1000") && !now.contains("htb 88:"), "{now}");
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    // Where somebody sets a root, it stays, and limits are on the next pair of devices.
    assert!(world.exec(&world.host(0), "tc qdisc replace dev svlimit0 root handle 7: pfifo limit 77").status.success());
    reconfigure(&world, "egress_rate = \"100Mbps\"");
    let now = limit(&world, "lxc0", "egress");
    assert!(now["in_force"] == true && now["device"] == "svlimit2" && now["pacing"] == "htb", "{now}");
    assert!(world.ask(0, &["status"])["problems"].as_array().unwrap().is_empty());
    assert!(show(&world, "tc qdisc show dev svlimit0").contains("pfifo 7: root"));
    assert!(world.ping("10.7.2.2", 1));
    assert!(world.exec(&world.host(0), "tc qdisc del dev svlimit0 root").status.success());
    reconfigure(&world, "egress_rate = \"200Mbps\"");
    assert_eq!(limit(&world, "lxc0", "egress")["device"], "svlimit0");
    assert!(
        world.ask(0, &["status"])["problems"].as_array().unwrap().is_empty() && !world.has_interface(0, "svlimit2")
    );
}

#[test]
fn requests_pass_the_bulk() {
    let limits = "egress_rate = \"50Mbps\"\ningress_rate = \"50Mbps\"\nlaw = \"off\"";
    let Some(mut world) = limited_world("fi", limits, |_| {}) else { return };
    let first = |world: &World, direction: &str| number(&limit(world, "lxc0", direction), "first_bytes");
    let requests = 20.0;
    let ask = |world: &World| {
        let output = world.exec(&world.guest(0), "ping -q -i 0.02 -c 20 -W 5 10.7.2.2");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    };
    let divided = |world: &World| show(world, "tc class show dev svlimit0").contains("5e1f:5000");
    world.transfer("10.7.2.2:9000", 50_000_000, |world| {
        eventually("a queue", || number(&limit(world, "lxc0", "egress"), "backlog_bytes") > 20_000.0);
        // Where the bulk has lost much, nothing waits for a moment, and then nobody goes first.
        eventually("requests go first", || {
            let before = first(world, "egress");
            ask(world);
            first(world, "egress") - before >= (requests - 1.0) * 98.0
        });
        assert!(divided(world));
        // Under traffic the classes come and go.
        reconfigure(world, &format!("{limits}\n[limits]\nsparse_first = false"));
        assert!(!divided(world) && world.ask(0, &["status"])["problems"].as_array().unwrap().is_empty());
        let before = first(world, "egress");
        ask(world);
        assert!(first(world, "egress") == 0.0 || first(world, "egress") == before, "nobody goes first any more");
        reconfigure(world, limits);
        assert!(divided(world));
        ask(world);
        assert!(first(world, "egress") > 0.0 && world.ask(0, &["status"])["problems"].as_array().unwrap().is_empty());
    });
    // What the guest gets waits before the port.
    world.transfer_between(1, 0, "10.7.1.2:9000", 50_000_000, |world| {
        eventually("a queue", || number(&limit(world, "lxc0", "ingress"), "backlog_bytes") > 20_000.0);
        eventually("requests go first here, too", || {
            let before = first(world, "ingress");
            ask(world);
            first(world, "ingress") - before >= (requests - 1.0) * 98.0
        });
        holds(world, "lxc0", "ingress", 50e6);
    });
}

#[test]
fn who_paused_for_seconds_passes_the_bulk_again() {
    let Some(world) = limited_world("fj", "egress_rate = \"20Mbps\"\nlaw = \"off\"", |_| {}) else { return };
    let first = || number(&limit(&world, "lxc0", "egress"), "first_bytes");
    let [flooded, paused] = ["flood", "pause"].map(|name| world.socket(0).with_extension(name));
    let mut flood = world.command_in(&world.guest(0), "flood 10.7.2.2:9 1400", &flooded).spawn().unwrap();
    eventually("the queue overflows", || number(&limit(&world, "lxc0", "egress"), "dropped_segments") > 100.0);
    let begun = first();
    let mut source = world.command_in(&world.guest(0), "pausing 10.7.2.2:9 60", &paused).spawn().unwrap();
    // Not all of it does, and the share of one of so many pays for a third of that within a second.
    eventually("some go first", || first() - begun > 10_000.0);
    std::thread::sleep(std::time::Duration::from_secs(4));
    let before = first();
    std::fs::write(&paused, "").unwrap();
    assert!(source.wait().unwrap().success());
    eventually("it is first again", || first() - before >= 9.0 * 98.0);
    std::fs::write(&flooded, "").unwrap();
    assert!(flood.wait().unwrap().success());
}

#[test]
fn a_guest_without_restraint_is_held() {
    let Some(world) = limited_world("u", "egress_rate = \"20Mbps\"", |_| {}) else { return };
    let until = world.socket(0).with_extension("flood");
    let mut flood = world.command_in(&world.guest(0), "flood 10.7.2.2:9 1400", &until).spawn().unwrap();
    eventually("the queue overflows", || number(&limit(&world, "lxc0", "egress"), "dropped_segments") > 100.0);
    holds(&world, "lxc0", "egress", 20e6);
    std::fs::write(&until, "").unwrap();
    assert!(flood.wait().unwrap().success());
    eventually("the queue drains", || number(&limit(&world, "lxc0", "egress"), "backlog_bytes") == 0.0);
    // What has no route of the overlay waits in the same queue, and then comes to the host from the port as ever.
    let sent = number(&limit(&world, "lxc0", "egress"), "sent_bytes");
    ip(&format!("-n {} addr add 10.7.200.1/16 dev lxc0", world.host(0)));
    assert!(world.ping("10.7.200.1", 2), "{}", world.log(0));
    assert!(number(&limit(&world, "lxc0", "egress"), "sent_bytes") > sent);
    assert!(world.ping("10.7.2.2", 1), "what was dropped was the flood's");
}

#[test]
fn guests_of_one_host_are_limited_towards_each_other() {
    let Some(mut world) = World::new("v") else { return };
    world.add_neighbour();
    world.configure(0, &format!("{PORT}\negress_rate = \"200Mbps\""));
    world.configure(1, LEARNING);
    let file = world.config(0);
    let text = std::fs::read_to_string(&file).unwrap();
    let second =
        "[[port]]\nnetwork = 7\ninterface = \"lxc2\"\naddresses = [\"10.7.1.3\"]\ningress_rate = \"100Mbps\"\n";
    std::fs::write(&file, format!("{text}\n{second}")).unwrap();
    world.start(0, &[]);
    assert!(world.ping("10.7.1.3", 2), "{}", world.log(0));
    world.transfer_between(0, 2, "10.7.1.3:9000", 10_000_000, |world| {
        holds(world, "lxc2", "ingress", 100e6);
        let now = limit(world, "lxc2", "ingress");
        assert!(number(&now, "windows_lowered") > 10.0, "the ACKs that leave guest 2 are rewritten: {now}");
    });
    std::fs::write(&file, format!("{text}\n{}", second.replace("100Mbps", "900Mbps"))).unwrap();
    assert!(world.ctl(0, &["reload"]).status.success());
    world.transfer_between(0, 2, "10.7.1.3:9001", 10_000_000, |world| {
        holds(world, "lxc0", "egress", 200e6);
        let now = limit(world, "lxc0", "egress");
        assert!(number(&now, "windows_lowered") > 10.0, "{now}");
    });
    assert!(world.counter(0, "local_segments") > 100);
}

#[test]
fn marks_reach_guests_that_understand_them() {
    let Some(mut world) = limited_world("w", "egress_rate = \"100Mbps\"\nlaw = \"dem\"", |world| {
        for guest in 0..2 {
            assert!(world.exec(&world.guest(guest), "sysctl -qw net.ipv4.tcp_ecn=1").status.success());
        }
    }) else {
        return;
    };
    let marked = |world: &World| number(&limit(world, "lxc0", "egress"), "marked_segments");
    world.transfer("10.7.2.2:9000", 10_000_000, |world| eventually("ACKs get ECE", || marked(world) > 20.0));
    assert_eq!(of_kernel(&world, 1, "InCEPkts"), 0, "what leaves is not marked");
    reconfigure(&world, "egress_rate = \"100Mbps\"\nlaw = \"mark\"");
    let before = marked(&world);
    world.transfer("10.7.2.2:9001", 10_000_000, |world| {
        eventually("segments are marked", || marked(world) > before + 20.0)
    });
    assert!(of_kernel(&world, 1, "InCEPkts") > 20);
    for guest in 0..2 {
        assert_eq!((of_kernel(&world, guest, "InCsumErrors"), of_kernel(&world, guest, "InErrs")), (0, 0));
    }
}

#[test]
fn tenants_share_by_their_guarantees() {
    let limits = "egress_rate = \"100Mbps\"\negress_ceiling = \"1Gbps\"\ntenant = \"blue\"\nlaw = \"off\"\n\
                  [limits]\ntotal = \"400Mbps\"\n[[tenant]]\nname = \"blue\"\negress_rate = \"100Mbps\"\n\
                  egress_ceiling = \"200Mbps\"";
    let Some(mut world) = limited_world("x", limits, |_| {}) else { return };
    let classes = show(&world, "tc class show dev svlimit0");
    assert!(
        classes.contains("htb 5e1f:10 parent 5e1f:1 ") && classes.contains("5e1f:5000 parent 5e1f:10 "),
        "{classes}"
    );
    // Alone it has what its tenant may have at most.
    world.transfer("10.7.2.2:9000", 10_000_000, |world| holds(world, "lxc0", "egress", 200e6));
}

#[test]
#[allow(clippy::disallowed_methods, reason = "rates are of real time")]
fn what_a_tenant_leaves_is_shared_by_guarantees_and_pods_are_told_by_annotations() {
    let Some(mut world) = World::new("X") else { return };
    world.add_neighbour();
    let port = "egress_rate = \"30Mbps\"\negress_ceiling = \"1Gbps\"\nlaw = \"off\"\ntenant = \"blue\"";
    world.configure(0, &format!("{PORT}\n{port}"));
    world.configure(1, LEARNING);
    let file = world.config(0);
    let first = std::fs::read_to_string(&file).unwrap();
    let second = "[[port]]\nnetwork = 7\ninterface = \"lxc2\"\naddresses = [\"10.7.1.3\"]\nlaw = \"off\"\n";
    let tenant = "[[tenant]]\nname = \"blue\"\negress_rate = \"80Mbps\"\n";
    std::fs::write(
        &file,
        format!("{first}\n{second}tenant = \"blue\"\negress_rate = \"10Mbps\"\negress_ceiling = \"1Gbps\"\n{tenant}"),
    )
    .unwrap();
    world.start_both();
    eventually("both are learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success()
            && world.exec(&world.guest(2), "ping -c 1 -W 1 10.7.2.2").status.success()
    });
    let until = world.socket(0).with_extension("flood");
    let mut floods: Vec<_> = [0, 2]
        .map(|guest| world.command_in(&world.guest(guest), "flood 10.7.2.2:9 1400", &until).spawn().unwrap())
        .into();
    let sent = |world: &World| ["lxc0", "lxc2"].map(|port| number(&limit(world, port, "egress"), "sent_bytes"));
    eventually("80 Mb/s are shared three to one", || {
        let before = sent(&world);
        std::thread::sleep(Duration::from_millis(700));
        let after = sent(&world);
        let [large, small] = [after[0] - before[0], after[1] - before[1]];
        large > 5e6 && (2.5..3.5).contains(&(large / small))
    });
    // A class of HTB sends what it is guaranteed, whatever the one above may: guarantees give way.
    for (tenant, above) in [("tenant = \"blue\"", "[[tenant]]\nname = \"blue\"\negress_rate"), ("", "[limits]\ntotal")]
    {
        let first = first.replace(port, &format!("egress_rate = \"60Mbps\"\nlaw = \"off\"\n{tenant}"));
        let second = format!("{second}{tenant}\negress_rate = \"60Mbps\"");
        std::fs::write(&file, format!("{first}\n{second}\n{above} = \"20Mbps\"\n")).unwrap();
        assert!(world.ctl(0, &["reload"]).status.success(), "{}", world.log(0));
        eventually("20 Mb/s are shared by two who may send 60", || {
            let (begun, before) = (Instant::now(), sent(&world));
            std::thread::sleep(Duration::from_millis(700));
            let (after, seconds) = (sent(&world), begun.elapsed().as_secs_f64());
            let [one, other] = [after[0] - before[0], after[1] - before[1]];
            println!("{above}: {one} and {other} bytes in {seconds} s");
            (0.6..1.2).contains(&((one + other) / (2.5e6 * seconds))) && (0.6..1.7).contains(&(one / other))
        });
    }
    std::fs::write(&until, "").unwrap();
    assert!(floods.iter_mut().all(|flood| flood.wait().unwrap().success()));
    // The same guests by what Kubernetes says of their pods.
    let pods = file.with_extension("json");
    std::fs::write(&pods, "{\"lxc2\": {\"kubernetes.io/egress-bandwidth\": \"20M\"}}").unwrap();
    let plain = first.replace(port, "");
    std::fs::write(&file, format!("{plain}\n{second}[limits]\nannotations = {pods:?}\n")).unwrap();
    assert!(world.ctl(0, &["reload"]).status.success(), "{}", world.log(0));
    let all = world.ask(0, &["limits"]);
    assert_eq!((all.as_array().unwrap().len(), &all[0]["interface"]), (1, &"lxc2".into()), "{all}");
    assert_eq!((all[0]["rate_bps"].as_u64(), &all[0]["in_force"]), (Some(20_000_000), &true.into()));
    std::fs::write(&pods, "{}").unwrap();
    assert!(world.ctl(0, &["reload"]).status.success());
    assert!(!world.has_interface(0, "svlimit0"), "nothing is limited any more");
}

/// A segment of 56 KB at 10 kbps is a debt of three quarters of a minute.
#[test]
fn who_is_given_a_higher_rate_has_it_at_once() {
    let Some(world) = limited_world("low", "egress_rate = \"100Mbps\"", |_| {}) else { return };
    for more in ["", "[limits]\npacing = \"virtual\""] {
        reconfigure(&world, &format!("egress_rate = \"10Kbps\"\n{more}"));
        let until = world.socket(0).with_extension("low");
        let _ = std::fs::remove_file(&until);
        let mut flood = world.command_in(&world.guest(0), "flood 10.7.2.2:9 1400", &until).spawn().unwrap();
        eventually("something left", || number(&limit(&world, "lxc0", "egress"), "sent_bytes") > 50_000.0);
        let before = number(&limit(&world, "lxc0", "egress"), "sent_bytes");
        reconfigure(&world, &format!("egress_rate = \"100Mbps\"\n{more}"));
        let sent = || number(&limit(&world, "lxc0", "egress"), "sent_bytes") - before;
        let soon = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            // A class that was made anew has sent nothing yet.
            sent() > 1e6
        });
        assert!(soon, "{} bytes in ten seconds {more}", sent());
        std::fs::write(&until, "").unwrap();
        assert!(flood.wait().unwrap().success());
        assert!(world.ping("10.7.2.2", 1));
    }
}

#[test]
fn limits_can_be_schedules_that_laws_and_the_horizon_act_on() {
    let scheduled = |rate: &str| format!("egress_rate = \"{rate}\"\n[limits]\npacing = \"virtual\"");
    let Some(mut world) = limited_world("y", &scheduled("100Mbps"), |_| {}) else { return };
    let nothing_waits = |world: &World| {
        assert!(!show(world, "tc qdisc show").contains("5e1f:") && !world.has_interface(0, "svlimit0"));
    };
    nothing_waits(&world);
    world.transfer("10.7.2.2:9000", 10_000_000, |world| {
        eventually("windows follow the schedule", || {
            let now = limit(world, "lxc0", "egress");
            number(&now, "windows_lowered") > 100.0 && number(&now, "window_cuts") > 0.0
        });
        reconfigure(world, "egress_rate = \"100Mbps\"");
        holds(world, "lxc0", "egress", 100e6);
        assert!(show(world, "tc qdisc show dev svlimit0").contains("htb 5e1f:"));
        reconfigure(world, &scheduled("150Mbps"));
        nothing_waits(world);
        let before = number(&limit(world, "lxc0", "egress"), "sent_bytes");
        eventually("it goes on", || number(&limit(world, "lxc0", "egress"), "sent_bytes") > before + 1e6);
    });
    let text = world.ctl(0, &["limits"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("virtual"));
    // Who does not care for windows is held, too.
    reconfigure(&world, &scheduled("20Mbps"));
    let dropped = |world: &World| number(&limit(world, "lxc0", "egress"), "dropped_segments");
    let before = dropped(&world);
    let until = world.socket(0).with_extension("flood");
    let mut flood = world.command_in(&world.guest(0), "flood 10.7.2.2:9 1400", &until).spawn().unwrap();
    eventually("the horizon is reached", || dropped(&world) > before + 100.0);
    holds(&world, "lxc0", "egress", 20e6);
    std::fs::write(&until, "").unwrap();
    assert!(flood.wait().unwrap().success());
    eventually("the schedule is idle", || number(&limit(&world, "lxc0", "egress"), "backlog_bytes") == 0.0);
    assert!(world.ping("10.7.2.2", 1), "what was dropped was the flood's");
    assert!(world.ask(0, &["status"])["problems"].as_array().unwrap().is_empty());
}

#[test]
fn departure_times_need_an_fq() {
    let Some(world) = World::new("z") else { return };
    world.configure(
        0,
        &format!("{PORT}\negress_rate = \"50Mbps\"\ningress_rate = \"60Mbps\"\n[limits]\npacing = \"departure\""),
    );
    let config = world.config(0);
    let check = world.command(0, &[], &["agent", "check", "--config", config.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&check.stderr).into_owned();
    if !world.exec(&world.host(0), "tc qdisc add dev lo root fq").status.success() {
        assert!(!check.status.success() && said.lines().count() == 1, "{said}");
        let line =
            std::fs::read_to_string(&config).unwrap().lines().position(|line| line.starts_with("pacing")).unwrap() + 1;
        assert!(said.contains(&format!("{}:{line}: limits.pacing: the kernel has no fq", config.display())), "{said}");
        assert!(said.contains("set it to \"htb\""), "{said}");
        return;
    }
    assert!(check.status.success(), "{said}");
    let Some(mut world) = limited_world(
        "Z",
        "egress_rate = \"50Mbps\"\ningress_rate = \"60Mbps\"\n[limits]\npacing = \"departure\"",
        |_| {},
    ) else {
        return;
    };
    for device in ["svlimit0", "lxc0"] {
        let qdiscs = show(&world, &format!("tc qdisc show dev {device}"));
        assert!(qdiscs.contains("fq 5e1f: root"), "{qdiscs}");
    }
    world.transfer("10.7.2.2:9000", 1_000_000, |world| holds(world, "lxc0", "egress", 50e6));
    reconfigure(&world, "egress_rate = \"50Mbps\"");
    assert!(show(&world, "tc qdisc show dev svlimit0").contains("htb 5e1f: root"));
    assert!(!show(&world, "tc qdisc show dev lxc0").contains("5e1f:"));
}

/// A counter of guest 0's TCP, of both families.
fn tcp_count(world: &World, name: &str) -> f64 {
    let text = String::from_utf8_lossy(&world.exec(&world.guest(0), "cat /proc/net/snmp").stdout).into_owned();
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:")).map(str::split_whitespace);
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    names.zip(values).find(|(key, _)| *key == name).unwrap().1.parse().unwrap()
}

/// The short form of everything, which every kernel must pass: nothing in it depends on how fast the machine is.
#[test]
#[allow(clippy::disallowed_methods, reason = "rates are of real time")]
fn both_families_pass_a_limit_that_is_in_force() {
    const BYTES: u64 = 3_000_000;
    let limits = "egress_rate = \"20Mbps\"\ningress_rate = \"40Mbps\"";
    let Some(mut world) = limited_world("bf", limits, |_| {}) else { return };
    eventually("guest 1 is learned by both families", || {
        world.exec(&world.guest(1), "ping -6 -c 1 -W 1 fd07:1::2").status.success() && world.ping("fd07:2::2", 1)
    });
    for to in ["10.7.2.2:9000", "[fd07:2::2]:9001"] {
        let begun = Instant::now();
        let (sent, again) = (tcp_count(&world, "OutSegs"), tcp_count(&world, "RetransSegs"));
        let before = number(&limit(&world, "lxc0", "egress"), "sent_bytes");
        world.transfer_and_rest(to, BYTES, |world| {
            eventually("all of it is sent", || {
                number(&limit(world, "lxc0", "egress"), "sent_bytes") - before + SLACK >= BYTES as f64
            });
        });
        // Where segments of this family do not arrive whole, each is lost and sent again in packets.
        let (sent, again) = (tcp_count(&world, "OutSegs") - sent, tcp_count(&world, "RetransSegs") - again);
        assert!(again <= 20.0 + sent / 20.0, "{to}: {again} of {sent} segments were sent again");
        let least = (BYTES as f64 - SLACK) * 8.0 / 20e6;
        let took = begun.elapsed().as_secs_f64();
        assert!(
            took >= least,
            "{to}: {BYTES} bytes in {took} s, which a limit of 20 Mb/s cannot let pass in {least} s"
        );
    }
    for direction in ["egress", "ingress"] {
        let now = limit(&world, "lxc0", direction);
        assert!(now["in_force"] == true && now["law"] == "spring", "{now}");
        assert_eq!(number(&now, "unread_segments"), 0.0, "{now}");
    }
    let now = limit(&world, "lxc0", "egress");
    assert!(number(&now, "windows_lowered") > 0.0 && number(&now, "sent_bytes") >= 2.0 * BYTES as f64, "{now}");
    assert!(world.ask(0, &["status"])["problems"].as_array().unwrap().is_empty());
    let told = world.diagnose(0, &[]);
    for feature in ["kernel-edge", "rate-limits", "limit-laws", "merging", "receiver"] {
        assert_eq!(finding(&told, "features", feature)["status"], "yes", "{feature}: {told}");
    }
}
