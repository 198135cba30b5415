//! Properties of virtual congestion control under any guests, peers and network.

use super::super::*;
use super::tests::{report, segment, Guarded, MSS};
use crate::vcc::{Class, Config, Law};
use proptest::prelude::*;
use units::Bytes;
use wire::{ecn, reserved, tcp};

#[derive(Clone, Debug)]
enum Step {
    /// Offset of the sequence number from what is expected, payload, flags.
    Send(i32, u32, u8),
    /// Offset of the ACK from what was sent, window, a report (bytes, marked), flags, reserved bits.
    Hear(i32, u16, Option<(u32, u32)>, u8, u8),
    /// Data for the guest.
    Data(u32, bool),
    /// Microseconds.
    Wait(u32),
    Tick,
    /// The edge loses all that it knew of the flow.
    Forget,
    /// The flow goes through a limiter with this law and backlog from now on, or through none.
    Limit(Option<(u8, u32)>),
}

/// Thresholds of 10 and 30 KB; every backlog with its own count of flows, and some segments go first.
fn limit(law: u8, backlog: u32) -> Limit {
    let (flags, flows) = ((backlog >> 8 & 1) as u8 | (backlog >> 7 & 2) as u8, (backlog >> 9) as u16 % 5);
    let rate = if flows > 0 { backlog >> 3 } else { 0 };
    Limit { backlog, k1: 10_000, k2: 30_000, alpha: 512, beta: 512, law, flags, flows, rate }
}

fn step() -> impl Strategy<Value = Step> {
    let near = prop_oneof![4 => Just(0), 2 => -20_000i32..20_000, 1 => any::<i32>()];
    let flags = prop_oneof![6 => Just(0u8), 1 => any::<u8>()];
    let counters = proptest::option::of((any::<u32>(), any::<u32>()));
    prop_oneof![
        (near.clone(), prop_oneof![Just(0u32), 1..70_000u32], flags.clone()).prop_map(|(o, p, f)| Step::Send(o, p, f)),
        (near, any::<u16>(), counters, flags, any::<u8>()).prop_map(|(o, w, c, f, r)| Step::Hear(o, w, c, f, r)),
        (0..70_000u32, any::<bool>()).prop_map(|(p, ce)| Step::Data(p, ce)),
        (0..100_000u32).prop_map(Step::Wait),
        Just(Step::Tick),
        Just(Step::Forget),
        proptest::option::of((0..5u8, prop_oneof![0..100_000u32, any::<u32>()])).prop_map(Step::Limit),
    ]
}

fn class() -> impl Strategy<Value = Class> {
    let law = prop_oneof![Just(Law::None), Just(Law::Dctcp), Just(Law::NewReno), Just(Law::Cubic)];
    let bytes = |low| proptest::option::of((low..200_000u64).prop_map(Bytes));
    (law, 0..=1024u16, bytes(1), bytes(1), any::<bool>(), any::<bool>())
        .prop_map(|(law, beta, clamp, floor, police, observe)| Class { law, beta, clamp, floor, police, observe })
}

