//! `dahl predict`.

use crate::exit::Exit;
use crate::output::say;
use crate::parse::{at_least_one, name};
use crate::trained::{Trained, TrainedArgs};
use anyhow::{Context, Result, ensure};
use dahl::dataset;
use dahl_runtime::shown;
use serde_json::json;
use std::path::Path;

/// What to tell the class of.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dahl train --checkpoint run/
  dahl predict run/ 0                            the first test image of the data it was trained on
  dahl predict run/ photo.png                    an image file (png, jpeg, pgm, ppm), brought to the model's size
  dahl predict run/ ./7                          a file whose name is a number
  dahl predict final.safetensors --model lenet5 photo.png
                                                 weights of another program; classes are numbers without --data")]
pub struct Args {
    #[command(flatten)]
    trained: TrainedArgs,
    /// An image file, or the number of a test image, from 0
    #[arg(value_name = "IMAGE|INDEX", value_parser = name())]
    image: String,
    /// How many of the most likely classes to show
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = at_least_one)]
    top: usize,
}

/// Tells the class of an image.
pub fn run(args: &Args) -> Result<Exit> {
    let trained = Trained::open(&args.trained)?;
    let (pixels, label) = match args.image.parse::<usize>() {
        Ok(index) => {
            let data = trained.data(args.trained.json)?;
            let test = &data.test;
            let n = test.len();
            ensure!(index < n, "there is no test image {index}: they go from 0 to {}", n - 1);
            (test.image(index)?.into_owned(), Some(test.labels()[index]))
        }
        Err(_) => {
            let input = trained.model.input();
            (dataset::image_file(Path::new(&args.image), [input[0], input[1], input[2]])?, None)
        }
    };
    let rows = trained.trainer().predict(&trained.model, &pixels).context("the prediction failed")?;
    let row = rows.first().context("the prediction failed: nothing came out")?;
    let name = |class: usize| trained.classes.get(class).cloned().unwrap_or_else(|| class.to_string());
    let mut ranked: Vec<(usize, f64)> = row.iter().copied().enumerate().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.truncate(args.top);
    let &(class, confidence) = ranked.first().context("the model tells no classes apart")?;
    let label = label.map(usize::from);
    if args.trained.json {
        let top: Vec<_> = ranked
            .iter()
            .map(|&(class, confidence)| json!({ "class": class, "name": name(class), "confidence": confidence }))
            .collect();
        say(json!({
            "image": args.image, "class": class, "name": name(class), "confidence": confidence, "label": label, "top": top,
        }))?;
        return Ok(Exit::Done);
    }
    let shown = |class: usize| shown::name(&name(class)).to_string();
    let verdict = match label {
        Some(label) if label == class => ", which is right".to_string(),
        Some(label) => format!(", but it is class {}", shown(label)),
        None => String::new(),
    };
    let subject = if label.is_some() { format!("test image {}", args.image) } else { args.image.clone() };
    say(format!("{subject}: class {} ({:.2} % sure){verdict}", shown(class), 100.0 * confidence))?;
    for &(class, confidence) in &ranked[1..] {
        say(format!("  or class {} ({:.2} %)", shown(class), 100.0 * confidence))?;
    }
    Ok(Exit::Done)
}
