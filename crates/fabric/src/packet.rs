use wire::TcpOptions;

/// Index of a packet in [`Packets`].
pub type PacketId = u32;
/// The end of a list of packets.
pub const NO_PACKET: PacketId = u32::MAX;

/// Hops that a packet can report INT for: host, leaf, aggregation, core, aggregation, leaf.
pub const MAX_HOPS: usize = 6;

/// One packet in the model: the headers that the edge and the hosts read, and no payload bytes.
///
/// The fields that every hop touches come first, so that a hop costs one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Packet {
    /// The fabric's own.
    pub place: Place,
    /// Octets on the wire: payload, headers and Ethernet's 38.
    pub wire_len: u32,
    /// Destination host.
    pub dst: u32,
    /// Source host.
    pub src: u32,
    /// Hash of the outer 5-tuple, the same at every switch; each switch mixes its own seed in.
    pub hash: u32,
    /// Path label: 0 is hashed, n follows spanning tree n.
    pub label: u16,
    /// Strict priority, 0 first.
    pub priority: u8,
    /// Links crossed so far.
    pub hops: u8,
    /// The model's own name for the connection; not a header field.
    pub flow: u32,
    /// Ask every port on the way for its utilisation (in-band telemetry).
    pub int: bool,
    /// Utilisation of the first [`MAX_HOPS`] ports crossed, in 1/255, if asked.
    pub utilisation: [u8; MAX_HOPS],
    /// For the driver: the slot of the frame that this packet stands for.
    pub slot: u32,
    pub headers: wire::Packet,
    pub options: TcpOptions,
}

/// Where in the fabric a packet is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// While queued, when it was queued; on the wire, when its last bit arrives. Picoseconds.
    pub(crate) at_ps: u64,
    /// Neighbour in the queue, on the wire or on the free list.
    pub(crate) next: PacketId,
}

impl Default for Packet {
    fn default() -> Self {
        Packet {
            place: Place { at_ps: 0, next: NO_PACKET },
            wire_len: 0,
            dst: 0,
            src: 0,
            hash: 0,
            label: 0,
            priority: 0,
            hops: 0,
            flow: 0,
            int: false,
            utilisation: [0; MAX_HOPS],
            slot: 0,
            headers: wire::Packet::default(),
            options: TcpOptions::default(),
        }
    }
}

/// All packets that exist, in one slab with a free list: no allocation once the run is warm.
#[derive(Debug)]
pub struct Packets {
    items: Vec<Packet>,
    free: PacketId,
    live: usize,
}

impl Default for Packets {
    fn default() -> Self {
        Packets { items: Vec::new(), free: NO_PACKET, live: 0 }
    }
}

impl Packets {
    pub fn add(&mut self, packet: Packet) -> PacketId {
        self.live += 1;
        if self.free == NO_PACKET {
            self.items.push(packet);
            return (self.items.len() - 1) as PacketId;
        }
        let id = self.free;
        let slot = &mut self.items[id as usize];
        self.free = slot.place.next;
        *slot = packet;
        id
    }

    /// Frees a packet, which must not be on any list.
    pub fn remove(&mut self, id: PacketId) {
        self.live -= 1;
        self.items[id as usize].place.next = self.free;
        self.free = id;
    }

    /// Packets in existence.
    pub fn live(&self) -> usize {
        self.live
    }
    /// The most packets that ever existed at once.
    pub fn high_water(&self) -> usize {
        self.items.len()
    }
    /// The packet behind `id` on a [`List`].
    pub fn next(&self, id: PacketId) -> Option<PacketId> {
        let next = self.items[id as usize].place.next;
        (next != NO_PACKET).then_some(next)
    }
}

impl std::ops::Index<PacketId> for Packets {
    type Output = Packet;
    #[inline]
    fn index(&self, id: PacketId) -> &Packet {
        &self.items[id as usize]
    }
}
impl std::ops::IndexMut<PacketId> for Packets {
    #[inline]
    fn index_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.items[id as usize]
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
    #[inline]
    pub fn push(&mut self, id: PacketId, packets: &mut Packets) {
        packets[id].place.next = NO_PACKET;
        if self.head == NO_PACKET {
            self.head = id;
        } else {
            packets[self.tail].place.next = id;
        }
        self.tail = id;
    }
    #[inline]
    pub fn pop(&mut self, packets: &mut Packets) -> Option<PacketId> {
        let id = self.head;
        if id == NO_PACKET {
            return None;
        }
        self.head = packets[id].place.next;
        Some(id)
    }
    /// Its packets from head to tail.
    pub fn iter<'a>(&self, packets: &'a Packets) -> impl Iterator<Item = PacketId> + 'a {
        std::iter::successors(self.head(), |&id| packets.next(id))
    }
}
