//! The completion time of a flow alone on an idle path.

use units::{BitRate, Time};

/// Octets that the shortest Ethernet frame occupies on the wire: preamble 8, frame 64, gap 12.
const MIN_WIRE: u64 = 84;

/// The completion time of a lone flow with an unlimited window on an idle path: from the moment the first bit may leave
/// until the last bit has arrived.
///
/// `size` bytes travel as full packets of `payload` bytes and a last one with the rest (one empty packet if `size` is
/// 0); each occupies `overhead` octets more on the wire, at least 84 in all. Every hop of `path` is a link with its rate
/// and delay: it takes a packet once that has arrived in full and its predecessor is sent (store and forward), and
/// delivers it after serialisation and delay. No handshake, no host processing. Serialisation times are rounded up to a
/// picosecond per packet and hop, as [`BitRate::tx_time`] does; nothing else is rounded.
///
/// The time of a reply is this function again, over the way back.
///
/// [`Time::MAX`] if it never completes or leaves the range of time: `payload` or a rate is 0. [`Time::ZERO`] on an empty
/// path.
pub fn ideal_fct(size: u64, payload: u64, overhead: u64, path: &[(BitRate, Time)]) -> Time {
    if payload == 0 || path.iter().any(|(rate, _)| rate.as_bps() == 0) {
        return Time::MAX;
    }
    let packets = size.div_ceil(payload).max(1);
    let wire = |bytes: u64| bytes.saturating_add(overhead).max(MIN_WIRE);
    let (full, last) = (wire(payload), wire(size - (packets - 1) * payload));
    // Of packets 1 to n-1, all alike, the last leaves hop h at (first packet's way to there) + (n-2) x (slowest hop so
    // far). The short packet then starts on hop h either when hop h is free or when it arrives from the hop before.
    let (mut way, mut slowest, mut end) = (0u128, 0u128, 0u128);
    for &(rate, delay) in path {
        let tx = u128::from(rate.tx_time(full).as_ps());
        let tx_last = u128::from(rate.tx_time(last).as_ps());
        way = way.saturating_add(tx);
        slowest = slowest.max(tx);
        let free = if packets > 1 { way.saturating_add(u128::from(packets - 2) * slowest) } else { 0 };
        let delay = u128::from(delay.as_ps());
        end = end.max(free).saturating_add(tx_last + delay);
        way = way.saturating_add(delay);
    }
    u64::try_from(end).map_or(Time::MAX, Time::from_ps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const US: Time = Time::from_us(1);

    #[test]
    fn one_packet_by_hand() {
        let path = [(BitRate::from_gbps(10), US), (BitRate::from_gbps(10), US)];
        // 1,460 + 78 octets at 800 ps each, twice, and two delays.
        assert_eq!(ideal_fct(1460, 1460, 78, &path), Time::from_ps(2 * 1538 * 800 + 2_000_000));
        // One byte is padded to 84 octets.
        assert_eq!(ideal_fct(1, 1460, 78, &path), Time::from_ps(2 * 84 * 800 + 2_000_000));
        assert_eq!(ideal_fct(0, 1460, 78, &path), ideal_fct(1, 1460, 78, &path));
    }

    #[test]
    fn a_train_by_hand() {
        // 3 x 1,460 + 540 bytes over 10, 1 and 10 Gbps. Full packets take 1.2304, 12.304, 1.2304 us; the last, 618
        // octets, 0.4944, 4.944, 0.4944 us. The slow link is busy from 2.2304 (1.2304 and a delay of 1) for
        // 3 x 12.304 + 4.944 = 41.856 us; then a delay of 1, the last packet's 0.4944 and a delay of 1.
        let path = [(BitRate::from_gbps(10), US), (BitRate::from_gbps(1), US), (BitRate::from_gbps(10), US)];
        assert_eq!(
            ideal_fct(3 * 1460 + 540, 1460, 78, &path),
            Time::from_ps(2_230_400 + 41_856_000 + 1_000_000 + 1_494_400)
        );
    }

    /// The last packet may have to wait on a later hop for a full one before it.
    #[test]
    fn a_short_last_packet_waits_behind_a_full_one() {
        let path = [(BitRate::from_gbps(10), Time::ZERO); 2];
        // Two packets, 1,538 and 84 octets: the second reaches hop 2 at 1,622 but hop 2 is busy until 3,076.
        assert_eq!(ideal_fct(1461, 1460, 78, &path), Time::from_ps((3076 + 84) * 800));
    }

    #[test]
    fn impossible_flows_never_complete() {
        assert_eq!(ideal_fct(1, 1460, 78, &[(BitRate::from_bps(0), US)]), Time::MAX);
        assert_eq!(ideal_fct(1, 0, 78, &[(BitRate::from_bps(1), US)]), Time::MAX);
        assert_eq!(ideal_fct(u64::MAX, 1, u64::MAX, &[(BitRate::from_bps(1), Time::MAX); 3]), Time::MAX);
        assert_eq!(ideal_fct(5, 1460, 78, &[]), Time::ZERO);
    }

    /// Packet by packet and hop by hop.
    fn recurrence(size: u64, payload: u64, overhead: u64, path: &[(BitRate, Time)]) -> Time {
        let mut free = vec![Time::ZERO; path.len()];
        let mut left = size;
        let mut arrival;
        loop {
            let bytes = left.min(payload);
            arrival = Time::ZERO;
            for (&(rate, delay), free) in path.iter().zip(&mut free) {
                let sent = arrival.max(*free) + rate.tx_time((bytes + overhead).max(84));
                *free = sent;
                arrival = sent + delay;
            }
            left -= bytes;
            if left == 0 {
                return arrival;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn closed_form_equals_recurrence(
            size in 0u64..30_000, payload in 1u64..1500, overhead in 0u64..100,
            path in prop::collection::vec((1u64..40, 0u64..5_000_000), 1..6),
        ) {
            let path: Vec<_> = path.into_iter()
                .map(|(gbps, delay)| (BitRate::from_gbps(gbps), Time::from_ps(delay))).collect();
            prop_assert_eq!(ideal_fct(size, payload, overhead, &path), recurrence(size, payload, overhead, &path));
        }
    }
}