fn run(edge: &mut Guarded, step: &Step) -> Option<(Packet, u32, Packet)> {
    let v = edge.vcc;
    match *step {
        Step::Send(offset, payload, flags) => {
            let before = segment(tcp::ACK ^ flags, v.conn.snd_nxt.wrapping_add_signed(offset), v.conn.rcv_nxt, payload);
            edge.out(before);
            None
        }
        Step::Hear(offset, window, counters, flags, bits) => {
            let mut before = segment(tcp::ACK ^ flags, v.conn.rcv_nxt, v.conn.snd_nxt.wrapping_add_signed(offset), 0);
            before.window = window;
            before.tcp_reserved = bits & reserved::MASK;
            if let Some((total, marked)) = counters {
                before = report(before, total & 0xff_ffff, marked & 0xff_ffff);
            }
            let (result, after) = edge.come(before);
            Some((before, result, after))
        }
        Step::Data(payload, marked) => {
            let mut before = segment(tcp::ACK, v.conn.rcv_nxt, v.conn.snd_una, payload);
            before.ecn = if marked { ecn::CE } else { ecn::ECT0 };
            let (result, after) = edge.hear(before);
            Some((before, result, after))
        }
        Step::Wait(us) => {
            edge.now += Time::from_us(us.into());
            None
        }
        Step::Tick => {
            edge.tick_now();
            None
        }
        Step::Forget => {
            edge.forget();
            None
        }
        Step::Limit(to) => {
            edge.limit = to.map(|(law, backlog)| limit(law, backlog));
            None
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn nothing_breaks_the_bounds(isn: u32, scale in 0u8..15, class in class(),
                                 steps in proptest::collection::vec(step(), 1..120)) {
        let mut edge = Guarded::new(&Config::new(class));
        edge.open(isn, Some(scale));
        let mut used = 0;
        for step in &steps {
            let (una, forgot) = (edge.vcc.conn.snd_una, edge.vcc.conn.flags & 2 == 0 || matches!(step, Step::Forget));
            if let Some((before, result, after)) = run(&mut edge, step) {
                prop_assert!(after.window <= before.window, "a window was raised");
                prop_assert!(after.window > 0 || before.window == 0, "a window was closed");
                if before.tcp_reserved & reserved::EDGE != 0 && result & CONSUMED == 0 && class != Class::OFF {
                    prop_assert_eq!(after.tcp_reserved, 0);
                    prop_assert!(class.observe || after.ecn != ecn::CE);
                }
                if after.window < before.window {
                    // Never below the floor, as far as the field can say it, nor below what lets a segment out.
                    let floor = class.floor.map_or(u64::from(edge.vcc.conn.mss), |floor| floor.get());
                    let least = floor.min(u64::from(edge.vcc.conn.mss)).min(class.clamp.map_or(u64::MAX, |c| c.get().max(u64::from(edge.vcc.conn.mss))));
                    prop_assert!(u64::from(after.window) << scale >= least, "{} << {scale} < {least}", after.window);
                }
            }
            let v = &edge.vcc;
            used = used.max(v.conn.flight);
            // What a guest gets goes by what it had outstanding, whatever its peer says; an ACK adds up to a segment to a floor.
            let floor = class.floor.map_or(0, |floor| floor.get());
            let most = (3 * u64::from(used) + 2 * u64::from(MSS)).max(u64::from(10 * MSS)).max(floor + u64::from(MSS));
            prop_assert!(u64::from(v.law.cwnd) <= most, "a window of {} after {used} in flight", v.law.cwnd);
            prop_assert!(v.law.alpha <= 1024);
            prop_assert!(v.conn.flags == 0 || v.law.cwnd >= 1 && v.law.cwnd <= (1 << 30) + 200_000);
            prop_assert!(v.conn.snd_nxt.wrapping_sub(v.conn.snd_una) <= 1 << 30, "more is outstanding than TCP allows");
            // A SYN, or the answer to it, begins elsewhere.
            let began = [v.conn.iss, v.conn.iss.wrapping_add(1)].contains(&v.conn.snd_una);
            prop_assert!(forgot || began || v.conn.snd_una.wrapping_sub(una) as i32 >= 0);
            prop_assert!(v.law.sum_ce <= v.law.sum_total);
        }
    }

    /// Whatever came before, a connection without marks gets its window back, and alpha falls to zero; with nothing but
    /// marks alpha rises to one and the window falls to the floor.
    #[test]
    fn no_history_sticks(isn: u32, steps in proptest::collection::vec(step(), 0..60), clean: bool) {
        let mut edge = Guarded::new(&Config::default());
        edge.open(isn, Some(9));
        for step in &steps {
            run(&mut edge, step);
        }
        edge.limit = None;
        let (mut total, mut marked) = (edge.vcc.report.fb_total, edge.vcc.report.fb_ce);
        for _ in 0..2000 {
            let v = edge.vcc;
            // The guest sends what it may; the receiver acknowledges all that was ever sent. Without a scale that is 64 KB, however
            // much the law allows: what exceeds it is policed.
            let policed = v.conn.flags & 0x0418 == 0x0418; // both SYNs were seen, and a window
            let granted = (v.conn.granted.wrapping_sub(v.conn.snd_nxt) as i32).max(1) as u32;
            let payload = v.law.cwnd.clamp(1, 4 << 20).min(if policed { granted } else { u32::MAX });
            edge.out(segment(tcp::ACK, v.conn.snd_nxt, v.conn.rcv_nxt, payload));
            total = total.wrapping_add(payload) & 0xff_ffff;
            if !clean {
                marked = marked.wrapping_add(payload) & 0xff_ffff;
            }
            let ack = Packet { window: u16::MAX, ..segment(tcp::ACK, v.conn.rcv_nxt, edge.vcc.conn.snd_nxt, 0) };
            edge.now += Time::from_us(50);
            edge.hear(report(ack, total, marked));
        }
        if clean {
            prop_assert_eq!(edge.vcc.law.alpha, 0);
            let mss = u32::from(edge.vcc.conn.mss); // a flow that was forgotten may have to guess it
            prop_assert!(edge.vcc.law.cwnd > 100 * mss, "{} with segments of {mss}", edge.vcc.law.cwnd);
        } else {
            prop_assert_eq!(edge.vcc.law.alpha, 1024);
            prop_assert_eq!(edge.vcc.law.cwnd, u32::from(edge.vcc.conn.mss));
        }
    }

    /// Whatever came before, a connection whose queue is empty gets the whole window back, and one whose queue stays long
    /// is left with no more than two segments' worth.
    #[test]
    fn no_limiter_sticks(isn: u32, scale in 0u8..15, steps in proptest::collection::vec(step(), 0..60), idle: bool) {
        let mut edge = Guarded::new(&Config::new(Class { law: Law::None, police: false, ..Class::default() }));
        edge.open(isn, Some(scale));
        for step in steps.iter().filter(|step| !matches!(step, Step::Forget)) {
            run(&mut edge, step);
        }
        // Nothing is enforced where the handshake is not known; a strange one may have taken the scale away.
        if edge.vcc.conn.flags & 0x0078 != 0x0078 || edge.vcc.conn.in_scale != scale {
            return Ok(());
        }
        edge.limit = Some(Limit { flags: 0, flows: 0, ..limit(LIMIT_SPRING, if idle { 0 } else { 1 << 20 }) });
        let advertised = 60_000u16.min((400_000u32 >> scale) as u16).max(1);
        let mut seen = Packet::default();
        for _ in 0..2000 {
            let v = edge.vcc;
            let payload = v.bound.spring.clamp(1, 4 << 20);
            edge.out(segment(tcp::ACK, v.conn.snd_nxt, v.conn.rcv_nxt, payload));
            edge.now += Time::from_us(50);
            let ack = segment(tcp::ACK, v.conn.rcv_nxt, edge.vcc.conn.snd_nxt, 0);
            seen = edge.come(Packet { window: advertised, ..ack }).1;
        }
        let mss = u32::from(edge.vcc.conn.mss);
        if idle {
            prop_assert_eq!(seen.window, advertised);
        } else {
            let unit = 1 << scale;
            prop_assert!(u32::from(seen.window) << scale < 2 * mss + 2 * unit, "{} << {scale}", seen.window);
            prop_assert!(u32::from(seen.window) << scale >= mss.min(u32::from(advertised) << scale));
        }
    }

    /// One forged report costs at most one cut, and gains nothing.
    #[test]
    fn a_forged_report_has_a_bounded_effect(total: u32, marked: u32) {
        let mut edge = Guarded::new(&Config::default());
        edge.open(1, Some(7));
        edge.out(segment(tcp::ACK, 1, 1001, 10 * MSS));
        let before = edge.vcc;
        edge.hear(report(segment(tcp::ACK, 1001, 1, 0), total & 0xff_ffff, marked & 0xff_ffff));
        prop_assert!((before.law.cwnd / 2..=before.law.cwnd).contains(&edge.vcc.law.cwnd));
        prop_assert!(edge.vcc.law.alpha == before.law.alpha || edge.vcc.law.alpha + 64 >= before.law.alpha);
    }
}
