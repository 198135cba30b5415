//! Queues of the kernel, changed only where they differ; qdiscs that others set stay.

use super::super::interfaces::{by_name, Interfaces};
use super::super::rules::LIMIT_NAME;
use agent_api::config::MAX_PAIRS;
use agent_api::lacking::FQ;
use kernel::htb::{self, Class, Found, Link, Qdisc};
use std::io;
use tracing::warn;

const LOOPBACK_NAME: &str = "lo";

/// Where the sending of some ports is limited: it enters by the first device and leaves by the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair(pub(super) u32);

impl Pair {
    /// No pair, and the host's own: what is sent to that device comes in there. None of [`Pair::all`], and never removed.
    pub(super) const LOOPBACK: Pair = Pair(MAX_PAIRS);

    pub(super) fn all() -> impl Iterator<Item = Pair> {
        (0..MAX_PAIRS).map(Pair)
    }

    pub(super) fn first(self) -> String {
        self.end(0)
    }

    pub(super) fn second(self) -> String {
        self.end(1)
    }

    fn end(self, n: u32) -> String {
        match self {
            Pair::LOOPBACK => LOOPBACK_NAME.to_owned(),
            Pair(pair) => format!("{LIMIT_NAME}{}", pair * 2 + n),
        }
    }

    /// Number of the first device, if there is one of that name.
    pub(super) fn ifindex(self) -> Option<u32> {
        kernel::ifindex(&self.first()).ok()
    }

    /// Both devices, if they are there and one another's ends.
    fn ends(self, links: &[Link]) -> Option<[&Link; 2]> {
        let [first, second] = [self.first(), self.second()].map(|name| links.iter().find(|link| link.name == name));
        first.zip(second).filter(|(a, b)| a.peer == Some(b.ifindex) && b.peer == Some(a.ifindex)).map(|(a, b)| [a, b])
    }

    /// Why our queue cannot be there, if so. `links`: all devices of such names.
    pub(super) fn obstacle(self, links: &[Link], qdiscs: &[Qdisc]) -> Option<Obstacle> {
        if let Some([first, _]) = self.ends(links) {
            let other = qdiscs.iter().find(|q| q.ifindex == first.ifindex && q.is_anothers())?;
            return Some(Obstacle { why: occupied(&first.name, other), fq: (other.kind == "fq").then_some(self) });
        }
        let taken = links.iter().find(|link| link.name == self.first() || link.name == self.second())?;
        Some(Obstacle { why: format!("{} is another's device; rename or remove it", taken.name), fq: None })
    }

    /// Takes it away, unless that is somebody else's device. Fine if it is not there.
    fn remove(self, links: &[Link]) -> io::Result<()> {
        match self.ends(links) {
            Some(_) => htb::remove_pair(&self.first()),
            None => Ok(()),
        }
    }
}

/// What is in the place of a pair of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Obstacle {
    pub(super) why: String,
    /// The pair, if an fq is on it, which keeps to departure times whosever it is.
    pub(super) fq: Option<Pair>,
}

/// Why the loopback device cannot have our queue, if so.
pub(super) fn loopback_obstacle(interfaces: &Interfaces, qdiscs: &[Qdisc]) -> Option<String> {
    let Some((ifindex, _)) = by_name(interfaces, LOOPBACK_NAME).filter(|(_, lo)| lo.loopback && lo.up) else {
        return Some(format!("{LOOPBACK_NAME} is not up"));
    };
    let other = qdiscs.iter().find(|q| q.ifindex == ifindex && q.is_anothers())?;
    Some(occupied(LOOPBACK_NAME, other))
}

/// All devices that bear names of ours.
pub(super) fn links() -> io::Result<Vec<Link>> {
    htb::links(LIMIT_NAME)
}

/// Pairs that nobody needs. One with a queue of somebody's stays, and with it what was put there.
pub(super) fn remove_pairs(needed: impl Fn(Pair) -> bool, qdiscs: &[Qdisc]) -> io::Result<()> {
    let links = links()?;
    Pair::all()
        .filter(|pair| !needed(*pair) && pair.obstacle(&links, qdiscs).is_none())
        .try_for_each(|pair| pair.remove(&links))
}

/// What has classes or bands of its own would come back without them, and drop all.
const CLASSFUL: [&str; 10] = ["cbq", "drr", "ets", "hfsc", "htb", "mqprio", "multiq", "prio", "qfq", "taprio"];

/// The queue of a leaf. If somebody has put another qdisc there, that stays. `new`: the class has just been made in place of that one.
/// Then somebody's qdisc of the former class is made again in it.
pub(super) fn set_queue(device: u32, class: u32, limit: u32, qdiscs: &[Qdisc], new: Option<u32>) -> io::Result<()> {
    let in_class = |class| qdiscs.iter().find(|q| q.ifindex == device && q.parent == class && q.handle != 0);
    let Some(was) = new else {
        return match in_class(class) {
            Some(queue) if queue.is_anothers_queue() || queue.limit == limit => Ok(()),
            _ => htb::set_queue(device, class, limit),
        };
    };
    let Some(queue) = in_class(was).filter(|queue| queue.is_anothers_queue()) else {
        return htb::set_queue(device, class, limit);
    };
    let alone = !qdiscs.iter().any(|q| q.ifindex == device && q.is_below(queue));
    let made = match alone && !CLASSFUL.contains(&queue.kind.as_str()) {
        true => htb::put_back(class, queue),
        false => Err(io::Error::other("it is more than a queue")),
    };
    made.or_else(|why| {
        warn!("the qdisc {} of a limit is not in the port's new class: {why}; put it there again", queue.shown());
        htb::set_queue(device, class, limit)
    })
}

