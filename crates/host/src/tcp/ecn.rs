//! ECN in TCP as Linux negotiates and uses it (RFC 3168, section 6.1; RFC 8257, section 3).
//!
//! A law that needs ECN (DCTCP) puts ECT(0) on every packet: SYN, pure ACK and retransmission included, since Linux
//! marks the socket and not the packet (`tcp_ca_needs_ecn`). All others put it on new data only.

use crate::tcp::segment::{codepoint, flags, Segment};
use crate::tcp::{Config, EcnMode};

/// What the endpoint knows about ECN on this connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ecn {
    /// Negotiated (until then: asked for).
    pub(crate) enabled: bool,
    /// Every packet is ECT.
    pub(crate) marks_all: bool,
    /// The next new data carries CWR.
    queue_cwr: bool,
    echo: Echo,
}

/// When ACKs carry ECE.
#[derive(Clone, Copy, Debug, Default)]
enum Echo {
    #[default]
    Off,
    /// From the first CE until the peer's CWR (RFC 3168, section 6.1.3).
    Latched(bool),
    /// As the last data segment was marked (RFC 8257, section 3.2).
    State(bool),
}

/// What a received data segment means for acknowledging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Unremarkable,
    /// CE after a time without (classic): the sender should hear of it soon.
    Congested,
    /// The sender has reduced its window.
    Answered,
    /// The CE state changed (DCTCP): acknowledge what came before with this ECE.
    Changed {
        before: bool,
    },
}

impl Ecn {
    pub(crate) fn new(config: &Config) -> Ecn {
        Ecn { marks_all: config.congestion.needs_ecn(), ..Ecn::default() }
    }

    fn enable(&mut self) {
        self.enabled = true;
        self.echo = if self.marks_all { Echo::State(false) } else { Echo::Latched(false) };
    }

    fn base_codepoint(&self) -> u8 {
        if self.marks_all {
            codepoint::ECT0
        } else {
            codepoint::NOT_ECT
        }
    }

    /// Marks an outgoing SYN, the first or a `repeated` one.
    pub(crate) fn on_syn_out(&mut self, config: &Config, repeated: bool, syn: &mut Segment) {
        self.enabled = config.requests_ecn() && !(repeated && config.ecn_fallback);
        if self.enabled {
            syn.flags |= flags::ECE | flags::CWR;
            syn.ecn = self.base_codepoint();
        }
    }

    /// Decides on a received SYN. Linux refuses a SYN that is itself ECT, which RFC 3168 forbids, unless its own law
    /// needs ECN: a DCTCP client gets no ECN from a classic server.
    pub(crate) fn on_syn_in(&mut self, config: &Config, syn: &Segment) {
        let asked = syn.has(flags::ECE) && syn.has(flags::CWR);
        let classic = config.ecn != EcnMode::Off && syn.ecn == codepoint::NOT_ECT;
        if asked && (classic || self.marks_all) {
            self.enable();
        }
    }

    pub(crate) fn on_syn_ack_out(&self, syn_ack: &mut Segment) {
        if self.enabled {
            syn_ack.flags |= flags::ECE;
        }
        syn_ack.ecn = self.base_codepoint();
    }

    pub(crate) fn on_syn_ack_in(&mut self, syn_ack: &Segment) {
        if self.enabled && syn_ack.has(flags::ECE) && !syn_ack.has(flags::CWR) {
            self.enable();
        } else {
            self.enabled = false;
        }
    }

    /// The outcome of a handshake that was not simulated.
    pub(crate) fn preset(&mut self, config: &Config, peer: &Config, requester: bool) {
        let (client, server) = if requester { (config, peer) } else { (peer, config) };
        let mut syn = Segment::default();
        let (mut asks, mut agrees) = (Ecn::new(client), Ecn::new(server));
        asks.on_syn_out(client, false, &mut syn);
        agrees.on_syn_in(server, &syn);
        if agrees.enabled {
            self.enable();
        }
    }

    /// The window was reduced: tell the receiver with the next new data.
    pub(crate) fn reduced(&mut self) {
        self.queue_cwr = self.enabled;
    }

    /// Sets codepoint, CWR and ECE of an outgoing segment. `ece` overrides the echo (DCTCP's late ACK).
    pub(crate) fn on_segment_out(&mut self, new_data: bool, ece: Option<bool>, segment: &mut Segment) {
        segment.ecn = self.base_codepoint();
        if !self.enabled {
            return;
        }
        if new_data {
            segment.ecn = codepoint::ECT0;
            if self.queue_cwr {
                self.queue_cwr = false;
                segment.flags |= flags::CWR;
            }
        }
        let echo = match self.echo {
            Echo::Off => false,
            Echo::Latched(on) | Echo::State(on) => on,
        };
        if ece.unwrap_or(echo) {
            segment.flags |= flags::ECE;
        }
    }

