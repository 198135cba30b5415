//! Packets in the model and their store. The fields that every hop touches lie apart from the headers, so that a hop reads
//! half a cache line.

use std::num::NonZeroU32;
use wire::feedback::Feedback;
use wire::TcpOptions;

/// Index of a packet in [`Packets`].
pub type PacketId = u32;
/// The end of a list of packets.
pub const NO_PACKET: PacketId = u32::MAX;

/// Labels from here on are outer source ports.
pub const PORT_LABELS: u16 = 0xc000;
/// [`Hop::label`] of a packet with a TTL, which is added to it.
const EXPIRES: u16 = 0x8000;

/// [`Packet::priority`] of the notification of a dropped packet, which the switch itself has made: see [`crate::Notify`].
pub const NOTIFICATION: u8 = u8::MAX;

/// Hops that a packet can report INT for: host, leaf, aggregation, core, aggregation, leaf.
pub const MAX_HOPS: usize = 6;

/// A packet without data that the NIC of its destination sends back, as pFabric's transport asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Probe {
    /// It is none.
    #[default]
    None,
    /// On its way out.
    Asks,
    /// On its way back.
    Answers,
}

/// One packet in the model: the headers that the edge and the hosts read, and no payload bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    /// Octets on the wire: payload, headers and Ethernet's 38.
    pub wire_len: u32,
    /// Destination host.
    pub dst: u32,
    /// Source host.
    pub src: u32,
    /// Hash of the outer 5-tuple, the same at every switch; each switch mixes its own seed in.
    pub hash: u32,
    /// Path label: 0 is hashed, n below [`PORT_LABELS`] follows spanning tree n, those from there on are source ports, which are in
    /// the hash already.
    pub label: u16,
    /// The switch that would forward the packet for the n-th time turns it back to its source instead, which no label may tell where
    /// to go; 0: none does.
    pub ttl: u8,
    /// The port by which it came to the switch that turned it back, plus 1.
    pub turned_at: Option<NonZeroU32>,
    /// Strict priority, 0 first, or [`NOTIFICATION`].
    pub priority: u8,
    /// Place among what waits at a switch that ranks packets, 0 first.
    pub rank: u32,
    /// Whether a NIC answers it.
    pub probe: Probe,
    /// For switches: the port by which it came to this one.
    pub came: u32,
    /// Ask every port on the way for its utilisation (in-band telemetry).
    pub int: bool,
    /// It goes past the queue of its host's rate limiter.
    pub first: bool,
    /// An edge sends it again: no guest waits to hear that it has left.
    pub again: bool,
    /// Links crossed so far.
    pub hops: u8,
    /// The model's own name for the connection; not a header field.
    pub flow: u32,
    /// For the driver: the slot of the frame that this packet stands for.
    pub slot: u32,
    /// Utilisation of the first [`MAX_HOPS`] ports crossed, in 1/255, if asked.
    pub utilisation: [u8; MAX_HOPS],
    /// What the sender's edge tells the receiver's of a path.
    pub feedback: Feedback,
    pub headers: wire::Packet,
    pub options: TcpOptions,
}

impl Packet {
    /// Is it the notification of a dropped packet? It then has that packet's headers with the addresses swapped.
    pub fn is_notification(&self) -> bool {
        self.priority == NOTIFICATION
    }

    /// Utilisation of the busiest switch port that it crossed, in 1/255, if it asked: the first port is the sending host's own.
    pub fn busiest(&self) -> Option<u8> {
        let crossed = self.utilisation.get(1..usize::from(self.hops).min(MAX_HOPS)).unwrap_or_default();
        self.int.then(|| crossed.iter().copied().max().unwrap_or(0))
    }
}

/// A packet that reached its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub host: u32,
    pub packet: PacketId,
}

/// Where every octet given to the fabric is: see [`crate::Fabric::audit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Audit {
    pub sent_bytes: u64,
    pub delivered_bytes: u64,
    pub dropped_bytes: u64,
    pub inside_bytes: u64,
    pub inside_packets: u64,
}

