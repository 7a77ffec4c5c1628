//! `dahl trace`.

use crate::exit::{Exit, Misuse};
use crate::output::say;
use crate::parse::path;
use anyhow::{Result, bail};
use clap::ValueEnum;
use dahl_runtime::trace::{Reason, Trace};
use dahl_trace::Format;
use dahl_trace::html::Page;
use serde_json::{Map, Value, json};
use std::io::{Write, stdout};
use std::path::PathBuf;

/// What to do with a saved trace.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dahl train --trace run.json                 saves a trace in dahl's own format
  dahl trace run.json                         how the workers' time was spent
  dahl trace run.json --json                  the same for programs
  dahl trace run.json --to perfetto -o run.pftrace
  dahl trace run.json --to html -o run.html   a page for any browser, offline
  dahl trace run.json --to dot | dot -Tsvg > graph.svg")]
pub struct Args {
    /// A trace in dahl's own format (.json)
    #[arg(value_parser = path())]
    file: PathBuf,
    /// Convert it; without this, a summary is printed [default: by the ending of --output]
    #[arg(long, value_enum)]
    to: Option<FormatArg>,
    /// Where to write it [default: standard output]
    #[arg(short, long, value_name = "FILE", value_parser = path())]
    output: Option<PathBuf>,
    /// Print the summary as one JSON object
    #[arg(long, conflicts_with_all = ["to", "output"])]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatArg {
    /// For https://ui.perfetto.dev
    Perfetto,
    /// For ViTE and pj_dump
    Paje,
    /// The task graph, for Graphviz
    Dot,
    /// A page for any browser that needs nothing else
    Html,
    /// dahl's own format
    Json,
}

/// Converts or describes a trace.
pub fn run(args: &Args) -> Result<Exit> {
    let format = match (args.to, &args.output) {
        (Some(FormatArg::Perfetto), _) => Some(Format::Perfetto),
        (Some(FormatArg::Paje), _) => Some(Format::Paje),
        (Some(FormatArg::Dot), _) => Some(Format::Dot),
        (Some(FormatArg::Html), _) => Some(Format::Html),
        (Some(FormatArg::Json), _) => Some(Format::Json),
        (None, Some(path)) => Some(Format::of_path(path).map_err(|error| Misuse(error.to_string()))?),
        (None, None) => None,
    };
    let trace = dahl_trace::load(&args.file)?;
    let Some(format) = format else {
        match args.json {
            true => say(to_json(&trace))?,
            false => summary(&trace)?,
        }
        return Ok(Exit::Done);
    };
    let write = |mut out: &mut dyn Write| match format {
        // A page says what it is of.
        Format::Html => page(args).write(&trace, &mut out),
        _ => dahl_trace::write(&trace, format, out),
    };
    match &args.output {
        None => write(&mut stdout().lock())?,
        Some(path) => {
            let same = path.canonicalize().ok().zip(args.file.canonicalize().ok());
            if same.is_some_and(|(output, input)| output == input) {
                bail!("{} would be overwritten with itself: name another file", path.display());
            }
            dahl::file::write(path, write)?;
        }
    }
    Ok(Exit::Done)
}

fn page(args: &Args) -> Page {
    let name = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Page { title: name, ..Page::default() }
}

fn summary(trace: &Trace) -> Result<()> {
    let mut text = String::new();
    let n_events: usize = trace.workers.iter().map(Vec::len).sum();
    let (kernels, idle) = trace.seconds();
    let all = kernels + idle.iter().sum::<f64>();
    let percent = |seconds: f64| if all > 0.0 { 100.0 * seconds / all } else { 0.0 };
    text += &format!(
        "{n_events} executions of {} tasks on {} workers\n",
        trace.scene.tasks.len(),
        trace.workers.len()
    );
    if trace.total_dropped() > 0 {
        text += &format!("{} older executions were dropped\n", trace.total_dropped());
    }
    text += &format!("in kernels          {:>6.2} %  {:>9.3} ms\n", percent(kernels), 1e3 * kernels);
    for (reason, seconds) in Reason::ALL.into_iter().zip(idle).filter(|(_, seconds)| *seconds > 0.0) {
        text +=
            &format!("idle: {:<13} {:>6.2} %  {:>9.3} ms\n", reason.name(), percent(seconds), 1e3 * seconds);
    }
    Ok(say(text.trim_end())?)
}

/// The summary as a JSON object. Times are those of all workers together.
fn to_json(trace: &Trace) -> Value {
    let (kernels, idle) = trace.seconds();
    let name = |reason: Reason| reason.name().replace(' ', "_");
    let idle: Map<String, Value> =
        Reason::ALL.into_iter().zip(idle).map(|(reason, seconds)| (name(reason), json!(seconds))).collect();
    json!({
        "events": trace.workers.iter().map(Vec::len).sum::<usize>(),
        "tasks": trace.scene.tasks.len(),
        "workers": trace.workers.len(),
        "dropped": trace.total_dropped(),
        "kernel_seconds": kernels,
        "idle_seconds": idle,
    })
}
