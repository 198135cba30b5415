//! Guests that are not containers with ordinary TCP: a virtual machine behind a TAP device, SCTP, segments of more than 64 KB and of UFO.

use super::world::{eventually, ip, World, LEARNING, NAMED};
use nix::libc;
use nix::sched::{setns, CloneFlags};
use nix::sys::socket::{recv, send, socket, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};
use port::{Offload, Pool, Port, Tap, VnetHeader};
use std::io::{IoSlice, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const FRAMES: u32 = 64;

/// What `make` opens in a namespace works everywhere.
pub(super) fn opened_in<T: Send>(namespace: &str, make: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            setns(std::fs::File::open(format!("/run/netns/{namespace}")).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
            make()
        });
        thread.join().unwrap()
    })
}

fn tap(namespace: &str, name: &str) -> Tap {
    opened_in(namespace, || Tap::open(name, Offload::Segmentation).unwrap())
}

/// What a hypervisor does between its guest's network card and the host's TAP device. Notes the longest frame.
fn pump(from: &mut Tap, to: &mut Tap, pool: &mut Pool, longest: &AtomicUsize) -> bool {
    let mut frames = Vec::new();
    let _ = from.receive(pool, &mut frames, FRAMES as usize);
    for &id in &frames {
        longest.fetch_max(pool.frame(id).len(), Ordering::Relaxed);
        // A frame for which there is no room is lost, as on a full ring.
        let _ = to.send(&pool.header(id), &[IoSlice::new(pool.frame(id))]);
        pool.release(id);
    }
    !frames.is_empty()
}

/// Guest 0 of the world as a virtual machine: TCP of a real kernel behind two TAP devices, with checksums and segmentation
/// left to the host, as virtio does.
#[test]
fn a_virtual_machine_behind_a_tap_device_sends_whole_segments_and_gets_packets() {
    let Some(mut world) = World::new("vm") else { return };
    let (host, guest) = (world.host(0), world.guest(0));
    ip(&format!("-n {host} link del lxc0"));
    let (mut outside, mut inside) = (tap(&host, "lxc0"), tap(&guest, "eth0"));
    for command in [
        format!("-n {guest} addr add 10.7.1.2/16 dev eth0"),
        format!("-n {guest} addr add fd07:1::2/16 dev eth0 nodad"),
        format!("-n {guest} link set eth0 up"),
        format!("-n {host} link set lxc0 up"),
    ] {
        ip(&command);
    }
    ip(&format!("-n {guest} link set eth0 mtu 1450"));
    world.configure(0, &format!("{NAMED}\nmtu = 1450"));
    world.configure(1, LEARNING);
    let [agent, _] = world.start_both();
    let problem = "port lxc0: the MAC address of its guest is unknown";
    assert!(world.ask(0, &["status"])["problems"].to_string().contains(problem), "{}", world.ask(0, &["status"]));
    world.configure(0, &format!("{NAMED}\nmtu = 1450\nmac = \"02:00:00:00:07:01\""));
    ip(&format!("-n {guest} link set eth0 address 02:00:00:00:07:01"));
    world.signal(agent, "HUP");
    eventually("the address is known", || !world.ask(0, &["status"])["problems"].to_string().contains(problem));
    let ended = AtomicBool::new(false);
    let longest = [AtomicUsize::new(0), AtomicUsize::new(0)];
    std::thread::scope(|scope| {
        let machine = scope.spawn(|| {
            let mut pool = Pool::new(FRAMES);
            while !ended.load(Ordering::Relaxed) {
                let out = pump(&mut inside, &mut outside, &mut pool, &longest[0]);
                if !(pump(&mut outside, &mut inside, &mut pool, &longest[1]) || out) {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        });
        let exchanged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for (own, other) in [("10.7.1.2", "10.7.2.2"), ("fd07:1::2", "fd07:2::2")] {
                eventually("guest 1 is learned", || {
                    let said = world.exec(&world.guest(1), &format!("ping -c 1 -W 1 {own}"));
                    said.status.success() && world.ping(other, 1)
                });
            }
            for to in ["10.7.2.2:9000", "[fd07:2::2]:9001"] {
                world.exchange(to, 5_000_000);
            }
        }));
        ended.store(true, Ordering::Relaxed);
        machine.join().unwrap();
        if let Err(panic) = exchanged {
            std::panic::resume_unwind(panic);
        }
    });
    let [sent, received] = longest.map(|n| n.load(Ordering::Relaxed));
    println!("longest frames of the machine: sent {sent} bytes, received {received}");
    assert!(sent > 10_000, "segments leave the machine whole: {sent}");
    // Before a tap device Linux 6.18 cuts what a program took out of a tunnel: a limit of its, which docs/agent.md names.
    assert!(received >= 1400, "{received}");
    assert_eq!(world.counter(0, "drop_error_segments"), 0);
    assert_eq!(world.counter(0, "cut_segments"), 0);
}

