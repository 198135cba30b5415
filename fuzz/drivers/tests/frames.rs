//! Millions of hostile frames through the parser and through the native edge on frames. `SELVEDGE_FRAMES` says how many;
//! `make fuzz` runs ten million.

use conformance::{Config, Frames, Script, Verdict, SCRIPTS};
use edge::balance::{Balance, SCHEMES};
use edge::Direction;
use fuzz_drivers::{tunnel_frame, wire_frame, Mutator};
use units::Time;

fn frames() -> usize {
    std::env::var("SELVEDGE_FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(300_000)
}

fn corpus() -> (Vec<Vec<u8>>, Vec<Direction>) {
    let scripts = SCRIPTS.iter().map(|(name, text)| Script::parse(name, text).expect("a committed script"));
    scripts.flat_map(|script| script.cases).map(|case| (case.frame, case.direction)).unzip()
}

#[test]
fn hostile_frames_are_survived() {
    let (corpus, directions) = corpus();
    let mut mutator = Mutator::new(1, corpus);
    let mut edges = SCHEMES.map(|scheme| {
        let balance = Balance::new(scheme, |parameter| Some(parameter.nearest(4096)));
        Frames::new(&Config { balance, ..Config::default() })
    });
    let (mut reached, mut refused) = (0, 0);
    for i in 0..frames() {
        let (frame, from) = mutator.frame();
        wire_frame(&frame);
        tunnel_frame(&frame);
        let direction = from.map_or([Direction::Egress, Direction::Ingress][i % 2], |from| directions[from]);
        let outcome = edges[i / 1000 % SCHEMES.len()].run(Time::from_us(i as u64), direction, &frame, 0);
        match outcome.verdict {
            Verdict::Forward => reached += 1,
            Verdict::Pass | Verdict::Nobody => {
                assert_eq!(outcome.frame, frame, "what is not the edge's business stays as it is");
                refused += 1;
            }
            _ => {}
        }
    }
    // Frames that all failed at once, or all came through, would have tested little.
    assert!(reached > frames() / 20 && refused > frames() / 20, "{reached} reached the stages, {refused} did not");
}
