//! The modelled datacenter network: links, output queues, switches. A [`sim::Scheduler`] drives it, in virtual time by the
//! simulator or by the wall clock in the lab. The crate reads no clock, and knows only the number of hosts.
//!
//! # A packet's way
//! A host's packet enters the output port of its NIC with [`Fabric::send`]. Every port is an output queue followed by a wire. One
//! event per packet and hop is enough: the arrival of the packet at the head of the wire. The port then first starts all
//! transmissions that were due by that time, which depend on nothing later. After that it schedules the arrival of its new head.
//! [`Fabric::handle`] moves the arrived packet into the next output port, or returns it when it has reached its host.

mod capacity;
mod capture;
mod classes;
mod codel;
mod config;
mod conga;
mod cut;
mod dre;
mod fabric;
mod flowlets;
mod forward;
mod hop;
mod notices;
mod notify;
mod packet;
mod partition;
mod port;
mod quench;
mod ranked;
mod routing;

pub use capture::{Captured, Tap};
pub use codel::Codel;
pub use config::{Aqm, Buffer, Multipath, Parallel, RandomLoss, SwitchConfig};
pub use conga::conga_suits;
pub use cut::Cut;
pub use fabric::{Event, Fabric};
pub use flowlets::FLOWLET_TABLE_BYTES;
pub use notify::{Notify, NotifyStats, Pace};
pub use packet::{
    flow_hash, Audit, Delivery, List, Packet, PacketId, Packets, Probe, MAX_HOPS, NOTIFICATION, NO_PACKET, PORT_LABELS,
};
pub use partition::{Border, Part};
pub use port::{PortId, PortStats};
