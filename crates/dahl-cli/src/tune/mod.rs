//! Measuring how steps are best cut: what `dahl calibrate` and `dahl sweep` share.

pub mod calibrate;
mod plot;
mod rounds;
pub mod sweep;

use crate::open;
use crate::parse::{CLASSES, DtypeArg, at_least_one, batch, classes, image_shape, model, name, seconds};
use anyhow::Result;
use dahl::model::Sequential;
use dahl::tune::Subject;
use dahl_runtime::graph::CutOptions;
use indicatif::{ProgressBar, ProgressStyle};
use rounds::Effort;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// Which steps to measure.
#[derive(clap::Args)]
pub struct What {
    /// Networks: names that `dahl model` lists, or model files [default: what `dahl train` trains, seed on
    /// the digits]
    #[arg(long, value_name = "NAMES", value_parser = model, value_delimiter = ',')]
    model: Vec<String>,
    /// Images per step
    #[arg(long, value_name = "SIZES", default_value = "64", value_parser = batch, value_delimiter = ',')]
    batch: Vec<usize>,
    /// Take the shape of images and the classes from a data set, named as for `dahl train --data`
    #[arg(long, value_parser = name(), conflicts_with = "input")]
    data: Option<String>,
    /// Channels, height and width of the images [default: what the network was made for]
    #[arg(long, value_name = "CxHxW", value_parser = image_shape)]
    input: Option<[usize; 3]>,
    /// How many classes to tell apart [default: those of the data, otherwise 10]
    #[arg(long, value_parser = classes)]
    classes: Option<usize>,
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
    /// The same with the shape of images.
    pub about: String,
    pub subject: Subject,
}

impl What {
    fn effort(&self) -> Effort {
        Effort { time: self.seconds, limit: self.limit }
    }

    /// The networks by name, with the shape of images and the classes that they are for.
    fn networks(&self) -> Result<Vec<(String, Sequential)>> {
        let is_default = self.model.is_empty() && self.input.is_none();
        let data = self.data.as_deref().or_else(|| is_default.then_some("digits"));
        let data = data.map(|data| open::described(data, self.classes)).transpose()?;
        let model = |spec: &str| {
            let (input, classes) = match &data {
                Some(data) => (Some(data.shape), data.classes),
                None => (self.input, self.classes.unwrap_or(CLASSES)),
            };
            Ok((spec.to_string(), open::model(spec, input, classes)?))
        };
        match self.model.is_empty() {
            true => Ok(vec![model("seed")?]),
            false => self.model.iter().map(|spec| model(spec)).collect(),
        }
    }

    /// Does something with every step, model after model. Each has images of its own, so there is one at a
    /// time.
    fn each(&self, mut with: impl FnMut(&Named) -> Result<()>) -> Result<()> {
        for (name, model) in self.networks()? {
            for &batch in &self.batch {
                let subject = Subject::new(&model, batch, self.dtype.into())?;
                let [channels, height, width] = subject.shape();
                let about = format!("{name} on {channels}x{height}x{width}");
                with(&Named { model: name.clone(), about, subject })?;
            }
        }
        Ok(())
    }
}

/// What is different from cut to cut, in a few characters.
pub fn label(cut: &CutOptions) -> String {
    let heuristic = dahl::op::default_cut();
    // The tiles of updates are the same in all.
    let mut text = cut.tiles();
    let updates = format!("/{}", heuristic.tiles().rsplit('/').next().unwrap_or_default());
    text.truncate(text.strip_suffix(&updates).map_or(text.len(), str::len));
    if cut.tiles_per_group != heuristic.tiles_per_group {
        text.push_str(&format!(" x{}", cut.tiles_per_group));
    }
    if cut.fusion != heuristic.fusion {
        text.push_str(" unfused");
    }
    if cut.implementations != heuristic.implementations {
        text.push_str(&format!(" {}", cut.implementations[0]));
    }
    text
}

/// A bar for what takes its time, on a terminal.
pub fn bar(n: usize, is_quiet: bool) -> ProgressBar {
    let is_hidden = is_quiet || !stderr().is_terminal();
    let bar = if is_hidden { ProgressBar::hidden() } else { ProgressBar::new(n as u64) };
    match ProgressStyle::with_template("{bar:16} {pos}/{len} measurements  {wide_msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
