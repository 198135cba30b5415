//! A runtime's list of plugins (a `.conflist` file): the plugin behind the others, and away again.

use super::{call, VERSIONS};
use serde_json::{json, Map, Value};

/// The plugin's name, for runtimes that of its program.
pub(super) const NAME: &str = "selvedge";
/// The other plugin that limits rates, and the key below which ours keeps it for the day it goes.
const BANDWIDTH: &str = "bandwidth";
const REPLACES: &str = "replaces";
/// Plugins whose networks may put packets straight into containers, and the key of ours that says so.
const STRAIGHT: [&str; 1] = ["cilium-cni"];
const IS_STRAIGHT: &str = "straight";

/// What the list is to say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted<'a> {
    /// The agent's, if it is not where the plugin looks by itself.
    pub(super) socket: Option<&'a str>,
    /// Take the plugin `bandwidth` out.
    pub(super) replace_bandwidth: bool,
    /// Of containers for which the runtime names no rate; `None`: as the list has it.
    pub(super) egress_bps: Option<u64>,
    pub(super) ingress_bps: Option<u64>,
}

/// Names of the plugins beside ours, and beside what ours replaces.
///
/// # Errors
/// What the list has to be, one line.
pub(super) fn others(text: &[u8]) -> Result<Vec<String>, String> {
    let mut list = parse(text)?;
    let names = plugins_mut(&mut list)?.iter().filter_map(|plugin| plugin["type"].as_str());
    // A name with a slash is none: it could lead anywhere.
    let names = names.filter(|name| ![NAME, BANDWIDTH].contains(name) && !name.contains('/'));
    Ok(names.map(str::to_owned).collect())
}

/// The list with the plugin, and the network's name; `None`: it is so already.
///
/// # Errors
/// What the list has to be, one line.
pub(super) fn with_plugin(text: &[u8], wanted: Wanted<'_>) -> Result<(Option<Vec<u8>>, String), String> {
    let before = parse(text)?;
    let mut list = before.clone();
    let network = checked(&list)?;
    let plugins = plugins_mut(&mut list)?;
    let mut replaced = Vec::new();
    while let Some(at) = position(plugins, BANDWIDTH) {
        if !wanted.replace_bandwidth {
            return Err("its plugin `bandwidth` limits rates, too: --replace-bandwidth takes it out".to_owned());
        }
        replaced.push(plugins.remove(at));
    }
    if position(plugins, NAME).is_none() {
        if plugins.is_empty() {
            return Err("it has no plugin that makes interfaces".to_owned());
        }
        plugins.push(json!({ "type": NAME }));
    }
    let straight = STRAIGHT.iter().any(|name| position(plugins, name).is_some());
    let ours = plugins.iter_mut().find(|plugin| plugin["type"] == NAME).and_then(Value::as_object_mut);
    let ours = ours.ok_or("its plugins are no objects")?;
    let capabilities = ours.entry("capabilities").or_insert_with(|| json!({}));
    match capabilities.as_object_mut() {
        Some(capabilities) => _ = capabilities.insert(BANDWIDTH.to_owned(), true.into()),
        None => return Err("the capabilities of its plugin `selvedge` are no object".to_owned()),
    }
    if straight {
        ours.entry(IS_STRAIGHT).or_insert(true.into()); // unless somebody says otherwise
    }
    if let Some(socket) = wanted.socket {
        ours.insert("socket".to_owned(), socket.into());
    }
    for (key, rate) in [("egressRate", wanted.egress_bps), ("ingressRate", wanted.ingress_bps)] {
        if let Some(rate) = rate {
            ours.insert(key.to_owned(), rate.into());
        }
    }
    if !replaced.is_empty() {
        // What was taken out first is what the network was set up with.
        ours.entry(REPLACES).or_insert(Value::Array(replaced));
    }
    Ok(((list != before).then(|| printed(&list)), network))
}

/// The list without the plugin, and with what it replaced; `None`: it never had it.
///
/// # Errors
/// What the list has to be.
pub(super) fn without_plugin(text: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut list = parse(text)?;
    let plugins = plugins_mut(&mut list)?;
    let mut changed = false;
    while let Some(at) = position(plugins, NAME) {
        changed = true;
        let mut ours = plugins.remove(at);
        if position(plugins, BANDWIDTH).is_none() {
            let replaced = ours.get_mut(REPLACES).and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
            plugins.splice(at..at, replaced.into_iter().filter(|one| one["type"] == BANDWIDTH));
        }
    }
    Ok(changed.then(|| printed(&list)))
}

