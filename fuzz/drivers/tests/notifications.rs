//! Millions of notifications, most of them forged. `SELVEDGE_FRAMES` says how many; `make fuzz` plays ten million.

use fuzz_drivers::play_notifications;
use std::fs;
use std::path::Path;

/// SplitMix64 (public domain).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[test]
fn forged_notifications_are_survived() {
    let wanted: u64 = std::env::var("SELVEDGE_FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(300_000);
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds/notifications");
    let mut files: Vec<_> = fs::read_dir(seeds).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    let mut state = 1;
    let (mut notifications, mut acted, mut ignored) = (0, 0, 0);
    while notifications < wanted {
        // Connections that begin as they should, then several seeds with damage, then noise.
        let mut input = Vec::new();
        for _ in 0..1 + random(&mut state) % 12 {
            let seed = &seeds[(random(&mut state) % seeds.len() as u64) as usize];
            let from = input.len();
            input.extend_from_slice(seed);
            if random(&mut state) % 3 == 0 {
                let at = from + (random(&mut state) % seed.len() as u64) as usize;
                input[at] = random(&mut state) as u8;
            }
        }
        for _ in 0..random(&mut state) % 200 {
            input.push(random(&mut state) as u8);
        }
        let c = play_notifications(&input);
        notifications += c.notifications;
        acted += c.resent + c.told + c.left + c.postponed;
        ignored += c.untracked + c.empty + c.acked + c.outside + c.stale + c.repeated + c.unkept;
    }
    // Had all been believed, or none, this would have tested little.
    assert!(acted > wanted / 50 && ignored > wanted / 50, "{acted} acted on, {ignored} ignored");
    println!("{acted} of {notifications} notifications acted on");
}