/// What the host sends to many on a port comes in there again for its own sockets, without a MAC header. It is not the guest's.
#[test]
fn the_host_hears_what_it_says_to_many_on_a_port() {
    let Some(mut world) = World::new("hh") else { return };
    world.configure(0, NAMED);
    world.configure(1, LEARNING);
    world.start_both();
    let group: std::net::Ipv6Addr = "ff02::4242".parse().unwrap();
    let (socket, to) = opened_in(&world.host(0), || {
        let port = nix::net::if_::if_nametoindex("lxc0").unwrap();
        let socket = UdpSocket::bind("[::]:4242").unwrap();
        socket.join_multicast_v6(&group, port).unwrap();
        (socket, std::net::SocketAddrV6::new(group, 4242, 0, port))
    });
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    for limits in ["", "egress_rate = \"50Mbps\"", "egress_rate = \"50Mbps\"\n[fastlane]"] {
        world.configure(0, &format!("{NAMED}\n{limits}"));
        assert!(world.ctl(0, &["reload"]).status.success(), "{}", world.log(0));
        eventually("it is heard", || {
            // As long as the port's own address is tentative, nothing leaves.
            let _ = socket.send_to(limits.as_bytes(), to);
            let mut heard = [0; 64];
            socket.recv(&mut heard).is_ok_and(|len| &heard[..len] == limits.as_bytes())
        });
    }
    assert_eq!(world.counter(0, "drop_malformed_segments"), 0);
}

/// A one-to-one SCTP socket, for which the standard library's calls do.
fn sctp() -> Option<OwnedFd> {
    // SAFETY: a system call without pointers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, libc::IPPROTO_SCTP) };
    // SAFETY: a new descriptor that nobody else owns.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Of the role "sctp-server" or "sctp-client" of `peer_process`.
pub(crate) fn sctp_peer(server: bool, address: &str, bytes: u64) {
    let address: SocketAddrV4 = address.parse().unwrap();
    let socket = sctp().unwrap();
    let raw = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
        sin_zero: [0; 8],
    };
    let (pointer, len) = (std::ptr::from_ref(&raw).cast(), size_of_val(&raw) as libc::socklen_t);
    if server {
        // SAFETY: the address is as long as said.
        assert_eq!(unsafe { libc::bind(socket.as_raw_fd(), pointer, len) }, 0);
        // SAFETY: a system call without pointers.
        assert_eq!(unsafe { libc::listen(socket.as_raw_fd(), 1) }, 0);
        let (mut stream, _) = TcpListener::from(socket).accept().unwrap();
        stream.set_read_timeout(Some(super::WAIT)).unwrap();
        let (mut buffer, mut at) = (vec![0; 1 << 16], 0u64);
        while at < bytes {
            let n = stream.read(&mut buffer).unwrap();
            assert!(
                n > 0 && buffer[..n].iter().enumerate().all(|(i, b)| *b == ((at + i as u64) % 251) as u8),
                "after {at}"
            );
            at += n as u64;
        }
        stream.write_all(&at.to_be_bytes()).unwrap();
        let _ = stream.read(&mut buffer); // until the client has the answer
        return;
    }
    let connected = (0..100).any(|_| {
        // SAFETY: the address is as long as said.
        let done = unsafe { libc::connect(socket.as_raw_fd(), pointer, len) } == 0;
        if !done {
            std::thread::sleep(Duration::from_millis(100));
        }
        done
    });
    assert!(connected, "{}", std::io::Error::last_os_error());
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(super::WAIT)).unwrap();
    let mut at = 0u64;
    while at < bytes {
        let message: Vec<u8> = (at..bytes.min(at + 16_000)).map(|i| (i % 251) as u8).collect();
        stream.write_all(&message).unwrap();
        at += message.len() as u64;
    }
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(u64::from_be_bytes(answer), bytes);
}

