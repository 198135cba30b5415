//! The documents hold commands; every one must be a command of this binary, on files that exist.

mod pages;

use agent_api::lacking::{Part, FQ, HTB, PARTS, TUN, VXLAN};
use clap::Parser;
use edge::balance::SCHEMES;
use edge::names::{Named, Names, Setting};
use edge::{limiter, vcc};
use pages::{commands, ROOT};
use std::path::Path;

/// README.md and every page of docs, relative to the root.
fn documents() -> Vec<String> {
    let pages = std::fs::read_dir(Path::new(ROOT).join("docs")).unwrap();
    let pages = pages.map(|page| format!("docs/{}", page.unwrap().file_name().into_string().unwrap()));
    pages.filter(|page| page.ends_with(".md")).chain(["README.md".to_owned()]).collect()
}

#[test]
fn every_command_of_the_documents_is_understood() {
    let mut found = 0;
    for document in documents() {
        for command in commands(&document) {
            found += 1;
            let words = command.split_whitespace();
            if let Err(error) = selvedge::cli::Cli::try_parse_from(words.clone()) {
                panic!("{document}: `{command}`: {error}");
            }
            for file in words.filter(|w| w.ends_with(".toml") && w.contains('/') && !w.starts_with('/')) {
                assert!(Path::new(ROOT).join(file).exists(), "{document}: `{command}` names a file that is not there");
            }
        }
    }
    assert!(found >= 3, "the documents show the reader no commands");
}

/// Runs a command of a page, as it stands but for what these words change, where its files are.
fn runs(document: &str, command: &str, words: &[&str]) -> Result<(), String> {
    let run =
        std::process::Command::new(env!("CARGO_BIN_EXE_selvedge")).args(words).current_dir(ROOT).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    let only_in_labs = command.starts_with("selvedge lab ") && said.contains("`selvedge lab run`");
    if run.status.success() || only_in_labs {
        return Ok(());
    }
    Err(format!("{document}: `{command}`: {said}"))
}

/// Arguments that run a scenario for an instant. Points that say themselves how long they take are left out.
fn short(file: &Path) -> Vec<String> {
    const TIMES: [&str; 3] = ["duration", "warmup", "drain"];
    let file: toml::Table = std::fs::read_to_string(file).unwrap().parse().unwrap();
    let points = file.get("sweep").and_then(|sweep| sweep.get("point")?.as_array()).map_or(&[][..], Vec::as_slice);
    let says = |point: &&toml::Value| TIMES.iter().any(|key| point["set"].get(key).is_some());
    let mut words =
        ["--set", "duration=\"200us\"", "--set", "warmup=\"0s\"", "--set", "drain=\"0s\"", "--seeds", "1"].to_vec();
    if points.iter().any(|point| says(&point)) {
        words.extend(points.iter().filter(|point| !says(point)).flat_map(|p| ["--at", p["label"].as_str().unwrap()]));
    }
    words.into_iter().map(str::to_owned).collect()
}

/// With the keys and schemes that they name; for an instant, and what is for a lab in the simulator.
#[test]
fn every_scenario_of_the_documents_runs_as_they_say() {
    let mut found = 0;
    for document in documents() {
        for command in commands(&document) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let (["selvedge", "sim" | "lab", "run", rest @ ..], false) = (words.as_slice(), command.contains("FILE"))
            else {
                continue;
            };
            let with_value = |word: &str| matches!(word, "-o" | "--output" | "--seeds");
            let kept = (0..rest.len()).filter(|n| {
                !with_value(rest[*n])
                    && !n.checked_sub(1).is_some_and(|before| with_value(rest[before]))
                    && rest[*n] != "--compare"
            });
            let file = rest.iter().find(|word| word.ends_with(".toml"));
            let short = file.map(|file| short(&Path::new(ROOT).join(file))).unwrap_or_default();
            let kept = kept.map(|n| rest[n]).chain(short.iter().map(String::as_str));
            let words: Vec<&str> = ["sim", "run"].into_iter().chain(kept).collect();
            runs(&document, &command, &words).unwrap_or_else(|why| panic!("{why}"));
            found += 1;
        }
    }
    assert!(found >= 25, "{found}");
}

