//! What a lab is made of.

use fabric::{Multipath, RandomLoss, SwitchConfig};
use host::experiment::{EdgeConfig, Experiment, HostConfig};
use host::tcp::cc::Algorithm;
use std::collections::BTreeSet;
use topology::Topology;
use units::Time;

/// More would not keep up on any machine, and every host knows every other by a static neighbour entry.
pub const MAX_HOSTS: usize = 256;

/// What a lab is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    pub topology: Topology,
    pub switches: SwitchConfig,
    pub multipath: Multipath,
    pub loss: RandomLoss,
    pub reroute_after: Time,
    /// MTU, offloads and the receiving side of the NIC; of `tcp` what Linux has a setting for.
    pub hosts: HostConfig,
    pub edge: EdgeConfig,
    /// Numbers of the guests that each host has besides the one of its own address: see [`guest_address`](crate::guest_address).
    pub guests: Vec<u8>,
    pub seed: u64,
    /// Frames that may be under way at once.
    pub frames: u32,
    /// How long before an event the loop stops sleeping and watches the clock; `None` lets the lab measure how late
    /// this machine wakes up.
    pub spin: Option<Time>,
    /// The congestion control of connections that ask for nothing else, as this kernel knows it: see [`congestion`]. It
    /// even overrules what a socket asked for before it connected.
    pub congestion: Option<String>,
    /// The first queue of a host is its own kernel's, paced to the link: without it, a sender would never feel its own NIC
    /// (a TAP device drops what it cannot hold and tells TCP nothing).
    pub shape: bool,
}

impl From<&Experiment> for Setup {
    fn from(e: &Experiment) -> Setup {
        let guests: BTreeSet<u8> =
            e.workloads.iter().map(|workload| workload.guest).filter(|&guest| guest > 0).collect();
        Setup {
            topology: e.topology.clone(),
            switches: e.switches.clone(),
            multipath: e.multipath,
            loss: e.loss,
            reroute_after: e.reroute_after,
            hosts: e.hosts.clone(),
            edge: e.edge.clone(),
            guests: guests.into_iter().collect(),
            seed: e.seed,
            frames: 16_384,
            spin: None,
            congestion: Some(congestion(e.hosts.tcp.congestion).to_owned()),
            shape: true,
        }
    }
}

impl Setup {
    /// All guests of a host.
    pub(crate) fn guests(&self) -> impl Iterator<Item = u8> + '_ {
        std::iter::once(0).chain(self.guests.iter().copied())
    }
}

/// Linux's name of a congestion control. A DCTCP that is registered with the kernel for the occasion has a name of its own.
pub fn congestion(law: Algorithm) -> &'static str {
    match law {
        // Coupled laws of a single connection are NewReno.
        Algorithm::NewReno | Algorithm::Lia | Algorithm::Olia => "reno",
        Algorithm::Cubic => "cubic",
        Algorithm::Dctcp => "dctcp",
        Algorithm::Vegas => "vegas",
        Algorithm::Illinois => "illinois",
        Algorithm::HighSpeed => "highspeed",
        Algorithm::Bbr => "bbr",
    }
}
