//! Peers that do not answer, and peers that are no edges, as far as the data path has heard of them.

use agent_api::config::PeerRule;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tracing::{info, warn};
use wire::encap::Heard;

/// Nothing came of a peer for so long although something was sent to it meanwhile, seconds. Its guests may have nothing to say, so it is
/// asked.
const SILENCE: f64 = 15.0;
/// What was heard longer ago says nothing of what the peer is now, seconds.
const STALE: f64 = 60.0;
/// A peer may need this long for its first answer, ns.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Between two questions, ns; questions without an answer, in a row, that are enough; and peers that are asked at once.
const PAUSE_NS: u64 = 4_000_000_000;
const QUESTIONS: u32 = 2;
const AT_ONCE: usize = 100;

/// How a peer stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Standing {
    Well,
    /// It was sent something, and nothing was heard of it for so many seconds; `None`: ever.
    Unanswered(Option<f64>),
    /// It sends VXLAN without an edge's metadata.
    NoEdge,
}

fn standing(heard: &Heard, now: u64) -> Standing {
    let ago = heard.age_seconds(now);
    match heard.sent_seconds(now) {
        Some(sent) if sent <= SILENCE && ago.is_none_or(|ago| ago > SILENCE) => Standing::Unanswered(ago),
        _ if heard.is_plain() && ago.is_some_and(|ago| ago <= STALE) => Standing::NoEdge,
        _ => Standing::Well,
    }
}

/// Of a peer that is [`Standing::Unanswered`].
#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// Since when, ns.
    since: u64,
    /// When it was asked last, and how often since it answered, ns.
    asked: Option<u64>,
    questions: u32,
    /// When it answered last, ns.
    answered: Option<u64>,
}

/// Of all peers that should be edges.
#[derive(Debug, Default)]
pub(super) struct Silent {
    doubts: BTreeMap<IpAddr, Doubt>,
    unanswered: BTreeMap<IpAddr, String>,
    no_edges: BTreeMap<IpAddr, String>,
    /// Of peers that a controller does not know.
    strangers: Vec<String>,
}

impl Silent {
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    pub(super) fn no_edges(&self) -> usize {
        self.no_edges.len()
    }

    /// A line each.
    pub(super) fn problems(&self) -> impl Iterator<Item = &String> {
        self.unanswered.values().chain(self.no_edges.values()).chain(&self.strangers)
    }

    /// As `peers` stand at `now`. Returns who is to be asked whether it is there.
    pub(super) fn look<'a>(
        &mut self,
        peers: impl Iterator<Item = (&'a PeerRule, Heard)>,
        now: u64,
    ) -> BTreeSet<IpAddr> {
        let (mut unanswered, mut no_edges, mut doubts) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (peer, heard) in peers {
            let (name, address) = (&peer.name, peer.address);
            match standing(&heard, now) {
                Standing::Well => {}
                Standing::Unanswered(ago) => {
                    let new = Doubt { since: now, asked: None, questions: 0, answered: None };
                    let doubt = *doubts.entry(address).or_insert(self.doubts.get(&address).copied().unwrap_or(new));
                    if now.saturating_sub(doubt.since) < PATIENCE_NS || doubt.questions < QUESTIONS {
                        continue;
                    }
                    let answered = doubt.answered.map(|at| now.saturating_sub(at) as f64 / 1e9);
                    let heard = answered.or(ago).map_or("nothing was ever heard of it".to_owned(), |ago| {
                        format!("nothing was heard of it for {ago:.0} s")
                    });
                    let line = format!(
                        "peer {name} ({address}): what is sent to it has no answer, {heard}; look at its host, its agent and the way there"
                    );
                    unanswered.insert(address, line);
                }
                Standing::NoEdge => {
                    let line = format!(
                        "peer {name} ({address}): it sends VXLAN without an edge's metadata; if it is no Selvedge host, set peer.plain_vxlan = true"
                    );
                    no_edges.insert(address, line);
                }
            }
        }
        for (old, new) in [(&self.unanswered, &unanswered), (&self.no_edges, &no_edges)] {
            new.iter().filter(|(peer, _)| !old.contains_key(*peer)).for_each(|(_, line)| warn!("{line}"));
            for address in old.keys().filter(|peer| !new.contains_key(*peer)) {
                info!(peer = %address, "peer {address}: no complaint any more");
            }
        }
        (self.doubts, self.unanswered, self.no_edges) = (doubts, unanswered, no_edges);
        self.ask(now)
    }