/// Those that they reproduce are there.
#[test]
fn every_result_of_the_documents_is_in_the_list() {
    let mut found = 0;
    for document in documents() {
        for command in commands(&document) {
            let Some(rest) = command.strip_prefix("selvedge repro ") else { continue };
            let mut words = vec!["repro", "--list"];
            let named = rest
                .split_whitespace()
                .filter(|word| word.contains('/') || ["limiters", "--real-hosts"].contains(word));
            words.extend(named.filter(|word| !word.starts_with("out/")));
            found += usize::from(words.len() > 2);
            runs(&document, &command, &words).unwrap_or_else(|why| panic!("{why}"));
        }
    }
    assert!(found >= 5, "{found}");
}

/// What a Makefile can make.
fn targets(directory: &Path) -> Vec<String> {
    let makefile = std::fs::read_to_string(directory.join("Makefile")).unwrap_or_default();
    let rules = makefile.lines().filter(|line| !line.starts_with(['\t', '#', ' ', '.']));
    let heads = rules.filter_map(|line| line.split_once(':')).filter(|(_, rest)| !rest.starts_with('='));
    heads.flat_map(|(head, _)| head.split_whitespace()).map(str::to_owned).collect()
}

/// What of a command is not there: a script, or what `make` is to make.
fn lacks(command: &str) -> Option<String> {
    let is_setting = |word: &&str| word.contains('=') && !word.starts_with('-');
    let command: String = command.split('"').step_by(2).collect(); // values may be of several words
    let mut words = command.split_whitespace().skip_while(is_setting);
    let first = words.next()?;
    if first.starts_with("scripts/") || first.starts_with("bench/") {
        return (!Path::new(ROOT).join(first).is_file()).then(|| first.to_owned());
    }
    if first != "make" {
        return None;
    }
    let words: Vec<&str> = words.collect();
    let elsewhere = words.iter().position(|word| *word == "-C");
    let directory = elsewhere.map_or(Path::new(ROOT).to_owned(), |at| Path::new(ROOT).join(words[at + 1]));
    let known = targets(&directory);
    let mut wanted =
        words.iter().enumerate().filter(|(at, _)| elsewhere.is_none_or(|c| *at != c + 1)).map(|(_, word)| *word);
    if known.is_empty() {
        return Some(command);
    }
    wanted
        .find(|word| !word.starts_with('-') && !word.contains('=') && !known.iter().any(|name| name == word))
        .map(str::to_owned)
}

#[test]
fn every_make_target_and_script_of_the_documents_is_there() {
    let benches = std::fs::read_dir(Path::new(ROOT).join("bench")).unwrap();
    let benches = benches.map(|bench| format!("bench/{}/README.md", bench.unwrap().file_name().into_string().unwrap()));
    let benches = benches.filter(|page| Path::new(ROOT).join(page).exists());
    let mut found = 0;
    for document in documents().into_iter().chain(benches) {
        let text = std::fs::read_to_string(Path::new(ROOT).join(&document)).unwrap();
        let blocks = text.split("```sh").skip(1).filter_map(|rest| rest.split_once('\n')?.1.split("```").next());
        let indented = text.lines().filter(|line| line.starts_with("    "));
        for line in blocks.flat_map(str::lines).chain(indented) {
            let command = line.split(" #").next().unwrap_or(line);
            for command in command.split("&&") {
                assert_eq!(lacks(command), None, "{document}: `{}`: that is not there", line.trim());
                let mut words = command.split_whitespace().filter(|word| !word.contains('='));
                found += usize::from(
                    words.next().is_some_and(|w| w == "make" || w.starts_with("scripts/") || w.starts_with("bench/")),
                );
            }
        }
    }
    assert!(found >= 40, "{found} commands");
    for wrong in ["make dinner", "make test dinner", "make -C bench/none", "scripts/none", "A=1 bench/cni/none --x"] {
        assert!(lacks(wrong).is_some(), "{wrong}");
    }
}

/// The JSON blocks of a page, which may be indented.
fn json_blocks(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(ROOT).join(document)).unwrap();
    let blocks = text.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(str::to_owned).collect()
}