/// Linux hands SCTP to a device in bursts of packets with a checksum of their own.
#[test]
fn sctp_passes_between_guests() {
    let Some(mut world) = World::new("sc") else { return };
    if sctp().is_none() {
        eprintln!("skipped: this kernel has no SCTP");
        return;
    }
    world.configure_both();
    world.start_both();
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    for (from, to, address) in [(0, 1, "10.7.2.2:9000"), (1, 0, "10.7.1.2:9000")] {
        let mut server = world.spawn(&world.guest(to), &format!("sctp-server {address} 2000000"));
        let sent = world.spawn(&world.guest(from), &format!("sctp-client {address} 2000000")).wait().unwrap().success();
        if !sent {
            let _ = server.kill();
        }
        assert!(server.wait().unwrap().success() && sent, "{address}");
    }
    println!("segments cut: {} and {}", world.counter(0, "cut_segments"), world.counter(1, "cut_segments"));
    assert_eq!(world.counter(0, "drop_error_segments") + world.counter(1, "drop_error_segments"), 0);
}

/// Lets Linux make IPv4 segments of up to `bytes` for a device, which `ip` cannot say before its version 6.3. False: the kernel cannot.
fn allow_ipv4_segments(namespace: &str, device: &str, bytes: u32) -> bool {
    const GSO_IPV4_MAX_SIZE: u16 = 63;
    let said = opened_in(namespace, || {
        let index = nix::net::if_::if_nametoindex(device)?;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
        let words: Vec<u8> = [index, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let message = [
            &40u32.to_ne_bytes()[..],
            &libc::RTM_NEWLINK.to_ne_bytes(),
            &((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes(),
            &[0; 8 + 4], // sequence, port; the family and type of the link
            &words,
            &8u16.to_ne_bytes(),
            &GSO_IPV4_MAX_SIZE.to_ne_bytes(),
            &bytes.to_ne_bytes(),
        ]
        .concat();
        send(socket.as_raw_fd(), &message, MsgFlags::empty())?;
        let mut answer = [0; 64];
        let len = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        Ok::<bool, nix::Error>(len >= 20 && answer[16..20] == [0; 4])
    });
    said.unwrap_or(false)
}

/// Linux makes segments of more than 64 KB where a device allows it (BIG TCP). No tunnel's length field holds them.
#[test]
fn segments_of_more_than_64_kb_are_cut_and_arrive_whole() {
    let Some(mut world) = World::new("bt") else { return };
    world.configure_both();
    world.start_both();
    let guest = world.guest(0);
    for device in [(&guest, "eth0"), (&world.host(0), "lxc0")] {
        if !world.exec(device.0, &format!("ip link set {} gso_max_size 180000", device.1)).status.success() {
            eprintln!("skipped: this kernel makes no segments of more than 64 KB");
            return;
        }
    }
    let mut families = vec![("fd07:1::2", "fd07:2::2")];
    if allow_ipv4_segments(&guest, "eth0", 180_000) && allow_ipv4_segments(&world.host(0), "lxc0", 180_000) {
        families.push(("10.7.1.2", "10.7.2.2"));
    } else {
        eprintln!("skipped: IPv4: this kernel makes no such segments of it");
    }
    for (own, other) in families {
        eventually("guest 1 is learned", || {
            let said = world.exec(&world.guest(1), &format!("ping -c 1 -W 1 {own}"));
            said.status.success() && world.ping(other, 1)
        });
        let before = world.counter(0, "cut_segments");
        // A busy machine paces a connection to small segments at times.
        let cut = (0..5).any(|n| {
            let to = std::net::SocketAddr::new(other.parse().unwrap(), 9100 + n);
            world.transfer(&to.to_string(), 50_000_000, |_| {});
            world.counter(0, "cut_segments") > before
        });
        assert_eq!(world.counter(0, "drop_malformed_segments"), 0, "{other}");
        assert_eq!(world.counter(0, "drop_error_segments") + world.counter(1, "drop_error_segments"), 0, "{other}");
        if !cut {
            eprintln!("skipped: {other}: this machine was too busy for segments of more than 64 KB");
        }
    }
}

/// A virtual machine that leaves the fragmentation of a datagram to its host (VIRTIO_NET_HDR_GSO_UDP).
#[test]
fn a_datagram_that_the_host_is_to_fragment_arrives() {
    const PAYLOAD: usize = 4000;
    let Some(mut world) = World::new("uf") else { return };
    let host = world.host(0);
    ip(&format!("-n {host} link del lxc0"));
    let mut machine = tap(&host, "lxc0");
    ip(&format!("-n {host} link set lxc0 up"));
    world.configure(0, &format!("{NAMED}\nmtu = 1450\nmac = \"02:00:00:00:07:01\""));
    world.configure(1, LEARNING);
    world.start_both();
    eventually("guest 1 speaks", || {
        let _ = world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2");
        world.counter(0, "in_segments") > 0
    });
    let sink = opened_in(&world.guest(1), || UdpSocket::bind("10.7.2.2:9100").unwrap());
    sink.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let packet = wire::Packet {
        saddr: wire::v4([10, 7, 1, 2]),
        daddr: wire::v4([10, 7, 2, 2]),
        family: 4,
        proto: wire::proto::UDP,
        sport: 9,
        dport: 9100,
        payload: PAYLOAD as u32,
        ..wire::Packet::default()
    };
    let mut frame = wire::emit(&packet, &wire::TcpOptions::default()).unwrap();
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 7, 2, 2, 0, 0, 0, 7, 1]);
    frame[14 + 6] &= !0x40; // it may be fragmented
    let word = |at: usize, frame: &[u8]| u32::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let sum = |from: usize, to: usize, frame: &[u8]| -> u32 { (from..to).step_by(2).map(|at| word(at, frame)).sum() };
    let fold = |sum: u32| ((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].fill(0);
    let header = !fold(sum(14, 34, &frame));
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    // Of UDP's checksum the host computes all but the pseudo header.
    let pseudo = fold(sum(26, 34, &frame) + 17 + 8 + PAYLOAD as u32);
    frame[40..42].copy_from_slice(&pseudo.to_be_bytes());
    let header = VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        gso_type: 3,
        hdr_len: 42,
        gso_size: 1400,
        csum_start: 34,
        csum_offset: 6,
    };
    let mut got = [1; PAYLOAD + 1];
    eventually("the datagram arrives", || {
        if let Err(e) = machine.send(&header, &[IoSlice::new(&frame)]) {
            panic!("the device takes no such datagram: {e}");
        }
        sink.recv(&mut got).is_ok_and(|n| n == PAYLOAD && got[..n].iter().all(|b| *b == 0))
    });
    println!("segments cut: {}", world.counter(0, "cut_segments"));
    assert!(world.counter(0, "cut_segments") > 0);
    assert_eq!(world.counter(0, "drop_error_segments") + world.counter(1, "drop_error_segments"), 0);
}
