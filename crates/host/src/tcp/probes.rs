//! What pFabric's sender knows of its probes.

/// What has become of the latest probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Asked {
    #[default]
    No,
    Due,
    Sent,
    Answered,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probes {
    pub(crate) asked: Asked,
    /// Nothing but probes leaves.
    pub(crate) only: bool,
}

impl Probes {
    /// There has been one more timeout, `in_a_row`; from `most` on only probes leave.
    pub(crate) fn timeout(&mut self, most: u32, in_a_row: u32) {
        self.only |= in_a_row >= most.max(1);
        self.asked = if self.only { Asked::Due } else { Asked::No };
    }
}