#[test]
fn every_json_block_of_the_documents_is_json() {
    let mut found = 0;
    for document in documents() {
        for block in json_blocks(&document) {
            let values = serde_json::Deserializer::from_str(&block).into_iter::<serde_json::Value>();
            let values: Vec<_> =
                values.collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{document}: {e}: {block}"));
            assert!(!values.is_empty(), "{document}: {block}");
            found += values.len();
        }
    }
    assert!(found >= 3, "{found} values");
}

/// The page shows what `selvedge cni install` makes of a list, and the plugin understands its part.
#[test]
fn the_list_of_plugins_of_the_documents_is_what_installing_makes() {
    let [block] = &json_blocks("docs/cni.md")[..] else { panic!("docs/cni.md shows one list") };
    let shown: serde_json::Value = serde_json::from_str(block).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (bin, conf, list) = (dir.path().join("bin"), dir.path().join("conf"), dir.path().join("conf/10-pods.conflist"));
    std::fs::create_dir(&bin).unwrap();
    std::fs::create_dir(&conf).unwrap();
    let mut before = shown.clone();
    let mut ours = before["plugins"].as_array_mut().unwrap().pop().unwrap();
    assert_eq!(ours["type"], "selvedge");
    std::fs::write(&list, before.to_string()).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_selvedge"));
    let output = command.args(["cni", "install", "--bin-dir"]).arg(&bin).arg("--conf-dir").arg(&conf).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let made: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&list).unwrap()).unwrap();
    assert_eq!(made, shown);
    // As a runtime hands it on. Without an agent a container's end is nothing to do.
    for key in ["cniVersion", "name"] {
        ours[key] = shown[key].clone();
    }
    ours["socket"] = dir.path().join("none").to_str().into();
    ours["runtimeConfig"] = serde_json::json!({ "bandwidth": { "egressRate": 1_000_000 } });
    let network = dir.path().join("network");
    std::fs::write(&network, ours.to_string()).unwrap();
    let call = |verb: &str| {
        let mut command = std::process::Command::new(bin.join("selvedge"));
        command.env("CNI_COMMAND", verb).env("CNI_CONTAINERID", "c1").env("CNI_IFNAME", "eth0");
        command.stdin(std::fs::File::open(&network).unwrap()).output().unwrap()
    };
    assert!(call("DEL").status.success(), "{:?}", call("DEL"));
    let refused: serde_json::Value = serde_json::from_slice(&call("ADD").stdout).unwrap();
    assert_eq!(refused["code"], 7, "what is missing is prevResult: {refused}");
}

/// What pages say lies in the package does.
#[test]
fn what_the_documents_name_below_usr_share_doc_is_in_the_package() {
    let manifest: toml::Table =
        std::fs::read_to_string(Path::new(ROOT).join("crates/selvedge/Cargo.toml")).unwrap().parse().unwrap();
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().unwrap();
    let there: Vec<&str> = assets.iter().filter_map(|asset| asset[1].as_str()).collect();
    let mut found = 0;
    for document in documents() {
        let text = std::fs::read_to_string(Path::new(ROOT).join(&document)).unwrap();
        for rest in text.split("/usr/share/doc/selvedge").skip(1) {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/-_".contains(c))).unwrap_or(rest.len());
            let directory = format!("usr/share/doc/selvedge{}/", rest[..end].trim_end_matches('/'));
            assert!(there.contains(&directory.as_str()), "{document}: the package has no {directory}: {there:?}");
            found += 1;
        }
    }
    assert!(found >= 3, "{found} places");
}

/// Where the links of a page lead, as they stand there, without those to other hosts.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace)).collect()
}

/// What a heading is called in links.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let plain = headings.map(|heading| heading.to_lowercase().replace(' ', "-"));
    plain.map(|name| name.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()).collect()
}

