//! What happens on a socket: bytes, completions, the end.

use super::{Note, Role, Server, Socket, State, TURN};
use crate::traffic::link::Message;
use crate::traffic::socket::{self, Info, CHUNK};
use host::REPLY_BYTES;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use std::io;
use std::sync::atomic::Ordering;
use units::Time;

impl State<'_, '_> {
    pub(super) fn on_socket(&mut self, slot: usize, generation: u32, events: EpollFlags) {
        let current =
            |s: &Self| s.sockets.get(slot).is_some_and(|s| s.as_ref().is_some_and(|s| s.generation == generation));
        if !current(self) {
            return;
        }
        if events.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR)
        {
            self.pull(slot);
        }
        if current(self) && events.contains(EpollFlags::EPOLLOUT) {
            self.push(slot);
        }
    }

    /// Writes what there is to write, as far as the socket takes it.
    pub(super) fn push(&mut self, slot: usize) {
        let Some(socket) = &mut self.sockets[slot] else { return };
        let to_write = match &mut socket.role {
            Role::Client(client) => &mut client.to_write,
            Role::Server(server) => &mut server.to_write,
        };
        let mut taken = false;
        for _ in 0..TURN {
            if *to_write == 0 {
                break;
            }
            let most = (CHUNK as u64).min(*to_write) as usize;
            match socket::write(&socket.stream, &self.scratch[..most]) {
                Ok(Some(written)) => {
                    *to_write -= written as u64;
                    taken = true;
                }
                Ok(None) => break,
                Err(error) => return self.drop_socket(slot, Some(&error)),
            }
        }
        let wants_out = *to_write > 0;
        if let Role::Client(client) = &mut socket.role {
            if client.fresh && taken && !std::mem::replace(&mut client.connected, true) {
                // So far nothing but SYNs was sent again.
                let syns_sent = 1 + socket::info(&socket.stream).retransmitted;
                self.notes.push(Note::Connected { flow: client.flow, syns_sent, done: true });
            }
            // The server closes when it has it all, and its close is the sign to read the counters.
            if !wants_out && client.fresh && !client.reply && !client.shut {
                client.shut = true;
                let _ = socket.stream.shutdown(std::net::Shutdown::Write);
            }
        }
        if wants_out != socket.wants_out {
            socket.wants_out = wants_out;
            let out = if wants_out { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
            let token = u64::from(socket.generation) << 32 | slot as u64;
            let mut event = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | out, token);
            if let Err(error) = self.epoll.modify(&socket.stream, &mut event) {
                self.drop_socket(slot, Some(&error.into()));
            }
        }
    }

    fn pull(&mut self, slot: usize) {
        for _ in 0..TURN {
            let Some(socket) = &mut self.sockets[slot] else { return };
            match socket::discard(&socket.stream, &mut self.scratch) {
                Ok(None) => return,
                Ok(Some(0)) => {
                    // A flow that was stopped may have been received whole before its end was known.
                    self.settle_server(slot, self.w.clock.now());
                    return self.drop_socket(slot, None);
                }
                Ok(Some(n)) => {
                    let now = self.w.clock.now();
                    match &mut socket.role {
                        Role::Server(server) => {
                            server.tally.received += n as u64;
                            self.settle_server(slot, now);
                        }
                        Role::Client(client) => {
                            client.reply_bytes += n as u64;
                            self.settle_client(slot, now);
                        }
                    }
                }
                Err(error) => return self.drop_socket(slot, Some(&error)),
            }
        }
    }

    fn settle_server(&mut self, slot: usize, now: Time) {
        let Some(Socket { role: Role::Server(server), stream, counted, .. }) = &mut self.sockets[slot] else { return };
        let mut replies = false;
        loop {
            let message = {
                let mut messages = server.link.messages();
                match messages.front() {
                    Some(message) if message.ends <= server.tally.received => messages.pop_front(),
                    _ => None,
                }
            };
            let Some(message) = message else { break };
            let info = socket::info(stream);
            self.notes.push(received(server, &message, info.since(*counted)));
            *counted = info;
            if message.reply {
                server.to_write += REPLY_BYTES;
                replies = true;
            } else {
                self.notes.push(Note::Finished { flow: message.flow, at: now });
                self.w.shared.settled.fetch_add(u64::from(message.bounded), Ordering::Relaxed);
                if message.tell {
                    let _ = self.w.completed.send((now, message.flow));
                }
            }
        }
        if replies {
            self.push(slot);
        }
    }

    fn settle_client(&mut self, slot: usize, now: Time) {
        let Some(Socket { role: Role::Client(client), stream, counted, .. }) = &mut self.sockets[slot] else { return };
        while client.reply_bytes >= REPLY_BYTES {
            client.reply_bytes -= REPLY_BYTES;
            let Some((flow, tell)) = client.replies.pop_front() else { break };
            let info = socket::info(stream);
            self.notes.push(Note::Sent { flow, info: info.since(*counted) });
            *counted = info;
            self.notes.push(Note::Finished { flow, at: now });
            self.w.shared.settled.fetch_add(1, Ordering::Relaxed);
            if tell {
                let _ = self.w.completed.send((now, flow));
            }
        }
        if client.fresh && client.reply && client.replies.is_empty() {
            self.remove(slot);
        }
    }

    fn remove(&mut self, slot: usize) -> Option<Socket> {
        let socket = self.sockets[slot].take()?;
        // Closing takes it out of the epoll set, too.
        self.free.push(slot);
        if let Role::Client(client) = &socket.role {
            if !client.fresh {
                self.persistent.retain(|_, &mut at| at != slot);
            }
        }
        Some(socket)
    }

    /// The other end has closed, or the connection has failed.
    fn drop_socket(&mut self, slot: usize, error: Option<&io::Error>) {
        let Some(socket) = self.remove(slot) else { return };
        self.note_end(&socket);
        let Role::Client(client) = &socket.role else { return };
        if self.w.shared.over.load(Ordering::Relaxed) || self.w.clock.now() >= self.w.times.end {
            // The other host has stopped a moment earlier.
            return;
        }
        // Only the client's end tells, as both fail together.
        if let Some(error) = error {
            let open: Vec<Message> = client.link.messages().iter().copied().collect();
            for message in open {
                self.fail(message.flow, message.bounded, error);
            }
        }
    }

    /// What is to be told of a connection when it is over.
    fn note_end(&mut self, socket: &Socket) {
        let info = socket::info(&socket.stream).since(socket.counted);
        match &socket.role {
            Role::Client(client) => {
                if client.fresh && !client.connected {
                    let syns_sent = 1 + info.retransmitted;
                    self.notes.push(Note::Connected { flow: client.flow, syns_sent, done: false });
                }
                if !(client.fresh && client.reply && client.replies.is_empty()) {
                    self.notes.push(Note::Sent { flow: client.flow, info });
                }
            }
            Role::Server(server) => {
                let open: Vec<Message> = server.link.messages().iter().copied().collect();
                for (i, message) in open.iter().enumerate() {
                    // Of several under way the first gets what was counted.
                    let info = if i == 0 { info } else { Info::default() };
                    self.notes.push(received(server, message, info));
                    if message.ends == u64::MAX && !server.tally.series.is_empty() {
                        self.notes.push(Note::Series { flow: message.flow, bytes: server.tally.series.clone() });
                    }
                }
            }
        }
    }

    pub(super) fn fail(&mut self, flow: u32, bounded: bool, error: &io::Error) {
        self.notes.push(Note::Failed { flow, why: error.to_string() });
        self.w.shared.settled.fetch_add(u64::from(bounded), Ordering::Relaxed);
    }

    /// The run is over: takes stock and resets every connection.
    pub(super) fn finish(&mut self) {
        for slot in 0..self.sockets.len() {
            if let Some(socket) = self.remove(slot) {
                self.note_end(&socket);
                socket::abort(socket.stream);
            }
        }
        self.datagrams.note(&mut self.notes);
    }
}

/// What the server has of a message, in all and in the measured part.
fn received(server: &Server, message: &Message, info: Info) -> Note {
    let (bytes, measured) = server.tally.of(message.begins, message.ends);
    Note::Received { flow: message.flow, bytes, measured, info }
}
