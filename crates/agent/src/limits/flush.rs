//! What waits in the queues of ports that have moved to another network.

use super::limited::Limited;
use super::qdiscs::add_fq;
use crate::rows::Rows;
use kernel::htb;
use kernel::state::limiter::{Limiter, LimiterKey};
use kernel::state::{Plain, Port, RETURN};
use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

/// Ports whose row changes their network.
pub(crate) fn moved(have: &Rows, want: &Rows) -> BTreeSet<u32> {
    let network = |row: &[u8]| Port::from_bytes(row).map(|port| port.vni);
    let moved = want.iter().filter(|(key, row)| have.get(*key).is_some_and(|old| network(old) != network(row)));
    // What stands for a network in rows of ways back (`RETURN`) is an interface.
    moved.filter_map(|(key, _)| u32::from_bytes(key)).filter(|ifindex| ifindex & RETURN == 0).collect()
}

/// How long to wait for what cannot be dropped: departure times are a second ahead at most, and one segment's time.
const PATIENCE: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(5);

/// Drops what waits there, both ways: by the limits as they are to be, and as they were (`had`, rows as the data path has them), for those may
/// go or move with the port. What waits in a queue that somebody else has put into a class is not ours to drop, and what a guest has sent is
/// with everybody's where departure times hold it: that leaves by itself, in the order of arrival, and this waits for it, for [`PATIENCE`]
/// at most.
///
/// # Errors
/// The first: the rest is emptied all the same.
pub(crate) fn empty(limited: &Limited, moved: &BTreeSet<u32>, had: &Rows) -> io::Result<()> {
    let of_moved = |rows: &Rows| -> Vec<(LimiterKey, Limiter)> {
        let rows = rows.iter().filter_map(|(key, row)| Some((LimiterKey::from_bytes(key)?, Limiter::from_bytes(row)?)));
        rows.filter(|(key, _)| moved.contains(&key.ifindex)).collect()
    };
    let (had, wanted) = (of_moved(had), of_moved(&limited.rows));
    if had.is_empty() && wanted.is_empty() {
        return Ok(());
    }
    let qdiscs = htb::qdiscs()?;
    let classes: BTreeSet<(u32, u32)> = had
        .iter()
        .chain(&wanted)
        .flat_map(|(_, row)| [(row.device, row.class), (row.device, row.first)])
        .filter(|(_, class)| *class != 0)
        .collect();
    let (mut others, mut failed) = (Vec::new(), None);
    for (device, class) in classes {
        if let Err(e) = empty_class(device, class, &qdiscs, &mut others) {
            failed.get_or_insert(e);
        }
    }
    let fq_of_ports: BTreeSet<u32> = wanted
        .iter()
        .filter(|(key, row)| row.class == 0 && row.device == key.ifindex)
        .map(|(_, row)| row.device)
        .collect();
    for device in fq_of_ports {
        if let Err(e) = htb::remove_root(device).and_then(|()| add_fq(device)) {
            failed.get_or_insert(e);
        }
    }
    // Guests go on sending: what counts is what waited when this began.
    let scheduled = had.iter().filter(|(key, row)| row.class == 0 && ![0, key.ifindex].contains(&row.device));
    let last = scheduled.map(|(_, row)| row.next_ns).max().map_or(0, |ns| ns + STEP.as_nanos() as u64);
    let end = kernel::monotonic_ns() + PATIENCE.as_nanos() as u64;
    while kernel::monotonic_ns() < last || wait_there(&others)? {
        if kernel::monotonic_ns() >= end {
            failed.get_or_insert_with(|| io::Error::other(format!("it was not sent within {} s", PATIENCE.as_secs())));
            break;
        }
        std::thread::sleep(STEP);
    }
    failed.map_or(Ok(()), Err)
}

/// `others`: classes with queues of somebody else's, and how many bytes they will have sent when what waits now is gone.
fn empty_class(device: u32, class: u32, qdiscs: &[htb::Qdisc], others: &mut Vec<(u32, u32, u64)>) -> io::Result<()> {
    let there = qdiscs.iter().find(|q| q.ifindex == device && q.parent == class && q.handle != 0);
    match there {
        Some(ours) if ours.is_our_queue() => htb::empty_queue(device, class, ours.limit),
        Some(_) => {
            others.extend(found(device, class)?.map(|now| (device, class, now.sent_bytes + now.backlog)));
            Ok(())
        }
        // It has just been made, or is gone.
        None => Ok(()),
    }
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
        let back = RETURN | 1;
        let have = Rows::from([(key(1), row(7, 0)), (key(2), row(7, 0)), (key(3), row(7, 0)), (key(back), row(5, 0))]);
        let want =
            Rows::from([(key(1), row(8, 0)), (key(2), row(7, 1500)), (key(4), row(8, 0)), (key(back), row(6, 0))]);
        assert_eq!(moved(&have, &want), BTreeSet::from([1]));
    }
}
