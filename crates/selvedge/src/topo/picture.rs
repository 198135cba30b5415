//! The fabric as a picture: SVG, or DOT for Graphviz.

use super::read::Fabric;
use config::ConfigError;
use std::fmt::Write as _;
use std::path::Path;
use topology::LinkId;

/// Colours of trees, in turn: distinguishable in print and by colour-blind eyes (Okabe and Ito).
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a6a00", "#444444"];
const PLAIN: &str = "#9aa0a6";
const FAILED: &str = "#c00000";

/// Draws into a form that the file's ending names. With `trees`, a link has its tree's colour, the first of several.
///
/// # Errors
/// Another ending.
pub(super) fn draw(fabric: &Fabric, file: &Path, trees: bool) -> Result<String, ConfigError> {
    match file.extension().and_then(|e| e.to_str()) {
        Some("svg") => Ok(svg(fabric, trees)),
        Some("dot") => Ok(dot(fabric, trees)),
        _ => Err(ConfigError::new(
            format!("--picture {}", file.display()),
            "the name does not say which form is wanted",
            "let it end in .svg or .dot",
        )),
    }
}

/// Colour of each link, and whether it is up.
fn colours(fabric: &Fabric, trees: bool) -> Vec<&'static str> {
    let mut colours = vec![PLAIN; fabric.topology.links.len()];
    if trees {
        for (index, tree) in fabric.topology.base_trees().iter().enumerate().rev() {
            for &link in &tree.links {
                colours[link as usize] = COLOURS[index % COLOURS.len()];
            }
        }
    }
    for &link in &fabric.failed {
        colours[link as usize] = FAILED;
    }
    colours
}

/// Names come from the builders or are numbers, but a picture must be well-formed whatever they are.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn svg(fabric: &Fabric, trees: bool) -> String {
    let topology = &fabric.topology;
    let widest = topology.n_hosts().max(topology.n_switches()).max(4);
    let (width, height) = ((widest as f32 * 46.0).clamp(360.0, 20_000.0), 420.0);
    let at: Vec<(f32, f32)> = topology.layout().iter().map(|(x, y)| (x * width, y * height)).collect();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        escape(&fabric.name)
    );
    let colours = colours(fabric, trees);
    for (id, link) in topology.links.iter().enumerate() {
        let ((x1, y1), (x2, y2)) = (at[link.a as usize], at[link.b as usize]);
        let down = if fabric.is_up(id as LinkId) { "" } else { " stroke-dasharray=\"5 4\"" };
        // Parallel links lie beside each other.
        let name = topology.link_name(id as LinkId);
        let beside = name.split_once('#').and_then(|(_, n)| n.parse::<f32>().ok()).map_or(0.0, |n| (n - 1.0) * 4.0);
        let _ = writeln!(
            out,
            "<line x1=\"{:.1}\" y1=\"{y1:.1}\" x2=\"{:.1}\" y2=\"{y2:.1}\" stroke=\"{}\" stroke-width=\"1.6\"{down}>\
             <title>{} {}</title></line>",
            x1 + beside,
            x2 + beside,
            colours[id],
            escape(&name),
            link.rate
        );
    }
    for (node, &(x, y)) in topology.nodes.iter().zip(&at) {
        let name = escape(&node.name);
        let (w, fill) = if node.kind == topology::NodeKind::Host { (40.0, "#f1f3f4") } else { (58.0, "#dbe7f5") };
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{w}\" height=\"20\" rx=\"4\" fill=\"{fill}\" stroke=\"#5f6368\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
            x - w / 2.0,
            y - 10.0,
            y + 4.0
        );
    }
    out += "</svg>\n";
    out
}

fn dot(fabric: &Fabric, trees: bool) -> String {
    let topology = &fabric.topology;
    let quote = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut out = String::from("graph fabric {\n  rankdir=BT;\n  node [shape=box, style=rounded];\n");
    let colours = colours(fabric, trees);
    for (id, link) in topology.links.iter().enumerate() {
        let (a, b) = (fabric.node_name(link.a), fabric.node_name(link.b));
        let down = if fabric.is_up(id as LinkId) { "" } else { ", style=dashed" };
        let _ = writeln!(out, "  {} -- {} [color=\"{}\"{down}];", quote(a), quote(b), colours[id]);
    }
    out += "}\n";
    out
}
