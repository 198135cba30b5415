//! What the thread counts, and the names under which the agent shows it.

use edge::delays::Delays;
use edge::fastlane::Decision;
use kernel::state::fastlane::FastCounts;

/// What the thread has done since it began, in packets unless it says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    /// By [`Decision`], from [`Decision::Resend`] on.
    pub(super) decisions: [u64; Decision::ALL.len()],
    /// The same of what others told.
    pub(super) reported: [u64; Decision::ALL.len()],
    pub(super) resent: u64,
    /// The segments in which they were sent.
    pub(super) resent_segments: u64,
    /// Of `resent`: they had to wait.
    pub(super) resent_later: u64,
    /// They waited in vain: the bytes arrived, or the guest sent them itself.
    pub(super) outdated: u64,
    /// That could not wait for want of room.
    pub(super) full: u64,
    /// That could not be sent.
    pub(super) failures: u64,
    /// Segments of which nothing could be made.
    pub(super) unreadable: u64,
    /// That wait now.
    pub(super) waiting: u64,
    /// Of guests elsewhere, dropped here, of which their edges were told.
    pub(super) told_peers: u64,
    /// Those of them that are kept now.
    pub(super) held: u64,
    /// Those that were sent again, because their edges asked for them.
    pub(super) resent_for_peers: u64,
    /// How often peers asked for what is not kept.
    pub(super) unheld: u64,
    /// Of these, when it had been sent again already, and had not been dropped since.
    pub(super) unheld_sent: u64,
    /// The same as `decisions` of what peers told.
    pub(super) elsewhere: [u64; Decision::ALL.len()],
    /// Of what peers told, beyond the rate.
    pub(super) peers_withheld: u64,
    /// How often peers were asked to send again.
    pub(super) asked_peers: u64,
    /// From the drop to the sending, of segments that did not wait.
    pub(super) delays: Delays,
}

impl Stats {
    pub(super) fn note(&mut self, decision: Decision) {
        self.decisions[decision as usize - 1] += 1;
    }

    pub(super) fn note_peers(&mut self, decision: Decision) {
        self.elsewhere[decision as usize - 1] += 1;
    }

    fn of(&self, decision: Decision) -> u64 {
        self.decisions[decision as usize - 1]
    }

    /// What peers told, without those that were sent again, wait for that, or of which guests were told or knew.
    fn ignored_of_peers(&self) -> u64 {
        let acted = [Decision::Resend, Decision::Later, Decision::Tell, Decision::Leave];
        let acted: u64 = acted.iter().map(|decision| self.elsewhere[*decision as usize - 1]).sum();
        self.elsewhere.iter().sum::<u64>() - acted
    }

    /// What became of drops that others told of: in all, guests told, guests that knew, and those that nobody could help.
    fn of_reports(&self) -> [u64; 4] {
        let of = |decision: Decision| self.reported[decision as usize - 1];
        let unhelped = of(Decision::Unkept) + of(Decision::Later);
        [self.reported.iter().sum(), of(Decision::Tell), of(Decision::Leave), unhelped]
    }
}

