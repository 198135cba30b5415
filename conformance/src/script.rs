//! The text format: one packet a line, `what it is => what becomes of it`.

use crate::config::{config, Config};
use crate::inner::ETHERNET;
use crate::outer::merged_ecn;
use crate::packet::{around, feedback, flags, inner_field, kind, nest, outer_field};
use crate::words::{named, number, pair, Parsed};
use crate::world::{Verdict, Why, PEERS};
use edge::Direction;
use units::Time;
use wire::feedback::Feedback;
use wire::Packet;

/// One frame and what must become of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Line of the script, from 1; frames of one range share it.
    pub line: usize,
    pub text: String,
    /// Since the script began.
    pub at: Time,
    pub direction: Direction,
    /// As the edge's interface receives it.
    pub frame: Vec<u8>,
    /// What is to be read from the inner frame, where it can be read at all.
    pub packet: Packet,
    /// Payload bytes per packet of a segment that offload left whole; 0: one packet.
    pub segment_size: u16,
    /// Of a frame from the fabric: the codepoint that leaves the tunnel, before the stages.
    pub arrived_ecn: u8,
    /// The host at the other end of the tunnel speaks plain VXLAN.
    pub plain_peer: bool,
    /// Of a frame from the fabric: version 2, from a peer that may speak it; and it was marked on its way.
    pub two: bool,
    pub marked: bool,
    /// The report in its shim.
    pub shim: Option<[u8; 8]>,
    /// What its header says of a path.
    pub feedback: Feedback,
    pub expected: Expected,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    pub verdict: Verdict,
    /// Given exactly where the stages are not reached.
    pub why: Option<Why>,
    /// Outer source port.
    pub label: Option<u16>,
    /// Full number of the flowcell; `None`: it carries none.
    pub cell: Option<u32>,
    /// Codepoint that the guest gets; `None`: as in the inner frame.
    pub ecn: Option<u8>,
    /// A newer flowcell came before.
    pub late: bool,
    /// The window that it leaves with; `None`: as it came.
    pub lowered: Option<u16>,
    /// The report that it leaves with: bytes in all, and marked.
    pub report: Option<(u32, u32)>,
    /// It leaves in version 2, with this codepoint in the outer header.
    pub two: Option<u8>,
    /// It leaves with this feedback on a path.
    pub feedback: Option<Feedback>,
}

#[derive(Clone, Debug)]
pub struct Script {
    pub config: Config,
    pub cases: Vec<Case>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{name}:{line}: {what}; docs/testing.md describes the format")]
pub struct Error {
    pub name: String,
    pub line: usize,
    pub what: String,
}

impl Script {
    /// # Errors
    /// The first line that is not understood.
    pub fn parse(name: &str, text: &str) -> Result<Script, Error> {
        let mut script = Script { config: Config::default(), cases: Vec::new() };
        let mut at = Time::ZERO;
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let done = match text.split_once(' ') {
                Some(("config", words)) => config(words).map(|config| script.config = config),
                Some(("wait", time)) => pause(time).map(|pause| at += pause),
                _ => cases(line, text, at).map(|cases| script.cases.extend(cases)),
            };
            done.map_err(|what| Error { name: name.to_owned(), line, what })?;
        }
        Ok(script)
    }
}

/// Whole microseconds: the kernel edge's clock of tests has no others.
fn pause(text: &str) -> Parsed<Time> {
    let time: Time = text.trim().parse().map_err(|e: units::ParseError| e.to_string())?;
    let whole = time == Time::from_us(time.as_ns() / 1000) && time <= Time::from_secs(600);
    whole.then_some(time).ok_or_else(|| format!("{time} is no number of microseconds, or longer than 600 s"))
}

