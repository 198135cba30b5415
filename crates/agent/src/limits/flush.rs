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

/// Ports whose row changes their network.
pub(crate) fn moved(have: &Rows, want: &Rows) -> BTreeSet<u32> {
    let network = |row: &[u8]| Port::from_bytes(row).map(|port| port.vni);
    let moved = want.iter().filter(|(key, row)| have.get(*key).is_some_and(|old| network(old) != network(row)));
    moved.filter_map(|(key, _)| u32::from_bytes(key)).collect()
}

/// Drops what waits there, both ways. What waits in a queue that somebody else has put into a class stays, and so does what
/// a guest has sent where departure times hold it: that queue is everybody's.
pub(crate) fn flush(limited: &Limited, moved: &BTreeSet<u32>) -> io::Result<()> {
    let here = |key: &LimiterKey| moved.contains(&key.ifindex);
    if !limited.wanted.iter().any(|w| here(&w.key)) {
        return Ok(());
    }
    let qdiscs = htb::qdiscs()?;
    for w in limited.wanted.iter().filter(|w| here(&w.key)) {
        let Some(row) = limited.rows.get(w.key.as_bytes()).and_then(|row| Limiter::from_bytes(row)) else { continue };
        for class in [row.class, row.first].into_iter().filter(|class| *class != 0) {
            empty(w, row.device, class, &qdiscs)?;
        }
        if row.class == 0 && row.device == w.key.ifindex {
            htb::remove_root(row.device)?;
            add_fq(row.device)?;
        }
    }
    Ok(())
}

fn empty(w: &Wanted, device: u32, class: u32, qdiscs: &[htb::Qdisc]) -> io::Result<()> {
    let there = qdiscs.iter().find(|q| q.ifindex == device && q.parent == class && q.handle != 0);
    match there.is_none_or(htb::Qdisc::is_our_queue) {
        true => htb::empty_queue(device, class, w.queue_bytes()),
        false => Ok(()),
    }
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
