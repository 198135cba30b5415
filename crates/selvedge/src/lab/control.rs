//! The control socket of a lab: one request, as a line of JSON, and one answer. A capture's answer is followed by packets.

use super::state::{directory, LabProcess, Record};
use super::LabFailure;
use lab::CapturedFrame;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use units::{BitRate, Time};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Request {
    Status,
    Down,
    Link { link: String, up: bool },
    Set { link: String, rate: Option<BitRate>, delay: Option<Time> },
    Capture { link: String, snap: u32, packets: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    Ok(Value),
    /// The request is at fault.
    Error(String),
}

/// The socket's name in the lab's directory.
pub(super) const CONTROL: &str = "control";

/// Longest line of a request; an answer may be longer.
const MAX_REQUEST: u64 = 16 << 10;
const MAX_ANSWER: u64 = 64 << 20;

/// Asks a lab.
///
/// # Errors
/// No such lab, a lab whose process is gone, or the lab's own error.
pub(super) fn ask(name: &str, request: &Request) -> Result<Value, LabFailure> {
    Ok(open(name, request)?.0)
}

/// As [`ask`]; what follows the answer can be read.
///
/// # Errors
/// As [`ask`].
pub(super) fn open(name: &str, request: &Request) -> Result<(Value, BufReader<UnixStream>), LabFailure> {
    if !Record::read(name)?.process().is_alive() {
        return Err(LabFailure::Dead(name.to_owned()));
    }
    open_unrecorded(name, request)
}

/// As [`ask`], of a lab whose record cannot be read.
///
/// # Errors
/// As [`ask`].
pub(super) fn ask_unrecorded(name: &str, request: &Request) -> Result<Value, LabFailure> {
    Ok(open_unrecorded(name, request)?.0)
}

/// The process that answers on a lab's control socket, whatever the lab's record says.
///
/// # Errors
/// A socket that cannot be reached although there may be a process behind it.
pub(super) fn answering(name: &str) -> Result<Option<LabProcess>, LabFailure> {
    let stream = match UnixStream::connect(directory(name)?.join(CONTROL)) {
        Ok(stream) => stream,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => return Ok(None),
        Err(e) => return Err(LabFailure::io("the lab's control socket")(e)),
    };
    let peer =
        getsockopt(&stream, PeerCredentials).map_err(|e| LabFailure::io("the lab's control socket")(e.into()))?;
    Ok(u32::try_from(peer.pid()).ok().and_then(LabProcess::of))
}

fn open_unrecorded(name: &str, request: &Request) -> Result<(Value, BufReader<UnixStream>), LabFailure> {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof};
    let io = |source: io::Error| match source.kind() {
        // It is just ending: its socket goes before its process.
        ConnectionRefused | ConnectionReset | BrokenPipe | UnexpectedEof | NotFound => {
            LabFailure::Dead(name.to_owned())
        }
        _ => LabFailure::Io { what: "the lab's control socket", source },
    };
    let stream = UnixStream::connect(directory(name)?.join(CONTROL)).map_err(io)?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).map_err(io)?;
    let mut line = serde_json::to_vec(request).map_err(|e| io(e.into()))?;
    line.push(b'\n');
    (&stream).write_all(&line).map_err(io)?;
    let mut reader = BufReader::new(stream);
    let text = read_line(&mut reader, MAX_ANSWER).map_err(io)?;
    match serde_json::from_str(&text).map_err(|e| io(e.into()))? {
        Answer::Ok(value) => Ok((value, reader)),
        Answer::Error(message) => Err(LabFailure::Refused(message)),
    }
}

/// Reads the request of one connection.
///
/// # Errors
/// A line that is none of the requests, as text for the answer.
pub(super) fn receive(stream: &UnixStream) -> Result<Request, String> {
    let mut reader = BufReader::new(stream);
    let text = read_line(&mut reader, MAX_REQUEST).map_err(|e| e.to_string())?;
    serde_json::from_str(&text).map_err(|e| format!("not a request: {e}"))
}

fn read_line(reader: &mut impl BufRead, most: u64) -> io::Result<String> {
    let mut text = String::new();
    reader.take(most).read_line(&mut text)?;
    match text.ends_with('\n') {
        true => Ok(text),
        false if text.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "the line does not end")),
    }
}

pub(super) fn send(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Time in ns, full length, kept length, bytes; numbers in little-endian order.
pub(super) fn send_frame(mut stream: &UnixStream, frame: &CapturedFrame) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(16 + frame.bytes.len());
    bytes.extend(frame.at.as_ns().to_le_bytes());
    bytes.extend(frame.len.to_le_bytes());
    bytes.extend((frame.bytes.len() as u32).to_le_bytes());
    bytes.extend(&frame.bytes);
    stream.write_all(&bytes)
}

/// `None` at the end of the stream.
///
/// # Errors
/// As the stream gives them; a time-out is one.
pub(super) fn read_frame(reader: &mut impl Read) -> io::Result<Option<CapturedFrame>> {
    let mut head = [0; 16];
    match reader.read_exact(&mut head) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let at = u64::from(word(4)) << 32 | u64::from(word(0));
    let kept = word(12) as usize;
    if kept > 1 << 17 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; kept];
    reader.read_exact(&mut bytes)?;
    Ok(Some(CapturedFrame { at: Time::from_ns(at), len: word(8), bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_packets_cross_the_socket() {
        let (a, b) = UnixStream::pair().unwrap();
        let request = Request::Set { link: "leaf1-spine2".into(), rate: None, delay: Some(Time::from_ms(1)) };
        (&a).write_all(format!("{}\n", serde_json::to_string(&request).unwrap()).as_bytes()).unwrap();
        let got = receive(&b).unwrap();
        assert!(matches!(got, Request::Set { delay: Some(d), rate: None, .. } if d == Time::from_ms(1)));
        (&a).write_all(b"{\"verb\":\"dance\"}\n").unwrap();
        assert!(receive(&b).is_err());
        let frame = CapturedFrame { at: Time::from_ns(1 << 40), len: 1514, bytes: vec![7; 80] };
        send_frame(&a, &frame).unwrap();
        drop(a);
        let mut b = BufReader::new(b);
        assert_eq!(read_frame(&mut b).unwrap(), Some(frame));
        assert_eq!(read_frame(&mut b).unwrap(), None);
    }
}
