//! The flows of a workload as a lazy sequence in order of start.

use super::arrivals::{Mice, Poisson};
use super::fan_out::FanOut;
use super::sequence::Sequence;
use super::shape::Shape;
use super::shuffle::Shuffle;
use super::staircase::Staircase;
use super::{pairs, FlowSpec, HostMap, Pairs, Pattern, Problem, Workload, WorkloadError, MAX_FLOWS};
use rustc_hash::FxHashMap;
use sim::{Purpose, Stream};
use units::{Bytes, Time};

/// The flows of one workload, in order of start.
///
/// The driver takes every due flow before it looks at later events, and reports completions:
///
/// ```text
/// while source.peek() is at or before now { start(source.next()) }
/// when a flow of this class completes: source.on_complete(now, &flow), then peek again
/// ```
///
/// Memory is bounded by the hosts and the pattern's own list, not by the number of flows.
#[derive(Debug)]
pub struct Source {
    class: u16,
    generator: Generator,
    staircase: Option<Staircase>,
    connections: u32,
    /// With several connections: messages so far, by source, destination and application.
    turns: FxHashMap<(u32, u32, u32), u32>,
    past_end: u64,
}

#[derive(Debug)]
enum Generator {
    Listed { flows: Vec<FlowSpec>, next: usize },
    Rounds(Rounds),
    Mice(Mice),
    Poisson(Poisson),
    FanOut(FanOut),
    Shuffle(Shuffle),
    Sequence(Sequence),
}

impl Source {
    /// Prepares the flows of `workload`, the `class`-th of the run, which start before `until`.
    ///
    /// # Errors
    /// If the workload cannot be offered to these hosts, such as a pair that names a host that does not exist.
    pub fn new(
        workload: &Workload,
        class: u16,
        hosts: &HostMap,
        seed: u64,
        until: Time,
    ) -> Result<Source, WorkloadError> {
        let end = workload.stop.map_or(until, |stop| stop.min(until));
        let shape =
            Shape { class, connection: workload.connection, reply: workload.reply, request: workload.request, end };
        let generator = Generator::Listed { flows: Vec::new(), next: 0 };
        let turns = FxHashMap::default();
        let mut source =
            Source { class, generator, staircase: None, connections: workload.connections, turns, past_end: 0 };
        source
            .prepare(workload, shape, hosts, seed)
            .map_err(|problem| WorkloadError { workload: workload.name.clone(), problem })?;
        Ok(source)
    }

