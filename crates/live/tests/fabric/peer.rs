//! What tests start in guests' namespaces: their own binary again, in a role.

use super::Fabric;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(20);

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
            let mut buffer = vec![0; 1 << 18];
            while at < n || until.as_ref().is_some_and(|until| !until.exists()) {
                let len = if at < n { buffer.len().min((n - at) as usize) } else { 10_000 };
                fill(&mut buffer[..len], at);
                stream.write_all(&buffer[..len]).unwrap();
                at += len as u64;
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
    for _ in 0..200 {
        if let Ok(stream) = TcpStream::connect(address) {
            return stream;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no connection to {address}");
}

/// Byte `i` of the stream.
fn pattern(i: u64) -> u8 {
    (i ^ (i >> 8) ^ (i >> 16)) as u8
}

fn fill(buffer: &mut [u8], at: u64) {
    for (i, byte) in (at..).zip(buffer) {
        *byte = pattern(i);
    }
}

fn check(buffer: &[u8], at: u64) {
    for (i, byte) in (at..).zip(buffer) {
        assert_eq!(*byte, pattern(i), "byte {i} of the stream");
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
