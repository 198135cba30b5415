//! An agent that follows a controller, which runs at the other host.

use super::world::{eventually, World, LEARNING, NAMED};
use crate::authority::Authority;
use std::io::Write;
use std::process::{Child, Stdio};

struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const FABRIC: &str = "[topology]\nkind = \"clos\"\nleaves = 2\nspines = 3\nhosts_per_leaf = 2\n";

/// The labels towards host 1's guests, as host 0's agent gives them to flows.
fn labels(world: &World) -> Vec<u64> {
    let paths = world.ask(0, &["paths"]);
    let one = paths.as_array().unwrap().iter().find(|path| path["peer"] == "host2").expect("the peer");
    one["labels"].as_array().unwrap().iter().map(|label| label.as_u64().unwrap()).collect()
}

#[test]
fn schedules_follow_the_controller_and_outlive_it() {
    let Some(mut world) = World::new("f") else { return };
    let authority = Authority::new();
    let config = authority.controller("192.168.99.2", FABRIC);
    let start = |world: &World| {
        let log = world.config(1).with_extension("controller");
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let mut command = world.command(1, &[], &["controller", "run", "--config", config.to_str().unwrap()]);
        Controller(command.stdin(Stdio::null()).stderr(log).spawn().unwrap())
    };
    let tell = |world: &World, verb: &[&str]| {
        let mut args = vec!["controller"];
        args.extend(verb);
        args.extend(["--config", config.to_str().unwrap()]);
        world.command(1, &[], &args).output().unwrap()
    };
    world.configure(0, NAMED);
    world.configure(1, LEARNING);
    let (ca, certificate, key) = authority.files("host1");
    let table = format!(
        "\n[controller]\nurls = [\"https://192.168.99.2:7443\"]\nedge = \"host1\"\nca = {ca:?}\ncertificate = {certificate:?}\nkey = {key:?}\n\
         [[peer]]\nname = \"host9\"\naddress = \"192.168.99.9\"\n"
    );
    let mut file = std::fs::File::options().append(true).open(world.config(0)).unwrap();
    file.write_all(table.as_bytes()).unwrap();
    let agents = world.start_both();
    // Without a controller it is as if there were none, and says so.
    eventually("the agent misses its controller", || {
        world.ask(0, &["status"])["problems"].to_string().contains("the last schedules stay in force")
    });
    assert_eq!(labels(&world), [50_001, 50_002, 50_003]);
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    let mut controller = start(&world);
    eventually("the controller answers", || tell(&world, &["status"]).status.success());
    world.transfer("10.7.2.2:9000", 20_000_000, |world| {
        for (verb, link, expected) in [
            ("fail", "leaf1-spine2", &[50_001, 50_003][..]),
            ("fail", "leaf2-spine3", &[50_001]),
            ("heal", "leaf1-spine2", &[50_001, 50_002]),
        ] {
            let output = tell(world, &[verb, link]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            eventually("the agent follows", || labels(world) == *expected);
        }
    });
    eventually("a peer that the controller does not know is named", || {
        let problems = world.ask(0, &["status"])["problems"].to_string();
        assert!(!problems.contains("peer host2"), "{problems}");
        problems.contains("peer host9: the controller knows no edge of that name")
    });
    eventually("the controller hears what the agent has", || {
        let output = tell(&world, &["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        status["edges"]["host1"] == status["revision"] && status["failed"][0] == "leaf2-spine3"
    });
    // It dies, and so does the agent: what was in force stays in force.
    controller.0.kill().unwrap();
    controller.0.wait().unwrap();
    assert!(!world.end(agents[0], "KILL"));
    world.start(0, &[]);
    assert_eq!(labels(&world), [50_001, 50_002]);
    assert!(world.ping("10.7.2.2", 1));
    // Another one knows what the first one knew.
    let _controller = start(&world);
    eventually("the controller answers again", || tell(&world, &["status"]).status.success());
    assert!(tell(&world, &["heal", "leaf2-spine3"]).status.success());
    eventually("the agent follows the new one", || labels(&world) == [50_001, 50_002, 50_003]);
}
