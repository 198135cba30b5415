//! A lab of real hosts, and a TCP connection over it.
#![allow(dead_code, reason = "each test file uses a part")]

use host::experiment::{EdgeConfig, HostConfig};
use lab::{address, Lab, Setup};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::Command;
use topology::Topology;
use units::Time;

pub(crate) fn setup(topology: Topology) -> Setup {
    Setup {
        topology,
        switches: fabric::SwitchConfig::default(),
        multipath: fabric::Multipath::Ecmp,
        loss: fabric::RandomLoss::default(),
        reroute_after: Time::from_ms(10),
        hosts: HostConfig::default(),
        edge: EdgeConfig::default(),
        guests: Vec::new(),
        seed: 1,
        frames: 4096,
        spin: None,
        // Not the kernel's default, which differs from one to the next.
        congestion: Some("reno".to_owned()),
        shape: true,
    }
}

/// A lab, or `None` with a printed reason where there can be none.
pub(crate) fn lab(setup: &Setup) -> Option<Lab> {
    for program in ["ip", "ping"] {
        if Command::new(program).arg("-V").output().is_err() {
            println!("skipped: there is no {program}");
            return None;
        }
    }
    Lab::start(setup).inspect_err(|error| println!("skipped: {error}")).ok()
}

/// Sends `bytes` bytes from host 0 to host 1 over TCP, each of which the receiver checks. Says whom it heard from.
pub(crate) fn transfer(lab: &Lab, bytes: usize) -> IpAddr {
    let (sender, receiver) = (&lab.namespaces()[0], &lab.namespaces()[1]);
    let listener = receiver.enter(|| TcpListener::bind((address(1), 5001))).unwrap();
    let pattern = |i: usize| (i * 31 + i / 251) as u8;
    std::thread::scope(|scope| {
        let heard = scope.spawn(|| {
            let (mut stream, from) = listener.accept().unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            let wrong = received.iter().enumerate().find(|&(i, &byte)| byte != pattern(i));
            assert_eq!((received.len(), wrong), (bytes, None));
            from.ip()
        });
        let mut stream = sender.enter(|| TcpStream::connect((address(1), 5001))).unwrap();
        stream.write_all(&(0..bytes).map(pattern).collect::<Vec<u8>>()).unwrap();
        drop(stream);
        heard.join().unwrap()
    })
}
