//! tcpdump on an interface, and what of its file the tests look at.
//!
//! How fast tcpdump is does not matter: the kernel keeps what is captured in a ring that holds a whole transfer, and tcpdump
//! sleeps until that is over.

use crate::rig::{has, signal, until, Rig, Running};
use std::io::{BufRead, BufReader};
use std::path::Path;

/// One encapsulated TCP segment over outer and inner IPv4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Outer UDP source port.
    pub(crate) label: u16,
    /// Flowcell number modulo 256, if the header says that it has one.
    pub(crate) cell: Option<u8>,
    /// Inner source and destination ports.
    pub(crate) ports: (u16, u16),
    /// Inner TCP payload in bytes.
    pub(crate) payload: u32,
    /// On the wire, outer headers included.
    pub(crate) len: u32,
}

pub(crate) struct Capture {
    tcpdump: Running,
    /// Held: without a reader tcpdump would stumble over its last words.
    stderr: BufReader<std::process::ChildStderr>,
    file: tempfile::TempPath,
}

impl Capture {
    /// What leaves by an interface to VXLAN's port; `None`, with the reason printed, without tcpdump.
    pub(crate) fn start(rig: &Rig, node: &str, interface: &str) -> Option<Capture> {
        if !has("tcpdump") {
            return None;
        }
        let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        // In immediate mode, or what waits in an unfinished block is lost at the end.
        let mut arguments = vec!["--immediate-mode", "-i", interface, "-Q", "out", "-s", "160", "-B", "65536", "-U"];
        arguments.extend(["-Z", "root", "-w"]);
        arguments.push(file.to_str().unwrap());
        arguments.extend(["udp", "dst", "port", "4789"]);
        let mut tcpdump = rig.spawn(node, "tcpdump", &arguments);
        let mut stderr = BufReader::new(tcpdump.child().stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "tcpdump does not listen");
        }
        signal("STOP", tcpdump.pid());
        Some(Capture { tcpdump, stderr, file })
    }

    /// Inner TCP segments to a port, in the order in which they left, once they carry `payload` bytes.
    pub(crate) fn finish(mut self, port: u16, payload: u64) -> Vec<Frame> {
        signal("CONT", self.tcpdump.pid());
        let frames = |file: &Path| -> Vec<Frame> {
            parse(&std::fs::read(file).unwrap()).into_iter().filter(|frame| frame.ports.1 == port).collect()
        };
        until("the capture has all of it", || {
            frames(&self.file).iter().map(|frame| u64::from(frame.payload)).sum::<u64>() >= payload
        });
        signal("INT", self.tcpdump.pid());
        let mut said = String::new();
        while self.stderr.read_line(&mut said).unwrap() > 0 {}
        assert!(self.tcpdump.child().wait().unwrap().success(), "{said}");
        assert!(said.contains("0 packets dropped by kernel"), "{said}");
        frames(&self.file)
    }
}

/// The pcap format of tcpdump's manual: 24 bytes of header, then records of 16 bytes and the frame. The last record may not be
/// whole yet.
fn parse(pcap: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut rest = pcap.get(24..).unwrap_or_default();
    while rest.len() >= 16 {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        let (kept, len) = (word(8) as usize, word(12));
        let Some(record) = rest.get(16..16 + kept) else { break };
        frames.extend(frame(record, len));
        rest = &rest[16 + kept..];
    }
    frames
}

fn frame(bytes: &[u8], len: u32) -> Option<Frame> {
    const UDP: usize = 14 + 20;
    const VXLAN: usize = UDP + 8;
    const INNER_IP: usize = VXLAN + 8 + 14;
    let be16 = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let inner_is_tcp = bytes.get(INNER_IP)? >> 4 == 4 && *bytes.get(INNER_IP + 9)? == 6;
    if !inner_is_tcp {
        return None;
    }
    let tcp = INNER_IP + usize::from(bytes[INNER_IP] & 15) * 4;
    let tcp_header = usize::from(*bytes.get(tcp + 12)? >> 4) * 4;
    // The length fields of whole segments are right too: they are under 64 KB.
    let total = usize::from(be16(INNER_IP + 2)?);
    let flags = bytes[VXLAN + 1];
    Some(Frame {
        label: be16(UDP)?,
        cell: (flags & 0b1000 != 0).then_some(bytes[VXLAN + 7]),
        ports: (be16(tcp)?, be16(tcp + 2)?),
        payload: (total + INNER_IP).checked_sub(tcp + tcp_header)? as u32,
        len,
    })
}
