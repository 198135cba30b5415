//! Round trips of a lab without load, and how late this machine wakes up.

use super::clock::Clock;
use super::poller::Poller;
use super::setup::Setup;
use port::priority::{prefer_this_thread, Rank};
use topology::HostId;
use units::Time;

/// The shortest round trip without load between two hosts: propagation, one full packet there, one small one back, and
/// the wait of both for their poll.
pub fn idle_rtt(setup: &Setup, src: HostId, dst: HostId) -> Option<Time> {
    let topology = &setup.topology;
    let path = topology.routes(&[]).first_path(topology, src, dst)?;
    let full = u64::from(setup.hosts.mtu) + 38;
    let one_way = path.iter().fold(Time::ZERO, |sum, &l| {
        let link = topology.links[l as usize];
        sum + link.delay * 2 + link.rate.tx_time(full) + link.rate.tx_time(90)
    });
    Some(one_way + setup.hosts.rx_coalesce * 2)
}

/// The smallest of all pairs: between neighbours, if any two hosts share a switch.
pub fn smallest_rtt(setup: &Setup) -> Time {
    let topology = &setup.topology;
    let one = topology.leaves().first().and_then(|&leaf| topology.hosts_of(leaf).next());
    let all = one.map(|_| topology.hosts()).into_iter().flatten();
    // Hosts of one leaf are alike but for their own link, so one partner per host is enough.
    let near = |src: HostId| {
        let beside = topology.hosts_of(topology.leaf_of(src)).find(|&h| h != src);
        let pairs = match beside {
            Some(dst) => vec![dst],
            None => topology.hosts().filter(|&h| h != src).collect(),
        };
        pairs.into_iter().filter_map(|dst| idle_rtt(setup, src, dst)).min()
    };
    all.filter_map(near).min().unwrap_or(Time::ZERO)
}

/// Watching the clock costs a core that the hosts could use, so the loop does it only where waking up late would
/// matter: where it would be more than a fortieth of the round trip.
pub(super) fn spin_for(rtt: Time) -> Time {
    let late = wake_up_lateness();
    if late > rtt / 40 {
        late.min(Time::from_ms(1))
    } else {
        Time::ZERO
    }
}

/// How late this machine wakes a sleeper that is preferred as the lab is, at the ninth of ten tries.
fn wake_up_lateness() -> Time {
    // On a thread of its own, as the caller's is not to be preferred.
    std::thread::spawn(measure_wake_up).join().unwrap_or_default()
}

fn measure_wake_up() -> Time {
    const TRIES: usize = 40;
    prefer_this_thread(Rank::Fabric);
    let clock = Clock::start();
    let Ok(mut poller) = Poller::new(1) else { return Time::ZERO };
    let mut late: Vec<Time> = (0..TRIES)
        .map(|_| {
            let due = clock.now() + Time::from_us(200);
            // Without a descriptor it can only end in time.
            let _ = poller.wait(Time::from_us(200), &mut Vec::new());
            clock.now().saturating_sub(due)
        })
        .collect();
    late.sort_unstable();
    late[TRIES * 9 / 10]
}
