//! Links with a rate: a token bucket of the kernel at both ends, and routers that mark what finds a long queue there.

use super::ip::batch;
use super::{Error, KernelLab, Link, Node, Shape, BUFFER};
use serde::Serialize;
use std::fs;
use std::path::Path;
use units::{BitRate, Bytes, Time};

/// What a token bucket lets go at once: a timer that is so late costs no rate.
const BURST: Time = Time::from_ms(2);
/// The largest buffer, bytes.
const MAX_BUFFER: u64 = 1_000_000_000;

/// The queue at one end of a link, for routers that mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    pub rate: BitRate,
    /// What finds more is dropped.
    pub buffer: Bytes,
    /// What finds more is marked, if it is ECN-capable.
    pub threshold: Bytes,
}

/// Makes an interface mark: its name, its queue, and where in the bpffs its counts go. Or says why it cannot.
pub type Marker<'a> = dyn Fn(&str, &Queue, &Path) -> Result<(), String> + Sync + 'a;

/// What one end of a link has counted, in packets as on a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Marks {
    pub packets: u64,
    /// Of those, they found more than the threshold and left with a mark.
    pub marked: u64,
    /// Packets beside those, which found the buffer full.
    pub full: u64,
    #[serde(rename = "queue_bytes", serialize_with = "as_number")]
    pub queue: Bytes,
    /// The longest queue that a packet found.
    #[serde(rename = "longest_bytes", serialize_with = "as_number")]
    pub longest: Bytes,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn as_number<S: serde::Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(bytes.get())
}

impl Shape {
    /// # Errors
    /// [`Error::Rates`], [`Error::Rate`], [`Error::NoRate`], [`Error::Buffer`], [`Error::Mark`].
    pub(super) fn check_queues(&self) -> Result<(), Error> {
        let links = usize::from(self.spines) * usize::from(self.links);
        if self.rates.len() > 1 && self.rates.len() != links {
            return Err(Error::Rates { given: self.rates.len(), links });
        }
        let possible = BitRate::from_mbps(1)..=BitRate::from_gbps(100);
        if let Some(rate) = self.rates.iter().find(|rate| !possible.contains(rate)) {
            return Err(Error::Rate(*rate));
        }
        if self.rates.is_empty() {
            let asked = [("buffer", self.buffer), ("mark", self.mark)];
            let asked = asked.into_iter().find_map(|(key, size)| Some((key, size?)));
            return asked.map_or(Ok(()), |(key, size)| Err(Error::NoRate(key, size)));
        }
        let (buffer, least) = (self.buffer.unwrap_or(BUFFER), self.two_packets());
        if !(least.get()..=MAX_BUFFER).contains(&buffer.get()) {
            return Err(Error::Buffer(buffer, least));
        }
        match self.mark {
            Some(mark) if mark == Bytes::ZERO || mark >= buffer => Err(Error::Mark(mark, buffer)),
            _ => Ok(()),
        }
    }

    /// With their Ethernet headers.
    fn two_packets(&self) -> Bytes {
        Bytes(2 * (u64::from(self.mtu) + 14))
    }

    /// Of a link between leaf and spine; none if it has none.
    pub(super) fn rate(&self, link: &Link) -> Option<BitRate> {
        let cables = || self.links().into_iter().filter(|one| one.ends[0].0 == link.ends[0].0);
        let (Node::Leaf(_), Node::Spine(_)) = (link.ends[0].0, link.ends[1].0) else { return None };
        let place = cables().position(|one| one == *link)?;
        self.rates.get(place).or(self.rates.first()).copied()
    }

    /// The command for `tc -batch`. A burst is at least two packets.
    fn token_bucket(&self, interface: &str, rate: BitRate) -> String {
        let burst = rate.bytes_in(BURST).max(self.two_packets().get());
        let limit = self.buffer.unwrap_or(BUFFER).get();
        format!("qdisc add dev {interface} root tbf rate {}bit burst {burst} limit {limit}", rate.as_bps())
    }
}

