//! Which of a result's interfaces is the host's end of the container's.

use super::call::Attachment;
use super::{CniError, FAILED_IO, INVALID};
use nix::net::if_::if_nametoindex;
use nix::sched::{setns, CloneFlags};
use serde_json::Value;
use std::fs::File;
use std::io;

/// The interface of `previous` on this host whose other end is the container's.
///
/// # Errors
/// That there is none, or that the container's namespace cannot be looked into.
pub(super) fn host_end(previous: &Value, attachment: &Attachment) -> Result<String, CniError> {
    let inside = index_inside(attachment).map_err(|e| {
        let (ifname, netns) = (&attachment.ifname, &attachment.netns);
        CniError::new(FAILED_IO, format!("cannot look for {ifname} in the network namespace {netns:?}: {e}"))
    })?;
    let on_host = names_on_host(previous);
    match on_host.iter().find(|name| other_end(name) == Some(inside)) {
        Some(name) => Ok((*name).to_owned()),
        None => {
            let listed = if on_host.is_empty() { "none".to_owned() } else { on_host.join(", ") };
            let msg = format!(
                "prevResult has no interface of the host whose other end is {} (it lists {listed}): only veth pairs can be limited",
                attachment.ifname
            );
            Err(CniError::new(INVALID, msg))
        }
    }
}

/// Those that are in no sandbox.
fn names_on_host(previous: &Value) -> Vec<&str> {
    let all = previous["interfaces"].as_array().map(Vec::as_slice).unwrap_or_default();
    let on_host = all.iter().filter(|one| one["sandbox"].as_str().unwrap_or_default().is_empty());
    on_host.filter_map(|one| one["name"].as_str()).collect()
}

/// Number of the other end of a pair, in the namespace that this is in.
fn other_end(name: &str) -> Option<u32> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return None;
    }
    let read = |file: &str| std::fs::read_to_string(format!("/sys/class/net/{name}/{file}")).ok()?.trim().parse().ok();
    let (own, other): (u32, u32) = (read("ifindex")?, read("iflink")?);
    // What has no other end links to itself; numbers of different namespaces may be the same.
    (own != other || is_veth(name)).then_some(other)
}

fn is_veth(name: &str) -> bool {
    let event = std::fs::read_to_string(format!("/sys/class/net/{name}/uevent")).unwrap_or_default();
    // A bridge, VLAN or tunnel says what it is; a veth pair says nothing.
    !event.lines().any(|line| line.starts_with("DEVTYPE="))
}

/// Number of the container's interface in its namespace.
fn index_inside(attachment: &Attachment) -> io::Result<u32> {
    inside(attachment, Ok)
}

/// Does something in the container's namespace with its interface, whose number it is told: on a thread that goes there and ends.
pub(super) fn inside<T: Send>(
    attachment: &Attachment,
    what: impl FnOnce(u32) -> io::Result<T> + Send,
) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| -> io::Result<T> {
            setns(File::open(&attachment.netns)?, CloneFlags::CLONE_NEWNET)?;
            what(if_nametoindex(attachment.ifname.as_str())?)
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn interfaces_of_containers_are_not_the_hosts() {
        let previous = json!({ "interfaces": [
            { "name": "cni0", "mac": "02:00:00:00:00:01" },
            { "name": "veth1", "sandbox": "" },
            { "name": "eth0", "sandbox": "/run/netns/a" },
            { "sandbox": "" }, 7,
        ]});
        assert_eq!(names_on_host(&previous), ["cni0", "veth1"]);
        assert!(names_on_host(&json!({})).is_empty() && names_on_host(&json!({ "interfaces": "x" })).is_empty());
        assert_eq!((other_end("../lo"), other_end(""), other_end("no-such-interface")), (None, None, None));
    }
}