/// The 5-tuple hash that switches start from (FNV-1a over the words, then finalised).
pub fn flow_hash(h: &wire::Packet) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let ports = u32::from(h.sport) << 16 | u32::from(h.dport);
    for word in h.saddr.iter().chain(&h.daddr).chain([&ports, &u32::from(h.proto)]) {
        hash = (hash ^ u64::from(*word)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    ((hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}

/// What every hop touches of a packet: half a cache line, apart from the rest.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Hop {
    /// While queued, when it was queued; on the wire, when its last bit arrives. Picoseconds.
    pub at_ps: u64,
    /// Neighbour in the queue, on the wire or on the free list.
    next: PacketId,
    pub wire_len: u32,
    pub dst: u32,
    pub hash: u32,
    pub rank: u32,
    pub label: u16,
    pub priority: u8,
    /// Links crossed; the top bit asks for telemetry.
    hops: u8,
}

const WANTS_INT: u8 = 0x80;

const _: () = assert!(size_of::<Hop>() == 32);

impl Hop {
    /// Of a packet that waits nowhere yet.
    fn of(packet: &Packet) -> Hop {
        Hop {
            at_ps: 0,
            next: NO_PACKET,
            wire_len: packet.wire_len,
            dst: packet.dst,
            hash: packet.hash,
            rank: packet.rank,
            label: if packet.ttl == 0 { packet.label } else { EXPIRES | u16::from(packet.ttl) },
            priority: packet.priority,
            hops: packet.hops & !WANTS_INT | if packet.int { WANTS_INT } else { 0 },
        }
    }
    pub(crate) fn wants_int(&self) -> bool {
        self.hops & WANTS_INT != 0
    }
    pub(crate) fn hops(&self) -> u8 {
        self.hops & !WANTS_INT
    }
    /// Does a spanning tree say where it goes?
    #[inline]
    pub(crate) fn follows_tree(&self) -> bool {
        self.label.wrapping_sub(1) < EXPIRES - 1
    }
    /// Is this switch as far as it goes?
    #[inline]
    pub(crate) fn expires(&self) -> bool {
        self.label >= EXPIRES && self.label < PORT_LABELS && u16::from(self.hops()) >= self.label - EXPIRES
    }
    /// Is it a notification? To [`expires`](Self::expires) it looks like a packet that always does.
    pub(crate) fn is_notification(&self) -> bool {
        self.label == EXPIRES
    }
    #[inline]
    pub(crate) fn count_hop(&mut self) {
        if self.hops() < 0x7f {
            self.hops += 1;
        }
    }
}

/// All packets that exist, in one slab with a free list: no allocation once the run is warm.
#[derive(Debug)]
pub struct Packets {
    hops: Vec<Hop>,
    /// Each in a box: of a packet that goes to another store only the hop is copied.
    #[allow(clippy::vec_box, reason = "a packet takes its box along to another store")]
    bodies: Vec<Box<Packet>>,
    /// Boxes of packets that came from other stores, for packets that go.
    #[allow(clippy::vec_box, reason = "a packet takes its box along to another store")]
    spare: Vec<Box<Packet>>,
    free: PacketId,
    live: usize,
}

/// More boxes are not kept: where more packets come than go, their number would grow with the run.
const MAX_SPARE: usize = 4096;

impl Default for Packets {
    fn default() -> Self {
        Packets { hops: Vec::new(), bodies: Vec::new(), spare: Vec::new(), free: NO_PACKET, live: 0 }
    }
}

impl Packets {
    pub fn add(&mut self, packet: Packet) -> PacketId {
        self.add_changed(&packet, |_| {})
    }

    /// Adds a copy of a packet which `change` has changed.
    #[inline]
    pub fn add_changed(&mut self, packet: &Packet, change: impl FnOnce(&mut Packet)) -> PacketId {
        if self.free == NO_PACKET {
            self.grow();
        }
        self.live += 1;
        let id = self.free;
        let (hop, body) = (&mut self.hops[id as usize], &mut *self.bodies[id as usize]);
        self.free = hop.next;
        *body = *packet;
        change(body);
        *hop = Hop::of(body);
        id
    }

    /// Makes a free slot.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.free = self.hops.len() as PacketId;
        let body = Box::<Packet>::default();
        self.hops.push(Hop::of(&body));
        self.bodies.push(body);
    }

    /// Takes a packet, which must not be on any list, out for another store.
    pub(crate) fn export(&mut self, id: PacketId) -> (Hop, Box<Packet>) {
        let spare = self.spare.pop().unwrap_or_default();
        let body = std::mem::replace(&mut self.bodies[id as usize], spare);
        let hop = self.hops[id as usize];
        self.remove(id);
        (hop, body)
    }

    /// Takes in what [`export`](Self::export) gave.
    pub(crate) fn import(&mut self, hop: Hop, body: Box<Packet>) -> PacketId {
        self.live += 1;
        if self.free == NO_PACKET {
            self.hops.push(hop);
            self.bodies.push(body);
            return (self.hops.len() - 1) as PacketId;
        }
        let id = self.free;
        self.free = self.hops[id as usize].next;
        self.hops[id as usize] = hop;
        let old = std::mem::replace(&mut self.bodies[id as usize], body);
        if self.spare.len() < MAX_SPARE {
            self.spare.push(old);
        }
        id
    }

    /// A notification, which switches tell from other packets.
    pub(crate) fn add_notification(&mut self, packet: Packet) -> PacketId {
        let id = self.add(packet);
        self.hops[id as usize].label = EXPIRES;
        id
    }

    /// Frees a packet, which must not be on any list.
    pub fn remove(&mut self, id: PacketId) {
        self.live -= 1;
        self.hops[id as usize].next = self.free;
        self.free = id;
    }

    /// A copy of a packet as it is now.
    pub fn get(&self, id: PacketId) -> Packet {
        Packet { hops: self.hops[id as usize].hops(), ..*self.bodies[id as usize] }
    }
    /// Frees a packet and returns it.
    pub fn take(&mut self, id: PacketId) -> Packet {
        let packet = self.get(id);
        self.remove(id);
        packet
    }
    /// From the switch which it reached by the port `came` the packet goes back to its source, hashed as before.
    #[cold]
    pub(crate) fn turn_back(&mut self, id: PacketId, came: u32) {
        let (hop, body) = (&mut self.hops[id as usize], &mut self.bodies[id as usize]);
        std::mem::swap(&mut body.src, &mut body.dst);
        body.turned_at = NonZeroU32::new(came + 1);
        hop.dst = body.dst;
        hop.label = 0;
    }
    /// A packet as it is now.
    pub fn arrived(&mut self, id: PacketId) -> &Packet {
        let body = &mut self.bodies[id as usize];
        body.hops = self.hops[id as usize].hops();
        body
    }
    /// A packet without its hop count, which [`get`](Self::get) knows.
    #[inline]
    pub fn body(&self, id: PacketId) -> &Packet {
        &self.bodies[id as usize]
    }
    /// Changes of the fields that switches forward by have no effect any more.
    #[inline]
    pub fn body_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.bodies[id as usize]
    }
    #[inline]
    pub(crate) fn hop(&self, id: PacketId) -> &Hop {
        &self.hops[id as usize]
    }
    #[inline]
    pub(crate) fn hop_mut(&mut self, id: PacketId) -> &mut Hop {
        &mut self.hops[id as usize]
    }

    /// Packets in existence.
    pub fn live(&self) -> usize {
        self.live
    }
    /// The most packets that ever existed at once.
    pub fn high_water(&self) -> usize {
        self.hops.len()
    }
    /// The packet behind `id` on a [`List`].
    pub fn next(&self, id: PacketId) -> Option<PacketId> {
        let next = self.hops[id as usize].next;
        (next != NO_PACKET).then_some(next)
    }
}

