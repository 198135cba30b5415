//! FIN and RST.

use super::{config, established, RECOVERIES};
use crate::tcp::cc::Algorithm;
use crate::tcp::tests::link::Fate;
use crate::tcp::{flags, Recovery, Segment, State};
use units::Time;

#[test]
fn a_fin_follows_the_data_even_if_lost() {
    for recovery in RECOVERIES {
        for lose in [false, true] {
            for bytes in [0, 2_500, 10_000] {
                let mut pair = established(config(Algorithm::Cubic, recovery));
                let mut lose = lose;
                pair.tamper(
                    move |_, segment| {
                        if segment.has(flags::FIN) && std::mem::take(&mut lose) {
                            Fate::Drop
                        } else {
                            Fate::Pass
                        }
                    },
                );
                pair.client().write(bytes);
                pair.client().close();
                pair.client().write(1);
                assert!(pair.run(Time::from_secs(10)));
                assert!(pair.client().tx.fin_acked() && pair.server().rx.finished());
                assert_eq!(pair.server().rx.delivered(), bytes);
                assert!(!pair.client().rx.finished(), "the other direction stays open");
            }
        }
    }
}

#[test]
fn a_reset_ends_it() {
    let mut pair = established(config(Algorithm::Cubic, Recovery::Sack));
    pair.client().write(1 << 20);
    pair.run(Time::from_us(200));
    let reset = Segment { flags: flags::RST, ..Segment::default() };
    pair.client().on_segment(Time::from_us(200), &reset);
    assert_eq!(pair.client().state(), State::Closed);
    assert_eq!(pair.client().poll_transmit(Time::from_us(200), u64::MAX), None);
    assert_eq!(pair.client().poll_timeout(), None);
}
