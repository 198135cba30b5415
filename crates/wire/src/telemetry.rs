//! Switches' reports of packets that they dropped: the part of the Telemetry Report Format Specification, version 2.0 (P4.org,
//! 2020-10-08), that FastLane needs. docs/fastlane.md says which part.
//!
//! A datagram has a group header and any number of reports; a report with the bit D may carry the first bytes of the dropped packet.

use crate::frame::ethernet_len;
use crate::{encap, parse, proto, Packet};

/// The only version of the format that is read.
pub const VERSION: u8 = 2;
/// Bytes of the header of a group.
const GROUP: usize = 8;
/// Lengths are in words of this many bytes.
const WORD: usize = 4;
/// Words of an INT report's main contents before its metadata.
const INT_WORDS: usize = 2;
/// Bits of a report's metadata whose values have two words, from the most significant: both time stamps, interfaces of level 2.
const TWO_WORDS: u16 = 0x0e00;
/// The bit of a report's metadata that stands for queue and drop reason.
const DROP_METADATA: u16 = 0x0001;
const ETHERNET: usize = 14;
const TCP: usize = 20;
/// The longest TCP options.
const OPTIONS: usize = 40;

/// Why a datagram is not a group of reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("the datagram ends within a header")]
    Short,
    #[error("version {0} of the format, only 2 is known")]
    Version(u8),
    #[error("a report is longer than the datagram")]
    Length,
    #[error("a report's metadata are longer than the report, or shorter than its bits say")]
    Metadata,
    #[error("a field of type, length and value is longer than its report")]
    Tlv,
}

/// The reports of one datagram; all their lengths are right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group<'a> {
    /// Who reports: a switch, and a part of it.
    pub node: u32,
    /// 6 bits.
    pub hardware: u8,
    /// 22 bits, counted by the reporting part.
    pub sequence: u32,
    reports: &'a [u8],
}

/// One report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report<'a> {
    /// The bit D: the packet was dropped.
    pub dropped: bool,
    /// `None`: the switch does not tell.
    pub place: Option<Place>,
    fragment: Option<Fragment<'a>>,
}

/// Where and why the packet was dropped, in the switch's own numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub queue: u8,
    pub reason: u8,
}

/// The first bytes of a packet, as they stand in a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fragment<'a> {
    Ethernet(&'a [u8]),
    /// The Ethernet type, and what follows it.
    Ip(u16, &'a [u8]),
}

/// A TCP packet of which a report has the headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reported {
    /// Its numbers, with [`Packet::payload`] as its IP length says; options are those that the report has.
    pub packet: Packet,
    /// The outer headers; `None`: it had no tunnel.
    pub outer: Option<encap::Outer>,
    /// Ethernet, IP and TCP headers, as far as the report has them, zeros for the rest of the TCP options.
    pub headers: Vec<u8>,
}

impl<'a> Group<'a> {
    /// The reports in a UDP datagram's payload.
    ///
    /// # Errors
    /// [`TelemetryError`], if any of the reports is malformed: then none counts.
    pub fn read(datagram: &'a [u8]) -> Result<Group<'a>, TelemetryError> {
        let (header, reports) = datagram.split_at_checked(GROUP).ok_or(TelemetryError::Short)?;
        let (first, node) = (word(header, 0), word(header, WORD));
        let version = (first >> 28) as u8;
        if version != VERSION {
            return Err(TelemetryError::Version(version));
        }
        let group = Group { node, hardware: (first >> 22 & 0x3f) as u8, sequence: first & 0x3f_ffff, reports };
        let mut rest = reports;
        while !rest.is_empty() {
            rest = Report::read(rest)?.1;
        }
        Ok(group)
    }

    /// The reports, in their order: at most a quarter as many as the datagram has bytes.
    pub fn reports(&self) -> impl Iterator<Item = Report<'a>> {
        let mut rest = self.reports;
        std::iter::from_fn(move || {
            let (report, behind) = Report::read(rest).ok()?;
            rest = behind;
            Some(report)
        })
    }
}