/// A FIFO threaded through the packets themselves.
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: PacketId,
    tail: PacketId,
}

impl Default for List {
    fn default() -> Self {
        List { head: NO_PACKET, tail: NO_PACKET }
    }
}

impl List {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NO_PACKET
    }
    pub fn head(&self) -> Option<PacketId> {
        (self.head != NO_PACKET).then_some(self.head)
    }
    pub(crate) fn tail(&self) -> Option<PacketId> {
        (!self.is_empty()).then_some(self.tail)
    }
    #[inline]
    pub fn push(&mut self, id: PacketId, packets: &mut Packets) {
        packets.hop_mut(id).next = NO_PACKET;
        if self.head == NO_PACKET {
            self.head = id;
        } else {
            packets.hop_mut(self.tail).next = id;
        }
        self.tail = id;
    }
    #[inline]
    pub fn pop(&mut self, packets: &mut Packets) -> Option<PacketId> {
        let id = self.head;
        if id == NO_PACKET {
            return None;
        }
        self.head = packets.hop(id).next;
        Some(id)
    }
    /// Its packets from head to tail.
    pub fn iter<'a>(&self, packets: &'a Packets) -> impl Iterator<Item = PacketId> + 'a {
        std::iter::successors(self.head(), |&id| packets.next(id))
    }
}