    fn prepare(&mut self, workload: &Workload, shape: Shape, hosts: &HostMap, seed: u64) -> Result<(), Problem> {
        let &Workload { start, stagger, pairing, .. } = workload;
        let n = hosts.hosts();
        if n < 2 {
            return Err(Problem::TooFewHosts(n));
        }
        let staggers = matches!(
            workload.pattern,
            Pattern::Stride { .. }
                | Pattern::RandomBijection { .. }
                | Pattern::Random { .. }
                | Pattern::Long { .. }
                | Pattern::Shuffle { .. }
                | Pattern::Sequence { .. }
                | Pattern::Incast { .. }
        );
        if stagger != Time::ZERO && !staggers {
            return Err(Problem::Stagger);
        }
        let span = shape.end.saturating_sub(start).as_ps() as f64;
        // A period of zero is refused by name below.
        let rounds = |every: Time| if every == Time::ZERO { 0.0 } else { span / every.as_ps() as f64 };
        let flows = match &workload.pattern {
            Pattern::Mice { every, to, .. } => to.most(hosts) * rounds(*every),
            Pattern::Incast { senders, every: Some(every), .. } => f64::from(*senders) * rounds(*every),
            Pattern::Poisson { cdf, load, capacity, pairs } => {
                pairs.most(hosts) * span / Poisson::mean_gap_ps(cdf.mean_bytes(), *load, *capacity)?
            }
            Pattern::FanOut { size, totals, load, capacity } => {
                let mean = FanOut::mean_bytes(*size, totals)?;
                let each = mean / size.get() as f64;
                f64::from(n) * each * span / Poisson::mean_gap_ps(mean, *load, *capacity)?
            }
            _ => 0.0,
        };
        if flows > MAX_FLOWS {
            return Err(Problem::TooManyArrivals(flows as u64));
        }
        let positive = |size: Bytes| if size == Bytes::ZERO { Err(Problem::Zero("the flow size")) } else { Ok(size) };
        let sized = |size: &Option<Bytes>| size.map(positive).transpose();
        let together = |pairs: Vec<(u32, u32)>, size: Option<Bytes>| {
            let mut flows: Vec<FlowSpec> = pairs
                .into_iter()
                .enumerate()
                .map(|(tag, pair)| {
                    let mut stream = shape.stream(seed, tag as u32, Purpose::Arrivals);
                    shape.flow(staggered(start, stagger, &mut stream), pair, size, tag as u32)
                })
                .collect();
            flows.sort_by_key(|flow| flow.start);
            flows
        };
        self.generator = match &workload.pattern {
            Pattern::Stride { k, size } => self.listed(together(pairs::stride(hosts, *k)?, sized(size)?), shape.end),
            Pattern::RandomBijection { size } => {
                let drawn = Pairs::Bijection.once(hosts, seed, pairing)?;
                self.listed(together(drawn, sized(size)?), shape.end)
            }
            Pattern::Random { flows_per_host: 0, .. } => return Err(Problem::Zero("flows_per_host")),
            Pattern::Random { flows_per_host, size } => {
                let drawn = pairs::random(hosts, *flows_per_host, &mut pairs::pairing_stream(seed, pairing))?;
                self.listed(together(drawn, sized(size)?), shape.end)
            }
            Pattern::Long { pairs, size } => {
                self.listed(together(pairs.once(hosts, seed, pairing)?, sized(size)?), shape.end)
            }
            Pattern::List(flows) => self.listed(adopt(flows, start, shape.class, hosts)?, shape.end),
            Pattern::AllToAll { size } => Generator::Rounds(Rounds {
                shape,
                size: positive(*size)?,
                hosts: n,
                receiver: None,
                width: n,
                next: (1, 0),
                at: start,
                every: None,
                staggered: None,
            }),
            &Pattern::Incast { senders, receiver, size, every } => {
                if receiver >= n {
                    return Err(Problem::NoSuchHost { host: receiver, hosts: n });
                }
                if senders >= n {
                    return Err(Problem::TooManySenders { senders, hosts: n });
                }
                if senders == 0 {
                    return Err(Problem::Zero("senders"));
                }
                if every == Some(Time::ZERO) {
                    return Err(Problem::Zero("the period"));
                }
                if every.is_some_and(|every| stagger > every) {
                    return Err(Problem::StaggerBeyondPeriod);
                }
                let staggered = (stagger > Time::ZERO)
                    .then(|| Staggered::new(stagger, senders, shape.stream(seed, 0, Purpose::Arrivals)));
                Generator::Rounds(Rounds {
                    shape,
                    size: positive(size)?,
                    hosts: n,
                    receiver: Some(receiver),
                    width: senders,
                    next: (0, 0),
                    at: start,
                    every,
                    staggered,
                })
            }
            Pattern::Mice { size, every, to } => {
                let ends = to.ends(hosts, seed, pairing)?;
                Generator::Mice(Mice::new(shape, start, positive(*size)?, *every, ends)?)
            }
            Pattern::Poisson { cdf, load, capacity, pairs } => {
                let ends = pairs.ends(hosts, seed, pairing)?;
                let gap = Poisson::mean_gap_ps(cdf.mean_bytes(), *load, *capacity)?;
                Generator::Poisson(Poisson::new(shape, start, cdf, gap, ends))
            }
            Pattern::FanOut { size, totals, load, capacity } => {
                let gap = Poisson::mean_gap_ps(FanOut::mean_bytes(*size, totals)?, *load, *capacity)?;
                Generator::FanOut(FanOut::new(shape, start, *size, totals, gap, n, seed))
            }
            Pattern::Shuffle { size, concurrent } => {
                let begin: Vec<Time> =
                    (0..n).map(|h| staggered(start, stagger, &mut shape.stream(seed, h, Purpose::Arrivals))).collect();
                Generator::Shuffle(Shuffle::new(shape, positive(*size)?, *concurrent, &begin, seed)?)
            }
            Pattern::Sequence { size, applications, pause, to } => {
                let ends = to.ends(hosts, seed, pairing)?;
                let begin = |i: u32| staggered(start, stagger, &mut shape.stream(seed, i, Purpose::Arrivals));
                Generator::Sequence(Sequence::new(shape, size, *applications, *pause, ends, &begin)?)
            }
            Pattern::Staircase { pairs, every } => {
                let pairs = pairs.once(hosts, seed, pairing)?;
                let staircase = Staircase::new(start, *every, pairs.len())?;
                self.staircase = Some(staircase);
                self.listed(staircase.flows(&shape, pairs), shape.end)
            }
        };
        Ok(())
    }

