//! What is kept of RTT probes.

use units::Time;

#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// When each was sent, by which host, and its round-trip time once the echo is back.
    pub(crate) sent: Vec<(Time, u32, Option<Time>)>,
}

impl Probes {
    /// Those that came back, and how many did not.
    pub(crate) fn answered(&self) -> (Vec<(Time, u32, Time)>, u64) {
        let answered: Vec<_> = self.sent.iter().filter_map(|&(at, host, rtt)| Some((at, host, rtt?))).collect();
        let lost = (self.sent.len() - answered.len()) as u64;
        (answered, lost)
    }
}
