//! Two endpoints over a small link in virtual time.

mod closing;
mod ecn;
mod fastlane;
mod link;
mod loss;
mod pfabric;
mod properties;
mod receiving;
mod sizing;

use crate::tcp::cc::Algorithm;
use crate::tcp::{Config, Endpoint, Recovery};
use link::{Fate, Pair};
use std::sync::Arc;
use units::Time;

const RECOVERIES: [Recovery; 3] = [Recovery::NewReno, Recovery::Sack, Recovery::Rack];
const LAWS: [Algorithm; 8] = [
    Algorithm::NewReno,
    Algorithm::Cubic,
    Algorithm::Dctcp,
    Algorithm::Vegas,
    Algorithm::Illinois,
    Algorithm::HighSpeed,
    Algorithm::Lia,
    Algorithm::Olia,
];

fn config(congestion: Algorithm, recovery: Recovery) -> Config {
    Config { mss: 1000, congestion, recovery, ..Config::default() }
}

/// Both ends alike, past the handshake, with sequence numbers about to wrap.
fn established(config: Config) -> Pair {
    let config = Arc::new(config);
    let client = Endpoint::established(config.clone(), &config, 0xffff_f000, 0xffff_ff00, true);
    let server = Endpoint::established(config.clone(), &config, 0xffff_ff00, 0xffff_f000, false);
    Pair::new(client, server)
}

#[test]
fn every_law_and_recovery_transfers_over_a_clean_link() {
    for law in LAWS {
        for recovery in RECOVERIES {
            let config = Arc::new(config(law, recovery));
            let mut pair = Pair::new(Endpoint::connect(config.clone(), 7), Endpoint::listen(config, u32::MAX));
            pair.client().write(3_000_000);
            assert!(pair.run(Time::from_secs(5)), "{law:?} {recovery:?}");
            assert_eq!(pair.server().rx.delivered(), 3_000_000);
            let counters = pair.client().tx.counters;
            assert_eq!((counters.retransmitted_packets, counters.timeouts), (0, 0), "{law:?} {recovery:?}");
            assert_eq!(counters.data_packets, 3000);
        }
    }
}

#[test]
fn a_request_is_answered_on_the_same_connection() {
    let mut pair = established(config(Algorithm::Cubic, Recovery::Sack));
    pair.client().write(100);
    pair.server().write(50_000);
    assert!(pair.run(Time::from_secs(1)));
    assert_eq!((pair.server().rx.delivered(), pair.client().rx.delivered()), (100, 50_000));
}

#[test]
fn state_per_connection_stays_small() {
    let size = std::mem::size_of::<Endpoint>();
    assert!(size <= 1200, "two directions in {size} bytes");
}

#[test]
fn a_syn_is_repeated_with_back_off_and_the_connection_works() {
    let config = Arc::new(config(Algorithm::Cubic, Recovery::Sack));
    let mut pair = Pair::new(Endpoint::connect(config.clone(), 1), Endpoint::listen(config, 2));
    let mut lost = 0;
    pair.tamper(move |_, segment| {
        if segment.has(crate::tcp::flags::SYN) && lost < 3 {
            lost += 1;
            return Fate::Drop;
        }
        Fate::Pass
    });
    pair.client().write(10_000);
    assert!(pair.run(Time::from_secs(20)));
    // SYNs at 0, 1 and 3 s; the third SYN-ACK... the first two SYNs and one SYN-ACK are lost.
    assert_eq!(pair.client().tx.counters.timeouts + pair.server().tx.counters.timeouts, 3);
    assert_eq!(pair.server().rx.delivered(), 10_000);
}