    /// Flows already in order, less those that start too late.
    fn listed(&mut self, mut flows: Vec<FlowSpec>, end: Time) -> Generator {
        let within = flows.partition_point(|flow| flow.start < end);
        self.past_end = (flows.len() - within) as u64;
        flows.truncate(within);
        Generator::Listed { flows, next: 0 }
    }

    /// When the next flow starts; `None` if no flow is left, for now or for good.
    pub fn peek(&self) -> Option<Time> {
        match &self.generator {
            Generator::Listed { flows, next } => flows.get(*next).map(|flow| flow.start),
            Generator::Rounds(rounds) => rounds.peek(),
            Generator::Mice(mice) => mice.peek(),
            Generator::Poisson(poisson) => poisson.peek(),
            Generator::FanOut(fan_out) => fan_out.peek(),
            Generator::Shuffle(shuffle) => shuffle.peek(),
            Generator::Sequence(sequence) => sequence.peek(),
        }
    }

    /// Takes the next flow.
    #[allow(clippy::should_implement_trait)] // it may yield again after None, which an iterator's callers do not expect
    pub fn next(&mut self) -> Option<FlowSpec> {
        match &mut self.generator {
            Generator::Listed { flows, next } => {
                let flow = flows.get(*next).copied();
                *next += usize::from(flow.is_some());
                flow
            }
            Generator::Rounds(rounds) => rounds.next(),
            Generator::Mice(mice) => mice.next(),
            Generator::Poisson(poisson) => poisson.next(),
            Generator::FanOut(fan_out) => fan_out.next(),
            Generator::Shuffle(shuffle) => shuffle.next(),
            Generator::Sequence(sequence) => sequence.next(),
        }
    }

    /// Tells of a completion, on which a closed loop may start another flow at `now` or later. Flows of other classes
    /// are ignored.
    pub fn on_complete(&mut self, now: Time, done: &FlowSpec) {
        if done.class != self.class {
            return;
        }
        match &mut self.generator {
            Generator::Shuffle(shuffle) => shuffle.on_complete(now, done),
            Generator::Sequence(sequence) => sequence.on_complete(now, done),
            _ => {}
        }
    }

    /// When the sender of a flow of this source that has no size stops writing; `None`: never.
    pub fn stops_at(&self, flow: &FlowSpec) -> Option<Time> {
        self.staircase.map(|staircase| staircase.end(flow.tag))
    }

    /// Flows of one source and destination share a persistent connection if this number is the same. Ask once for each flow,
    /// in order of start: the pair's connections are taken in turn.
    pub fn lane(&mut self, flow: &FlowSpec) -> u32 {
        let application = match self.generator {
            Generator::Sequence(_) => flow.tag,
            _ => 0,
        };
        if self.connections <= 1 {
            return application;
        }
        let turn = self.turns.entry((flow.src, flow.dst, application)).or_default();
        let lane = application * self.connections + *turn;
        *turn = (*turn + 1) % self.connections;
        lane
    }

