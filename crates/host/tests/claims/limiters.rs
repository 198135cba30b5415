//! Rate limits, chapter 4 of He's dissertation.

use super::trace::{traced, windows, Way};
use edge::limiter::Law;
use edge::shape::Class;
use fabric::{Multipath, RandomLoss, SwitchConfig};
use host::experiment::{EdgeConfig, Experiment, HostConfig, Limiter, LimiterClass, Record};
use host::tcp::cc::Algorithm;
use host::workload::{HostMap, Pairs, Pattern, Workload};
use topology::Dumbbell;
use units::{BitRate, Bytes, Time};
use wire::{ecn, tcp};

const RATE: BitRate = BitRate::from_gbps(1);

/// A bulk flow of one host with a NIC of 10 Gbps, over links with this delay.
fn bulk(law: Option<Law>, delay: Time) -> Experiment {
    let topology = Dumbbell {
        pairs: 1,
        host_rate: BitRate::from_gbps(10),
        host_delay: Time::from_us(2),
        bottleneck_rate: BitRate::from_gbps(if law.is_some() { 10 } else { 1 }),
        bottleneck_delay: delay,
    };
    let classes = |law| vec![LimiterClass { to: None, class: Class::fixed(RATE), law }];
    let limiter = law.map(|law| Limiter { hosts: Some(vec![0]), total: None, classes: classes(law) });
    Experiment {
        topology: topology.build().unwrap(),
        switches: SwitchConfig::default(),
        multipath: Multipath::Ecmp,
        loss: RandomLoss::default(),
        failures: Vec::new(),
        reroute_after: Time::from_ms(10),
        hosts: HostConfig { rx_coalesce: Time::from_us(5), ..HostConfig::default() },
        edge: EdgeConfig { limiter, ..EdgeConfig::default() },
        racks: HostMap::uniform(2, 1),
        workloads: vec![Workload::new("long", Pattern::Long { pairs: Pairs::Fixed(vec![(0, 1)]), size: None })],
        duration: Time::from_ms(120),
        drain: Time::ZERO,
        warmup: Time::from_ms(60),
        seed: 1,
        record: Record::default(),
    }
}

/// Section 4.2: what a limiter shapes leaves the host with a smaller peak over its mean than the bursts of a NIC of 10 Gbps whose flow is held
/// to the same rate by a link on the way. Windows of 100 us, of which a segment of 64 KB fills half.
#[test]
fn a_limiter_sends_smoother_than_segmentation_offload_bursts() {
    let peak_over_mean = |law| {
        let e = bulk(law, Time::from_us(20));
        let (_, packets) = traced(&e, 0);
        let out = packets.iter().filter(|(way, _)| *way == Way::Out);
        let sums = windows(out, e.warmup, e.duration, Time::from_us(100), |seen| u64::from(seen.packet.wire_len));
        let mean = sums.iter().sum::<u64>() as f64 / sums.len() as f64;
        assert!((0.9..=1.03).contains(&(mean * 8e4 / RATE.as_bps() as f64)), "{mean} bytes in 100 us");
        sums.into_iter().max().unwrap() as f64 / mean
    };
    let (shaped, unshaped) = (peak_over_mean(Some(Law::None)), peak_over_mean(None));
    println!("peak over mean: {shaped} shaped, {unshaped} not");
    assert!(shaped < unshaped, "{shaped} shaped, {unshaped} not");
}

/// Sections 4.1 and 4.4.1: the strawman's marks are a round trip old when the guest hears of them, less the time in the queue. DEM's are as
/// old as the ACK takes from the edge to the guest (`limited::each_ack_tells_of_the_queue_at_its_own_instant`), whatever the path.
#[test]
fn the_strawmans_marks_are_a_round_trip_old_and_dems_do_not_cross_the_network() {
    for delay in [Time::from_us(20), Time::from_us(250)] {
        // Host links and switches add little to twice the delay of the middle link.
        let round_trip = delay + delay;
        let mut e = bulk(Some(Law::Ecn { k: Bytes(30_000) }), delay);
        e.hosts.tcp.congestion = Algorithm::Dctcp;
        let (_, packets) = traced(&e, 0);
        let (mut marked, mut ages) = (Vec::new(), Vec::new());
        for (way, seen) in &packets {
            let h = &seen.packet.headers;
            match way {
                Way::Out if h.payload > 0 && h.ecn == ecn::CE => marked.push((seen.at, h.end_seq())),
                Way::In if h.has_flags(tcp::ECE) && !h.has_flags(tcp::SYN) => {
                    // The last marked packet that this ACK covers.
                    let covered = marked.iter().rev().find(|(_, end)| h.ack.wrapping_sub(*end) as i32 >= 0);
                    ages.extend(covered.map(|(at, _)| (seen.at - *at).as_us_f64()));
                }
                _ => {}
            }
        }
        ages.sort_by(f64::total_cmp);
        let median = ages[ages.len() / 2];
        println!("over {} us: {median} us, {} echoes", round_trip.as_us_f64(), ages.len());
        assert!(ages.len() > 100 && median >= round_trip.as_us_f64(), "{median} us over {} us", round_trip.as_us_f64());

        // With DEM nothing on the wire is marked: the guest hears of its queue by what its own edge writes.
        let mut e = bulk(Some(Law::Dem { k: Bytes(30_000) }), delay);
        e.hosts.tcp.congestion = Algorithm::Dctcp;
        let (outcome, packets) = traced(&e, 0);
        let told = packets.iter().filter(|(_, seen)| {
            let h = &seen.packet.headers;
            h.ecn == ecn::CE || h.has_flags(tcp::ECE) && !h.has_flags(tcp::SYN)
        });
        assert_eq!(told.count(), 0, "over {} us", round_trip.as_us_f64());
        assert!(outcome.hosts[0].limiter.acks_marked > 0);
    }
}
