//! dahl's own side of a comparison: trains whenever the command that started it asks.

use super::settings::Settings;
use crate::exit::Exit;
use crate::open;
use crate::output::say;
use anyhow::{Context, Result, bail};
use dahl::op::default_cut;
use dahl::tune::Subject;
use dahl_runtime::machine::{keep_to_cores, peak_resident_bytes, resident_bytes};
use serde_json::{Value, json};
use std::io::{BufRead, stdin};
use std::time::Duration;

/// Steps of a turn at least: the first and the last of them do not count.
const MIN_STEPS: u64 = 5;

/// Answers line by line.
pub fn run() -> Result<Exit> {
    if let Err(error) = serve() {
        say(json!({ "error": format!("{error:#}") }))?;
    }
    Ok(Exit::Done)
}

fn serve() -> Result<()> {
    let mut lines = stdin().lock().lines();
    let line = lines.next().context("expected settings, but there was nothing")??;
    let settings = Settings::from_json(&serde_json::from_str(&line)?)?;
    // Before there are threads, which take this over.
    keep_to_cores(settings.workers);
    let start_bytes = resident_bytes();
    let model = open::model(&settings.model, Some(settings.shape), settings.classes)?;
    let subject = Subject::new(&model, settings.batch, settings.dtype)?;
    let ready_bytes = resident_bytes();
    let cut = default_cut().read(&settings.cut)?;
    subject.time_in_turns(&cut, settings.workers, |turn| {
        say(json!({ "ready": {
            "data_bytes": subject.data_bytes(), "start_bytes": start_bytes, "ready_bytes": ready_bytes,
        }}))?;
        for line in lines {
            let asked: Value = serde_json::from_str(&line?)?;
            let time = asked["seconds"].as_f64().and_then(|time| Duration::try_from_secs_f64(time).ok());
            let time = time.with_context(|| format!("expected seconds, but was asked for {asked}"))?;
            turn(1, time / 10)?;
            let done = turn(MIN_STEPS, time)?;
            let usage = done.trace.usage();
            if usage.n_steps == 0 {
                bail!("a step is more than a trace remembers, so its time is not known: use a smaller batch");
            }
            say(json!({ "turn": {
                "steps": done.n_steps, "seconds": done.seconds, "step_seconds": usage.median_step_seconds,
                "overhead": usage.median_overhead, "peak_bytes": peak_resident_bytes(),
            }}))?;
        }
        Ok(())
    })?
}