    /// When the steps of a [`Pattern::Staircase`] begin, and when the last one ends; later ones than `end` are left out.
    pub fn steps(&self, end: Time) -> Vec<Time> {
        self.staircase.map(|staircase| staircase.steps(end)).unwrap_or_default()
    }

    /// Flows arrive at random, so that there may be none.
    pub fn draws_arrivals(&self) -> bool {
        matches!(self.generator, Generator::Poisson(_) | Generator::FanOut(_))
    }

    /// How many listed flows were left out because they start too late.
    pub fn past_end(&self) -> u64 {
        self.past_end
    }
}

fn staggered(start: Time, stagger: Time, stream: &mut Stream) -> Time {
    start.saturating_add(Time::from_ps(stream.below(stagger.as_ps())))
}

fn adopt(flows: &[FlowSpec], start: Time, class: u16, hosts: &HostMap) -> Result<Vec<FlowSpec>, Problem> {
    let mut adopted = Vec::with_capacity(flows.len());
    for (tag, flow) in flows.iter().enumerate() {
        pairs::check_pair(hosts, flow.src, flow.dst)?;
        if flow.size == Some(0) {
            return Err(Problem::Zero("the size of a listed flow"));
        }
        adopted.push(FlowSpec { start: start.saturating_add(flow.start), class, tag: tag as u32, ..*flow });
    }
    adopted.sort_by_key(|flow| flow.start);
    Ok(adopted)
}

/// Flows that start together, generated one by one: all-to-all, or rounds of incast.
#[derive(Debug)]
struct Rounds {
    shape: Shape,
    size: Bytes,
    hosts: u32,
    /// The receiver of an incast; otherwise every host sends at each distance.
    receiver: Option<u32>,
    /// Flows in a round.
    width: u32,
    /// All-to-all: (distance, source). Incast: (round, sender).
    next: (u32, u32),
    at: Time,
    every: Option<Time>,
    staggered: Option<Staggered>,
}

/// When each sender of a round begins after the round does, the earliest first.
#[derive(Debug)]
struct Staggered {
    within: Time,
    stream: Stream,
    order: Vec<(Time, u32)>,
}

impl Staggered {
    fn new(within: Time, senders: u32, stream: Stream) -> Staggered {
        let mut staggered = Staggered { within, stream, order: vec![(Time::ZERO, 0); senders as usize] };
        staggered.draw();
        staggered
    }

    fn draw(&mut self) {
        for (sender, start) in self.order.iter_mut().enumerate() {
            *start = (staggered(Time::ZERO, self.within, &mut self.stream), sender as u32);
        }
        self.order.sort_unstable();
    }
}

impl Rounds {
    fn peek(&self) -> Option<Time> {
        let left = match (self.receiver, self.every) {
            (None, _) => self.next.0 < self.hosts,
            (Some(_), None) => self.next.0 == 0,
            (Some(_), Some(_)) => true,
        };
        let at = self.at.saturating_add(self.turn().0);
        (left && at < self.shape.end).then_some(at)
    }

    /// How long after the round's begin the next flow starts, and its number in the round.
    fn turn(&self) -> (Time, u32) {
        let i = self.next.1;
        let drawn = self.staggered.as_ref().and_then(|staggered| staggered.order.get(i as usize));
        drawn.copied().unwrap_or((Time::ZERO, i))
    }

    fn next(&mut self) -> Option<FlowSpec> {
        let at = self.peek()?;
        let (round, (_, i)) = (self.next.0, self.turn());
        let after = |host: u32, distance: u32| ((u64::from(host) + u64::from(distance)) % u64::from(self.hosts)) as u32;
        let pair = match self.receiver {
            None => (i, after(i, round)),
            Some(receiver) => (after(receiver, i + 1), receiver),
        };
        self.next.1 += 1;
        if self.next.1 == self.width {
            self.next = (round.saturating_add(1), 0);
            if let Some(every) = self.every {
                self.at = self.at.saturating_add(every);
            }
            if let Some(staggered) = &mut self.staggered {
                staggered.draw();
            }
        }
        Some(self.shape.flow(at, pair, Some(self.size), round))
    }
}
