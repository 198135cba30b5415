//! How large a fabric is, and what its guests' traffic goes through.

use edge::balance::{Balance, AGENTS};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use units::{BitRate, Bytes};

/// Parameters of a fabric; [`Shape::check`] says which are possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    pub leaves: u16,
    pub spines: u16,
    /// Parallel links between each leaf and each spine.
    pub links: u16,
    /// Hosts of each leaf.
    pub hosts: u16,
    /// Guests of each host.
    pub guests: u16,
    /// Bytes of the largest IP packet on the fabric's links.
    pub mtu: u32,
    pub wire: Wire,
    pub overlay: Overlay,
    /// Of the edge's agents, where [`Overlay::Edge`] starts them.
    #[serde(with = "as_text")]
    pub policy: Balance,
    /// Labels of a schedule.
    pub labels: u16,
    /// Of the links between leaves and spines, both directions: none, and links are as fast as the machine; one for all; or one for
    /// each link of a leaf, in the order of spines.
    pub rates: Vec<BitRate>,
    /// What may wait at each end of these links; [`BUFFER`] unless it is given.
    pub buffer: Option<Bytes>,
    /// Routers mark what finds more than this in a queue of those.
    pub mark: Option<Bytes>,
}

/// Of links with a rate.
pub const BUFFER: Bytes = Bytes(256_000);

impl Default for Shape {
    /// 2 leaves x 2 spines x 2 links, 2 hosts a leaf with a guest each, MTU 1500, whole segments, routed guests.
    fn default() -> Shape {
        Shape {
            leaves: 2,
            spines: 2,
            links: 2,
            hosts: 2,
            guests: 1,
            mtu: 1500,
            wire: Wire::Whole,
            overlay: Overlay::Routed,
            policy: Balance::new(AGENTS, |_| None),
            labels: 8,
            rates: Vec::new(),
            buffer: None,
            mark: None,
        }
    }
}

mod as_text {
    use super::Balance;
    use serde::{de::Error, Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(balance: &Balance, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(balance)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Balance, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum $name { $($(#[$variant_doc])* $variant),* }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant),*];

            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<$name, String> {
                $name::ALL.iter().copied().find(|one| one.name() == text).ok_or_else(|| {
                    format!("give {}", $name::ALL.iter().map(|one| one.name()).collect::<Vec<_>>().join(", "))
                })
            }
        }
    };
}

names! {
    /// What crosses the hosts' uplinks.
    Wire {
        /// Segments of up to 64 KB, as veth carries them.
        Whole "whole",
        /// Packets of at most the MTU, as on a cable: the sender's uplink cuts segments, the receiver's merges them.
        Mtu "mtu",
    }
}

names! {
    /// What carries guests' packets between hosts.
    Overlay {
        /// The fabric's routes: guests have addresses of the fabric.
        Routed "routed",
        /// A bridge and the kernel's VXLAN device on each host.
        Vxlan "vxlan",
        /// The edge: an agent on each host.
        Edge "edge",
        /// Nothing; guests reach nobody until somebody adds it.
        None "none",
    }
}

/// One namespace of a lab. Numbers begin with 1; hosts are numbered through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Leaf(u16),
    Spine(u16),
    Host(u16),
    /// Host, and guest of that host.
    Guest(u16, u16),
}

impl Node {
    pub fn kind(self) -> &'static str {
        match self {
            Node::Leaf(_) => "leaf",
            Node::Spine(_) => "spine",
            Node::Host(_) => "host",
            Node::Guest(..) => "guest",
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Leaf(n) | Node::Spine(n) | Node::Host(n) => write!(f, "{}{n}", self.kind()),
            Node::Guest(host, guest) => write!(f, "guest{host}.{guest}"),
        }
    }
}

impl FromStr for Node {
    type Err = ();

    /// As displayed.
    fn from_str(text: &str) -> Result<Node, ()> {
        let digits = text.find(|c: char| c.is_ascii_digit()).ok_or(())?;
        let (kind, number) = text.split_at(digits);
        let parse = |text: &str| text.parse::<u16>().map_err(|_| ());
        let node = match (kind, number.split_once('.')) {
            ("leaf", None) => Node::Leaf(parse(number)?),
            ("spine", None) => Node::Spine(parse(number)?),
            ("host", None) => Node::Host(parse(number)?),
            ("guest", Some((host, guest))) => Node::Guest(parse(host)?, parse(guest)?),
            _ => return Err(()),
        };
        // Leading zeros and signs name the same node by another name: refused.
        if node.to_string() == text {
            Ok(node)
        } else {
            Err(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names_survive_the_round_trip() {
        for node in [Node::Leaf(1), Node::Spine(12), Node::Host(250), Node::Guest(3, 64)] {
            assert_eq!(node.to_string().parse(), Ok(node));
        }
        for text in ["", "leaf", "leaf01", "leaf+1", "leaf1.1", "guest1", "guest1.", "guest1.1.1", "host70000", "1"] {
            assert_eq!(text.parse::<Node>(), Err(()), "{text}");
        }
    }

    #[test]
    fn unknown_words_get_the_known_ones() {
        assert_eq!("vxlan".parse(), Ok(Overlay::Vxlan));
        assert_eq!("geneve".parse::<Overlay>(), Err("give routed, vxlan, edge, none".into()));
    }
}
