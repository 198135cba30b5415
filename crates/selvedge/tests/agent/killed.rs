//! Containers that come and go while the agent is killed, at any moment of a call or of its own start.

use super::alone::configure;
use super::cni::{answer, network, owners, qdiscs, Runtime, PROGRAM};
use super::world::{eventually, ip, World};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// The same moments and choices in each run: a linear congruential generator.
struct Chance(u32);

impl Chance {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) % n
    }
}

/// All that containers and agents may leave, none of which is there before the first container. Programs, by their pins.
fn left(world: &World) -> Vec<String> {
    let mut left: Vec<String> =
        qdiscs(world).lines().filter(|line| !line.contains("noqueue")).map(str::to_owned).collect();
    left.extend(["svlimit0", "svlimit1"].into_iter().filter(|name| world.has_interface(0, name)).map(str::to_owned));
    for directory in ["links", "filters"] {
        let pins = std::fs::read_dir(world.pins(0).join(directory)).into_iter().flatten().flatten();
        left.extend(pins.map(|pin| format!("{directory}/{}", pin.file_name().to_string_lossy())));
    }
    let files = std::fs::read_dir(world.dir.path())
        .unwrap()
        .flatten()
        .map(|file| file.file_name().to_string_lossy().into_owned());
    left.extend(files.filter(|name| name.ends_with(".new")));
    left
}

/// As a runtime that tries again: nothing is left behind.
/// `SELVEDGE_CNI_ROUNDS` containers, moments by `SELVEDGE_CNI_SEED`.
#[test]
#[ignore = "minutes: 1,000 containers"]
#[allow(clippy::disallowed_methods, reason = "kills at a moment of its choice")]
fn nothing_is_left_of_a_thousand_containers_though_the_agent_is_killed() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (rounds, mut chance) = (number("SELVEDGE_CNI_ROUNDS", 1_000), Chance(number("SELVEDGE_CNI_SEED", 1)));
    let Some(mut world) = World::new("ct") else { return };
    configure(&world, "");
    let mut agent = world.start(0, &[]);
    let network = network(&world, "lxc0", json!({ "egressRate": 50_000_000, "ingressRate": 80_000_000 }));
    let before = left(&world);
    let (mut killed, mut ended, mut again, mut starts) = (0, 0, 0, 0);
    for n in 0..rounds {
        let (name, mut disturbed) = (format!("c{n}"), false);
        for verb in ["ADD", "DEL"] {
            let runtime = |world: &World, verb: &str| {
                answer(Runtime { world, container: &name, guest: 0 }.begin(Path::new(PROGRAM), verb, &network), verb)
            };
            if chance.below(20) != 0 {
                runtime(&world, verb).unwrap();
                continue;
            }
            disturbed = true;
            let call = Runtime { world: &world, container: &name, guest: 0 }.begin(Path::new(PROGRAM), verb, &network);
            std::thread::sleep(Duration::from_micros(u64::from(chance.below(50_000))));
            let signal = if chance.below(4) == 0 { "TERM" } else { "KILL" };
            world.signal(agent, signal);
            let done = answer(call, verb);
            ended += u32::from(signal == "TERM");
            killed += u32::from(signal == "KILL");
            world.wait(agent);
            for _ in 0..chance.below(3) {
                agent = world.launch(0, &[], &[]);
                std::thread::sleep(Duration::from_millis(u64::from(chance.below(300))));
                world.signal(agent, "KILL");
                world.wait(agent);
                starts += 1;
            }
            agent = world.start(0, &[]);
            if let Err(error) = done {
                assert_eq!((verb, &error["code"]), ("ADD", &11.into()), "{error}");
                again += 1;
                // As the specification has it, or at once.
                if chance.below(2) == 0 {
                    runtime(&world, "DEL").unwrap();
                }
                runtime(&world, verb).unwrap();
            }
        }
        // Containers take their interface along, and with it a limit whose DEL met no agent.
        if disturbed || chance.below(10) == 0 {
            ip(&format!("-n {} link del lxc0", world.host(0)));
            eventually("limits end with their interface", || owners(&world) == 0);
            world.add_guest(0);
        }
        if disturbed || n == rounds - 1 {
            eventually("nothing is left", || left(&world) == before);
        }
        assert_eq!(owners(&world), 0, "container {n}");
    }
    println!(
        "{rounds} containers; the agent killed {killed} times in a call and {starts} times while it started, ended {ended} times; {again} \
         calls repeated; left: {:?}",
        left(&world)
    );
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
    assert!(!world.pins(0).exists());
}
