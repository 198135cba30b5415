//! What the edges of a script are configured as: its line `config`.

use crate::words::{number, Parsed};
use crate::world::GUEST;
use edge::names::Names;
use edge::vcc::{self, Law};
use edge::{hygenicc, Balance};
use units::{BitRate, Bytes, Time};

/// What the edges of one script are configured as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    pub balance: Balance,
    /// Of TCP only.
    pub tcp_only: bool,
    /// Of the flow hash.
    pub seed: u64,
    pub max_flows: usize,
    /// Strangers' packets are delivered.
    pub any_peer: bool,
    /// Of the guest's port: the largest IP packet to peers, bytes; 0: no bound.
    pub mtu: u16,
    /// The same of the neighbour's.
    pub neighbour_mtu: u16,
    /// The guest may only speak under its own address.
    pub strict: bool,
    /// Nothing that the guest sends reaches the host.
    pub isolated: bool,
    /// The edge has a MAC address of its own to answer with.
    pub answers: bool,
    /// Virtual congestion control; `None`: TCP is left alone.
    pub congestion: Option<Congestion>,
    /// The guest's share of the uplink; `None`: it sends as it likes.
    pub share: Option<Share>,
}

/// Of the guest's IPv4 packets: a host of the scripts holds no others in all worlds alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// What it has alone.
    pub uplink: BitRate,
    /// Of the bucket.
    pub depth: Bytes,
}

impl Share {
    /// The bucket holds `depth` whatever the rate, and marks wait for a packet to go with however long it takes.
    pub fn config(&self) -> hygenicc::Config {
        hygenicc::Config {
            depth: self.depth,
            bursts: 0,
            patience: Time::from_secs(600),
            guests: vec![(GUEST.v4, 1)],
            ..hygenicc::Config::new(self.uplink, Time::from_us(100))
        }
    }
}

/// Of all flows, beside the defaults of [`edge::vcc::Class`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Congestion {
    pub law: Law,
    /// The window is never larger.
    pub clamp: Option<Bytes>,
}

impl Congestion {
    pub fn config(&self) -> vcc::Config {
        vcc::Config::new(vcc::Class { law: self.law, clamp: self.clamp, ..vcc::Class::default() })
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            balance: Balance::ecmp(),
            tcp_only: false,
            seed: 0,
            max_flows: 1024,
            any_peer: false,
            mtu: 0,
            neighbour_mtu: 0,
            strict: false,
            isolated: false,
            answers: false,
            congestion: None,
            share: None,
        }
    }
}

/// `words`: those behind `config`.
pub(crate) fn config(words: &str) -> Parsed<Config> {
    let mut config = Config::default();
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("{word:?} has no value"))?;
        match key {
            "balance" => config.balance = value.parse()?,
            "udp" => config.tcp_only = value == "flow",
            "seed" => config.seed = number(value)?,
            "flows" => config.max_flows = number(value)?,
            "any-peer" => config.any_peer = value == "yes",
            "mtu" => config.mtu = number(value)?,
            "neighbour-mtu" => config.neighbour_mtu = number(value)?,
            "strict" => config.strict = value == "yes",
            "isolated" => config.isolated = value == "yes",
            "answers" => config.answers = value == "yes",
            "law" => {
                let law = Option::<Law>::find(value).and_then(|choice| choice.value);
                let law = law.ok_or_else(|| format!("there is no law {value:?}"))?;
                config.congestion = Some(Congestion { law, clamp: None });
            }
            "clamp" => {
                let law = config.congestion.map_or(Law::None, |congestion| congestion.law);
                config.congestion = Some(Congestion { law, clamp: Some(Bytes(number(value)?)) });
            }
            "uplink" => {
                let uplink = value.parse().map_err(|e: units::ParseError| e.to_string())?;
                config.share = Some(Share { uplink, depth: Bytes::kib(64) });
            }
            "depth" => {
                let share = config.share.as_mut().ok_or("depth= comes after uplink=")?;
                share.depth = Bytes(number(value)?);
            }
            _ => return Err(format!("unknown key {key:?}")),
        }
    }
    Ok(config)
}
