//! What an agent has changed in the kernel, and no file says any more.

use super::world::{eventually, World};
use std::fs;
use std::path::PathBuf;

const DEVICES: [&str; 4] = ["svgro4789", "svcut0", "svlimit0", "svlimit1"];

fn state(world: &World) -> PathBuf {
    let mut name = world.socket(0).into_os_string();
    name.push(".state");
    name.into()
}

/// An agent that limits its port, and is killed.
fn killed(world: &mut World) {
    world.configure_both();
    let agent = world.start(0, &[]);
    let limited = world.ctl(0, &["limit", "lxc0", "--egress", "100Mbps", "--ingress", "100Mbps"]);
    assert!(limited.status.success(), "{limited:?}");
    assert!(DEVICES.iter().all(|name| world.has_interface(0, name)));
    world.end(agent, "KILL");
}

#[test]
fn stop_removes_what_no_file_speaks_of_and_says_so() {
    let Some(mut world) = World::new("fo") else { return };
    for text in [None, Some(""), Some("{\"version\":99}")] {
        killed(&mut world);
        match text {
            None => fs::remove_file(state(&world)).unwrap(),
            Some(text) => fs::write(state(&world), text).unwrap(),
        }
        let stopped = world.stop(0);
        let said = String::from_utf8_lossy(&stopped.stderr).into_owned();
        assert!(!stopped.status.success() && said.contains(".state does not say"), "{text:?}: {said}");
        assert!(said.lines().count() == 1 && said.contains("svlimit0") && said.contains("MTUs"), "{said}");
        assert!(!DEVICES.iter().any(|name| world.has_interface(0, name)), "{text:?}");
        let queues = world.exec(&world.host(0), "tc qdisc show");
        let queues = String::from_utf8_lossy(&queues.stdout).into_owned();
        assert!(!queues.contains("5e1f:"), "{text:?}: {queues}");
        assert!(!world.pins(0).exists() && !world.socket(0).exists());
        assert!(world.stop(0).status.success(), "nothing to stop is fine");
    }
}

#[test]
fn the_next_agent_says_that_limits_are_forgotten() {
    let Some(mut world) = World::new("fp") else { return };
    killed(&mut world);
    fs::write(state(&world), "rubbish").unwrap();
    let agent = world.start(0, &[]);
    let problems = |world: &World| world.ask(0, &["status"])["problems"].to_string();
    assert!(problems(&world).contains(".state does not say"), "{}", problems(&world));
    assert!(world.ctl(0, &["reload"]).status.success());
    eventually("a reload has heard it", || !problems(&world).contains("does not say"));
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
}

#[test]
fn two_that_stop_one_agent_both_succeed() {
    let Some(mut world) = World::new("fq") else { return };
    world.configure_both();
    let agent = world.start(0, &[]);
    let ended = std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| world.stop(0)));
        both.map(|one| one.join().unwrap())
    });
    for one in ended {
        assert!(one.status.success(), "{one:?}");
    }
    assert!(world.wait(agent) && !world.pins(0).exists());
}
