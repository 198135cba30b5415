//! What became of a round's frames.

#[derive(Default, Debug)]
pub(super) struct Seen {
    pub(super) sent: usize,
    pub(super) passed: usize,
    pub(super) tunnelled: usize,
    pub(super) local: usize,
    pub(super) dropped: usize,
    pub(super) delivered: usize,
    pub(super) from_hosts: usize,
    /// Left in version 2.
    pub(super) version_2: usize,
    /// Of what hosts said of dropped packets.
    pub(super) told: usize,
    /// Left without a tunnel.
    pub(super) bare: usize,
    /// Reached guests without a tunnel.
    pub(super) shown: usize,
    /// Went into the queue of their port.
    pub(super) queued: usize,
    /// Came from there to the host.
    pub(super) returned: usize,
    /// Went to the limited guest, from its own end or the host.
    pub(super) turned: usize,
    /// Went to the cutter.
    pub(super) cut: usize,
    /// Addresses that the agent was told of.
    pub(super) learnt: usize,
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, more: Seen) {
        self.sent += more.sent;
        self.passed += more.passed;
        self.tunnelled += more.tunnelled;
        self.local += more.local;
        self.dropped += more.dropped;
        self.delivered += more.delivered;
        self.from_hosts += more.from_hosts;
        self.version_2 += more.version_2;
        self.told += more.told;
        self.bare += more.bare;
        self.shown += more.shown;
        self.queued += more.queued;
        self.returned += more.returned;
        self.turned += more.turned;
        self.cut += more.cut;
        self.learnt += more.learnt;
    }
}