fn parse(text: &[u8]) -> Result<Value, String> {
    let list: Value = serde_json::from_slice(text).map_err(|e| format!("it is no JSON: {e}"))?;
    match list["plugins"].is_array() {
        true => Ok(list),
        false => Err("it is no list of plugins: a list has `plugins`, an array".to_owned()),
    }
}

/// The network's name.
fn checked(list: &Value) -> Result<String, String> {
    let version = list["cniVersion"].as_str().unwrap_or_default();
    if !VERSIONS.contains(&version) {
        return Err(format!("its cniVersion {version:?} is none of {}", VERSIONS.join(", ")));
    }
    let name = list["name"].as_str().ok_or("it has no name")?;
    match call::is_name(name) {
        true => Ok(name.to_owned()),
        false => Err(format!("{name:?} cannot name a network: letters, digits, `_`, `.` and `-`, at most 200")),
    }
}

fn plugins_mut(list: &mut Value) -> Result<&mut Vec<Value>, String> {
    let plugins = list.as_object_mut().and_then(|list: &mut Map<_, _>| list.get_mut("plugins")?.as_array_mut());
    let plugins = plugins.ok_or("it is no list of plugins")?;
    match plugins.iter().all(|plugin| plugin["type"].is_string()) {
        true => Ok(plugins),
        false => Err("one of its plugins has no type".to_owned()),
    }
}

fn position(plugins: &[Value], name: &str) -> Option<usize> {
    plugins.iter().position(|plugin| plugin["type"] == name)
}

