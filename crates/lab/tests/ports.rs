//! Ports by themselves: a packet socket on one end of a veth pair, a TAP device. Needs root.

use lab::HostNamespace;
use port::{gso, Offload, PacketSocket, Pool, Port, Tap, VnetHeader};
use std::io::IoSlice;
use std::process::Command;
use std::time::Duration;

/// A namespace in which these commands of `ip` have been carried out; `None` with a printed reason where there can be none.
fn namespace(commands: &[&str]) -> Option<HostNamespace> {
    let namespace = match HostNamespace::new() {
        Ok(namespace) => namespace,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    for command in commands {
        let ran = namespace.enter(|| Command::new("ip").args(command.split_whitespace()).output());
        let output = match ran {
            Ok(output) => output,
            Err(error) => {
                println!("skipped: ip: {error}");
                return None;
            }
        };
        assert!(output.status.success(), "ip {command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Some(namespace)
}

/// Frames that arrive within a second, until there are as many as wanted.
fn receive(port: &mut dyn Port, pool: &mut Pool, wanted: usize, is: impl Fn(&[u8]) -> bool) -> Vec<u32> {
    let (mut all, mut kept) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        port.receive(pool, &mut all, 64).unwrap();
        for id in all.drain(..) {
            if is(pool.frame(id)) {
                kept.push(id);
            } else {
                pool.release(id);
            }
        }
        if kept.len() >= wanted {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    kept
}

/// An Ethernet frame of a type for experiments, with a number and a filling.
fn frame(number: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 12];
    frame.extend([0x88, 0xb5, number]);
    frame.resize(len, number);
    frame
}

fn is_ours(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[0x88, 0xb5])
}

#[test]
fn a_packet_socket_sends_and_receives_whole_segments() {
    let up = ["link add name va type veth peer name vb", "link set va up mtu 9000", "link set vb up mtu 9000"];
    let Some(namespace) = namespace(&up) else { return };
    // Until the kernel has noticed that the other end is up, an interface drops what it is to send.
    let is_up = |name: &str| {
        let output = namespace.enter(|| Command::new("ip").args(["link", "show", name]).output()).unwrap();
        String::from_utf8_lossy(&output.stdout).contains("state UP")
    };
    for _ in 0..500 {
        if is_up("va") && is_up("vb") {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let open = |name: &'static str| namespace.enter(move || PacketSocket::open(name)).unwrap();
    let (mut a, mut b) = (open("va"), open("vb"));
    let mut pool = Pool::new(64);
    for number in 0..40 {
        let bytes = frame(number, 100 + usize::from(number));
        let (head, rest) = bytes.split_at(20);
        assert!(a.send(&VnetHeader::default(), &[IoSlice::new(head), IoSlice::new(rest)]).unwrap());
    }
    let got = receive(&mut b, &mut pool, 40, is_ours);
    assert_eq!(got.len(), 40);
    for (number, &id) in got.iter().enumerate() {
        assert_eq!(pool.frame(id), frame(number as u8, 100 + number));
        pool.release(id);
    }
    assert!(receive(&mut a, &mut pool, 1, is_ours).is_empty(), "what is sent from here is not seen");

    // A TCP segment of 40 KB with a checksum left undone arrives in one piece, still with it.
    let headers = wire::Packet {
        saddr: wire::v4([10, 0, 0, 1]),
        daddr: wire::v4([10, 0, 0, 2]),
        family: 4,
        proto: wire::proto::TCP,
        tcp_flags: wire::tcp::ACK,
        payload: 40_000,
        ..wire::Packet::default()
    };
    let segment = wire::emit(&headers, &wire::TcpOptions::default()).unwrap();
    let header = VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        gso_type: gso::TCPV4,
        hdr_len: 54,
        gso_size: 1460,
        csum_start: 34,
        csum_offset: 16,
    };
    assert!(a.send(&header, &[IoSlice::new(&segment)]).unwrap());
    let got = receive(&mut b, &mut pool, 1, |f| f.len() > 10_000);
    assert_eq!(got.len(), 1);
    assert_eq!(pool.frame(got[0]).len(), segment.len());
    let seen = pool.header(got[0]);
    assert!(seen.needs_csum() && seen.gso_size == 1460 && seen.gso_type == gso::TCPV4, "{seen:?}");
}

#[test]
fn a_full_pool_leaves_frames_with_the_kernel() {
    let Some(namespace) = namespace(&[]) else { return };
    let opened = namespace.enter(|| Tap::open("tap0", Offload::Segmentation));
    let mut tap = match opened {
        Ok(tap) => tap,
        Err(error) => {
            println!("skipped: /dev/net/tun: {error}");
            return;
        }
    };
    assert_ne!(tap.mac(), [0; 6]);
    namespace.enter(|| Command::new("ip").args(["link", "set", "tap0", "up"]).output()).unwrap();
    let mut sender = namespace.enter(|| PacketSocket::open("tap0")).unwrap();
    for number in 0..6 {
        assert!(sender.send(&VnetHeader::default(), &[IoSlice::new(&frame(number, 60))]).unwrap());
    }
    let mut pool = Pool::new(4);
    let mut seen = Vec::new();
    for _ in 0..20 {
        let got = receive(&mut tap, &mut pool, 1, is_ours);
        if got.is_empty() {
            break;
        }
        seen.extend(got.iter().map(|&id| pool.frame(id)[14]));
        got.iter().for_each(|&id| pool.release(id));
        assert_eq!(pool.available(), 4);
    }
    assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
}
