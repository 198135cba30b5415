//! Peers that do not answer, and peers that are no edges: the status says so, as far as an edge can know.

use super::world::{eventually, ip, World, LEARNING, NAMED};

fn problems(world: &World) -> String {
    world.ask(0, &["status"])["problems"].to_string()
}

/// Of host 0's agent.
pub(super) fn gauge(world: &World, name: &str) -> Option<f64> {
    let scrape = world.spawn(&world.host(0), "http 127.0.0.1:9464 0").wait_with_output().unwrap();
    let scrape = String::from_utf8_lossy(&scrape.stdout).into_owned();
    scrape.lines().find_map(|line| line.strip_prefix(&format!("{name} "))?.parse().ok())
}

#[test]
fn a_peer_that_does_not_answer_is_named_until_it_does() {
    let Some(mut world) = World::new("pd") else { return };
    world.configure_both();
    world.start_both();
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    assert_eq!(problems(&world), "[]");
    assert!(world.stop(1).status.success());
    eventually("the peer is missed", || {
        let _unanswered = world.ping("10.7.2.2", 1);
        problems(&world)
            .contains("peer host2 (192.168.99.2): what is sent to it has no answer, nothing was heard of it for")
    });
    assert_eq!(gauge(&world, "selvedge_peers_unanswered"), Some(1.0));
    assert_eq!(gauge(&world, "selvedge_problems"), Some(1.0));
    world.start(1, &[]);
    eventually("it answers again", || {
        let _first = world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2");
        world.ping("10.7.2.2", 1) && problems(&world) == "[]"
    });
    assert_eq!(gauge(&world, "selvedge_peers_unanswered"), Some(0.0));
}

#[test]
fn a_peer_whose_guests_only_receive_is_no_dead_one() {
    let Some(mut world) = World::new("po") else { return };
    world.configure_both();
    world.start_both();
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    assert!(world.exec(&world.guest(1), "sysctl -qw net.ipv4.icmp_echo_ignore_all=1").status.success());
    // 15 s of silence, 10 s of patience, and 5 s between two looks: without asking it would be missed.
    for second in 0..40 {
        assert!(!world.ping("10.7.2.2", 1), "guest 1 says nothing");
        assert_eq!(problems(&world), "[]", "after {second} s and more");
    }
    // An answer is heard as anything else of the peer is.
    assert!(world.counter(1, "probes_answered") > 0);
    // No answer by the edge either.
    assert!(world.stop(1).status.success());
    eventually("the peer is missed", || {
        let _unanswered = world.ping("10.7.2.2", 1);
        problems(&world).contains("peer host2 (192.168.99.2): what is sent to it has no answer")
    });
    assert_eq!(gauge(&world, "selvedge_peers_unanswered"), Some(1.0));
}

#[test]
fn a_peer_that_is_no_edge_is_named() {
    let Some(mut world) = World::new("pn") else { return };
    world.configure(0, NAMED);
    let agent = world.start(0, &[]);
    // Linux's own VXLAN, with an address of guest 1's range, and the MAC address under which host 0 answers for those.
    let host = world.host(1);
    let mac = world.exec(&world.guest(0), "cat /sys/class/net/eth0/address").stdout;
    let mac = String::from_utf8_lossy(&mac).trim().to_owned();
    let vxlan = "type vxlan id 7 local 192.168.99.2 remote 192.168.99.1 dstport 4789 dev u0";
    ip(&format!("-n {host} link add vx7 address 02:73:65:6c:76:01 {vxlan}"));
    ip(&format!("-n {host} addr add 10.7.2.9/16 dev vx7"));
    ip(&format!("-n {host} link set vx7 up"));
    ip(&format!("-n {host} neigh add 10.7.1.2 lladdr {mac} dev vx7"));
    let asks = || world.exec(&host, "ping -c 1 -W 1 10.7.1.2").status.success();
    eventually("it is noticed", || {
        assert!(!asks(), "Linux drops the answers, whose headers have metadata");
        problems(&world).contains("peer host2 (192.168.99.2): it sends VXLAN without an edge's metadata")
    });
    assert_eq!(gauge(&world, "selvedge_peers_without_edge"), Some(1.0));
    // Nobody minds one that is said to be plain.
    let text = std::fs::read_to_string(world.config(0)).unwrap();
    let plain = text.replace("[[peer]]\n", "[[peer]]\nplain_vxlan = true\n");
    std::fs::write(world.config(0), plain).unwrap();
    assert!(world.ctl(0, &["reload"]).status.success(), "{}", world.log(0));
    eventually("it may be plain", || asks() && problems(&world) == "[]");
    assert!(world.end(agent, "TERM"));
    // The same host as an edge.
    ip(&format!("-n {host} link del vx7"));
    std::fs::write(world.config(0), text).unwrap();
    world.configure(1, LEARNING);
    world.start_both();
    eventually("an edge has metadata", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && problems(&world) == "[]"
    });
}
