//! What guests' shares of the uplink cost: setting rates, by the kernel's timer and by a thread; packets of many pairs; sweeps. Root; in a
//! network namespace of its own. `share_scale [--require] [PAIRS]`; with `--require` the exit status is 1 if setting rates costs more than it
//! may: with guests that all send or are marked, 2% of a core for 100 of them, 12% for 800, and 200 us for 99.9% of runs: an
//! interrupt counts as the run's.

#[cfg(feature = "libbpf")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    scale::main()
}

#[cfg(feature = "libbpf")]
mod scale {
    use edge::hygenicc::{Bucket, Config as Law};
    use kernel::state::{words, Config, Peer, Port, Route, Share, Tenants, Tunnel, ROUTE_LOCAL, ROUTE_PEER, VERSION_1};
    use kernel::{ifindex, monotonic_ns, KernelEdge, Options, Role, Segment, Sweep};
    use std::net::IpAddr;
    use std::time::Duration;
    use units::{BitRate, Bytes, Time};
    use wire::{proto, Packet, TcpOptions};

    type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

    const INTERVAL: Duration = Duration::from_micros(500);
    /// No run may take longer.
    const MOST: Duration = Duration::from_micros(200);

    fn cpu() -> Duration {
        nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
    }

    fn line(what: &str, value: &str) {
        println!("| {what} | {value} |");
    }

    fn part(took: Duration) -> f64 {
        100.0 * took.as_secs_f64() / INTERVAL.as_secs_f64()
    }

    /// A datagram of the guest to the `n`th of the peer's.
    fn frame(n: usize) -> Result<Vec<u8>> {
        let packet = Packet {
            saddr: words("10.7.0.1".parse()?),
            daddr: wire::v4([10, 8, (n >> 8) as u8, n as u8]),
            sport: 1000,
            dport: 80,
            payload: 1000,
            proto: proto::UDP,
            family: 4,
            ..Packet::default()
        };
        Ok(wire::emit(&packet, &TcpOptions::default())?)
    }

