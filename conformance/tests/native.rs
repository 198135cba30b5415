//! Every script through structs and through frames.

use conformance::{Frames, Script, Structs, PORT, SCRIPTS};
use edge::Direction;
use wire::feedback::Feedback;
use wire::{encap, Packet};

#[test]
fn every_scheme_has_a_script() {
    for scheme in edge::balance::SCHEMES {
        let uses = |text: &str| Script::parse("", text).is_ok_and(|script| script.config.balance.scheme() == scheme);
        assert!(SCRIPTS.iter().any(|(_, text)| uses(text)), "{}", scheme.name);
    }
}

#[test]
fn structs_and_frames_do_what_the_scripts_say() {
    let mut wrong = Vec::new();
    for (name, text) in SCRIPTS {
        let script = Script::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        assert!(!script.cases.is_empty(), "{name} is empty");
        let (mut structs, mut frames) = (Structs::new(&script.config), Frames::new(&script.config));
        for case in &script.cases {
            let late_before = frames.counts().get("in_late_segments").copied().unwrap_or(0);
            let outcome = frames.run(case.at, case.direction, &case.frame, case.segment_size);
            let expected = &case.expected;
            let place = format!("{name}:{}: {} ({} bytes)", case.line, case.text, case.frame.len());
            if (outcome.verdict, outcome.why) != (expected.verdict, expected.why) {
                wrong.push(format!("{place}\n    frames: {:?} {:?}", outcome.verdict, outcome.why));
                continue;
            }
            let from_structs = structs.run(case.at, case);
            if let (Some(framed), Some(structured)) = (outcome.packet, from_structs) {
                // Without a label from a stage the driver takes one; a struct has no driver.
                let structured =
                    Packet { label: if structured.label == 0 { framed.label } else { structured.label }, ..structured };
                if framed != structured {
                    wrong.push(format!("{place}\n    frames:  {framed:?}\n    structs: {structured:?}"));
                }
                let cell = (framed.has_cell == 1).then_some(framed.cell);
                if Some(framed.label) != expected.label || cell != expected.cell {
                    wrong.push(format!("{place}\n    label {} cell {cell:?}", framed.label));
                }
                let report = matches!(framed.pack, wire::pack::OK | wire::pack::SHIM).then(|| {
                    let number = |bytes: [u8; 3]| u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
                    (number(framed.pack_total), number(framed.pack_ce))
                });
                if case.direction == Direction::Egress && report != expected.report {
                    wrong.push(format!("{place}\n    report {report:?}"));
                }
                if case.direction == Direction::Egress {
                    let carried = encap::read_outer(&outcome.frame, PORT).unwrap().encap;
                    let carried = Feedback { kind: carried.feedback, path: carried.path, value: carried.value };
                    let wanted = expected.feedback.unwrap_or_default();
                    if (carried, structs.feedback()) != (wanted, wanted) {
                        wrong.push(format!("{place}\n    feedback {carried:?}, of structs {:?}", structs.feedback()));
                    }
                }
                let outer = outer_ecn(&outcome.frame);
                let wanted = expected.two.unwrap_or(framed.ecn);
                if case.direction == Direction::Egress && outer != wanted {
                    wrong.push(format!("{place}\n    outer ecn {outer}"));
                }
                if framed.window != expected.lowered.unwrap_or(case.packet.window) {
                    wrong.push(format!("{place}\n    window {}", framed.window));
                }
                if case.direction == Direction::Ingress && framed.ecn != expected.ecn.unwrap_or(case.packet.ecn) {
                    wrong.push(format!("{place}\n    ecn {}", framed.ecn));
                }
            } else if outcome.packet.is_some() != from_structs.is_some() {
                wrong.push(format!("{place}\n    only one of the two reaches the stages"));
            }
            let late = frames.counts().get("in_late_segments").copied().unwrap_or(0) - late_before;
            if late != u64::from(expected.late) {
                wrong.push(format!("{place}\n    late: {late}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

fn outer_ecn(frame: &[u8]) -> u8 {
    if frame[12] == 8 {
        frame[15] & 3
    } else {
        frame[15] >> 4 & 3
    }
}
