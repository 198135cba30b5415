//! What a program on an interface is for.

/// Which program an interface gets, on ingress as the host sees it unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The host's end of a guest's veth pair, or its tap.
    Guest,
    /// An interface towards the fabric.
    Uplink,
    /// A device whose packets are for nobody ([`crate::gro`]): all are dropped.
    Nothing,
    /// The device at which what limited guests send comes out of its queue.
    Limiter,
    /// The guest's own end of a limited port's veth pair, in its namespace ([`KernelEdge::inside`]). Before the roles that it needs: it goes
    /// first.
    LimitInside,
    /// A guest's port that is limited, in front of [`Role::Guest`].
    LimitGuest,
    /// The same port's egress: what the guest gets.
    LimitPort,
    /// A guest's port whose connections are followed, in front of all else, for FastLane.
    FastGuest,
    /// The same port's egress.
    FastPort,
    /// The device of the agent's thread that puts segments in order: what it gives back.
    Drain,
}

/// Programs of guests and of uplinks, with a tunnel and without.
const OF_MODES: [[&str; 2]; 2] =
    [["selvedge_guest", "selvedge_uplink"], ["selvedge_plain_guest", "selvedge_plain_uplink"]];

/// Is it a program of the mode that is not asked for?
pub(super) fn is_unused(program: &str, plain: bool) -> bool {
    OF_MODES[usize::from(!plain)].contains(&program)
}

impl Role {
    pub(super) const ALL: [Role; 10] = [
        Role::Guest,
        Role::Uplink,
        Role::Nothing,
        Role::Limiter,
        Role::LimitInside,
        Role::LimitGuest,
        Role::LimitPort,
        Role::FastGuest,
        Role::FastPort,
        Role::Drain,
    ];

    /// `plain`: without a tunnel.
    pub(super) fn program(self, plain: bool) -> &'static str {
        match self {
            Role::Guest | Role::Limiter => OF_MODES[usize::from(plain)][0],
            Role::Uplink => OF_MODES[usize::from(plain)][1],
            Role::Nothing => "selvedge_nothing",
            Role::LimitInside => "selvedge_limit_inside",
            Role::LimitGuest => "selvedge_limit_guest",
            Role::LimitPort => "selvedge_limit_port",
            Role::FastGuest => "selvedge_fast_guest",
            Role::FastPort => "selvedge_fast_port",
            Role::Drain => "selvedge_drain",
        }
    }

    /// Is it one of `limits.bpf.c`?
    pub(super) fn is_limit(self) -> bool {
        matches!(self, Role::LimitGuest | Role::LimitPort)
    }

    /// Is it one of `fastlane.bpf.c`?
    pub(super) fn is_fast(self) -> bool {
        matches!(self, Role::FastGuest | Role::FastPort)
    }

    /// Does it see what leaves the host by the interface?
    pub(super) fn on_egress(self) -> bool {
        matches!(self, Role::LimitPort | Role::FastPort)
    }

    pub(super) fn tag(self) -> &'static str {
        match self {
            Role::Guest => "guest",
            Role::Uplink => "uplink",
            Role::Nothing => "nothing",
            Role::Limiter => "limiter",
            Role::LimitInside => "limitinside",
            Role::LimitGuest => "limitguest",
            Role::LimitPort => "limitport",
            Role::FastGuest => "fastguest",
            Role::FastPort => "fastport",
            Role::Drain => "drain",
        }
    }
}