impl<'a> Report<'a> {
    /// The first report, and what follows it.
    fn read(bytes: &'a [u8]) -> Result<(Report<'a>, &'a [u8]), TelemetryError> {
        let (header, bytes) = bytes.split_at_checked(WORD).ok_or(TelemetryError::Short)?;
        let (kind, inner) = (header[0] >> 4, header[0] & 0xf);
        let length = WORD * usize::from(header[1]);
        let (contents, behind) = bytes.split_at_checked(length).ok_or(TelemetryError::Length)?;
        let mut report = Report { dropped: header[3] & 0x80 != 0, place: None, fragment: None };
        match kind {
            // The packet only; the length of metadata means nothing.
            0 => report.fragment = Fragment::read(inner, contents)?,
            1 => {
                let (place, at) = metadata(contents, usize::from(header[2]))?;
                report.place = place;
                report.fragment = Fragment::read(inner, &contents[at..])?;
            }
            // IOAM's format is to be defined, all others are reserved.
            _ => {}
        }
        Ok((report, behind))
    }

    /// The TCP packet that the report is about, as a guest sent it: `port` is the tunnel's UDP port. `None` if the report has none, or
    /// less than its headers up to the TCP options, or something else, or a frame of the tunnel's port that is not an edge's.
    pub fn packet(&self, port: u16) -> Option<Reported> {
        let mut frame = match self.fragment? {
            Fragment::Ethernet(bytes) => bytes.to_vec(),
            Fragment::Ip(kind, bytes) => [&[0; ETHERNET - 2], &kind.to_be_bytes()[..], bytes].concat(),
        };
        untag(&mut frame);
        let outer = encap::read_outer(&frame, port);
        if let Some(outer) = outer {
            frame.drain(..usize::from(outer.add_len));
        }
        let whole = frame.len();
        frame.resize(whole + OPTIONS, 0);
        let packet = parse(&frame).ok().filter(|packet| packet.proto == proto::TCP)?;
        let tcp = ethernet_len(&frame)? + usize::from(packet.ip_header_len);
        if tcp + TCP > whole {
            return None;
        }
        frame.truncate(tcp + usize::from(packet.l4_header_len));
        Some(Reported { packet, outer, headers: frame })
    }
}

impl<'a> Fragment<'a> {
    fn read(kind: u8, contents: &'a [u8]) -> Result<Option<Fragment<'a>>, TelemetryError> {
        Ok(match kind {
            1 => Fragment::of_values(contents)?,
            3 => Some(Fragment::Ethernet(contents)),
            4 => Some(Fragment::Ip(0x0800, contents)),
            5 => Some(Fragment::Ip(0x86dd, contents)),
            // None, data of a domain, reserved.
            _ => None,
        })
    }

    /// The first packet among fields of type, length and value.
    fn of_values(mut contents: &'a [u8]) -> Result<Option<Fragment<'a>>, TelemetryError> {
        let mut found = None;
        while !contents.is_empty() {
            let (header, bytes) = contents.split_at_checked(WORD).ok_or(TelemetryError::Tlv)?;
            let (value, behind) = bytes.split_at_checked(WORD * usize::from(header[1])).ok_or(TelemetryError::Tlv)?;
            found = found.or(match header[0] >> 4 {
                1 => Some(Fragment::Ethernet(value)),
                2 => Some(Fragment::Ip(0x0800, value)),
                3 => Some(Fragment::Ip(0x86dd, value)),
                _ => None,
            });
            contents = behind;
        }
        Ok(found)
    }
}

/// The place of the drop, of an INT report with this many words of metadata; and where these end.
fn metadata(contents: &[u8], words: usize) -> Result<(Option<Place>, usize), TelemetryError> {
    let (fixed, rest) = contents.split_at_checked(INT_WORDS * WORD).ok_or(TelemetryError::Metadata)?;
    let metadata = rest.get(..words * WORD).ok_or(TelemetryError::Metadata)?;
    let bits = (word(fixed, 0) >> 16) as u16;
    let before = ((bits & !DROP_METADATA).count_ones() + (bits & TWO_WORDS).count_ones()) as usize * WORD;
    let told = bits & DROP_METADATA != 0;
    if before + if told { WORD } else { 0 } > metadata.len() {
        return Err(TelemetryError::Metadata);
    }
    let place = told.then(|| Place { queue: metadata[before], reason: metadata[before + 1] });
    Ok((place, fixed.len() + metadata.len()))
}

/// The word at a place that exists.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + WORD).map_or(0, |bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// Removes the VLAN tags of the fabric, at most two.
fn untag(frame: &mut Vec<u8>) {
    for _ in 0..2 {
        if frame.len() >= ETHERNET + 4 && matches!([frame[12], frame[13]], [0x81, 0x00] | [0x88, 0xa8]) {
            frame.drain(12..16);
        }
    }
}