fn printed(list: &Value) -> Vec<u8> {
    format!("{list:#}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: &str = r#"{"cniVersion": "0.3.1", "name": "pods", "plugins": [{"type": "calico", "mtu": 0}, {"type": "portmap", "snat": true}]}"#;

    fn value(text: &[u8]) -> Value {
        serde_json::from_slice(text).unwrap()
    }

    fn with(text: &[u8], wanted: Wanted<'_>) -> Result<Option<Vec<u8>>, String> {
        with_plugin(text, wanted).map(|(text, _)| text)
    }

    #[test]
    fn it_comes_last_once_and_goes_again() {
        let wanted = Wanted { socket: Some("/a/ctl.sock"), ..Wanted::default() };
        let (there, network) = with_plugin(PLAIN.as_bytes(), wanted).unwrap();
        let there = there.unwrap();
        assert_eq!(network, "pods");
        let ours = json!({ "type": "selvedge", "capabilities": { "bandwidth": true }, "socket": "/a/ctl.sock" });
        assert_eq!(value(&there)["plugins"][2], ours);
        assert_eq!(value(&there)["plugins"][0], json!({ "type": "calico", "mtu": 0 }), "others' keys stay");
        assert_eq!(with(&there, wanted), Ok(None), "once");
        assert_eq!(with(&there, Wanted::default()), Ok(None), "a socket stays unless another is named");
        let gone = without_plugin(&there).unwrap().unwrap();
        assert_eq!(value(&gone), value(PLAIN.as_bytes()));
        assert_eq!(without_plugin(&gone), Ok(None));
    }

    #[test]
    fn networks_that_put_packets_straight_into_containers_are_told_of() {
        let list =
            |ours: Value| json!({ "cniVersion": "1.0.0", "name": "c", "plugins": [{ "type": "cilium-cni" }, ours] });
        let there =
            with(list(json!({ "type": "portmap" })).to_string().as_bytes(), Wanted::default()).unwrap().unwrap();
        assert_eq!(value(&there)["plugins"][2]["straight"], true);
        assert_eq!(with(&there, Wanted::default()), Ok(None));
        let told = list(json!({ "type": "selvedge", "straight": false, "capabilities": { "bandwidth": true } }));
        assert_eq!(with(told.to_string().as_bytes(), Wanted::default()), Ok(None));
    }

    #[test]
    fn the_other_limiter_is_replaced_if_asked_and_comes_back() {
        let bandwidth = r#"{"type": "bandwidth", "capabilities": {"bandwidth": true}}, {"type": "portmap""#;
        let text = PLAIN.replace(r#"{"type": "portmap""#, bandwidth);
        let refused = with(text.as_bytes(), Wanted::default()).unwrap_err();
        assert!(refused.contains("--replace-bandwidth"), "{refused}");
        let wanted = Wanted { replace_bandwidth: true, ..Wanted::default() };
        let there = with(text.as_bytes(), wanted).unwrap().unwrap();
        let types = |text: &[u8]| -> Vec<String> {
            value(text)["plugins"].as_array().unwrap().iter().map(|p| p["type"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(types(&there), ["calico", "portmap", "selvedge"]);
        assert_eq!(types(&without_plugin(&there).unwrap().unwrap()), ["calico", "portmap", "bandwidth"]);
        // Two, and one that somebody adds later: what was there at first comes back.
        let twice = text.replace(r#", {"type": "portmap""#, r#", {"type": "bandwidth", "k": 2}, {"type": "portmap""#);
        let there = with(twice.as_bytes(), wanted).unwrap().unwrap();
        let mut again = value(&there);
        again["plugins"].as_array_mut().unwrap().push(json!({ "type": "bandwidth", "k": 3 }));
        let there = with(again.to_string().as_bytes(), wanted).unwrap().unwrap();
        let back = value(&without_plugin(&there).unwrap().unwrap());
        assert_eq!(types(&there), ["calico", "portmap", "selvedge"]);
        assert_eq!(back["plugins"][3]["k"], 2, "{back}");
        assert_eq!(back["plugins"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn what_a_user_has_set_stays() {
        let set =
            r#", {"type": "selvedge", "egressRate": 7, "capabilities": {"io.kubernetes.cri.pod-annotations": true}}]"#;
        let text = PLAIN.replace(']', set);
        let there = value(&with(text.as_bytes(), Wanted::default()).unwrap().unwrap());
        let slower = Wanted { egress_bps: Some(8), ingress_bps: Some(9), ..Wanted::default() };
        let told = value(&with(there.to_string().as_bytes(), slower).unwrap().unwrap());
        assert!(told["plugins"][2]["egressRate"] == 8 && told["plugins"][2]["ingressRate"] == 9, "{told}");
        let ours = &there["plugins"][2];
        assert!(ours["egressRate"] == 7 && ours["capabilities"]["io.kubernetes.cri.pod-annotations"] == true, "{ours}");
        assert_eq!(ours["capabilities"]["bandwidth"], true);
    }

    #[test]
    fn what_is_no_list_is_refused_with_its_reason() {
        for (text, reason) in [
            ("{", "no JSON"),
            ("[]", "no list of plugins"),
            (r#"{"cniVersion": "1.0.0", "name": "n", "type": "bridge"}"#, "no list of plugins"),
            (r#"{"cniVersion": "1.0.0", "name": "n", "plugins": []}"#, "makes interfaces"),
            (r#"{"cniVersion": "1.0.0", "name": "n", "plugins": [7]}"#, "no type"),
            (
                r#"{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "selvedge", "capabilities": 1}]}"#,
                "no object",
            ),
            (r#"{"cniVersion": "0.2.0", "name": "n", "plugins": [{"type": "bridge"}]}"#, "0.2.0"),
            (r#"{"cniVersion": "1.0.0", "plugins": [{"type": "bridge"}]}"#, "no name"),
            (r#"{"cniVersion": "1.0.0", "name": "../x", "plugins": [{"type": "bridge"}]}"#, "cannot name a network"),
        ] {
            let refused = with(text.as_bytes(), Wanted::default()).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in r#"[\[\]{}:,"a-z0-9. -]{0,80}|\PC{0,40}"#, inner in r#"[\[\]{}:,"a-z0-9]{0,40}"#) {
            for text in [text, format!(r#"{{"cniVersion": "1.0.0", "name": "n", "plugins": [{{"type": "a"}}, {inner}]}}"#)] {
                if let Ok(Some(there)) = with(text.as_bytes(), Wanted { replace_bandwidth: true, ..Wanted::default() }) {
                    prop_assert_eq!(with(&there, Wanted::default()), Ok(None));
                }
                let _ = without_plugin(text.as_bytes());
            }
        }
    }
}
