//! What many flows cost the agent: ticks of the timer laws, sweeps of the whole table, and how late inferred timeouts are. Root; in a
//! network namespace of its own. `flow_scale [FLOWS] [OUTSTANDING]`.

#[cfg(feature = "libbpf")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    scale::main()
}

#[cfg(feature = "libbpf")]
mod scale {
    use edge::vcc::{Class, Config as Congestion, Law};
    use kernel::state::{
        words, Config, Event, Flow, FlowSlot, FlowSlotKey, Peer, Plain, Port, Route, Tunnel, CONFIG_CONGESTION,
        EVENT_TIMER, FLOW_SETTLED, ROUTE_LOCAL, ROUTE_PEER, VERSION_1,
    };
    use kernel::{ifindex, monotonic_ns, KernelEdge, Options, Role, Sweep, Ticked};
    use libbpf_rs::{MapCore, MapFlags, MapHandle};
    use std::net::IpAddr;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;
    use units::Time;
    use wire::{proto, tcp, Packet, TcpOptions};

    type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

    const TIMEOUT_NS: u64 = 10_000_000;

    fn cpu() -> Duration {
        nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
    }

    /// Of flow `n`: the n-th port of one of many addresses of the peer's guests.
    fn place(n: usize) -> ([u8; 4], u16) {
        ([10, 8, (n / 50_000) as u8, 1], 1000 + (n % 50_000) as u16)
    }

    fn frame(n: usize, flags: u8, seq: u32, payload: u32) -> Result<Vec<u8>> {
        let (to, port) = place(n);
        let packet = Packet {
            saddr: words("10.7.0.1".parse()?),
            daddr: wire::v4(to),
            sport: port,
            dport: 80,
            tcp_flags: flags,
            seq,
            payload,
            mss: if flags & tcp::SYN != 0 { 1400 } else { 0 },
            proto: proto::TCP,
            family: 4,
            ..Packet::default()
        };
        Ok(wire::emit(&packet, &TcpOptions::default())?)
    }

