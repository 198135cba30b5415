//! The cutter: a pair of devices that makes the kernel cut segments. The data path cannot encapsulate some whole, such as those of a
//! guest's own tunnel, and cannot take datagrams out of its tunnel whole. They enter by the first, which can do nothing with segments,
//! and come out of the second in packets.

use crate::htb;
use crate::netlink::{attribute, request, terminated};
use port::{set_offload, Switch};
use std::io;

/// Start of the devices' names.
pub const NAME: &str = "svcut";
pub const FIRST: &str = "svcut0";
pub const SECOND: &str = "svcut1";

const IFLA_GSO_MAX_SEGS: u16 = 40;

/// Makes the pair, down. Fine if it exists.
///
/// # Errors
/// What the kernel answers.
pub fn add() -> io::Result<()> {
    htb::add_pair(FIRST, SECOND)?;
    // Kinds of segments that have no switch here are cut because they are more than one packet.
    let one = attribute(IFLA_GSO_MAX_SEGS, &1u32.to_ne_bytes());
    request(
        crate::gro::RTM_NEWLINK,
        0,
        &[crate::gro::link_header(0), attribute(crate::gro::IFLA_IFNAME, &terminated(FIRST)), one].concat(),
    )?;
    [Switch::Tso, Switch::Gso, Switch::TxChecksum].iter().try_for_each(|switch| set_offload(FIRST, *switch, false))
}

/// # Errors
/// What the kernel answers.
pub fn up() -> io::Result<()> {
    [FIRST, SECOND].iter().try_for_each(|name| htb::set_up(name))
}

/// Fine if there is none.
///
/// # Errors
/// What the kernel answers.
pub fn remove() -> io::Result<()> {
    htb::remove_pair(FIRST)
}
