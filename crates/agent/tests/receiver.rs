//! The programs around the receiver's thread, frame by frame: what is diverted, what comes back, and what strangers get.
#![cfg(feature = "libbpf")]

#[path = "../../kernel/tests/fabric/mod.rs"]
mod fabric;

use agent::reordering::{self, ReorderThread};
use fabric::{guest_mac, in_namespace, unavailable, Fabric, VNI};
use kernel::state::{Bounce, Config, Counter, FlowSlotKey, Mark, Plain, Return, CONFIG_REORDER, ETHERTYPE_MARK};
use kernel::Role;
use wire::encap::Encap;
use wire::{proto, tcp, v4, Packet};

#[test]
fn peer_process() {
    fabric::peer::run();
}

const SHOT: u32 = 2;
const REDIRECT: u32 = 7;
const BOUNCE: usize = size_of::<Bounce>();

/// A data segment to guest 0.
fn data(seq: u32, payload: u32) -> Packet {
    Packet {
        saddr: v4([10, 7, 0, 2]),
        daddr: v4([10, 7, 0, 1]),
        family: 4,
        proto: proto::TCP,
        sport: 80,
        dport: 4000,
        seq,
        ack: 9,
        payload,
        tcp_flags: tcp::ACK,
        ..Packet::default()
    }
}

fn inner(packet: &Packet) -> Vec<u8> {
    kernel::emit::frame(packet, guest_mac(1), guest_mac(0)).unwrap()
}

/// As host 1 sends it.
fn arriving(packet: &Packet, cell: u8) -> Vec<u8> {
    let mut encap = Encap::new(VNI, 1);
    (encap.has_cell, encap.cell) = (1, cell);
    let datagram = kernel::emit::encapsulate(&inner(packet), &encap, 50_000, 4789).unwrap();
    let len = (20 + datagram.len() as u16).to_be_bytes();
    let mut frame = vec![0u8; 12];
    frame.extend([8, 0, 0x45, 0, len[0], len[1], 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 168, 99, 2, 192, 168, 99, 1]);
    frame.extend(datagram);
    frame
}

/// A frame on the receiver's device.
fn on_device(ethertype: u16, body: &[u8], rest: &[u8]) -> Vec<u8> {
    [&[0; 12], ethertype.to_be_bytes().as_slice(), body, rest].concat()
}

#[test]
fn what_overtook_is_diverted_and_only_the_thread_can_give_it_back() {
    if let Some(why) = unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let mut fabric = Fabric::new("r");
    fabric.add_edge(0, &Config { flags: CONFIG_REORDER, ..Config::default() }, &[], 1, false, 1024);
    let host = fabric.host(0);
    let edge = &fabric.edges[0];
    let (port, uplink) = (edge.port, edge.uplink);
    let edge = &edge.edge;
    in_namespace(&host, || {
        let count = |counter| edge.counters().unwrap().get(counter);
        let arrive = |packet: &Packet, cell| edge.test_run(Role::Uplink, uplink, &arriving(packet, cell)).unwrap();
        let drain = |frame: &[u8]| edge.test_run(Role::Drain, uplink, frame).unwrap();
        let key = FlowSlotKey { key: data(0, 0).flow_key().reversed(), vni: VNI };
        let diverted = || {
            let receive = edge.flow(&key).unwrap().unwrap().divert;
            receive.bounced.wrapping_sub(receive.drained)
        };
        arrive(&data(1000, 100), 250);
        let (_, frame) = arrive(&data(1300, 100), 251);
        assert_eq!((count(Counter::InAhead), frame), (1, inner(&data(1300, 100))), "nobody would hold it");

        let settings = reordering::settings(agent_api::config::ADAPTIVE);
        let receiver = match ReorderThread::start(edge, settings) {
            Ok(receiver) => receiver,
            Err(e) => return eprintln!("skipped: {e}"),
        };
        // Once it has said that it is alive, and unless it is not heard for long just then; each attempt leaves another gap
        // before a newer flowcell, and follows it up.
        let mut ahead = (2000..).step_by(1000).zip((0..=u8::MAX).cycle());
        let both = (0..2000).find_map(|_| {
            let (seq, cell) = ahead.next()?;
            arrive(&data(seq, 100), cell);
            let (verdict, frame) = arrive(&data(seq + 100, 100), cell);
            std::thread::sleep(std::time::Duration::from_millis(5));
            let bounce = Bounce::from_bytes(&frame[..BOUNCE])?;
            let second = frame[BOUNCE..] == inner(&data(seq + 100, 100)) && bounce.first == 0;
            second.then_some((seq, cell, verdict, frame))
        });
        let (seq, cell, verdict, frame) = both.expect("the thread says that it is alive");
        assert_eq!(verdict, REDIRECT);
        let bounce = Bounce::from_bytes(&frame[..BOUNCE]).unwrap();
        assert_eq!((bounce.port, bounce.vni, bounce.payload, bounce.exp), (port, VNI, 100, seq + 100));
        assert_eq!((bounce.cell as u8, bounce.has_cell, bounce.first), (cell, 1, 0));
        let under_way = diverted();
        assert!(under_way >= 2 && count(Counter::Diversions) >= 1);

        let ethernet: [u8; 14] = frame[BOUNCE..BOUNCE + 14].try_into().unwrap();
        let back = Return { secret: bounce.secret, port, vni: VNI, ethernet, ..Return::default() };
        let rest = &frame[BOUNCE + 14..];
        let (verdict, out) = drain(&on_device(0x0800, back.as_bytes(), rest));
        assert_eq!((verdict, &out[14..]), (REDIRECT, rest));
        assert_eq!((&out[..6], &out[6..14]), (guest_mac(0).as_slice(), &ethernet[6..]));
        assert_eq!(count(Counter::Drained), 1);

        let foreign = [
            Return { secret: bounce.secret ^ 1, ..back },
            Return { port: uplink, ..back },
            Return { vni: VNI + 1, ..back },
        ];
        for (n, wrong) in (1..).zip(foreign) {
            assert_eq!(drain(&on_device(0x0800, wrong.as_bytes(), rest)).0, SHOT);
            assert_eq!(count(Counter::DropForeign), n);
        }
        assert_eq!(drain(&on_device(0x0800, &[], &[0; 26])).0, SHOT, "shorter than what must be there");

        let mark = Mark { secret: bounce.secret, key, number: bounce.number, ..Mark::default() };
        drain(&on_device(ETHERTYPE_MARK, Mark { secret: 7, ..mark }.as_bytes(), &[]));
        drain(&on_device(ETHERTYPE_MARK, Mark { number: bounce.number.wrapping_add(1), ..mark }.as_bytes(), &[]));
        drain(&on_device(ETHERTYPE_MARK, &mark.as_bytes()[..20], &[]));
        assert_eq!(diverted(), under_way);
        drain(&on_device(ETHERTYPE_MARK, mark.as_bytes(), &[]));
        assert_eq!(diverted(), 0);
        let (_, frame) = arrive(&data(seq + 200, 100), cell);
        assert_eq!(frame, inner(&data(seq + 200, 100)), "straight on again");

        drop(receiver);
        let before = count(Counter::Bounced);
        arrive(&data(seq + 2000, 100), cell.wrapping_add(2));
        assert_eq!((count(Counter::Bounced), count(Counter::InAhead) > 1), (before, true), "its device is gone");
        assert!(kernel::ifindex(reordering::NAME).is_err());
    });
}