    /// Those who were not asked for the longest time: others have their turn at the next look.
    fn ask(&mut self, now: u64) -> BTreeSet<IpAddr> {
        let due = |doubt: &Doubt| doubt.asked.is_none_or(|at| now.saturating_sub(at) >= PAUSE_NS);
        let mut asked: Vec<(&IpAddr, &mut Doubt)> = self.doubts.iter_mut().filter(|(_, doubt)| due(doubt)).collect();
        asked.sort_by_key(|(_, doubt)| doubt.asked);
        asked.truncate(AT_ONCE);
        asked.iter_mut().for_each(|(_, doubt)| {
            doubt.asked = Some(now);
            doubt.questions = doubt.questions.saturating_add(1);
        });
        asked.into_iter().map(|(peer, _)| *peer).collect()
    }

    /// Is anybody asked?
    pub(super) fn asks(&self) -> bool {
        !self.doubts.is_empty()
    }

    /// A peer has answered a question.
    pub(super) fn answered(&mut self, peer: IpAddr, now: u64) {
        if let Some(doubt) = self.doubts.get_mut(&peer) {
            (doubt.questions, doubt.answered) = (0, Some(now));
        }
    }

    /// Peers whom a controller's schedules do not name.
    pub(super) fn look_for_strangers<'a>(&mut self, peers: impl Iterator<Item = &'a PeerRule>) {
        let lines = peers.map(|peer| {
            let name = &peer.name;
            format!("peer {name}: the controller knows no edge of that name, so its labels are guessed; give the peer its edge's name")
        });
        let strangers: Vec<String> = lines.collect();
        let known: BTreeSet<&String> = self.strangers.iter().collect();
        strangers.iter().filter(|line| !known.contains(line)).for_each(|line| warn!("{line}"));
        self.strangers = strangers;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::tests::config;
    use wire::encap::Encap;

    const SECOND: u64 = 1_000_000_000;
    const START: u64 = 1_000 * SECOND;

    fn heard_at(version: u8, at: u64) -> Heard {
        let mut heard = Heard::default();
        heard.note(&Encap { version, ..Encap::default() }, at);
        heard
    }

    #[test]
    fn who_is_sent_nothing_is_not_missed() {
        let mut heard = heard_at(2, START);
        assert_eq!(standing(&heard, START + 1_000 * SECOND), Standing::Well);
        heard.note_sent(START + 1_000 * SECOND);
        let Standing::Unanswered(Some(ago)) = standing(&heard, START + 1_001 * SECOND) else { panic!("{heard:?}") };
        assert!((998.0..1_004.0).contains(&ago), "{ago}");
        // Nobody has sent to it lately.
        assert_eq!(standing(&heard, START + 1_100 * SECOND), Standing::Well);
        let mut never = Heard::default();
        assert_eq!(standing(&never, START), Standing::Well);
        never.note_sent(START);
        assert_eq!(standing(&never, START), Standing::Unanswered(None));
    }

    #[test]
    fn an_edge_is_told_by_its_metadata() {
        for (version, found) in [(0, Standing::NoEdge), (1, Standing::Well), (2, Standing::Well)] {
            let mut heard = heard_at(version, START);
            heard.note_sent(START);
            assert_eq!(standing(&heard, START + SECOND), found, "{version}");
            assert_eq!(
                standing(&heard_at(version, START), START + 100 * SECOND),
                Standing::Well,
                "{version}, long ago"
            );
        }
    }

    #[test]
    fn a_first_answer_has_its_time() {
        let peers = config().peers;
        let mut dead = Heard::default();
        let (mut silent, mut complaints) = (Silent::default(), Vec::new());
        for second in (0..30).step_by(5) {
            let now = START + second * SECOND;
            dead.note_sent(now);
            let well = heard_at(2, now);
            silent.look(peers.iter().zip([dead, well]), now);
            complaints.push(silent.problems().cloned().collect::<Vec<_>>());
        }
        assert!(complaints[..2].iter().all(Vec::is_empty) && complaints[5].len() == 1, "{complaints:?}");
        let expected = format!("peer {} ({}): what is sent to it has no answer", peers[0].name, peers[0].address);
        assert!(complaints[5][0].starts_with(&expected), "{complaints:?}");
        silent.look(peers.iter().zip([heard_at(2, START + 30 * SECOND); 2]), START + 30 * SECOND);
        assert_eq!(silent.problems().count(), 0);
    }

    #[test]
    fn a_peer_whose_guests_only_receive_is_not_missed_while_it_answers() {
        let peers = &config().peers[..1];
        let (address, mut heard) = (peers[0].address, heard_at(2, START));
        let (mut silent, mut missed) = (Silent::default(), None);
        for second in (20..200).step_by(5) {
            let now = START + second * SECOND;
            heard.note_sent(now);
            let asked = silent.look(peers.iter().map(|peer| (peer, heard)), now);
            assert_eq!(asked, BTreeSet::from([address]), "{second}");
            if second < 100 {
                silent.answered(address, now + SECOND / 1000);
            }
            missed = missed.or(silent.problems().next().map(|line| (second, line.clone())));
        }
        let (second, line) = missed.unwrap();
        assert_eq!(second, 110, "after two questions: {line}");
        assert!(line.contains("nothing was heard of it for 15 s"), "{line}");
        // Another's answer is nobody's.
        silent.answered("10.9.9.9".parse().unwrap(), START);
        assert_eq!((silent.doubts.len(), silent.unanswered()), (1, 1));
    }

    #[test]
    fn a_peer_that_a_controller_does_not_know_is_named_until_it_does() {
        let peers = config().peers;
        let mut silent = Silent::default();
        for unknown in [&peers[..0], &peers[1..], &peers[1..], &peers[..1], &peers[..0]] {
            silent.look_for_strangers(unknown.iter());
            let named: Vec<String> = silent.problems().cloned().collect();
            assert_eq!(named.len(), unknown.len(), "{named:?}");
            for (line, peer) in named.iter().zip(unknown) {
                assert!(
                    line.starts_with(&format!("peer {}: the controller knows no edge of that name", peer.name)),
                    "{line}"
                );
            }
            assert_eq!((silent.unanswered(), silent.no_edges()), (0, 0));
        }
    }

    #[test]
    fn of_many_peers_each_is_asked_in_its_turn() {
        let of = |n: u8| PeerRule { address: [10, 3, 0, n].into(), ..config().peers[0].clone() };
        let peers: Vec<PeerRule> = (0..=249).map(of).collect();
        let (mut silent, mut asked) = (Silent::default(), Vec::new());
        for second in (0..30).step_by(5) {
            let now = START + second * SECOND;
            let mut heard = Heard::default();
            heard.note_sent(now);
            asked.extend(silent.look(peers.iter().map(|peer| (peer, heard)), now));
        }
        assert_eq!(asked.len(), 6 * AT_ONCE);
        let times = peers.iter().map(|peer| asked.iter().filter(|at| **at == peer.address).count());
        assert!(times.clone().all(|n| (2..=3).contains(&n)), "{:?}", times.collect::<Vec<_>>());
    }
}
