//! `dahl eval`.

use crate::exit::Exit;
use crate::output::{say, thousands};
use crate::trained::{Trained, TrainedArgs};
use anyhow::{Context, Result};
use serde_json::json;

/// What to evaluate on what.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dahl train --checkpoint run/
  dahl eval run/                                 the newest checkpoint, on the test images of its data
  dahl eval run/step-000000000500.safetensors --data other/
  dahl eval final.safetensors --model lenet5 --data data/fashion-mnist")]
pub struct Args {
    #[command(flatten)]
    trained: TrainedArgs,
}

/// Evaluates a trained model on test images.
pub fn run(args: &Args) -> Result<Exit> {
    let trained = Trained::open(&args.trained)?;
    let data = trained.data(args.trained.json)?;
    let result = trained.trainer().evaluate(&trained.model, &data).context("the evaluation failed")?;
    if args.trained.json {
        say(json!({
            "model": trained.name,
            "data": data.name,
            "steps": trained.steps,
            "images": result.n_images,
            "test_loss": result.loss,
            "test_accuracy": result.accuracy,
        }))?;
        return Ok(Exit::Done);
    }
    let steps = trained.steps.map_or(String::new(), |steps| format!(" after {} steps", thousands(steps)));
    say(format!(
        "{}{steps} on {} test images of {}",
        trained.name,
        thousands(result.n_images as u64),
        data.name
    ))?;
    say(format!("test accuracy {:.2} %   test loss {:.4}", 100.0 * result.accuracy, result.loss))?;
    Ok(Exit::Done)
}
