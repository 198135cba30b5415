//! What a kernel lacks is said alike by doctor, status and limits, and the rest works.

use super::limits::{holds, limit};
use super::world::{eventually, finding, World, LEARNING};
use agent_api::lacking::{
    Part, DEPARTURE_TIMES, FASTLANE, HTB, LIMIT_LAWS, MERGING, RATE_LIMITS, RECEIVER, TUN, VXLAN,
};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A kernel without type information, as far as a program can see.
pub(super) const UNTYPED: [&str; 6] =
    ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /sys/kernel/btf && exec \"$@\"", "sh"];

/// A kernel that says of itself what the file `release` says.
fn of_release(release: &Path) -> Vec<String> {
    let pretend = format!("mount --bind {} /proc/sys/kernel/osrelease && exec \"$@\"", release.display());
    ["unshare", "--mount", "sh", "-c", &pretend, "sh"].map(str::to_owned).into()
}

#[test]
fn too_old_a_kernel_is_one_line() {
    let Some(world) = World::new("no") else { return };
    world.configure_both();
    let release = world.dir.path().join("osrelease");
    for (old, said) in [("5.15.0", "5.15.0"), ("6.0.19-amd64\n", "6.0.19-amd64")] {
        std::fs::write(&release, old).unwrap();
        let before = of_release(&release);
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        let line = format!(
            "Linux {said} is too old for the kernel edge: boot Linux 6.1 or later, the oldest that it was tried on"
        );
        let config = world.config(0);
        let run = world.command(0, &before, &["agent", "run", "--config", config.to_str().unwrap()]).output().unwrap();
        let told = [run.stdout, run.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!((run.status.code(), told), (Some(1), [String::new(), format!("selvedge: {line}\n")]));
        assert!(!world.pins(0).exists() && !world.socket(0).exists(), "it leaves nothing");
        let told = world.diagnose(0, &before);
        let kernel = finding(&told, "probes", "kernel");
        assert!(kernel["status"] == "no" && kernel["reason"] == line, "{kernel}");
        let edge = finding(&told, "features", "kernel-edge");
        let reason = edge["reason"].as_str().unwrap();
        assert!(edge["status"] == "no" && reason.contains("kernel") && !reason.contains('\n'), "{edge}");
    }
}

/// The doctor misses that part, and says of it what then, as `problems` of `ctl status` do.
fn agree(told: &Value, problems: &str, part: Part) {
    let found = finding(told, "features", part.feature);
    assert!(found["status"] == "no" && found["reason"].as_str().unwrap().ends_with(part.without), "{found}");
    assert!(problems.contains(part.without), "{}: {problems}", part.without);
}

#[test]
fn without_type_information_limits_are_plain_htb_and_fastlane_is_off() {
    let Some(mut world) = World::new("nb") else { return };
    let port = "interface = \"lxc0\"\naddresses = [\"10.7.1.2\", \"fd07:1::2\"]\negress_rate = \"50Mbps\"\n[fastlane]";
    world.configure(0, port);
    world.configure(1, LEARNING);
    world.start(0, &UNTYPED);
    world.start(1, &[]);
    let problems = world.ask(0, &["status"])["problems"].to_string();
    let told = world.diagnose(0, &UNTYPED);
    for part in [LIMIT_LAWS, FASTLANE] {
        agree(&told, &problems, part);
    }
    assert_eq!(finding(&told, "features", RATE_LIMITS.feature)["status"], "yes", "{told}");
    let egress = limit(&world, "lxc0", "egress");
    assert!(egress["in_force"] == true && egress["law"] == "none", "{egress}");
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    world.transfer("10.7.2.2:9000", 1_000_000, |world| holds(world, "lxc0", "egress", 50e6));
}

/// Once it is there the kernel has HTB.
fn loaded(world: &World) -> PathBuf {
    world.dir.path().join("sch_htb")
}

const LIBRARY: &str = "lacking.so";

/// False where no C compiler is.
fn compile(to: &Path) -> bool {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent/lacking.c");
    let built = std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(to).arg(source).status();
    assert!(built.as_ref().map_or(true, std::process::ExitStatus::success));
    built.is_ok()
}

/// Not a test of its own: `scripts/kernels/test` calls it for machines that have no compiler.
#[test]
#[ignore = "builds for another machine"]
fn objects_for_another_machine() {
    let to = std::env::var_os("SELVEDGE_BPF_OBJECTS").expect("SELVEDGE_BPF_OBJECTS names a directory");
    assert!(compile(&PathBuf::from(to).join(LIBRARY)), "cc runs");
}

/// What makes a kernel one that lacks modules, as far as a program can see. `None` where no C compiler is.
fn lacking(world: &World) -> Option<Vec<String>> {
    let library = world.dir.path().join(LIBRARY);
    let built = std::env::var_os("SELVEDGE_BPF_OBJECTS").map(|directory| PathBuf::from(directory).join(LIBRARY));
    match built.filter(|built| built.exists()) {
        Some(built) => drop(std::fs::copy(built, &library).unwrap()),
        None if !compile(&library) => return None,
        None => {}
    }
    let words =
        format!("env LD_PRELOAD={} LACKING_UNTIL={} unshare --mount sh -c", library.display(), loaded(world).display());
    let hide = "mount -t tmpfs tmpfs /dev/net && exec \"$@\"";
    Some(words.split(' ').chain([hide, "sh"]).map(str::to_owned).collect())
}

#[test]
fn modules_that_are_missing_are_named_and_the_rest_works() {
    let Some(mut world) = World::new("nm") else { return };
    let Some(before) = lacking(&world) else { return println!("skipped: needs a C compiler (cc)") };
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    let port = "interface = \"lxc0\"\naddresses = [\"10.7.1.2\", \"fd07:1::2\"]\negress_rate = \"50Mbps\"\n\
                ingress_rate = \"60Mbps\"\n[receive]\nreorder = true";
    world.configure(0, port);
    world.configure(1, LEARNING);
    world.start(0, &before);
    world.start(1, &[]);
    let status = world.ask(0, &["status"]);
    let (told, problems) = (world.diagnose(0, &before), status["problems"].to_string());
    for (part, module) in [(RATE_LIMITS, HTB), (MERGING, VXLAN), (RECEIVER, TUN)] {
        agree(&told, &problems, part);
        let probe = finding(&told, "probes", module.probe);
        let (reason, remedy) = module.told();
        assert!(probe["status"] == "no" && probe["reason"].as_str().unwrap().starts_with(reason), "{probe}");
        assert!(probe["remedy"].as_str().unwrap().starts_with(remedy), "{probe}");
        assert!(problems.contains(module.missing) && world.log(0).contains(module.missing), "{problems}");
    }
    assert_eq!(status["problems"].as_array().unwrap().len(), 3, "{problems}");
    for part in [LIMIT_LAWS, DEPARTURE_TIMES] {
        let found = finding(&told, "features", part.feature);
        assert!(found["status"] == "no" && found["reason"].as_str().unwrap().ends_with(RATE_LIMITS.without), "{found}");
    }
    assert_eq!(finding(&told, "features", "kernel-edge")["status"], "yes", "{told}");
    for direction in ["egress", "ingress"] {
        let now = limit(&world, "lxc0", direction);
        assert!(now["in_force"] == false && now["law"] == "none", "{now}");
    }
    assert!(status["receiver"].is_null(), "{status}");
    eventually("guests reach one another", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    std::fs::write(loaded(&world), "").unwrap();
    assert!(world.ctl(0, &["reload"]).status.success());
    let problems = world.ask(0, &["status"])["problems"].to_string();
    assert!(!problems.contains(RATE_LIMITS.without) && problems.contains(MERGING.without), "{problems}");
    for direction in ["egress", "ingress"] {
        let now = limit(&world, "lxc0", direction);
        assert!(now["in_force"] == true && now["law"] == "spring", "{now}");
    }
}
