//! Congestion control laws behind one enum.

/// The law an endpoint sends by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 5681.
    NewReno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257.
    Dctcp,
}

impl Algorithm {
    /// The law is built on ECN: it asks for it whatever the configuration says and marks every packet ECT.
    pub fn needs_ecn(self) -> bool {
        self == Algorithm::Dctcp
    }
}
