//! Real programs between guests of two hosts with the edge on, off, restarted and killed under them.

use crate::rig::{has, ok, signal, until, Rig};
use crate::stream::{Session, Transfer};
use std::path::PathBuf;

/// One host a leaf: every path crosses the fabric.
const SMALL: &[&str] = &["--edge", "--hosts", "1"];

#[test]
fn a_gigabyte_arrives_whole_while_the_edge_is_killed_restarted_and_taken_away() {
    let Some(rig) = Rig::up("g", SMALL) else { return };
    let session = Session::start(&rig, "guest1.1", "guest2.1", "172.20.2.1:7001");
    let session6 = Session::start(&rig, "guest2.1", "guest1.1", "[fd5e:7::1:1]:7002");
    let transfer = Transfer::start(&rig, "guest1.1", "guest2.1", "172.20.2.1:7000", 1_000_000_000);
    let goes_on = |what: &str| {
        transfer.advance(60_000_000);
        session.echo();
        session6.echo();
        assert!(transfer.is_going_on(), "{what}");
    };
    goes_on("with the agents");
    for host in ["host1", "host2"] {
        kill_agent(&rig, host);
    }
    goes_on("with both agents killed");
    rig.start_agent(1);
    rig.start_agent(2);
    goes_on("with new agents");
    let flow = flow_of(&rig, 7000);
    assert!(flow["out_bytes"].as_u64().unwrap() > 60_000_000, "the new agent adopted the old one's flows: {flow}");
    for (number, host) in [(1, "host1"), (2, "host2")] {
        // As an init system restarts it.
        let pid = rig.agent(host);
        signal("TERM", pid);
        until("the agent's end", || !rig.namespace(host).processes().contains(&pid));
        rig.start_agent(number);
    }
    goes_on("with agents that were restarted");
    rig.stop_agent("host1");
    assert!(pins(&rig, "host1").is_none(), "nothing of the edge is left");
    rig.start_agent(1);
    goes_on("with an edge that was away");
    let bytes = transfer.finish();
    assert!(bytes >= 1_000_000_000);
    assert!(session.finish() > 5 && session6.finish() > 5);
}

/// Kills it, and waits until it is gone.
fn kill_agent(rig: &Rig, host: &str) {
    let pid = rig.agent(host);
    signal("KILL", pid);
    until("the agent's end", || !rig.namespace(host).processes().contains(&pid));
}

fn pins(rig: &Rig, host: &str) -> Option<PathBuf> {
    let pins = rig.lab.pins(host.parse().unwrap());
    pins.join("links").exists().then_some(pins)
}

/// What host 1's agent knows of the flow to a port.
fn flow_of(rig: &Rig, port: u16) -> serde_json::Value {
    let flows = rig.ctl("host1", "flows");
    let list = flows["flows"].as_array().unwrap().clone();
    let suffix = format!(":{port}");
    let found = list.into_iter().find(|flow| flow["destination"].as_str().is_some_and(|to| to.ends_with(&suffix)));
    found.unwrap_or_else(|| panic!("no flow to port {port} in {flows}"))
}

#[test]
fn without_the_edge_a_gigabyte_arrives_whole_too() {
    let Some(rig) = Rig::up("h", &["--hosts", "1"]) else { return };
    let session = Session::start(&rig, "guest1.1", "guest2.1", "172.20.2.1:7001");
    let transfer = Transfer::start(&rig, "guest1.1", "guest2.1", "172.20.2.1:7000", 1_000_000_000);
    assert!(transfer.finish() >= 1_000_000_000);
    assert!(session.finish() > 0);
}