/// Name, help and value of all that is counted.
pub(crate) fn counters(counts: &FastCounts, stats: &Stats) -> Vec<(&'static str, &'static str, u64)> {
    use Decision as D;
    let [reports, told, left, unhelped] = stats.of_reports();
    vec![
        ("drop_reports_told_guests", "Switches' reports that guests were told by three duplicate ACKs", told),
        ("drop_reports_left", "Switches' reports of drops that guests knew of already", left),
        ("drop_reports_unhelped", "Switches' reports of drops of which guests cannot be told", unhelped),
        (
            "drop_reports_ignored",
            "Switches' reports of what is not outstanding or was told before",
            reports - told - left - unhelped,
        ),
        (
            "fastlane_told_segments",
            "Segments of guests that this host dropped, as its programs told the agent",
            counts.told,
        ),
        ("fastlane_told_bytes", "Bytes of these", counts.told_bytes),
        ("fastlane_foreign_segments", "Dropped TCP segments of no connection that is followed", counts.foreign),
        ("fastlane_withheld_segments", "Dropped segments beyond fastlane.rate of their guest", counts.withheld),
        ("fastlane_large_segments", "Dropped segments longer than can be told", counts.large),
        ("fastlane_lost_segments", "Dropped segments for which the agent's buffer had no room", counts.lost),
        ("fastlane_unreadable_segments", "Dropped segments of which no frame could be made", stats.unreadable),
        ("fastlane_resent", "Packets that were sent again", stats.resent),
        ("fastlane_resent_segments", "The segments in which they were sent", stats.resent_segments),
        ("fastlane_resent_later", "Of these packets, those that had been dropped again and waited", stats.resent_later),
        ("fastlane_postponed", "Packets that were dropped again too soon", stats.of(D::Later)),
        ("fastlane_outdated", "Packets that waited in vain, for what they had has arrived", stats.outdated),
        ("fastlane_told_guests", "Guests that were told by three duplicate ACKs", stats.of(D::Tell)),
        ("fastlane_left", "Dropped packets that their guests knew of already", stats.of(D::Leave)),
        ("fastlane_untracked", "Dropped packets of connections whose numbers are not known", stats.of(D::Untracked)),
        ("fastlane_acked", "Dropped packets whose bytes have arrived", stats.of(D::Acked)),
        ("fastlane_outside", "Reports of packets that nobody has sent so", stats.of(D::Outside) + stats.of(D::Empty)),
        ("fastlane_stale", "Dropped packets of which a later copy is under way", stats.of(D::Stale)),
        ("fastlane_repeated", "Drops that were told of before", stats.of(D::Repeated)),
        ("fastlane_unkept", "Dropped packets of which nobody has the bytes", stats.of(D::Unkept)),
        ("fastlane_full", "Packets that could not wait for want of room", stats.full),
        ("fastlane_failures", "Packets of the edge's own that could not be sent", stats.failures),
        (
            "fastlane_told_peers",
            "Packets of guests elsewhere, dropped here, of which their edges were told",
            stats.told_peers,
        ),
        ("fastlane_resent_for_peers", "Of these, those sent again because their edges asked", stats.resent_for_peers),
        ("fastlane_unheld", "Times that peers asked for what is not kept", stats.unheld),
        ("fastlane_unheld_sent", "Of these, when it had been sent again already", stats.unheld_sent),
        ("fastlane_peers_told", "Packets of guests that peers told to have dropped", stats.elsewhere.iter().sum()),
        ("fastlane_peers_ignored", "Of these, those of which nothing came", stats.ignored_of_peers()),
        ("fastlane_peers_withheld", "The same, beyond fastlane.rate of their guest", stats.peers_withheld),
        ("fastlane_asked_peers", "Times that peers were asked to send again what they had dropped", stats.asked_peers),
        (
            "fastlane_suppressed_segments",
            "Segments of guests of which the edge's own copies were under way",
            counts.suppressed,
        ),
        ("fastlane_windows_lowered", "ACKs whose receive window was lowered after a drop", counts.lowered),
        ("fastlane_untracked_segments", "Segments without room for their connection's state", counts.full),
    ]
}

/// The same of what is now.
pub(crate) fn gauges(stats: &Stats) -> Vec<(&'static str, &'static str, f64)> {
    let seconds = |share| stats.delays.quantile(share).map_or(0.0, |delay| delay.as_ns() as f64 / 1e9);
    vec![
        ("fastlane_waiting", "Packets that wait to be sent again", stats.waiting as f64),
        ("fastlane_held", "Packets of guests elsewhere, dropped here, that are kept", stats.held as f64),
        ("fastlane_resend_p50_seconds", "From a drop to sending again at once, median", seconds(0.5)),
        ("fastlane_resend_p99_seconds", "The same, 99 in 100", seconds(0.99)),
    ]
}
