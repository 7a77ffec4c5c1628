//! A trace as one HTML file that needs nothing else: no network, no library, any browser.
//!
//! The file is `page/report.html` with the styles, the scripts and the data put in. Data are columns of
//! numbers in JSON (`timeline.rs`); everything that is drawn or counted is made from them by the scripts. The
//! page forbids itself every request by its content security policy. Names may contain anything: in JSON, `<`
//! is written as an escape (`json.rs`), so no name ends a script, and the scripts only ever set text.
//!
//! How large a file gets is bounded: the newest [`MAX_EVENTS`] events are kept, and series of any length have
//! at most [`MAX_POINTS`] points (`series.rs`).
//!
//! Nothing here knows what was trained: a [`Page`] has a title, figures, facts, plots of named series, and
//! memory in use, and the program fills them. The chart is pixels that the script computes itself
//! (`page/raster.js`), so its cost does not depend on how many slices share a pixel: 200 units with 100,000
//! tasks take a few milliseconds per picture. Gaps are lower than executions, or paler where rows are too low
//! for that, so that nothing depends on colour alone.

mod memory;
mod series;
mod timeline;

pub use memory::MemoryUse;
pub use series::{MAX_POINTS, Plot, Series};

use super::json::{self, list, object, quoted};
use dahl_runtime::trace::Trace;
use std::io::{self, Write};

/// Events (executions and copies) that a report keeps; older ones are left out, and the page says how many.
pub const MAX_EVENTS: usize = 100_000;

const PAGE: &str = include_str!("page/report.html");
const STYLES: &str = include_str!("page/report.css");
/// In the order in which they need each other.
const SCRIPTS: [&str; 9] = [
    include_str!("page/data.js"),
    include_str!("page/format.js"),
    include_str!("page/elements.js"),
    include_str!("page/colours.js"),
    include_str!("page/raster.js"),
    include_str!("page/gantt.js"),
    include_str!("page/plots.js"),
    include_str!("page/tables.js"),
    include_str!("page/main.js"),
];

/// What a report says beside the trace.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// What the report is about, in a few words.
    pub title: String,
    /// Labels and values that are read first, as `test accuracy` and `97.97 %`.
    pub figures: Vec<(String, String)>,
    /// Labels and values for reference, as `plan` and its hash.
    pub facts: Vec<(String, String)>,
    /// Curves.
    pub plots: Vec<Plot>,
    /// Memory in use against what was planned.
    pub memories: Vec<MemoryUse>,
}

impl Page {
    /// Writes the report of a trace.
    pub fn write(&self, trace: &Trace, out: &mut impl Write) -> io::Result<()> {
        let title = if self.title.is_empty() { "Trace" } else { &self.title };
        let data = object(&[
            ("title", quoted(title)),
            ("figures", pairs(&self.figures)),
            ("facts", pairs(&self.facts)),
            ("plots", list(self.plots.iter().map(Plot::to_json))),
            ("memories", list(self.memories.iter().map(MemoryUse::to_json))),
            ("trace", timeline::to_json(trace, MAX_EVENTS)),
        ]);
        let scripts = ["(() => {\n\"use strict\";\n", &SCRIPTS.join("\n"), "})();\n"].concat();
        // Each mark is looked for after the one before, and never in what was put in.
        let parts = [
            ("<!--title-->", escaped(title)),
            ("/*styles*/", STYLES.into()),
            ("/*data*/", data),
            ("/*scripts*/", scripts),
        ];
        let mut rest = PAGE;
        for (mark, text) in parts {
            let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
            out.write_all(before.as_bytes())?;
            out.write_all(text.as_bytes())?;
            rest = after;
        }
        out.write_all(rest.as_bytes())
    }
}

fn pairs(pairs: &[(String, String)]) -> String {
    list(pairs.iter().map(|(label, text)| list([quoted(label), quoted(text)])))
}

/// A text in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
