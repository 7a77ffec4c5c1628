//! The task graph for Graphviz: filled by codelet, outlined by worker, memory edges dashed.

use super::export::{colour, scopes};
use dahl_runtime::graph::{Edge, EdgeKind};
use dahl_runtime::trace::{Scene, TaskInfo};
use std::io::{self, Write};

pub(super) fn write(scene: &Scene, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "// Filled by codelet, outlined by worker. Solid: data within a step; grey: data from one step to"
    )?;
    writeln!(out, "// the next; dashed: memory that is used again.")?;
    writeln!(out, "digraph \"dahl\" {{")?;
    writeln!(out, "  node [shape=box, style=\"filled,rounded\", fontname=\"Helvetica\", penwidth=2];")?;
    let codelets = scene.codelets();
    for (id, task) in scene.tasks.iter().enumerate() {
        let number = codelets.iter().position(|codelet| *codelet == task.codelet).unwrap_or(0);
        let TaskInfo { codelet, tile, worker, bytes, .. } = task;
        let planned = worker.map_or(String::new(), |worker| format!("\nworker {worker}"));
        let scopes = scopes(scene, task);
        let of = if scopes.is_empty() { String::new() } else { format!("\n{scopes}") };
        let label = format!("{codelet}{of}\ntile {} of {}{planned}", tile.0 + 1, tile.1);
        let outline = worker.map_or("#404040".to_string(), |worker| hex(colour(worker).map(|c| 0.6 * c)));
        writeln!(
            out,
            "  t{id} [label={}, fillcolor=\"{}\", color=\"{outline}\", tooltip={}];",
            quoted(&label),
            hex(colour(number)),
            quoted(&format!("{task}, {bytes} bytes {}", task.line))
        )?;
    }
    for Edge { from, to, distance, kind } in &scene.edges {
        // An edge to the next step would turn the drawing around if it decided about ranks.
        let across =
            if *distance > 0 { format!(", constraint=false, label=\"+{distance}\"") } else { String::new() };
        let look = match (kind, distance) {
            (EdgeKind::Data, 0) => "color=\"#000000\"",
            (EdgeKind::Data, _) => "color=\"#909090\"",
            (EdgeKind::Memory, _) => "color=\"#c03030\", style=dashed",
        };
        writeln!(out, "  t{from} -> t{to} [{look}{across}];")?;
    }
    writeln!(out, "}}")
}

fn hex(channels: [f64; 3]) -> String {
    let [r, g, b] = channels.map(|channel| (channel.clamp(0.0, 1.0) * 255.0).round() as u8);
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// A text in quotes, with line breaks as Graphviz writes them.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
