//! What a kernel lacks is said alike by doctor, status and limits, and the rest works.

use super::limits::{holds, limit};
use super::world::{eventually, World, LEARNING};

/// A kernel without type information, as far as a program can see.
pub(super) const UNTYPED: [&str; 6] =
    ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /sys/kernel/btf && exec \"$@\"", "sh"];

#[test]
fn without_type_information_limits_are_plain_htb_and_fastlane_is_off() {
    let Some(mut world) = World::new("nb") else { return };
    let port = "interface = \"lxc0\"\naddresses = [\"10.7.1.2\", \"fd07:1::2\"]\negress_rate = \"50Mbps\"\n[fastlane]";
    world.configure(0, port);
    world.configure(1, LEARNING);
    world.start(0, &UNTYPED);
    world.start(1, &[]);
    let problems = world.ask(0, &["status"])["problems"].to_string();
    for said in
        ["rate limits are plain HTB, whose queues nothing keeps short", "what this host drops is left to guests"]
    {
        assert!(problems.contains(said), "{problems}");
    }
    let egress = limit(&world, "lxc0", "egress");
    assert!(egress["in_force"] == true && egress["law"] == "none", "{egress}");
    for (feature, status) in [("rate-limits", "yes"), ("limit-laws", "no"), ("fastlane", "no")] {
        assert_eq!(world.doctor(0, &UNTYPED, feature), status, "{feature}");
    }
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    world.transfer("10.7.2.2:9000", 1_000_000, |world| holds(world, "lxc0", "egress", 50e6));
}