impl KernelLab {
    /// Every link with a rate gets a queue at both ends.
    pub(super) fn make_queues(&self, shape: &Shape, mark: &Marker<'_>) -> Result<(), Error> {
        if shape.rates.is_empty() {
            return Ok(());
        }
        for (node, interface, rate) in shape.links().iter().flat_map(|link| {
            let rate = shape.rate(link);
            link.ends.clone().into_iter().filter_map(move |(node, interface)| Some((node, interface, rate?)))
        }) {
            let namespace = self.namespace(node);
            batch("tc", Some(&namespace), vec![shape.token_bucket(&interface, rate)])?;
            let Some(threshold) = shape.mark else { continue };
            let queue = Queue { rate, buffer: shape.buffer.unwrap_or(BUFFER), threshold };
            let pin = self.marks(node, &interface);
            if let Some(dir) = pin.parent() {
                fs::create_dir_all(dir).map_err(|e| Error::Io("create", e, dir.to_owned()))?;
            }
            let marked = namespace.run(|| mark(&interface, &queue, &pin));
            let inside = |e| Error::Inside("mark", namespace.name().to_owned(), e);
            marked.map_err(inside)?.map_err(Error::NoMarks)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(rates: &[u64]) -> Shape {
        Shape { rates: rates.iter().map(|n| BitRate::from_mbps(*n)).collect(), ..Shape::default() }
    }

    #[test]
    fn links_take_their_rates_in_the_order_of_spines() {
        let shape = shape(&[400, 300, 200, 100]);
        shape.check().unwrap();
        let of = |end: (Node, &str)| {
            let links = shape.links();
            let link = links.iter().find(|link| link.ends.contains(&(end.0, end.1.into()))).unwrap();
            shape.rate(link).map(|rate| rate.as_bps() / 1_000_000)
        };
        for leaf in [Node::Leaf(1), Node::Leaf(2)] {
            let rates = ["s1-1", "s1-2", "s2-1", "s2-2"].map(|interface| of((leaf, interface)));
            assert_eq!(rates, [Some(400), Some(300), Some(200), Some(100)]);
        }
        assert_eq!(of((Node::Spine(2), "l2-1")), Some(200));
        assert_eq!(of((Node::Host(1), "u0")), None);
        assert_eq!(of((Node::Host(1), "g1")), None);
        assert!(shape.links().iter().all(|link| Shape { rates: Vec::new(), ..shape.clone() }.rate(link).is_none()));
    }

    #[test]
    fn a_burst_lasts_two_milliseconds_or_has_two_packets() {
        let line = |rate| shape(&[1]).token_bucket("s1-1", BitRate::from_mbps(rate));
        assert_eq!(line(400), "qdisc add dev s1-1 root tbf rate 400000000bit burst 100000 limit 256000");
        assert_eq!(line(1), "qdisc add dev s1-1 root tbf rate 1000000bit burst 3028 limit 256000");
    }

    #[test]
    fn queues_that_make_no_sense_are_refused() {
        let size = |n| Some(Bytes(n));
        let wrong = [
            (
                shape(&[1, 2]),
                "--rate: 2 rates for 4 links: give one for all, or one for each link of a leaf, those to spine 1 first",
            ),
            (shape(&[0]), "--rate 0bps: give 1Mbps to 100Gbps"),
            (
                Shape { mark: size(65_000), ..shape(&[]) },
                "--mark 65KB: links without a rate have no queue; give --rate, too",
            ),
            (
                Shape { buffer: size(1), ..shape(&[]) },
                "--buffer 1B: links without a rate have no queue; give --rate, too",
            ),
            (Shape { buffer: size(2000), ..shape(&[9]) }, "--buffer 2KB: give 3.028KB (two packets) to 1GB"),
            (Shape { mark: size(0), ..shape(&[9]) }, "--mark 0B: give 1B to less than the buffer, 256KB"),
            (Shape { mark: size(256_000), ..shape(&[9]) }, "--mark 256KB: give 1B to less than the buffer, 256KB"),
        ];
        for (shape, message) in wrong {
            let error = shape.check().unwrap_err();
            assert_eq!(error.to_string(), message);
            assert!(error.is_request());
        }
        Shape { mark: size(65_000), buffer: size(100_000), ..shape(&[9]) }.check().unwrap();
    }
}
