//! What tests start in guests' namespaces: their own binary again, in a role.

use super::Fabric;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::OnceLock;
use std::time::Duration;

/// For what a connection stands still at most. A bound, not a measure.
const WAIT: Duration = Duration::from_secs(120);

/// The body of a test `peer_process` that each user has: nothing, unless `SELVEDGE_TEST_ROLE` is "<what> <address> <n>".
pub(crate) fn run() {
    let Ok(role) = std::env::var("SELVEDGE_TEST_ROLE") else { return };
    let words: Vec<&str> = role.split_whitespace().collect();
    let [what, address, n] = words[..] else { panic!("role {role:?}") };
    let n: u64 = n.parse().unwrap();
    match what {
        "tcp-server" => {
            let (mut stream, _) = TcpListener::bind(address).unwrap().accept().unwrap();
            stream.set_read_timeout(Some(WAIT)).unwrap();
            let mut at = 0u64;
            let mut buffer = vec![0; 1 << 18];
            // Of 0 bytes: until the sender has had enough.
            while at < n || n == 0 {
                let got = stream.read(&mut buffer).unwrap();
                if got == 0 && n == 0 {
                    break;
                }
                assert!(got > 0, "closed after {at}");
                check(&buffer[..got], at);
                at += got as u64;
            }
            stream.write_all(b"ok").unwrap();
        }
        "tcp-client" => {
            let mut stream = connect(address);
            let expected_mss: Option<u32> = std::env::var("SELVEDGE_TEST_MSS").ok().map(|mss| mss.parse().unwrap());
            if let Some(expected) = expected_mss {
                let mss = nix::sys::socket::getsockopt(&stream, nix::sys::socket::sockopt::TcpMaxSeg).unwrap();
                assert_eq!(mss, expected, "payload of a packet");
            }
            let until = std::env::var_os("SELVEDGE_TEST_UNTIL").map(std::path::PathBuf::from);
            let mut at = 0u64;
            while at < n || until.as_ref().is_some_and(|until| !until.exists()) {
                let bytes = part(at, if at < n { (n - at).min(1 << 18) as usize } else { 10_000 });
                stream.write_all(bytes).unwrap();
                at += bytes.len() as u64;
                if at > n {
                    std::thread::sleep(Duration::from_millis(2)); // only so that the connection is in use
                }
            }
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = [0; 2];
            stream.set_read_timeout(Some(WAIT)).unwrap();
            stream.read_exact(&mut answer).unwrap();
        }
        "udp-server" | "fragments-server" => {
            let socket = UdpSocket::bind(address).unwrap();
            socket.set_read_timeout(Some(WAIT)).unwrap();
            let mut buffer = [0; 8000];
            // Late answers are asked for again, the last one too.
            let mut last = false;
            loop {
                let (len, from) = match socket.recv_from(&mut buffer) {
                    Ok(received) => received,
                    Err(_) if last => break,
                    Err(e) => panic!("{e}"),
                };
                socket.send_to(&buffer[..len], from).unwrap();
                if !last && buffer[0] == (n - 1) as u8 {
                    last = true;
                    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
                }
            }
        }
        "udp-client" | "fragments-client" => {
            let socket = UdpSocket::bind(if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" }).unwrap();
            socket.connect(address).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            for i in 0..n {
                let message = vec![i as u8; if what == "udp-client" { 700 } else { 4000 }];
                let mut answer = [0; 8000];
                let answered = (0..50).any(|_| {
                    // Refused while the server is not there yet; and what comes may be a late answer to an earlier one.
                    socket.send(&message).is_ok()
                        && std::iter::from_fn(|| socket.recv(&mut answer).ok().map(|len| answer[..len] == message))
                            .any(|same| same)
                });
                assert!(answered, "no answer to message {i}");
            }
        }
        _ => panic!("role {role:?}"),
    }
}

fn connect(address: &str) -> TcpStream {
    for _ in 0..3000 {
        if let Ok(stream) = TcpStream::connect(address) {
            return stream;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no connection to {address}");
}

/// The stream is this again and again. Its length is a prime, so that no segment or flowcell repeats with it; and it is made
/// once, because unoptimised tests fill and compare bytes slowly.
fn block() -> &'static [u8] {
    static BLOCK: OnceLock<Vec<u8>> = OnceLock::new();
    BLOCK.get_or_init(|| (0..1_048_583u32).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect())
}

/// The stream's part at `at`, as far as the block goes and at most `most` bytes.
fn part(at: u64, most: usize) -> &'static [u8] {
    let rest = &block()[(at % block().len() as u64) as usize..];
    &rest[..most.min(rest.len())]
}

fn check(mut buffer: &[u8], mut at: u64) {
    while !buffer.is_empty() {
        let expected = part(at, buffer.len());
        assert!(buffer[..expected.len()] == *expected, "a wrong byte after {at}");
        at += expected.len() as u64;
        buffer = &buffer[expected.len()..];
    }
}

/// Guest 0 sends to guest 1.
pub(crate) fn transfer(fabric: &Fabric, protocol: &str, address: &str, n: u64) {
    let mut server = fabric.spawn(&fabric.guest(1), &format!("{protocol}-server {address} {n}"));
    let client = fabric.spawn(&fabric.guest(0), &format!("{protocol}-client {address} {n}")).wait().unwrap();
    if !client.success() {
        let _ = server.kill();
    }
    assert!(server.wait().unwrap().success() && client.success(), "{protocol} to {address}");
}

/// Guest 0 sends to guest 1 over one connection, at least 20 MB, from before `meanwhile` begins until it has ended.
pub(crate) fn sustained(fabric: &mut Fabric, address: &str, meanwhile: impl FnOnce(&mut Fabric)) {
    let scratch = tempfile::tempdir().unwrap();
    let until = scratch.path().join("until");
    let sent = |fabric: &Fabric| fabric.edges[0].edge.counters().unwrap().get(kernel::state::Counter::OutBytes);
    let before = sent(fabric);
    let mut server = fabric.spawn(&fabric.guest(1), &format!("tcp-server {address} 0"));
    let mut client = fabric.command(&fabric.guest(0), &format!("tcp-client {address} {SUSTAINED}"));
    let mut client = client.env("SELVEDGE_TEST_UNTIL", &until).spawn().expect("the test runs itself");
    let begun = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        sent(fabric) > before + 1_000_000
    });
    assert!(begun, "no data to {address}");
    meanwhile(fabric);
    std::fs::write(&until, "").unwrap();
    let (client, server) = (client.wait().unwrap().success(), server.wait().unwrap().success());
    assert!(client && server, "the connection to {address} broke");
}

/// What [`sustained`] sends at least, bytes.
pub(crate) const SUSTAINED: u64 = 20_000_000;
