//! What an operator must see to: an agent does not start without it, and names it.

use crate::world::{World, NAMED};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

fn sysctl(world: &World, settings: &str) {
    let output = world.exec(&world.host(0), &format!("sysctl -qw {settings}"));
    assert!(output.status.success(), "{settings}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What an agent says that does not start.
fn refusal(world: &World) -> String {
    let config = world.config(0);
    let output =
        world.command(0, &["timeout", "20"], &["agent", "run", "--config", config.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && output.status.code() != Some(124), "it ran: {said}");
    said
}

/// What `agent check` says, which refuses it, too.
fn check(world: &World) -> String {
    let config = world.config(0);
    let output = world.command(0, &[], &["agent", "check", "--config", config.to_str().unwrap()]).output().unwrap();
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn doctor(world: &World) -> String {
    let config = world.config(0);
    let output = world.command(0, &[], &["doctor", "--config", config.to_str().unwrap()]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn an_agent_asks_for_what_its_configuration_needs_of_the_host() {
    let Some(mut world) = World::new("op") else { return };
    sysctl(&world, "net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.lxc0.rp_filter=0");
    sysctl(&world, "net.ipv6.conf.lxc0.accept_ra=2");
    // A host of Kubernetes: it forwards, and its ports are strict.
    world.configure(0, NAMED);
    assert!(doctor(&world).contains("yes configuration"), "{}", doctor(&world));
    let agent = world.start(0, &[]);
    assert_eq!(fs::metadata(world.pins(0)).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(world.end(agent, "TERM"));
    world.configure(0, &format!("{NAMED}\nstrict = false"));
    let needed = ["net.ipv4.conf.lxc0.rp_filter = 1", "net.ipv6.conf.lxc0.accept_ra = 0"];
    for said in [refusal(&world), check(&world), doctor(&world)] {
        assert!(needed.iter().all(|needed| said.contains(needed)) && said.contains("agent.unchecked = true"), "{said}");
    }
    let text = fs::read_to_string(world.config(0)).unwrap();
    fs::write(world.config(0), text.replace("[agent]", "[agent]\nunchecked = true")).unwrap();
    let agent = world.start(0, &[]);
    assert!(needed.iter().all(|needed| world.log(0).contains(needed)), "{}", world.log(0));
    assert!(world.end(agent, "TERM"));
    fs::write(world.config(0), text).unwrap();
    sysctl(&world, "net.ipv4.conf.lxc0.rp_filter=1 net.ipv6.conf.lxc0.accept_ra=0");
    let agent = world.start(0, &[]);
    assert!(world.end(agent, "TERM"));
    let dir = world.socket(0).parent().unwrap().to_owned();
    fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
    let said = refusal(&world);
    assert!(said.contains("agent.socket") && said.contains("chmod go-w"), "{said}");
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    assert!(world.stop(0).status.success());
}
