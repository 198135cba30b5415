//! Traffic of the tests' own: a transfer whose every byte is checked at both ends, and a session that is never idle for
//! long.

use crate::rig::{until, Rig, PATIENCE};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// A transfer gives up beyond this, in bytes.
const MOST: u64 = 16 << 30;
const BLOCK: usize = 1 << 18;
const PAGE: usize = 4096;

/// The stream: noise, of which each 4 KiB begin with their place, so that none can be lost, moved or repeated unseen. Made
/// once, because unoptimised tests compute slowly.
fn fill(block: &mut [u8], at: u64) {
    static NOISE: OnceLock<Vec<u8>> = OnceLock::new();
    let noise = NOISE.get_or_init(|| {
        let mut z = 0u64;
        let next = std::iter::repeat_with(|| {
            z = (z ^ (z >> 30)).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (z >> 56) as u8
        });
        next.take(BLOCK).collect()
    });
    block.copy_from_slice(&noise[..block.len()]);
    for (place, page) in (at..).step_by(PAGE).zip(block.chunks_mut(PAGE)) {
        let n = page.len().min(8);
        page[..n].copy_from_slice(&place.to_le_bytes()[..n]);
    }
}

/// A transfer from one guest to another, going on in the background until [`Transfer::finish`].
pub(crate) struct Transfer {
    finish: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    sender: JoinHandle<u64>,
    receiver: JoinHandle<u64>,
}

impl Transfer {
    /// At least `bytes` from one node to another, who listens at `address`.
    pub(crate) fn start(rig: &Rig, from: &str, to: &str, address: &str, bytes: u64) -> Transfer {
        let listener = listen(rig, to, address);
        let (finish, received) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let counter = Arc::clone(&received);
        let receiver = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut buffer, mut expected) = (vec![0; BLOCK], vec![0; BLOCK]);
            let mut total = 0;
            loop {
                let n = fill_up(&mut stream, &mut buffer);
                if n == 0 {
                    return total;
                }
                fill(&mut expected[..n], total);
                assert!(buffer[..n] == expected[..n], "a wrong byte after {total}");
                total += n as u64;
                counter.store(total, SeqCst);
            }
        });
        let stream = connect(rig, from, address);
        let done = Arc::clone(&finish);
        let sender = std::thread::spawn(move || {
            let mut stream = stream;
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
            let mut buffer = vec![0; BLOCK];
            let mut total = 0;
            while total < bytes || !done.load(SeqCst) {
                assert!(total < MOST, "nobody finished the transfer");
                fill(&mut buffer, total);
                stream.write_all(&buffer).expect("no reset");
                total += BLOCK as u64;
                if total >= bytes {
                    std::thread::sleep(Duration::from_millis(2)); // only so that the connection is in use
                }
            }
            total
        });
        Transfer { finish, received, sender, receiver }
    }

    /// Waits until so many bytes more have arrived.
    pub(crate) fn advance(&self, bytes: u64) {
        let goal = self.received.load(SeqCst) + bytes;
        until("the transfer goes on", || self.received.load(SeqCst) >= goal || self.receiver.is_finished());
    }

    pub(crate) fn is_going_on(&self) -> bool {
        !self.sender.is_finished() && !self.receiver.is_finished()
    }

    /// Bytes that arrived, which are as many as were sent.
    pub(crate) fn finish(self) -> u64 {
        self.finish.store(true, SeqCst);
        let (sent, received) = (self.sender.join().unwrap(), self.receiver.join().unwrap());
        assert_eq!(sent, received, "bytes that were sent and that arrived");
        received
    }
}

/// Reads until the buffer is full or the stream ends.
fn fill_up(stream: &mut TcpStream, buffer: &mut [u8]) -> usize {
    let mut at = 0;
    while at < buffer.len() {
        match stream.read(&mut buffer[at..]) {
            // A process that was stopped and goes on, with a timeout on the socket.
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            read => match read.expect("no reset") {
                0 => break,
                n => at += n,
            },
        }
    }
    at
}

/// A session in which somebody types now and then: a message every 20 ms, echoed by the other side, over one connection.
pub(crate) struct Session {
    stop: Arc<AtomicBool>,
    echoes: Arc<AtomicU64>,
    client: JoinHandle<()>,
    server: JoinHandle<()>,
}

impl Session {
    pub(crate) fn start(rig: &Rig, from: &str, to: &str, address: &str) -> Session {
        let listener = listen(rig, to, address);
        let (stop, echoes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 64];
            loop {
                match stream.read(&mut buffer).expect("no reset") {
                    0 => return,
                    n => stream.write_all(&buffer[..n]).expect("no reset"),
                }
            }
        });
        let mut stream = connect(rig, from, address);
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (done, count) = (Arc::clone(&stop), Arc::clone(&echoes));
        let client = std::thread::spawn(move || {
            while !done.load(SeqCst) {
                let message = count.load(SeqCst).to_le_bytes();
                let mut echo = [0; 8];
                stream.write_all(&message).expect("no reset");
                stream.read_exact(&mut echo).expect("no reset");
                assert_eq!(echo, message);
                count.fetch_add(1, SeqCst);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Session { stop, echoes, client, server }
    }

    /// Waits for another echo: the session lives.
    pub(crate) fn echo(&self) {
        let before = self.echoes.load(SeqCst);
        until("an echo", || self.echoes.load(SeqCst) > before || self.client.is_finished());
    }

    /// How many echoes there were.
    pub(crate) fn finish(self) -> u64 {
        self.stop.store(true, SeqCst);
        self.client.join().unwrap();
        self.server.join().unwrap();
        self.echoes.load(SeqCst)
    }
}

/// Sockets belong to the namespace that they were made in, whoever uses them later.
pub(crate) fn listen(rig: &Rig, node: &str, address: &str) -> TcpListener {
    rig.namespace(node).run(|| TcpListener::bind(address)).unwrap().unwrap()
}

pub(crate) fn connect(rig: &Rig, node: &str, address: &str) -> TcpStream {
    let mut last = None;
    rig.namespace(node)
        .run(|| {
            // The first packets may meet neighbours that are not resolved yet.
            for _ in 0..20 {
                match TcpStream::connect(address) {
                    Ok(stream) => return Some(stream),
                    Err(e) => last = Some(e),
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            None
        })
        .unwrap()
        .unwrap_or_else(|| panic!("no connection to {address}: {last:?}"))
}