fn cases(line: usize, text: &str, at: Time) -> Parsed<Vec<Case>> {
    let (left, right) = text.split_once("=>").ok_or("no => between packet and verdict")?;
    let mut words = left.split_whitespace();
    let direction = match words.next() {
        Some("egress") => Direction::Egress,
        Some("ingress") => Direction::Ingress,
        _ => return Err("neither egress nor ingress".into()),
    };
    let mut inner = kind(words.next().unwrap_or_default(), direction)?;
    let mut around = around(direction);
    let words: Vec<&str> = words.collect();
    for word in &words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if !inner_field(&mut inner, key, value)? {
            outer_field(&mut around, key, value)?;
        }
    }
    let mut packet = Packet { segment_size: around.segment_size, ..inner.packet() };
    let expected = expected(right, &mut packet)?;
    if !around.ecn_given {
        around.outer.ecn = inner.packet.ecn;
    }
    let mut whole = inner.frame();
    if around.nested {
        (whole, packet) = nest(&whole, &packet);
    }
    let cuts = around.cut.clone().unwrap_or(whole.len()..=whole.len());
    let plain_peer = match direction {
        Direction::Egress => PEERS.iter().any(|peer| peer.version == 0 && peer.guest.has(&packet.daddr)),
        Direction::Ingress => around.outer.version == 0,
    };
    let mut cases = Vec::new();
    for cut in cuts {
        let cut = cut.min(whole.len());
        let mut frame = whole[..cut].to_vec();
        let headers = usize::from(packet.ip_header_len) + usize::from(packet.l4_header_len);
        let whole_len = ETHERNET + 4 * inner.vlan.len() + headers + packet.payload as usize;
        let before = frame.len();
        if direction == Direction::Ingress {
            frame = around.outer.write(&frame);
            for (at, bytes) in &around.patches {
                frame.get_mut(*at..at + bytes.len()).ok_or("a patch beyond the frame")?.copy_from_slice(bytes);
            }
            if around.outer_vlan {
                frame.splice(12..12, [0x81, 0, 0, 5]);
            }
        }
        let outer_len = frame.len() - before;
        for cut in around.outer_cut.clone().unwrap_or(frame.len()..=frame.len()) {
            let truncated = u8::from(cut < outer_len + whole_len) | packet.truncated;
            cases.push(Case {
                line,
                text: text.to_owned(),
                at,
                direction,
                frame: frame[..cut.min(frame.len())].to_vec(),
                packet: Packet { truncated, ..packet },
                segment_size: around.segment_size,
                arrived_ecn: merged_ecn(packet.ecn, around.outer.ecn).unwrap_or(packet.ecn),
                plain_peer,
                two: around.outer.version == 2
                    && PEERS.iter().any(|peer| peer.version == 2 && peer.address == around.outer.source),
                marked: around.outer.ecn == 3 || packet.ecn == 3,
                shim: around.outer.shim,
                feedback: around.outer.feedback.map_or_else(Feedback::default, |(kind, path, value)| Feedback {
                    kind,
                    path,
                    value,
                }),
                expected,
            });
        }
    }
    Ok(cases)
}

/// Fields of the headers on the right side correct what the left side says, where bytes were patched.
fn expected(text: &str, packet: &mut Packet) -> Parsed<Expected> {
    let mut words = text.split_whitespace();
    let verdict = named(&Verdict::NAMES, words.next().unwrap_or_default())?;
    let mut expected = Expected {
        verdict,
        why: None,
        label: None,
        cell: None,
        ecn: None,
        late: false,
        lowered: None,
        report: None,
        two: None,
        feedback: None,
    };
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "label" => expected.label = Some(number(value)?),
            "cell" => expected.cell = Some(number(value)?),
            "ecn" => expected.ecn = Some(number(value)?),
            "late" => expected.late = true,
            "lowered" => expected.lowered = Some(number(value)?),
            "report" => {
                let (total, ce) = pair(value, ':')?;
                expected.report = Some((number(total)?, number(ce)?));
            }
            "two" => expected.two = Some(number(value)?),
            "feedback" => expected.feedback = Some(feedback(value)?),
            "payload" => packet.payload = number(value)?,
            "mss" => packet.mss = number(value)?,
            "wscale" => packet.wscale = number::<u8>(value)? + 1,
            "no-wscale" => packet.wscale = 0,
            "truncated" => packet.truncated = 1,
            "seq" => packet.seq = number(value)?,
            "window" => packet.window = number(value)?,
            "flags" => packet.tcp_flags = flags(value)?,
            "iplen" => packet.ip_header_len = number(value)?,
            "l4len" => packet.l4_header_len = number(value)?,
            _ => expected.why = Some(named(&Why::NAMES, key)?),
        }
    }
    let explains = matches!(verdict, Verdict::Carry | Verdict::Pass | Verdict::Nobody);
    if explains && expected.why.is_none() {
        return Err(
            "a reason is missing: one of short, malformed, not-ip, fragment, transport, tagged, route, format".into()
        );
    }
    Ok(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_line() {
        for (text, what) in [
            ("egress tcp4 ports=1>2", "no =>"),
            ("sideways tcp4 => pass short", "neither egress nor ingress"),
            ("egress tcp5 => forward", "unknown kind"),
            ("egress tcp4 oecn=1 => forward", "unknown field \"oecn\" of a guest's frame"),
            ("ingress tcp4 flags=X => forward", "unknown flag"),
            ("ingress tcp4 => pass", "a reason is missing"),
            ("ingress tcp4 set=ip+0:6 => forward", "not hexadecimal"),
            ("config colour=red", "unknown key"),
            ("config depth=7", "after uplink="),
            ("config uplink=fast", "fast"),
        ] {
            let error = Script::parse("x.txt", &format!("# a comment\n{text}")).unwrap_err().to_string();
            assert!(error.starts_with("x.txt:2: ") && error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn ranges_make_a_case_for_each_length() {
        let script = Script::parse("x", "egress tcp4 cut=0..53 => pass short").unwrap();
        assert_eq!(script.cases.len(), 54);
        assert_eq!(script.cases[53].frame.len(), 53);
    }
}
