//! RTT probes: 64 bytes and their echo over a connection of their own, as the simulator's beside the bulk traffic.
//!
//! A probe goes out at its time whether or not earlier ones have returned. As TCP carries them, a lost one is not lost
//! but late by its retransmission, and so are those behind it.

use super::clock::Clock;
use super::socket;
use nix::poll::{ppoll, PollFd, PollFlags};
use port::priority::{prefer_this_thread, Rank};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use units::Time;

const BYTES: usize = 64;
/// How often a waiting thread looks whether the run is over.
const LOOK: Time = Time::from_ms(20);

fn wait(fds: &mut [PollFd<'_>], most: Time) -> io::Result<()> {
    let most = Duration::from_nanos(most.min(LOOK).as_ns());
    match ppoll(fds, Some(most.into()), None) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns what it gets, on every connection to this host.
pub(super) fn echo(listener: &TcpListener, preferred: bool, over: &AtomicBool) -> io::Result<()> {
    if preferred {
        prefer_this_thread(Rank::Program);
    }
    let mut peers: Vec<TcpStream> = Vec::new();
    let mut buffer = [0; 64 * BYTES];
    while !over.load(Ordering::Relaxed) {
        let mut fds = vec![PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        fds.extend(peers.iter().map(|peer| PollFd::new(peer.as_fd(), PollFlags::POLLIN)));
        wait(&mut fds, LOOK)?;
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut ready = ready.into_iter();
        let accept = ready.next().unwrap_or(false);
        peers.retain(|peer| {
            if !ready.next().unwrap_or(false) {
                return true;
            }
            match socket::receive(peer, &mut buffer) {
                Ok(Some(0)) | Err(_) => false,
                Ok(Some(n)) => socket::write(peer, &buffer[..n]).is_ok(),
                Ok(None) => true,
            }
        });
        if accept {
            while let Ok((peer, _)) = listener.accept() {
                peer.set_nonblocking(true)?;
                peer.set_nodelay(true)?;
                peers.push(peer);
            }
        }
    }
    Ok(())
}

/// Sends a probe at every multiple of `every` up to `last`. Yields (sent at, RTT) in order, and how many did not return.
pub(super) fn ping(
    to: SocketAddr,
    law: &str,
    clock: Clock,
    every: Time,
    last: Time,
    preferred: bool,
    over: &AtomicBool,
) -> io::Result<(Vec<(Time, Time)>, u64)> {
    if preferred {
        prefer_this_thread(Rank::Program);
    }
    let stream = socket::connecting(None, to, law)?;
    let mut writable = [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)];
    while !over.load(Ordering::Relaxed) && !writable[0].any().unwrap_or(false) {
        wait(&mut writable, LOOK)?;
    }
    let mut next = Time::ZERO;
    let mut waiting: VecDeque<Time> = VecDeque::new();
    let mut back: Vec<(Time, Time)> = Vec::new();
    let (mut received, mut unsent, mut buffer) = (0usize, 0u64, [0u8; 64 * BYTES]);
    while !over.load(Ordering::Relaxed) {
        let now = clock.now();
        if clock.until(next) == Time::ZERO && next <= last {
            let sent = clock.now();
            match socket::write(&stream, &[0; BYTES])? {
                Some(BYTES) => waiting.push_back(sent),
                // The send buffer is full: nothing has come back for long.
                _ => unsent += 1,
            }
            // Probes missed while this thread did not run are not made up for.
            while next <= now {
                next = next.saturating_add(every);
            }
        }
        let idle = if next <= last { clock.until(next) } else { LOOK };
        wait(&mut [PollFd::new(stream.as_fd(), PollFlags::POLLIN)], idle)?;
        match socket::receive(&stream, &mut buffer)? {
            Some(0) => break,
            Some(n) => received += n,
            None => continue,
        }
        let now = clock.now();
        while received >= BYTES {
            received -= BYTES;
            if let Some(sent) = waiting.pop_front() {
                back.push((sent, now.saturating_sub(sent)));
            }
        }
    }
    Ok((back, waiting.len() as u64 + unsent))
}