    fn open(flows: u32) -> Result<(KernelEdge, u32)> {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)?;
        for pair in ["g0 type veth peer name e0", "u0 type veth peer name u1"] {
            let made = std::process::Command::new("ip").args(["link", "add"]).args(pair.split(' ')).status()?;
            assert!(made.success(), "ip link add {pair}");
        }
        let pins = std::path::PathBuf::from(format!("/sys/fs/bpf/svscale{}", std::process::id()));
        let edge = KernelEdge::open(&Options { pins, max_flows: flows, ..Options::default() })?;
        let (port, uplink) = (ifindex("g0")?, ifindex("u0")?);
        let outer: [IpAddr; 2] = ["192.168.99.1".parse()?, "192.168.99.2".parse()?];
        let tunnel = Tunnel::new(outer[0], outer[1], 4789, VERSION_1).ok_or("mixed families")?;
        edge.set_peer(1, &Peer::new(tunnel, uplink).with_labels(&[50_001, 50_002]))?;
        edge.set_port(port, &Port { vni: 7, ..Port::default() })?;
        edge.set_route(7, "10.7.0.1".parse()?, 32, &Route { kind: ROUTE_LOCAL, target: port, ..Route::default() })?;
        edge.set_route(7, "10.8.0.0".parse()?, 16, &Route { kind: ROUTE_PEER, target: 1, ..Route::default() })?;
        edge.set_config(&Config { flags: CONFIG_CONGESTION, idle_ns: 600_000_000_000, ..Config::default() })?;
        Ok((edge, port))
    }

    /// The peer's SYN and ACK, or a later ACK.
    fn answer(n: usize, flags: u8, ack: u32) -> Result<Vec<u8>> {
        let (from, dport) = place(n);
        let packet = Packet {
            saddr: wire::v4(from),
            daddr: words("10.7.0.1".parse()?),
            sport: 80,
            dport,
            tcp_flags: flags,
            seq: if flags & tcp::SYN != 0 { 500 } else { 501 },
            ack,
            window: 60_000,
            mss: if flags & tcp::SYN != 0 { 1400 } else { 0 },
            proto: proto::TCP,
            family: 4,
            ..Packet::default()
        };
        let inner = wire::emit(&packet, &TcpOptions::default())?;
        let len = inner.len() as u16;
        let mut out = vec![0; 12];
        out.extend([8, 0, 0x45, 0]);
        out.extend((len + 36).to_be_bytes());
        out.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 168, 99, 2, 192, 168, 99, 1]);
        out.extend([50_001u16.to_be_bytes(), 4789u16.to_be_bytes(), (len + 16).to_be_bytes(), [0; 2]].concat());
        out.extend([8, 0x10, 0, 0, 0, 0, 7, 0]);
        out.extend(inner);
        Ok(out)
    }

    /// Flows at rest, as the agent would find them.
    fn fill(edge: &KernelEdge, flows: std::ops::Range<usize>, port: u32) -> Result<()> {
        let map = MapHandle::from_pinned_path(edge.maps().join("flows"))?;
        let life = Flow { last_seen: monotonic_ns(), phase: 1, seen: 3 | FLOW_SETTLED, ..Flow::default() };
        let slot = FlowSlot { port, flow: life, ..FlowSlot::default() };
        for chunk in flows.collect::<Vec<_>>().chunks(1024) {
            let (mut keys, mut values) = (Vec::new(), Vec::new());
            for &n in chunk {
                let (to, sport) = place(n);
                let key = wire::FlowKey::new(words("10.7.0.1".parse()?), wire::v4(to), sport, 80, proto::TCP);
                keys.extend(FlowSlotKey { key, vni: 7 }.as_bytes());
                values.extend(slot.as_bytes());
            }
            map.update_batch(&keys, &values, chunk.len() as u32, MapFlags::ANY, MapFlags::ANY)?;
        }
        Ok(())
    }

    fn congestion(timeout: Time) -> Congestion {
        Congestion::new(Class { law: Law::NewReno, ..Class::default() }).rto_min(timeout)
    }

    /// Two segments of new data on each flow. When each was sent, ns.
    fn send(edge: &KernelEdge, port: u32, flows: usize, seq: u32) -> Result<Vec<u64>> {
        let mut sent = Vec::new();
        for n in 0..flows {
            edge.test_run(Role::Guest, port, &frame(n, tcp::ACK, seq, 1400)?)?;
            edge.test_run(Role::Guest, port, &frame(n, tcp::ACK, seq + 1400, 1400)?)?;
            sent.push(monotonic_ns());
        }
        Ok(sent)
    }

    fn line(what: &str, value: &str) {
        println!("| {what} | {value} |");
    }

    pub(crate) fn main() -> Result<()> {
        let number = |n: usize, default| std::env::args().nth(n).map_or(Ok(default), |text| text.parse::<usize>());
        let (flows, busy) = (number(1, 1_000_000)?, number(2, 10_000)?);
        let (edge, port) = open((flows as u32).next_power_of_two())?;
        let done = measure(&edge, port, flows, busy);
        edge.destroy()?;
        done
    }

    fn measure(edge: &KernelEdge, port: u32, flows: usize, busy: usize) -> Result<()> {
        let slow = congestion(Time::from_secs(60));
        edge.set_congestion(&slow)?;
        fill(edge, busy..flows, port)?;
        for n in 0..busy {
            edge.test_run(Role::Guest, port, &frame(n, tcp::SYN, 100, 0)?)?;
            edge.test_run(Role::Uplink, ifindex("u0")?, &answer(n, tcp::SYN | tcp::ACK, 101)?)?;
        }
        edge.tick()?;
        line("flows", &format!("{flows}, {busy} with data outstanding"));
        timeouts(edge, port, busy)?;
        edge.set_congestion(&slow)?;

        edge.tick()?;
        let (mut longest, before) = (Duration::ZERO, cpu());
        for _ in 0..200 {
            longest = longest.max(edge.tick()?.longest);
            std::thread::sleep(Ticked::MOST);
        }
        let (took, every) = ((cpu() - before) / 200, Ticked::MOST);
        let share = 100.0 * took.as_secs_f64() / every.as_secs_f64();
        line("a tick while nothing is due", &format!("{took:.1?} of CPU, every {every:?}: {share:.1}% of a core"));
        line("longest run of a program in it", &format!("{longest:.1?}"));
        acknowledged(edge, port, busy)?;

        let (mut sweep, mut steps, mut longest, start) = (Sweep::default(), 0, Duration::ZERO, cpu());
        loop {
            let before = cpu();
            let done = edge.sweep_on(&mut sweep, monotonic_ns(), 2048, Some(&slow))?;
            longest = longest.max(cpu() - before);
            steps += 1;
            if let Some(swept) = done {
                assert_eq!((swept.kept, swept.expired), (flows, 0));
                break;
            }
        }
        let took = cpu() - start;
        line("a sweep", &format!("{took:.0?} of CPU in {steps} steps, the longest {longest:.1?}"));
        line("so often at a twentieth of a core", &format!("every {:.1} s", 21.0 * took.as_secs_f64()));

        Ok(())
    }

    /// Data and ACKs come on all flows in turn, so that each is at rest and goes on, while timeouts of 10 ms are looked for.
    fn acknowledged(edge: &KernelEdge, port: u32, busy: usize) -> Result<()> {
        edge.set_congestion(&congestion(Time::from_ns(TIMEOUT_NS)))?;
        let (uplink, spent, mut segments) = (ifindex("u0")?, AtomicBool::new(false), 0);
        let begun = monotonic_ns();
        let (used, ticks, longest, told) = std::thread::scope(|scope| -> Result<_> {
            let ticker = scope.spawn(|| ticker(edge, &spent));
            for turn in 0..5 {
                let seq = 2901 + turn * 2800;
                for n in 0..busy {
                    edge.test_run(Role::Guest, port, &frame(n, tcp::ACK, seq, 1400)?)?;
                    edge.test_run(Role::Guest, port, &frame(n, tcp::ACK, seq + 1400, 1400)?)?;
                    edge.test_run(Role::Uplink, uplink, &answer(n, tcp::ACK, seq + 2800)?)?;
                    segments += 3;
                }
            }
            spent.store(true, Ordering::Relaxed);
            ticker
                .join()
                .map_err(|_| "the ticker broke".into())
                .map(|(events, used, ticks, longest)| (used, ticks, longest, events.len()))
        })?;
        let passed = Duration::from_nanos(monotonic_ns() - begun);
        let rate = f64::from(segments) / passed.as_secs_f64();
        let share = 100.0 * used.as_secs_f64() / passed.as_secs_f64();
        line(
            &format!("ticks while {rate:.0} segments a second are sent and acknowledged"),
            &format!("{:.1?} each: {share:.1}% of a core; {told} timeouts", used / ticks.max(1)),
        );
        line("longest run of a program in it", &format!("{longest:.1?}"));
        Ok(())
    }

    /// Ticks as the agent does. What it was told, the CPU that it took, how many ticks, and the longest run of a program.
    fn ticker(edge: &KernelEdge, spent: &AtomicBool) -> (Vec<Event>, Duration, u32, Duration) {
        let (mut told, mut used, mut ticks, mut longest) = (Vec::new(), Duration::ZERO, 0, Duration::ZERO);
        while !spent.load(Ordering::Relaxed) {
            let (before, begun, mut pause) = (cpu(), monotonic_ns(), Ticked::MOST);
            while let Ok(ticked) = edge.tick() {
                (longest, pause) = (longest.max(ticked.longest), ticked.pause(begun));
                if !ticked.full {
                    break;
                }
                told.extend(edge.poll_events(Duration::ZERO).unwrap_or_default());
            }
            told.extend(edge.poll_events(Duration::ZERO).unwrap_or_default());
            used += cpu() - before;
            ticks += 1;
            std::thread::sleep(pause.saturating_sub(Duration::from_nanos(monotonic_ns() - begun)));
        }
        (told, used, ticks, longest)
    }

    /// A thread ticks as the agent does, while new data is sent that nobody acknowledges.
    fn timeouts(edge: &KernelEdge, port: u32, busy: usize) -> Result<()> {
        edge.set_congestion(&congestion(Time::from_ns(TIMEOUT_NS)))?;
        let (mut late, mut all, spent) = (Vec::new(), std::collections::BTreeMap::new(), AtomicBool::new(false));
        let sent = std::thread::scope(|scope| {
            let ticker = scope.spawn(|| ticker(edge, &spent));
            let sent = send(edge, port, busy, 101).map_err(|e| e.to_string());
            std::thread::sleep(Duration::from_millis(200));
            spent.store(true, Ordering::Relaxed);
            ticker.join().map(|told| (sent, told))
        });
        let (sent, (events, used, ticks, longest)) = sent.map_err(|_| "the ticker broke")?;
        let sent = sent?;
        for event in events.iter().filter(|event| event.kind == EVENT_TIMER) {
            all.entry((event.packet.saddr, event.packet.dport)).or_insert(event.time);
        }
        for (n, at) in sent.iter().enumerate() {
            let (to, sport) = place(n);
            let Some(told) = all.get(&(wire::v4(to), sport)) else { continue };
            late.push(Duration::from_nanos(told.saturating_sub(at + TIMEOUT_NS)));
        }
        late.sort_unstable();
        let at = |share: f64| late.get(((late.len() as f64 * share) as usize).min(late.len().saturating_sub(1)));
        line("timeouts inferred", &format!("{} of {busy}", late.len()));
        line("after the 10 ms: median, 99%, longest", &format!("{:.1?}, {:.1?}, {:.1?}", at(0.5), at(0.99), at(1.0)));
        line(
            "CPU of the ticks meanwhile",
            &format!("{used:.1?} in {ticks}, the longest run of a program {longest:.1?}"),
        );
        Ok(())
    }
}

#[cfg(not(feature = "libbpf"))]
fn main() {
    eprintln!("built without the feature `kernel`");
}