#[test]
fn iperf3_and_ping_run_over_the_edge() {
    if !has("iperf3") || !has("ping") {
        return;
    }
    let Some(rig) = Rig::up("i", SMALL) else { return };
    for address in ["172.20.2.1", "fd5e:7::2:1"] {
        rig.run("guest1.1", &format!("ping -c 20 -i 0.01 -W 5 {address}"));
        rig.run("guest1.1", &format!("ping -c 3 -i 0.01 -W 5 -s 1300 {address}"));
        rig.run("guest1.1", &format!("ping -c 3 -i 0.01 -W 5 -s 4000 {address}")); // fragments
                                                                                   // iperf3 stops when all is sent; small windows bound what eight connections still have under way then.
        for options in ["-n 100M", "-n 100M -R", "-n 20M -P 8 -w 128K", "-u -b 50M -n 5M"] {
            let measure = || {
                let server = rig.spawn("guest2.1", "iperf3", &["-s", "-1", "--forceflush"]);
                until("iperf3 listens", || rig.run("guest2.1", "ss -Htln sport = :5201").contains("5201"));
                let arguments: Vec<&str> = ["-c", address, "-J"].into_iter().chain(options.split(' ')).collect();
                let client = rig.spawn("guest1.1", "iperf3", &arguments).output();
                drop(server); // whatever it thinks of its end
                serde_json::from_slice::<serde_json::Value>(&client.stdout).unwrap_or_default()
            };
            // Where processors are scarce its own messages come late at times, and it gives up.
            let works = |report: &serde_json::Value| report["error"].is_null() && report["end"].is_object();
            let report = (0..3).map(|_| measure()).find(works);
            let report = report.unwrap_or_else(|| panic!("{options}: iperf3 gave up three times"));
            let end = &report["end"];
            if options.starts_with("-u") {
                let (sent, lost) =
                    (end["sum"]["packets"].as_u64().unwrap(), end["sum"]["lost_packets"].as_u64().unwrap());
                assert!(sent > 3000 && lost < sent / 2, "{lost} of {sent} packets lost");
            } else {
                let (sent, got) = (&end["sum_sent"]["bytes"], &end["sum_received"]["bytes"]);
                assert!(got.as_u64().unwrap() >= 15_000_000, "{options}: {sent} sent, {got} received");
            }
        }
    }
    let counters = rig.ctl("host1", "counters").to_string();
    assert!(counters.contains("out_segments"), "{counters}");
}

#[test]
fn curl_fetches_from_nginx_whole_while_agents_restart() {
    if !has("nginx") || !has("curl") {
        return;
    }
    let Some(rig) = Rig::up("j", SMALL) else { return };
    let site = Site::new();
    let _server = rig.spawn("guest2.1", "nginx", &site.arguments());
    until("nginx listens", || rig.run("guest2.1", "ss -Htln sport = :8080").contains("8080"));
    for (i, url) in
        ["http://172.20.2.1:8080/blob", "http://[fd5e:7::2:1]:8080/blob"].into_iter().cycle().take(8).enumerate()
    {
        let got = site.dir.path().join(format!("got{i}"));
        // --limit-rate keeps one going on while its agents end and come back.
        let rate = if i == 4 { "40M" } else { "0" };
        let curl = ["-sS", "--fail", "--limit-rate", rate, "-o", got.to_str().unwrap(), url];
        let fetch = rig.spawn("guest1.1", "curl", &curl);
        if i == 4 {
            until("the first bytes", || std::fs::metadata(&got).is_ok_and(|m| m.len() > 0));
            for (number, host) in [(1, "host1"), (2, "host2")] {
                kill_agent(&rig, host);
                rig.start_agent(number);
            }
        }
        ok(fetch.output());
        assert!(std::fs::read(&got).unwrap() == site.blob, "{url}: other bytes than the server has");
        std::fs::remove_file(got).unwrap();
    }
}

/// What nginx serves, and its configuration; removed at the end.
struct Site {
    dir: tempfile::TempDir,
    blob: Vec<u8>,
}

impl Site {
    fn new() -> Site {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        std::fs::create_dir(path.join("root")).unwrap();
        let blob: Vec<u8> = (0..32_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        std::fs::write(path.join("root/blob"), &blob).unwrap();
        let here = path.display();
        let text = format!(
            "daemon off;\nmaster_process off;\npid {here}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n  access_log off;\n  \
             client_body_temp_path {here}/t;\n  proxy_temp_path {here}/t;\n  fastcgi_temp_path {here}/t;\n  \
             uwsgi_temp_path {here}/t;\n  scgi_temp_path {here}/t;\n  sendfile on;\n  server {{\n    listen 8080;\n    \
             listen [::]:8080;\n    root {here}/root;\n  }}\n}}\n"
        );
        std::fs::write(path.join("nginx.conf"), text).unwrap();
        Site { dir, blob }
    }

    fn arguments(&self) -> [String; 6] {
        let path = |name: &str| self.dir.path().join(name).display().to_string();
        ["-p".into(), path(""), "-e".into(), "stderr".into(), "-c".into(), path("nginx.conf")]
    }
}