    /// Takes note of the marks on a received data segment.
    pub(crate) fn on_data_in(&mut self, segment: &Segment) -> Mark {
        let ce = segment.ecn == codepoint::CE;
        match &mut self.echo {
            Echo::Off => Mark::Unremarkable,
            Echo::Latched(on) => {
                let answered = segment.has(flags::CWR);
                let fresh = ce && (answered || !*on);
                *on = (*on && !answered) || ce;
                match (fresh, answered) {
                    (true, _) => Mark::Congested,
                    (false, true) => Mark::Answered,
                    (false, false) => Mark::Unremarkable,
                }
            }
            Echo::State(on) => {
                let before = std::mem::replace(on, ce);
                if before != ce {
                    Mark::Changed { before }
                } else {
                    Mark::Unremarkable
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::Algorithm;

    fn config(ecn: EcnMode, congestion: Algorithm) -> Config {
        Config { ecn, congestion, ..Config::default() }
    }

    /// Runs a handshake; returns (client, server, SYN, SYN-ACK).
    fn negotiate(client: &Config, server: &Config, repeated: bool) -> (Ecn, Ecn, Segment, Segment) {
        let (mut c, mut s) = (Ecn::new(client), Ecn::new(server));
        let (mut syn, mut syn_ack) = (Segment::default(), Segment::default());
        c.on_syn_out(client, repeated, &mut syn);
        s.on_syn_in(server, &syn);
        s.on_syn_ack_out(&mut syn_ack);
        c.on_syn_ack_in(&syn_ack);
        (c, s, syn, syn_ack)
    }

    #[test]
    fn negotiation_table() {
        use Algorithm::{Cubic, Dctcp};
        use EcnMode::{Accept, Off, Request};
        for (client, server, expected) in [
            ((Off, Cubic), (Request, Cubic), false),
            ((Accept, Cubic), (Accept, Cubic), false),
            ((Request, Cubic), (Off, Cubic), false),
            ((Request, Cubic), (Accept, Cubic), true),
            ((Request, Cubic), (Request, Cubic), true),
            ((Off, Dctcp), (Off, Dctcp), true),
            ((Accept, Dctcp), (Accept, Cubic), false),
            ((Request, Cubic), (Off, Dctcp), true),
        ] {
            let (client, server) = (config(client.0, client.1), config(server.0, server.1));
            let (c, s, _, _) = negotiate(&client, &server, false);
            assert_eq!((c.enabled, s.enabled), (expected, expected), "{client:?} {server:?}");
            let mut preset = Ecn::new(&client);
            preset.preset(&client, &server, true);
            assert_eq!(preset.enabled, expected);
        }
    }

    #[test]
    fn bits_of_the_handshake() {
        let classic = config(EcnMode::Request, Algorithm::Cubic);
        let (_, _, syn, syn_ack) = negotiate(&classic, &classic, false);
        assert_eq!((syn.flags, syn.ecn), (flags::ECE | flags::CWR, codepoint::NOT_ECT));
        assert_eq!((syn_ack.flags, syn_ack.ecn), (flags::ECE, codepoint::NOT_ECT));
        let dctcp = config(EcnMode::Off, Algorithm::Dctcp);
        let (_, _, syn, syn_ack) = negotiate(&dctcp, &dctcp, false);
        assert_eq!((syn.ecn, syn_ack.ecn), (codepoint::ECT0, codepoint::ECT0));
        let (c, s, syn, _) = negotiate(&classic, &classic, true);
        assert_eq!((c.enabled, s.enabled, syn.flags), (false, false, 0), "a repeated SYN does not ask");
    }

    fn out(ecn: &mut Ecn, new_data: bool) -> (u8, u8) {
        let mut segment = Segment::default();
        ecn.on_segment_out(new_data, None, &mut segment);
        (segment.ecn, segment.flags)
    }

    #[test]
    fn classic_marks_new_data_only_and_latches_ece_until_cwr() {
        let classic = config(EcnMode::Request, Algorithm::NewReno);
        let (mut sender, mut receiver, _, _) = negotiate(&classic, &classic, false);
        assert_eq!(out(&mut sender, true), (codepoint::ECT0, 0));
        assert_eq!(out(&mut sender, false), (codepoint::NOT_ECT, 0));
        sender.reduced();
        assert_eq!(out(&mut sender, false), (codepoint::NOT_ECT, 0), "CWR waits for new data");
        assert_eq!(out(&mut sender, true), (codepoint::ECT0, flags::CWR));
        assert_eq!(out(&mut sender, true), (codepoint::ECT0, 0));

        let data = |ecn, flags| Segment { ecn, flags, len: 1, ..Segment::default() };
        assert_eq!(receiver.on_data_in(&data(codepoint::CE, 0)), Mark::Congested);
        assert_eq!(receiver.on_data_in(&data(codepoint::ECT0, 0)), Mark::Unremarkable);
        assert_eq!(out(&mut receiver, false), (codepoint::NOT_ECT, flags::ECE));
        assert_eq!(receiver.on_data_in(&data(codepoint::CE, flags::CWR)), Mark::Congested, "both: a new congestion");
        assert_eq!(out(&mut receiver, false).1, flags::ECE);
        assert_eq!(receiver.on_data_in(&data(codepoint::ECT0, flags::CWR)), Mark::Answered);
        assert_eq!(out(&mut receiver, false).1, 0);
    }

    #[test]
    fn dctcp_marks_everything_and_echoes_the_state() {
        let dctcp = config(EcnMode::Off, Algorithm::Dctcp);
        let (mut sender, mut receiver, _, _) = negotiate(&dctcp, &dctcp, false);
        assert_eq!(out(&mut sender, false).0, codepoint::ECT0);
        let data = |ecn| Segment { ecn, len: 1, ..Segment::default() };
        assert_eq!(receiver.on_data_in(&data(codepoint::CE)), Mark::Changed { before: false });
        assert_eq!(receiver.on_data_in(&data(codepoint::CE)), Mark::Unremarkable);
        assert_eq!(out(&mut receiver, false), (codepoint::ECT0, flags::ECE));
        assert_eq!(receiver.on_data_in(&data(codepoint::ECT0)), Mark::Changed { before: true });
        assert_eq!(out(&mut receiver, false), (codepoint::ECT0, 0));
    }
}