/// A tag is not needed to know which version this is.
#[test]
fn the_changelog_has_this_version_with_its_date() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("CHANGELOG.md")).unwrap();
    let versions: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(versions[0], "Unreleased");
    let (version, date) = versions[1].split_once(" - ").unwrap_or_else(|| panic!("{}", versions[1]));
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    assert!(date.len() == 10 && date.split('-').all(|part| part.parse::<u32>().is_ok()), "{date}");
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut found = 0;
    for document in documents() {
        let page = Path::new(ROOT).join(&document);
        let text = std::fs::read_to_string(&page).unwrap();
        // What is shown as an example is none; nor are a book's copies of pages beside docs.
        for link in links(&text).into_iter().filter(|link| !link.starts_with('[') && document != "docs/SUMMARY.md") {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(target.exists(), "{document}: {link}: there is no such file");
            if !anchor.is_empty() {
                let known = anchors(&std::fs::read_to_string(&target).unwrap());
                assert!(
                    known.iter().any(|name| name == anchor),
                    "{document}: {link}: there is no such heading: {known:?}"
                );
            }
            found += 1;
        }
    }
    assert!(found > 50, "{found} links");
}

#[test]
fn the_book_has_every_page_once() {
    let summary = std::fs::read_to_string(Path::new(ROOT).join("docs/SUMMARY.md")).unwrap();
    let listed = links(&summary);
    for page in &listed {
        let there = ["docs", "."].iter().any(|dir| Path::new(ROOT).join(dir).join(page).exists());
        assert!(there, "docs/SUMMARY.md: {page}: there is no such page");
    }
    for document in documents() {
        let page = document.strip_prefix("docs/").unwrap_or("SUMMARY.md");
        let times = listed.iter().filter(|listed| **listed == page).count();
        assert_eq!(times, usize::from(page != "SUMMARY.md"), "docs/SUMMARY.md: {page}");
    }
}

