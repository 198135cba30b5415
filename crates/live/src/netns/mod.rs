//! A leaf-spine fabric of network namespaces.

/// Why a fabric cannot be made, changed or looked at. One line each.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is no name for a lab: give 1 to 12 lower-case letters and digits, a letter first")]
    Name(String),
}

impl Error {
    /// Is the request at fault, rather than what came of it?
    pub fn is_request(&self) -> bool {
        matches!(self, Error::Name(_))
    }
}
