//! What a kernel may lack, and what then becomes of the edge: one place for the words of `selvedge doctor`, of the agent's
//! problems and of docs/kernels.md.

/// What a kernel has built in, loads as a module, or lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// What `selvedge doctor` looks at it as.
    pub probe: &'static str,
    pub name: &'static str,
    /// What is said where it is missing, with what to do about it behind a colon.
    pub missing: &'static str,
    /// What a kernel that has it was built with.
    pub setting: &'static str,
}

impl Module {
    /// What is wrong, and what to do about it.
    pub fn told(&self) -> (&'static str, &'static str) {
        self.missing.split_once(": ").unwrap_or((self.missing, ""))
    }
}

pub const HTB: Module = Module {
    probe: "htb",
    name: "sch_htb",
    missing: "the kernel has no HTB: load the module sch_htb",
    setting: "CONFIG_NET_SCH_HTB",
};

pub const FQ: Module = Module {
    probe: "fq",
    name: "sch_fq",
    missing: "the kernel has no fq: load the module sch_fq",
    setting: "CONFIG_NET_SCH_FQ",
};

pub const VXLAN: Module = Module {
    probe: "vxlan",
    name: "vxlan",
    missing: "the kernel has no VXLAN: load the module vxlan",
    setting: "CONFIG_VXLAN",
};

pub const TUN: Module = Module {
    probe: "tun",
    name: "tun",
    missing:
        "there is no /dev/net/tun: load the module tun, or pass the device into the container (--device /dev/net/tun)",
    setting: "CONFIG_TUN",
};

/// A part of the edge that not every kernel can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What `selvedge doctor` says `NO` under.
    pub feature: &'static str,
    /// What it takes besides what the whole edge takes, as docs/kernels.md says it.
    pub takes: &'static str,
    /// What becomes of the edge without: words of `selvedge doctor`, and of a problem of `ctl status`; of departure times what to set instead.
    pub without: &'static str,
}

pub const RATE_LIMITS: Part =
    Part { feature: "rate-limits", takes: "HTB (`sch_htb`)", without: "no rate limit is in force" };

pub const LIMIT_LAWS: Part = Part {
    feature: "limit-laws",
    takes: "HTB; type information (BTF)",
    without: "rate limits are plain HTB, whose queues nothing keeps short",
};

/// Without fq the agent refuses a configuration that asks for it; without laws no limit is in force.
pub const DEPARTURE_TIMES: Part = Part {
    feature: "departure-times",
    takes: "fq (`sch_fq`); what `limit-laws` takes",
    without: "limits.pacing must be \"htb\"",
};

pub const FASTLANE: Part =
    Part { feature: "fastlane", takes: "Linux 6.6; BTF", without: "what this host drops is left to guests" };

pub const MERGING: Part =
    Part { feature: "merging", takes: "VXLAN devices (`vxlan`)", without: "received packets are not merged" };

pub const RECEIVER: Part = Part {
    feature: "receiver",
    takes: "`/dev/net/tun` (`tun`)",
    without: "segments that overtook others are handed on as they come",
};

pub const PARTS: [Part; 6] = [RATE_LIMITS, LIMIT_LAWS, DEPARTURE_TIMES, FASTLANE, MERGING, RECEIVER];