/// Runs the commands of a page in a directory of their own, and gives it to `check`. Those that need root are left out: `make test` runs
/// labs elsewhere. A comparison may find that something differs.
fn works(page: &str, least: usize, check: impl Fn(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::os::unix::fs::symlink(Path::new(ROOT).join("examples"), dir.join("examples")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_selvedge"));
    let commands = commands(page);
    let commands: Vec<_> = commands.iter().filter(|command| !command.starts_with("selvedge lab ")).collect();
    assert!(commands.len() >= least, "{commands:?}");
    for command in commands {
        let mut shell = std::process::Command::new("sh");
        let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let output = shell.arg("-c").arg(command).current_dir(dir).env("PATH", path).output().unwrap();
        let differs = command.starts_with("selvedge compare ") && output.status.code() == Some(1);
        assert!(output.status.success() || differs, "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    check(dir);
}

#[test]
fn the_quick_start_of_researchers_works_as_it_stands() {
    works("docs/quick-start-researchers.md", 6, |dir| assert!(dir.join("out/clos/report.html").exists()));
}

#[test]
fn the_page_of_sweeps_works_as_it_stands() {
    works("docs/sweeps.md", 5, |dir| {
        for (sweep, jobs) in [("sweep", 30), ("dctcp", 18)] {
            assert_eq!(std::fs::read_dir(dir.join("out").join(sweep).join("jobs")).unwrap().count(), jobs);
        }
    });
}

/// Of every container and probe of a manifest, the words behind `args` and `command`, which stand there as JSON.
fn invocations(manifest: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(manifest).unwrap();
    let lists = ["args: ", "command: "].into_iter().flat_map(|key| text.split(key).skip(1));
    let list = |rest: &str| serde_json::Deserializer::from_str(rest).into_iter().next().unwrap().unwrap();
    lists.map(list).collect()
}

#[test]
fn every_command_of_the_manifests_is_understood() {
    let mut found = 0;
    for directory in ["limits", "remove"] {
        let manifest = Path::new(ROOT).join(format!("packaging/kubernetes/{directory}/daemonset.yaml"));
        for words in invocations(&manifest) {
            found += 1;
            // The image's entry point is the program; a probe names it.
            let arguments = words.iter().filter(|word| *word != "/usr/bin/selvedge");
            let command = ["selvedge"].into_iter().chain(arguments.map(String::as_str));
            if let Err(error) = selvedge::cli::Cli::try_parse_from(command) {
                panic!("{}: {words:?}: {error}", manifest.display());
            }
        }
    }
    assert!(found >= 8, "{found} commands");
}

/// The rows of both tables of docs/balancing.md: schemes, and their parameters.
fn schemes() -> [String; 2] {
    let quoted = |names: &mut dyn Iterator<Item = &'static str>, between: &str| {
        names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(between)
    };
    let [mut rows, mut parameters] = [const { String::new() }; 2];
    for scheme in SCHEMES {
        let aliases = quoted(&mut scheme.aliases.iter().copied(), ", ");
        let aliases = if aliases.is_empty() { aliases } else { format!(" {aliases}") };
        rows += &format!("| `{}` |{aliases} | {} |\n", scheme.name, scheme.about);
        for p in scheme.parameters {
            let names = quoted(&mut p.names(), " or ");
            parameters +=
                &format!("| `{}` | {names} | {} | {} | {} |\n", scheme.name, p.default.shown(), p.range(), p.about);
        }
    }
    [rows, parameters]
}

#[test]
fn the_page_of_schemes_is_the_table_of_schemes() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("docs/balancing.md")).unwrap();
    for (rows, columns) in schemes().iter().zip([3, 5]) {
        let whole = format!("|{}\n{rows}\n", "---|".repeat(columns));
        assert!(text.contains(&whole), "docs/balancing.md should have\n{rows}");
    }
}

/// The rows of a table of names.
fn choices<T: Names>() -> String {
    let row = |choice: &Named<T>| {
        let aliases: String = choice.aliases.iter().map(|alias| format!(" `{alias}`")).collect();
        let cell = |of: &dyn Fn(&Setting) -> String| {
            let all: Vec<String> = choice.settings.iter().map(|setting| of(setting)).collect();
            if all.is_empty() {
                String::new()
            } else {
                format!(" {}", all.join("; "))
            }
        };
        let settings = cell(&|setting| format!("`{}`: {}", setting.name, setting.about));
        let (presets, ranges) = (cell(&|setting| setting.preset.to_string()), cell(&Setting::range));
        format!("| `{}` |{aliases} | {} |{settings} |{presets} |{ranges} |\n", choice.name, choice.about)
    };
    T::table().iter().map(row).collect()
}

#[test]
fn the_tables_of_laws_are_those_of_the_code() {
    for (page, rows) in
        [("docs/agent.md", choices::<Option<vcc::Law>>()), ("docs/limiters.md", choices::<limiter::Kind>())]
    {
        let text = std::fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
        assert!(text.contains(&format!("|---|---|---|---|---|---|\n{rows}\n")), "{page} should have\n{rows}");
    }
}

#[test]
fn the_page_of_kernels_says_what_doctor_and_agent_say() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("docs/kernels.md")).unwrap();
    let row = |part: &Part| format!("| `{}` | {} | {} |\n", part.feature, part.takes, part.without);
    let rows: String = PARTS.iter().map(row).collect();
    assert!(text.contains(&format!("|---|---|---|\n{rows}\n")), "docs/kernels.md should have\n{rows}");
    for module in [HTB, FQ, VXLAN, TUN] {
        assert!(text.contains(&format!("`{}`", module.name)), "docs/kernels.md does not name {}", module.name);
    }
    let (major, minor) = agent_api::release::OLDEST_KERNEL;
    assert!(text.contains(&format!("The kernel edge runs on Linux {major}.{minor} and later")));
    for ((major, minor), what) in selvedge::doctor::KERNEL_FEATURES {
        assert!(text.contains(&format!("Linux {major}.{minor}")), "docs/kernels.md does not say since when: {what}");
    }
}

#[test]
fn the_examples_are_valid_scenarios() {
    let results = tempfile::tempdir().unwrap();
    let mut found = 0;
    for entry in std::fs::read_dir(Path::new(ROOT).join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue; // what a scenario reads
        }
        let status = std::process::Command::new(env!("CARGO_BIN_EXE_selvedge"))
            .args(["sim", "run"])
            .args(short(&path))
            .arg("-o")
            .arg(results.path().join(found.to_string()))
            .arg(&path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&status.stderr);
        let only_in_labs =
            path.file_name().unwrap().to_string_lossy().starts_with("lab-") && said.contains("`selvedge lab run`");
        assert!(status.status.success() || only_in_labs, "{}: {said}", path.display());
        found += 1;
    }
    assert!(found > 0);
}
