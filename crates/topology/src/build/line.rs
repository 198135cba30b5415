//! Builders of fabrics with bottleneck links in a line: dumbbell and parking lot.

use super::{at_least, check_wire, product, Draft, Size};
use crate::error::TopologyError;
use crate::graph::Topology;
use units::{BitRate, Time};

/// Two switches, `left` and `right`, joined by one bottleneck link `left-right`. Hosts `0..pairs` hang at `left`,
/// hosts `pairs..2*pairs` at `right`; host `i` and host `pairs + i` make a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dumbbell {
    pub pairs: u32,
    pub host_rate: BitRate,
    pub host_delay: Time,
    pub bottleneck_rate: BitRate,
    pub bottleneck_delay: Time,
}

impl Dumbbell {
    /// # Errors
    /// No pair or too many of them; a rate or delay out of range.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let pairs = self.pairs;
        at_least("pairs", pairs, 1)?;
        check_wire(("host_rate", self.host_rate), ("host_delay", self.host_delay))?;
        check_wire(("bottleneck_rate", self.bottleneck_rate), ("bottleneck_delay", self.bottleneck_delay))?;
        let hosts = product(&[2, pairs]);
        Size { hosts, switches: 2, leaves: 2, links: hosts + 1, fields: "pairs" }.check()?;
        let left = hosts as u32;
        let leaf_of = |h| if h < pairs { left } else { left + 1 };
        let mut draft = Draft::with_hosts(hosts, self.host_rate, self.host_delay, leaf_of);
        draft.switch("left".into(), 0);
        draft.switch("right".into(), 0);
        draft.link(left, left + 1, self.bottleneck_rate, self.bottleneck_delay);
        Ok(draft.finish())
    }
}

/// A line of `hops + 1` switches, `switch1` to `switch{hops+1}`, whose `hops` links are the bottlenecks.
///
/// Host 0 at the first switch and host 1 at the last are the ends of the path that crosses every hop. Hop `i`, from
/// `switch{i}` to `switch{i+1}` (`i` from 1), has a pair of its own for the cross traffic: host `2i` at its near end and
/// host `2i + 1` at its far end. So there are `2 + 2 hops` hosts.
///
/// ```text
///  0 2      3 4      5 6      7 1       (hops = 3)
///   \|      |/        |/      |/
///  switch1--switch2--switch3--switch4
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkingLot {
    pub hops: u32,
    pub host_rate: BitRate,
    pub host_delay: Time,
    pub hop_rate: BitRate,
    pub hop_delay: Time,
}

impl ParkingLot {
    /// # Errors
    /// No hop or too many of them; a rate or delay out of range.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let hops = self.hops;
        at_least("hops", hops, 1)?;
        check_wire(("host_rate", self.host_rate), ("host_delay", self.host_delay))?;
        check_wire(("hop_rate", self.hop_rate), ("hop_delay", self.hop_delay))?;
        let hosts = product(&[2, hops]) + 2;
        let switches = u64::from(hops) + 1;
        Size { hosts, switches, leaves: switches, links: hosts + u64::from(hops), fields: "hops" }.check()?;
        let switch1 = hosts as u32;
        let leaf_of = |h| match h {
            0 => switch1,
            1 => switch1 + hops,
            h => switch1 + h / 2 - 1 + h % 2,
        };
        let mut draft = Draft::with_hosts(hosts, self.host_rate, self.host_delay, leaf_of);
        for s in 1..=hops + 1 {
            draft.switch(format!("switch{s}"), 0);
        }
        for near in switch1..switch1 + hops {
            draft.link(near, near + 1, self.hop_rate, self.hop_delay);
        }
        Ok(draft.finish())
    }
}