    fn open() -> Result<(KernelEdge, u32)> {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)?;
        for pair in ["g0 type veth peer name e0", "u0 type veth peer name u1"] {
            let made = std::process::Command::new("ip").args(["link", "add"]).args(pair.split(' ')).status()?;
            assert!(made.success(), "ip link add {pair}");
        }
        let pins = std::path::PathBuf::from(format!("/sys/fs/bpf/svshares{}", std::process::id()));
        let edge = KernelEdge::open(&Options { pins, ..Options::default() })?;
        let (port, uplink) = (ifindex("g0")?, ifindex("u0")?);
        let outer: [IpAddr; 2] = ["192.168.99.1".parse()?, "192.168.99.2".parse()?];
        let tunnel = Tunnel::new(outer[0], outer[1], 4789, VERSION_1).ok_or("mixed families")?;
        edge.set_peer(1, &Peer::new(tunnel, uplink).with_labels(&[50_001, 50_002]))?;
        edge.set_route(7, "10.7.0.1".parse()?, 32, &Route { kind: ROUTE_LOCAL, target: port, ..Route::default() })?;
        edge.set_route(7, "10.8.0.0".parse()?, 16, &Route { kind: ROUTE_PEER, target: 1, ..Route::default() })?;
        edge.set_config(&Config { idle_ns: 600_000_000_000, ..Config::default() })?;
        Ok((edge, port))
    }

    fn law() -> Law {
        let inactive = Time::from_secs(1000);
        Law { depth: Bytes(1 << 30), inactive, ..Law::new(BitRate::from_gbps(1000), Time::from_us(100)) }
    }

    /// So many rows, of which as many guests are active; nobody is over its rate. `marked`: to each its rate has to be set, as to one that is told of
    /// marks, though they are too few to change it.
    fn guests(edge: &KernelEdge, rows: u16, active: u16, marked: bool) -> Result<()> {
        edge.set_tenants(&Tenants { conf: law().conf(), backlog: 0, numbers: rows.into(), pad: 0 })?;
        for number in 1..=rows {
            let on = u32::from(number <= active);
            let (last, alpha) = (monotonic_ns(), u32::from(marked));
            let bucket = Bucket { weight: 1, active: on, last, filled: 1, alpha, ..Bucket::default() };
            // The first one is the port's, which a packet then makes.
            let ifindex = if number == 1 { 0 } else { 1_000_000 + u32::from(number) };
            edge.set_share(number, &Share { bucket, ifindex, ..Share::default() })?;
        }
        Ok(())
    }

    /// The mean run of the guest's program, for packets to so many destinations in turn.
    fn packets(edge: &KernelEdge, port: u32, destinations: usize) -> Result<Duration> {
        let segment = Segment { ifindex: port, ..Segment::default() };
        let frames = (0..destinations).map(frame).collect::<Result<Vec<_>>>()?;
        let (mut all, turns) = (Duration::ZERO, 20_000_usize.div_ceil(destinations));
        for frame in frames.iter().cycle().take(turns * destinations) {
            all += edge.test_run_timed(Role::Guest, frame, segment)?.duration;
        }
        Ok(all / (turns * destinations) as u32)
    }

    pub(crate) fn main() -> Result<()> {
        let mut words: Vec<String> = std::env::args().skip(1).collect();
        let require = words.iter().position(|word| word == "--require").map(|at| words.remove(at)).is_some();
        let pairs = words.first().map_or(Ok(10_000), |text| text.parse::<usize>())?.min(60_000);
        let (edge, port) = open()?;
        let done = measure(&edge, port, pairs);
        edge.destroy()?;
        let wrong = done?;
        for what in &wrong {
            println!("too much: {what}");
        }
        if require && !wrong.is_empty() {
            return Err("setting rates costs more than it may".into());
        }
        Ok(())
    }

    /// Returns what costs more than it may.
    fn measure(edge: &KernelEdge, port: u32, pairs: usize) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        let plain = Port { vni: 7, ..Port::default() };
        guests(edge, 1, 1, false)?;
        edge.set_port(port, &plain.with_share(1, 1))?;
        for n in 0..pairs {
            edge.test_run(Role::Guest, port, &frame(n)?)?;
        }
        line("pairs remembered", &edge.pairs()?.len().to_string());
        for active in [200, 2000] {
            edge.set_port(port, &plain)?;
            let without = packets(edge, port, active)?;
            edge.set_port(port, &plain.with_share(1, 1))?;
            let with = packets(edge, port, active)?;
            line(&format!("a packet's share, {active} pairs in turn"), &format!("{with:.0?}, {without:.0?} without"));
        }
        let sizes = [(10, 10), (100, 100), (800, 800), (1000, 1000), (4096, 10), (4096, 4096)];
        for (marked, (rows, active)) in [false, true].into_iter().flat_map(|marked| sizes.map(|size| (marked, size))) {
            guests(edge, rows, active, marked)?;
            let runs = (0..2000).map(|_| edge.set_rates()).collect::<std::result::Result<Vec<_>, _>>()?;
            let mean = runs.iter().flatten().sum::<Duration>() / runs.len() as u32;
            let each = |n: usize| runs.iter().filter_map(|took| took.get(n)).sum::<Duration>() / runs.len() as u32;
            let each: Vec<String> = (0..runs[0].len()).map(|n| format!("{:.1?}", each(n))).collect();
            let mut longest: Vec<Duration> = runs.iter().filter_map(|took| took.iter().max().copied()).collect();
            longest.sort_unstable();
            // An interrupt in a run counts as the run's.
            let (usual, longest) = (longest[longest.len() * 999 / 1000 - 1], longest[longest.len() - 1]);
            let what = format!(
                "setting rates, {active} of {rows} guests active{}",
                if marked { ", none left out" } else { "" }
            );
            let found = format!(
                "{}: {:.2}% of a core; 99.9% of runs take {usual:.1?}, all {longest:.1?}",
                each.join(" and "),
                part(mean)
            );
            line(&what, &found);
            let most = match (rows, active) {
                (100, _) => 2.0,
                (800, _) => 12.0,
                _ => f64::INFINITY,
            };
            if part(mean) > most || usual > MOST {
                wrong.push(format!("{what}: {found}"));
            }
        }
        for rows in [1000, 4096] {
            let mut worst = Vec::new();
            for _ in 0..20 {
                guests(edge, rows, rows, true)?;
                edge.set_rates()?;
                // What is left of the time after which a guest has no share.
                let silent = Law { inactive: Time::from_ns(1), ..law() };
                edge.set_tenants(&Tenants { conf: silent.conf(), backlog: 0, numbers: rows.into(), pad: 0 })?;
                worst.push(edge.set_rates()?.into_iter().max().unwrap_or_default());
            }
            worst.sort();
            if worst[19] > MOST {
                wrong.push(format!("{rows} guests that fall silent: {:.1?}", worst[19]));
            }
            line(
                &format!("the longest run when all of {rows} guests fall silent at once"),
                &format!("{:.1?} to {:.1?}", worst[0], worst[19]),
            );
        }
        guests(edge, 100, 100, false)?;
        late("the kernel's timer", edge, || Ok(edge.begin_shares()?), || Ok(()))?;
        // It ends with the configuration.
        edge.set_tenants(&Tenants::default())?;
        std::thread::sleep(4 * INTERVAL);
        guests(edge, 100, 100, false)?;
        let before = cpu();
        let ticks = late("a thread", edge, || Ok(()), || edge.set_rates().map(|_| ()).map_err(Into::into))?;
        line("a thread's CPU", &format!("{:.2}% of a core", part((cpu() - before) / ticks.max(1) as u32)));
        let (mut sweep, before) = (Sweep::default(), cpu());
        while edge.sweep_on(&mut sweep, monotonic_ns(), 2048, None)?.is_none() {}
        line("a sweep, every 5 s", &format!("{:.1?} of CPU", cpu() - before));
        Ok(wrong)
    }

    /// For five seconds: how late the ends of intervals are. Returns how many there were.
    fn late(
        who: &str,
        edge: &KernelEdge,
        begin: impl Fn() -> Result<()>,
        step: impl Fn() -> Result<()>,
    ) -> Result<u64> {
        begin()?;
        step()?;
        let (before, end) = (edge.sharing()?, monotonic_ns() + 5_000_000_000);
        while monotonic_ns() < end {
            let interval = INTERVAL.as_nanos() as u64;
            std::thread::sleep(Duration::from_nanos(interval - monotonic_ns() % interval));
            step()?;
        }
        let after = edge.sharing()?;
        let ticks = after.ticks - before.ticks;
        let mean = Duration::from_nanos((after.late_ns - before.late_ns) / ticks.max(1));
        line(&format!("{who}: intervals ended in 5 s, mean lateness"), &format!("{ticks} of 10000, {mean:.1?}"));
        Ok(ticks)
    }
}

#[cfg(not(feature = "libbpf"))]
fn main() {
    eprintln!("built without the feature `kernel`");
}
