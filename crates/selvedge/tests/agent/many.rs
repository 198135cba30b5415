//! Many connections through one slow limit.

use super::limits::{holds, limit, limited_world, number};
use super::world::eventually;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Barrier;
use std::time::Duration;

/// What a guest runs. All `connections` begin to send at once, until the file is there.
pub(crate) fn peer(what: &str, address: &str, connections: u64) {
    if what == "crowd-server" {
        let listener = TcpListener::bind(address).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..connections {
                let (mut stream, _) = listener.accept().unwrap();
                // Whoever ends the test breaks connections off.
                scope.spawn(move || drop(std::io::copy(&mut stream, &mut std::io::sink())));
            }
        });
        return;
    }
    let until = std::path::PathBuf::from(std::env::var_os("SELVEDGE_TEST_UNTIL").unwrap());
    let begin = Barrier::new(connections as usize);
    let streams: Vec<TcpStream> = (0..connections).map(|_| super::connect(address)).collect();
    std::thread::scope(|scope| {
        for mut stream in streams {
            let (begin, until) = (&begin, &until);
            scope.spawn(move || {
                stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
                begin.wait();
                while !until.exists() {
                    let _ = stream.write(&[7; 65_536]); // for a while there may be no room
                }
            });
        }
    });
}

#[test]
fn connections_that_begin_at_once_lose_nothing() {
    const CONNECTIONS: u32 = 64;
    let Some(world) = limited_world("my", "egress_rate = \"20Mbps\"", |_| {}) else { return };
    for guest in [0, 1] {
        let set = "sysctl -qw net.ipv4.tcp_congestion_control=reno net.core.somaxconn=1024";
        assert!(world.exec(&world.guest(guest), set).status.success());
    }
    let mut server = world.spawn(&world.guest(1), &format!("crowd-server 10.7.2.2:9000 {CONNECTIONS}"));
    let until = world.dir.path().join("until");
    let role = format!("crowd-client 10.7.2.2:9000 {CONNECTIONS}");
    let mut client = world.command_in(&world.guest(0), &role, &until).spawn().unwrap();
    let mut most = 0.0f64;
    eventually("two seconds' worth is sent", || {
        let now = limit(&world, "lxc0", "egress");
        most = most.max(number(&now, "backlog_bytes"));
        number(&now, "sent_bytes") > 5e6
    });
    let now = limit(&world, "lxc0", "egress");
    std::fs::write(&until, "").unwrap();
    assert!(client.wait().unwrap().success() && server.wait().unwrap().success());
    println!("at most {most} bytes were seen to wait");
    assert_eq!(number(&now, "dropped_segments"), 0.0, "{now}");
    assert!(number(&now, "windows_lowered") > 0.0 && number(&now, "first_bytes") > 0.0, "{now}");
}

#[test]
fn held_edges_carry_every_byte_at_the_whole_rate() {
    let limits = "egress_rate = \"100Mbps\"\n[limits]\nhold_edge = true";
    let Some(mut world) = limited_world("mh", limits, |_| {}) else { return };
    world.transfer("10.7.2.2:9000", 20_000_000, |world| holds(world, "lxc0", "egress", 100e6));
    let now = limit(&world, "lxc0", "egress");
    assert!(number(&now, "windows_lowered") > 100.0 && number(&now, "dropped_segments") == 0.0, "{now}");
}
