//! What waits in the queues of ports that have moved to another network.

use super::limited::Limited;
use super::qdiscs::add_fq;
use super::wanted::Wanted;
use crate::rows::Rows;
use kernel::htb;
use kernel::state::limiter::{Limiter, LimiterKey};
use kernel::state::{Plain, Port};
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// Ports whose row changes their network.
pub(crate) fn moved(have: &Rows, want: &Rows) -> BTreeSet<u32> {
    let network = |row: &[u8]| Port::from_bytes(row).map(|port| port.vni);
    let moved = want.iter().filter(|(key, row)| have.get(*key).is_some_and(|old| network(old) != network(row)));
    moved.filter_map(|(key, _)| u32::from_bytes(key)).collect()
}

/// How long to wait for what cannot be dropped.
const PATIENCE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(5);

/// Drops what waits there, both ways. What waits in a queue that somebody else has put into a class is not ours to drop, and what a
/// guest has sent is with everybody's where departure times hold it: that leaves by itself, and this waits for it, for [`PATIENCE`] at
/// most. `live`: the row as the data path has it.
pub(crate) fn empty(
    limited: &Limited,
    moved: &BTreeSet<u32>,
    live: impl Fn(&LimiterKey) -> Option<Limiter>,
) -> io::Result<()> {
    let here: Vec<(&Wanted, Limiter)> = limited
        .wanted
        .iter()
        .filter(|w| moved.contains(&w.key.ifindex))
        .filter_map(|w| Some((w, limited.rows.get(w.key.as_bytes()).and_then(|row| Limiter::from_bytes(row))?)))
        .collect();
    if here.is_empty() {
        return Ok(());
    }
    let qdiscs = htb::qdiscs()?;
    let (mut others, mut scheduled) = (Vec::new(), Vec::new());
    for (w, row) in here {
        for class in [row.class, row.first].into_iter().filter(|class| *class != 0) {
            if is_anothers(row.device, class, &qdiscs) {
                others.extend(
                    found(row.device, class)?.map(|now| (row.device, now.class.id, now.sent_bytes + now.backlog)),
                );
            } else {
                htb::empty_queue(row.device, class, w.queue_bytes())?;
            }
        }
        if row.class == 0 && row.device == w.key.ifindex {
            htb::remove_root(row.device)?;
            add_fq(row.device)?;
        } else if row.class == 0 {
            scheduled.extend(live(&w.key).map(|row| row.next_ns));
        }
    }
    // Guests go on sending: what counts is what waited when this began.
    let (end, last) = (Instant::now() + PATIENCE, scheduled.into_iter().max().unwrap_or(0));
    while kernel::monotonic_ns() < last || wait_there(&others)? {
        if Instant::now() >= end {
            return Err(io::Error::other(format!("it was not sent within {} s", PATIENCE.as_secs())));
        }
        std::thread::sleep(STEP);
    }
    Ok(())
}

fn is_anothers(device: u32, class: u32, qdiscs: &[htb::Qdisc]) -> bool {
    let there = qdiscs.iter().find(|q| q.ifindex == device && q.parent == class && q.handle != 0);
    !there.is_none_or(htb::Qdisc::is_our_queue)
}

fn found(device: u32, class: u32) -> io::Result<Option<htb::Found>> {
    Ok(htb::classes(device)?.into_iter().find(|found| found.class.id == class))
}

/// Whether one of these classes has not sent so many bytes yet, and has something to send.
fn wait_there(classes: &[(u32, u32, u64)]) -> io::Result<bool> {
    for &(device, class, until) in classes {
        if found(device, class)?.is_some_and(|now| now.segments > 0 && now.sent_bytes < until) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_network_is_a_move() {
        let row = |vni, mtu| Port { vni, mtu, ..Port::default() }.as_bytes().to_vec();
        let key = |ifindex: u32| ifindex.as_bytes().to_vec();
        let have = Rows::from([(key(1), row(7, 0)), (key(2), row(7, 0)), (key(3), row(7, 0))]);
        let want = Rows::from([(key(1), row(8, 0)), (key(2), row(7, 1500)), (key(4), row(8, 0))]);
        assert_eq!(moved(&have, &want), BTreeSet::from([1]));
    }
}
