//! Measuring how steps are best cut: what `dahl calibrate` and `dahl sweep` share.

pub mod calibrate;
mod plot;
mod rounds;
pub mod sweep;

use crate::open;
use crate::parse::{DtypeArg, at_least_one, batch, classes, image_shape, seconds};
use anyhow::Result;
use dahl::tune::Subject;
use dahl_runtime::plan::CutOptions;
use indicatif::{ProgressBar, ProgressStyle};
use rounds::Effort;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// Which steps to measure.
#[derive(clap::Args)]
pub struct What {
    /// Networks: names that `dahl model` lists, or model files
    #[arg(long, value_name = "NAMES", default_value = "seed", value_delimiter = ',')]
    model: Vec<String>,
    /// Images per step
    #[arg(long, value_name = "SIZES", default_value = "64", value_parser = batch, value_delimiter = ',')]
    batch: Vec<usize>,
    /// Take the shape of images and the classes from a data set, as `dahl train --data` does
    #[arg(long, conflicts_with_all = ["input", "classes"])]
    data: Option<String>,
    /// Channels, height and width of the images [default: what the network was made for]
    #[arg(long, value_name = "CxHxW", value_parser = image_shape)]
    input: Option<[usize; 3]>,
    /// How many classes to tell apart
    #[arg(long, default_value_t = 10, value_parser = classes)]
    classes: usize,
    /// Element type to compute in
    #[arg(long, value_enum, default_value_t = DtypeArg::F32)]
    dtype: DtypeArg,
    /// How long each plan is run at a time
    #[arg(long, value_name = "SECONDS", default_value = "0.05", value_parser = seconds)]
    seconds: Duration,
    /// How often each plan is run, in turn with the others
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = at_least_one)]
    rounds: usize,
    /// Do with fewer rounds where they take longer than this, for each network, batch and number of workers
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    limit: Duration,
}

/// A step that can be measured, and what it is called.
pub struct Named {
    pub model: String,
    pub subject: Subject,
}

impl What {
    fn effort(&self) -> Effort {
        Effort { time: self.seconds, limit: self.limit }
    }

    /// All steps, model after model.
    fn subjects(&self) -> Result<Vec<Named>> {
        let data = self.data.as_deref().map(open::described).transpose()?;
        let mut subjects = Vec::new();
        for spec in &self.model {
            let (input, classes) = match &data {
                Some(data) => (Some(data.shape), data.classes),
                None => (self.input.or_else(|| open::made_for(spec)), self.classes),
            };
            let model = open::model(spec, input, Some(classes))?;
            for &batch in &self.batch {
                let subject = Subject::new(&model, batch, self.dtype.into())?;
                subjects.push(Named { model: spec.clone(), subject });
            }
        }
        Ok(subjects)
    }
}

/// What is different from cut to cut, in a few characters.
fn label(cut: &CutOptions) -> String {
    let heuristic = CutOptions::default();
    let mut text = cut.tiles().replace("/i=4096max", "");
    if cut.tiles_per_group != heuristic.tiles_per_group {
        text.push_str(&format!(" x{}", cut.tiles_per_group));
    }
    if cut.implementations != heuristic.implementations {
        text.push_str(&format!(" {}", cut.implementations[0]));
    }
    text
}

/// A bar for what takes its time, on a terminal.
fn bar(n: usize, is_quiet: bool) -> ProgressBar {
    let is_hidden = is_quiet || !stderr().is_terminal();
    let bar = if is_hidden { ProgressBar::hidden() } else { ProgressBar::new(n as u64) };
    match ProgressStyle::with_template("{bar:32} {pos}/{len} measurements  {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