pub(super) fn occupied(interface: &str, other: &Qdisc) -> String {
    let shown = other.shown();
    format!(
        "{interface} has a root qdisc that somebody set ({shown}); remove it with `tc qdisc del dev {interface} root`"
    )
}

/// Which an agent without the right to try it beforehand finds missing only here.
pub(super) fn add_fq(device: u32) -> io::Result<()> {
    htb::add_fq(device).map_err(|e| match e.raw_os_error() {
        Some(nix::libc::ENOENT) => io::Error::other(format!("{}; or set limits.pacing = \"htb\"", FQ.missing)),
        _ => e,
    })
}

/// Our root qdisc of that kind, in place of ours of another.
pub(super) fn set_root(
    device: u32,
    qdiscs: &[Qdisc],
    kind: &str,
    add: impl FnOnce(u32) -> io::Result<()>,
) -> io::Result<()> {
    match qdiscs.iter().find(|q| q.ifindex == device && q.is_ours()) {
        Some(ours) if ours.kind == kind => return Ok(()),
        Some(_) => htb::remove_root(device)?,
        None => {
            if let Some(none) = qdiscs.iter().find(|q| q.ifindex == device && q.is_set_to_none()) {
                htb::remove_root_of(device, none.handle)?;
            }
        }
    }
    add(device)
}

/// Only if it is not there like that. One that is below another parent is made anew.
pub(super) fn set(device: u32, have: &[Found], class: &Class) -> io::Result<()> {
    match have.iter().find(|found| found.class.id == class.id) {
        Some(found) if found.class == *class => return Ok(()),
        Some(found) if found.class.parent != class.parent => htb::remove_class(device, class.id)?,
        _ => {}
    }
    htb::set_class(device, class)
}

/// Without an agent: everything of ours on any device.
pub(crate) fn remove_all() -> io::Result<()> {
    let ours = htb::qdiscs()?;
    let pairs: Vec<u32> = Pair::all().filter_map(Pair::ifindex).collect();
    let others = ours.iter().filter(|q| q.is_ours() && !pairs.contains(&q.ifindex));
    others.into_iter().try_for_each(|q| htb::remove_root(q.ifindex))?;
    let links = links()?;
    Pair::all().try_for_each(|pair| pair.remove(&links))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::Interface;

    fn link(name: &str, ifindex: u32, peer: Option<u32>) -> Link {
        Link { name: name.into(), ifindex, peer }
    }

    fn root(ifindex: u32, kind: &str, handle: u32) -> Qdisc {
        Qdisc { ifindex, handle, parent: 0xffff_ffff, kind: kind.into(), limit: 0, options: Vec::new() }
    }

    #[test]
    fn lo_is_never_ours_to_remove_and_gives_way_to_others() {
        assert!(Pair::all().all(|pair| pair != Pair::LOOPBACK));
        assert_eq!([Pair::LOOPBACK.first(), Pair::LOOPBACK.second()], ["lo", "lo"]);
        let lo = |up| Interface { name: "lo".into(), up, loopback: true, ..Interface::default() };
        let why = |up, qdiscs: &[Qdisc]| loopback_obstacle(&Interfaces::from([(1, lo(up))]), qdiscs);
        for free in [
            &[][..],
            &[root(1, "noqueue", 0)],
            &[root(1, "noqueue", 0x70000)],
            &[root(1, "htb", kernel::htb::HANDLE), root(2, "fq", 0x70000)],
        ] {
            assert_eq!(why(true, free), None);
        }
        assert!(why(true, &[root(1, "netem", 0x70000)]).unwrap().starts_with("lo has a root qdisc that somebody set"));
        assert_eq!(why(false, &[]).unwrap(), "lo is not up");
        assert!(loopback_obstacle(&Interfaces::new(), &[]).is_some());
    }

    #[test]
    fn a_pair_gives_way_to_others() {
        let ours = [link("svlimit0", 5, Some(6)), link("svlimit1", 6, Some(5))];
        let of = |links: &[Link], qdiscs: &[Qdisc]| Pair(0).obstacle(links, qdiscs);
        assert_eq!(of(&[], &[]), None);
        assert_eq!(of(&ours, &[root(5, "htb", kernel::htb::HANDLE), root(6, "pfifo", 0x70000)]), None);
        let pfifo = of(&ours, &[root(5, "pfifo", 0x70000)]).unwrap();
        assert!(pfifo.why.contains("pfifo 7:") && pfifo.fq.is_none(), "{pfifo:?}");
        assert_eq!(of(&ours, &[root(5, "fq", 0x70000)]).unwrap().fq, Some(Pair(0)));
        for others in [
            [link("svlimit0", 5, Some(9)), link("x", 9, Some(5))],
            [link("svlimit0", 5, None), link("svlimit1", 6, Some(7))],
            [link("x", 5, Some(6)), link("svlimit1", 6, Some(5))],
        ] {
            let found = of(&others, &[]).unwrap();
            assert!(found.why.contains("svlimit") && found.fq.is_none(), "{found:?}");
            assert!(Pair(0).ends(&others).is_none(), "it is never removed");
        }
    }
}
