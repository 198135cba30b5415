//! What `--set` cannot change, and what options that name a file do with links, devices and directories.

use crate::{selvedge, stderr, Scratch, TINY};
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn what_is_read_before_is_not_set() {
    let scratch = Scratch::new("read-before");
    let sweep = "[sweep]\nname = \"n\"\nvalues = [1, 2]\nkeys = [\"topology.spines\"]\n";
    scratch.file("s.toml", &format!("{TINY}{sweep}"));
    for (set, says) in [
        (
            "sweep.name=x",
            "`sweep` is read before --set changes the scenario; change the file, or choose points with --at",
        ),
        ("sweep=3", "`sweep` is read before"),
        ("mode.quick.x=1", "`mode` is read before"),
        ("include=other.toml", "`include` is read before"),
    ] {
        for command in [&["sim", "run"][..], &["sweep"]] {
            let output = selvedge(scratch.path(), &[command, &["s.toml", "--set", set]].concat());
            let said = stderr(&output);
            let place = format!("selvedge: --set {set}: {says}");
            assert!(output.status.code() == Some(2) && said.starts_with(&place), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
    assert_eq!(scratch.names(), ["s.toml"]);
}

#[test]
fn a_time_of_zero_has_a_unit_that_people_write() {
    let scratch = Scratch::new("zero");
    scratch.file("s.toml", TINY);
    for (set, says) in [
        ("host.tcp.rto_min=0s", "host.tcp.rto_min: 0s is out of range; give 10us to 60s"),
        ("drain=200000s", "drain: 200000s is out of range; give 0s to 100000s"),
        ("scheme.x={balance = \"flowlet\", flowlet_gap_most = \"5s\"}", "5s is out of range; give \"0s\" to \"4s\""),
    ] {
        let said = stderr(&selvedge(scratch.path(), &["sim", "run", "s.toml", "--set", set]));
        assert!(said.contains(says) && !said.contains("0ps"), "{said}");
    }
}

#[test]
fn a_link_to_nothing_is_named_and_a_device_is_written_to() {
    let scratch = Scratch::new("links");
    scratch.file("s.toml", TINY);
    symlink("nowhere", scratch.path().join("link")).unwrap();
    symlink("nowhere", scratch.path().join("link.svg")).unwrap();
    symlink("drawn.svg", scratch.path().join("other.svg")).unwrap();
    scratch.file("drawn.svg", "old");
    for arguments in [
        &["sim", "run", "s.toml", "-o", "link"][..],
        &["sim", "run", "s.toml", "--force", "-o", "link"],
        &["sweep", "s.toml", "-o", "link"],
        &["topo", "show", "s.toml", "--picture", "link.svg"],
        &["doctor", "--bundle", "link"],
    ] {
        let output = selvedge(scratch.path(), arguments);
        let said = stderr(&output);
        assert!(
            !output.status.success() && said.contains("symbolic link to what is not there; "),
            "{arguments:?}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert!(selvedge(scratch.path(), &["topo", "show", "s.toml", "--picture", "other.svg"]).status.success());
    assert!(fs::read_to_string(scratch.path().join("drawn.svg")).unwrap().contains("<svg"));
    // A device stays one: of a name only the file that it stands for would have been replaced.
    assert!(selvedge(scratch.path(), &["doctor", "--bundle", "/dev/stdout"]).status.success());
    assert_eq!(scratch.names(), ["drawn.svg", "link", "link.svg", "other.svg", "s.toml"]);
}
