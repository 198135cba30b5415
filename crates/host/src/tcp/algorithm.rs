//! The laws by name.

use edge::names::{Named, Names};

/// The law an endpoint sends by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 5681.
    NewReno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257.
    Dctcp,
    /// Brakmo and Peterson 1995, as Linux has it.
    Vegas,
    /// Liu, Basar and Srikant 2008.
    Illinois,
    /// RFC 3649.
    HighSpeed,
    /// Cardwell et al. 2016, of real kernels only: there is no model of it, and [`run`](crate::run) refuses it.
    Bbr,
    /// RFC 6356, for subflows of MPTCP; alone it is NewReno.
    Lia,
    /// Khalili et al. 2012, for subflows of MPTCP; alone it is NewReno.
    Olia,
}

/// Coupled laws have no name: `mptcp.coupling` chooses them.
impl Names for Algorithm {
    fn table() -> &'static [Named<Algorithm>] {
        const fn law(
            value: Algorithm,
            name: &'static str,
            aliases: &'static [&'static str],
            about: &'static str,
        ) -> Named<Algorithm> {
            Named { value, name, aliases, about, settings: &[] }
        }
        static TABLE: [Named<Algorithm>; 7] = [
            law(Algorithm::Cubic, "cubic", &[], "CUBIC (RFC 9438)"),
            law(Algorithm::NewReno, "newreno", &["reno"], "NewReno (RFC 5681)"),
            law(Algorithm::Dctcp, "dctcp", &[], "DCTCP (RFC 8257)"),
            law(Algorithm::Vegas, "vegas", &[], "Vegas (Brakmo and Peterson 1995)"),
            law(Algorithm::Illinois, "illinois", &[], "TCP-Illinois (Liu et al. 2008)"),
            law(Algorithm::HighSpeed, "highspeed", &[], "HighSpeed TCP (RFC 3649)"),
            law(Algorithm::Bbr, "bbr", &[], "BBR (Cardwell et al. 2016); labs only, there is no model of it"),
        ];
        &TABLE
    }
}

impl Algorithm {
    /// The law needs ECN: it requests ECN under any configuration, and marks every packet ECT.
    pub fn needs_ecn(self) -> bool {
        self == Algorithm::Dctcp
    }

    /// An [`Endpoint`](crate::tcp::Endpoint) can send by it; one that cannot sends as [`Algorithm::NewReno`].
    pub fn is_modelled(self) -> bool {
        self != Algorithm::Bbr
    }
}
