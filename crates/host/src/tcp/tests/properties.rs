//! Whatever the network does, the stream arrives whole.

use super::{config, established, LAWS, RECOVERIES};
use crate::tcp::tests::link::{check, Fate};
use crate::tcp::{Config, EcnMode, Endpoint, Segment};
use proptest::prelude::*;
use units::{BitRate, Time};

/// What happens to one packet in each thousand, and for how long packets are late.
#[derive(Clone, Copy, Debug)]
struct Weather {
    drop: u16,
    late: u16,
    late_us: u16,
    twice: u16,
    mark: u16,
}

fn weather() -> impl Strategy<Value = Weather> {
    (0..200u16, 0..300u16, 1..2000u16, 0..100u16, 0..500u16).prop_map(|(drop, late, late_us, twice, mark)| Weather {
        drop,
        late,
        late_us,
        twice,
        mark,
    })
}

fn options() -> impl Strategy<Value = Config> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (0..LAWS.len(), 0..3usize, flags, 1..20u32, prop_oneof![Just(3_000u64), Just(20_000), Just(6 << 20)]).prop_map(
        |(law, recovery, (tso, timestamps, prr, pacing, adaptive_reordering, tsq), initial_cwnd, rcvbuf)| Config {
            tso,
            timestamps,
            prr,
            pacing,
            adaptive_reordering,
            initial_cwnd,
            rcvbuf,
            tsq_limit: tsq.then_some(128 << 10),
            ecn: EcnMode::Request,
            rto_min: Time::from_ms(5),
            // Back-off would make bad weather last for hours.
            rto_max: Time::from_secs(2),
            ..config(LAWS[law], RECOVERIES[recovery])
        },
    )
}

/// A segment that may be anything, with numbers near enough to those in use to do harm.
fn hostile() -> impl Strategy<Value = Segment> {
    let near = || prop_oneof![4 => (0..60_000u32).prop_map(|n| 0xffff_0000u32.wrapping_add(n)), 1 => any::<u32>()];
    let blocks = proptest::array::uniform3((near(), near()));
    let sizes = (prop_oneof![Just(0u32), 1..70_000u32], any::<u16>(), any::<u16>());
    (near(), near(), sizes, any::<u8>(), 0..4u8, blocks, any::<u8>(), any::<bool>(), any::<u32>()).prop_map(
        |(seq, ack, (len, window, segment_size), flags, ecn, sack, n_sack, has_ts, ts)| Segment {
            seq,
            ack,
            len,
            // RST ends everything: rarely.
            flags: if n_sack > 10 { flags & !4 } else { flags },
            ecn,
            window,
            segment_size,
            mss: segment_size,
            wscale: Some(n_sack),
            sack_permitted: has_ts,
            sack,
            n_sack,
            has_ts,
            tsval: ts,
            tsecr: ts ^ len,
            ..Segment::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_and_in_order(
        config in options(), weather in weather(), seed: u64, bytes in 1..300_000u64, back in 0..20_000u64, whole: bool,
    ) {
        let mut pair = established(config);
        let mut state = seed | 1;
        pair.rate = BitRate::from_mbps(500);
        pair.whole = whole;
        pair.queue = 100_000;
        let mut packets = 0u64;
        pair.tamper(move |_, _| {
            // xorshift64*
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            let draw = (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40) as u16 % 1000;
            packets += 1;
            // Bad weather ends, so that every run does.
            if packets > 3000 {
                return Fate::Pass;
            }
            let Weather { drop, late, late_us, twice, mark } = weather;
            match draw {
                d if d < drop => Fate::Drop,
                d if d < drop + late => Fate::Late(Time::from_us(late_us.into())),
                d if d < drop + late + twice => Fate::Twice,
                d if d < drop + late + twice + mark => Fate::Mark,
                _ => Fate::Pass,
            }
        });
        pair.client().write(bytes);
        pair.server().write(back);
        pair.client().close();
        pair.server().close();
        prop_assert!(pair.run(Time::from_secs(3000)), "{:?}", pair.ends);
        prop_assert_eq!(pair.ends[1].rx.delivered(), bytes);
        prop_assert_eq!(pair.ends[0].rx.delivered(), back);
        prop_assert!(pair.ends.iter().all(|end| end.rx.finished() && end.tx.fin_acked()));
        prop_assert!(pair.ends.iter().all(|end| end.tx.in_flight() == 0 && end.rx.out_of_order_bytes() == 0));
    }

    #[test]
    fn no_segment_upsets_an_endpoint(
        config in options(), segments in proptest::collection::vec((hostile(), 0..3_000u64, any::<bool>()), 1..80),
        kind in 0..3u8,
    ) {
        let config = std::sync::Arc::new(Config { auto_read: kind > 0, ..config });
        let mut end = match kind {
            0 => Endpoint::listen(config, 0xffff_1000),
            1 => Endpoint::connect(config, 0xffff_1000),
            _ => Endpoint::established(config.clone(), &config, 0xffff_1000, 0xffff_2000, true),
        };
        end.write(u64::MAX);
        let mut now = Time::from_ms(1);
        for (segment, wait_us, read) in segments {
            for _ in 0..100 {
                if end.poll_transmit(now, 100_000).is_none() {
                    break;
                }
            }
            end.on_segment(now, &segment);
            check(&end);
            now += Time::from_us(wait_us);
            if end.poll_timeout().is_some_and(|at| at <= now) {
                end.handle_timeout(now);
                check(&end);
            }
            if read {
                end.read(10_000);
            }
            end.on_nic_tx_done(wait_us * 100);
        }
    }
}
