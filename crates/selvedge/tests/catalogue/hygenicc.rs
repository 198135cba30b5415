//! HyGenICC's claims that a computation decides, with the numbers of our scenario.

use fabric::{Aqm, Buffer};
use selvedge::repro::{embedded, Experiment, Mode};

/// Section 5.1: 100 packets of buffer for a link of 1 Gb/s and a round trip of 100 us; marks from a fifth of it on.
#[test]
fn the_buffer_is_twelve_times_the_product_of_bandwidth_and_delay() {
    let (file, text) = embedded().find(|(name, _)| *name == "hygenicc/fig2.toml").unwrap();
    let experiment = Experiment::parse(file, text).unwrap();
    let points = experiment.points(Mode::Paper, &|_| true).unwrap();
    assert!(!points.is_empty());
    for point in points {
        for scheme in &point.plan.schemes {
            let run = scheme.template();
            let rate = run.topology.links[0].rate.as_gbps_f64() * 1e9 / 8.0;
            let product = rate * 100e-6;
            let Buffer::PerPort(buffer) = run.switches.buffer else { panic!("shared") };
            assert_eq!(buffer.get(), 100 * 1500);
            assert!((buffer.get() as f64 / product - 12.0).abs() < 1e-9, "{product}");
            let Some(Aqm::Red { kmin, kmax, .. }) = run.switches.aqm else { panic!("no marks") };
            assert_eq!((kmin, kmax.get() * 5), (kmax, buffer.get()));
            // Of the round trip, the wires and two interrupts; the rest is packets' serialisation.
            let link = run.topology.links[0].delay.as_secs_f64();
            let trip = 4.0 * link + 2.0 * run.hosts.rx_coalesce.as_secs_f64();
            assert!((80e-6..=100e-6).contains(&trip), "{trip}");
            assert!(buffer.get() as f64 > 10.0 * rate * trip);
        }
    }
}
