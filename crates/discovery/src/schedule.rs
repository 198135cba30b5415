//! From paths to a schedule of labels.

use crate::{index_of, Binding, Change};
use units::Time;

/// A place in a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The source port, which is the label.
    pub port: u16,
    /// The path had this place before, under this port or another: what is known of it stays.
    pub kept: bool,
    /// The label that the path had before, wherever its place was.
    pub was: Option<u16>,
}

/// Of feedback that is under way, where nothing is known of the round trip: as long as a path can be deaf.
const LONG: Time = Time::from_ms(33);

/// The round trip for which feedback on `label` may be about another path than the one that has it now, because a label of `old` had the
/// same index; `None`: there was no such label. `was`: the label that the path had before; `rtt`: of that path; `held`: so long the peer
/// may keep what it has to tell.
pub fn quiet(old: &[u16], label: u16, was: Option<u16>, rtt: Option<Time>, held: Time) -> Option<Time> {
    let other = old.iter().any(|old| old & 0xff == label & 0xff && Some(*old) != was);
    other.then(|| rtt.unwrap_or(LONG).max(held))
}

/// The schedule that follows `old`, of at most `most` places: each path once. A path keeps its place, also where it has another port
/// now, so that flows on it notice nothing else than the port. New paths take the places of those that are gone; what is left over is
/// filled from the end.
pub fn schedule(old: &[u16], change: &Change, most: usize) -> Vec<Place> {
    let path_at = |label: &u16| -> Option<&Binding> {
        // A label that was guessed names no path, whatever its number.
        let index = index_of(*label)?;
        let index = match change.moved.iter().find(|(from, _)| *from == index) {
            Some((_, to)) => *to,
            None if change.gone.contains(&index) => return None,
            None => index,
        };
        change.paths.iter().find(|path| path.index == index && !change.new.contains(&index))
    };
    let mut places: Vec<Option<Place>> = old
        .iter()
        .map(|label| path_at(label).map(|path| Place { port: path.port, kept: true, was: Some(*label) }))
        .collect();
    let kept: Vec<u16> = places.iter().flatten().map(|place| place.port).collect();
    let rest = change.paths.iter().map(|path| path.port).filter(|port| !kept.contains(port));
    let mut rest = rest.map(|port| Place { port, kept: false, was: None });
    for place in places.iter_mut().filter(|place| place.is_none()) {
        *place = rest.next();
    }
    places.extend(rest.map(Some));
    // Holes are left only where all paths have a place.
    while let Some(hole) = places.iter().position(Option::is_none) {
        let last = places.pop().flatten();
        if let Some(place) = places.get_mut(hole) {
            *place = last.map(|last| Place { kept: false, ..last });
        }
    }
    places.into_iter().flatten().take(most).collect()
}
