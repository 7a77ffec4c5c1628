//! `dahl model`.

use crate::exit::Exit;
use crate::open;
use crate::output::{bytes, count, say, thousands};
use crate::parse::{CLASSES, DtypeArg, batch, classes, image_shape, model, name, workers};
use anyhow::{Context, Result, bail};
use dahl::Trainer;
use dahl::dataset::{Dataset, Options, Split};
use dahl::model::{Sequential, SummaryRow};
use dahl_runtime::array::Dtype;
use dahl_runtime::machine::{HOST, Hardware, Machine, n_cores};
use serde_json::json;

/// Which model to describe, for which images.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dahl model                                     the networks that dahl brings along
  dahl model lenet5 --input 1x28x28              its layers, shapes, parameters, flops and memory
  dahl model vggish --data data/cifar --batch 128 --dtype f64
  dahl model lenet5 --toml > mine.toml           a model file to begin with; then dahl train --model mine.toml")]
pub struct Args {
    /// A name, or a model file (.toml); without it, all names are listed
    #[arg(value_name = "NAME|FILE", value_parser = model)]
    model: Option<String>,
    /// Take images and classes from a data set
    #[arg(long, value_parser = name(), conflicts_with = "input")]
    data: Option<String>,
    /// Channels, height and width of the images [default: what the network was made for]
    #[arg(long, value_name = "CxHxW", value_parser = image_shape)]
    input: Option<[usize; 3]>,
    /// How many classes to tell apart [default: those of the data, otherwise 10]
    #[arg(long, value_parser = classes)]
    classes: Option<usize>,
    /// Images per step
    #[arg(long, default_value_t = 64, value_parser = batch)]
    batch: usize,
    /// Element type to compute in
    #[arg(long, value_enum, default_value_t = DtypeArg::F32)]
    dtype: DtypeArg,
    /// Worker threads, which the plan depends on [default: one per core]
    #[arg(long, value_parser = workers)]
    workers: Option<usize>,
    /// Print the model file
    #[arg(long, conflicts_with = "json")]
    toml: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Describes a model, or lists all.
pub fn run(args: &Args) -> Result<Exit> {
    let Some(spec) = &args.model else { return list(args) };
    let builtin = Sequential::BUILTIN.iter().find(|model| model.name == spec);
    if let (Some(model), true, None, None) = (builtin, args.toml, &args.data, args.input) {
        // As it is written, for images and classes of any data.
        say(model.toml.trim_end())?;
        return Ok(Exit::Done);
    }
    let data = args.data.as_deref().map(|data| open::described(data, args.classes)).transpose()?;
    let (input, classes) = match &data {
        Some(data) => (Some(data.shape), data.classes),
        None => (args.input, args.classes.unwrap_or(CLASSES)),
    };
    let model = open::model(spec, input, classes)?;
    // A network that says how many it tells apart is believed.
    let classes = if data.is_none() && args.classes.is_none() { model.classes()? } else { classes };
    if args.toml {
        say(model.to_toml().trim_end())?;
        return Ok(Exit::Done);
    }
    let data = match data {
        // What training would keep in memory is planned as such, but need not be read.
        Some(data) if is_kept(&data) => blank(data.shape, data.classes, args.batch.min(data.train.len()))?,
        Some(data) => data,
        // A model file may say by itself which images it takes.
        None => {
            let input = model.input();
            blank([input[0], input[1], input[2]], classes, args.batch)?
        }
    };
    let machine = Machine::of_hardware(&Hardware::detect(), args.workers.unwrap_or_else(n_cores));
    let trainer = Trainer::new(&machine).batch(args.batch).dtype(args.dtype.into());
    let planned = trainer.plan_step(&model, &data).context("planning failed")?;
    let (memory, n_tasks) = (planned.plan.memory(HOST), planned.lowered.tasks().len());
    let (rows, n_weights) = (model.summary()?, model.n_weights()?);
    let batch = args.batch.min(data.train.len());
    let flops: f64 = rows.iter().map(|row| row.forward_flops + row.backward_flops).sum();
    let weight_bytes = n_weights * Dtype::from(args.dtype).bytes();
    if args.json {
        let layer = |row: &SummaryRow| {
            json!({
                "name": row.name, "kind": row.kind, "output": &row.output[..], "parameters": row.n_parameters,
                "forward_flops": row.forward_flops, "backward_flops": row.backward_flops, "bytes": row.bytes,
            })
        };
        say(json!({
            "model": spec,
            "input": &model.input()[..],
            "classes": classes,
            "parameters": n_weights,
            "statistics": model.n_statistics()?,
            "layers": rows.iter().map(layer).collect::<Vec<_>>(),
            "flops_per_image": flops,
            "batch": batch,
            "workers": machine.units.len(),
            "tasks_per_step": n_tasks,
            "mem_max_bytes": memory.bytes,
            "mem_unshared_bytes": memory.bytes_unshared,
            "scratch_bytes": memory.scratch_bytes,
            "weight_bytes": weight_bytes,
        }))?;
        return Ok(Exit::Done);
    }
    say(format!(
        "{spec}: images of {}, {classes} classes; flops and bytes are for one image",
        extents(&model.input())
    ))?;
    say(format!(
        "\n{:<24} {:<16} {:>12} {:>12} {:>10} {:>10} {:>10}",
        "layer", "kind", "output", "parameters", "forward", "backward", "bytes"
    ))?;
    for row in &rows {
        say(format!(
            "{:<24} {:<16} {:>12} {:>12} {:>10} {:>10} {:>10}",
            row.name,
            row.kind,
            extents(&row.output),
            thousands(row.n_parameters as u64),
            flops_text(row.forward_flops),
            flops_text(row.backward_flops),
            bytes(row.bytes as u64),
        ))?;
    }
    say(format!(
        "\n{} parameters ({}), {} per image",
        thousands(n_weights as u64),
        bytes(weight_bytes as u64),
        flops_text(flops)
    ))?;
    say(format!(
        "MEM_MAX {} for a training step of {batch} images ({} without sharing), {n_tasks} tasks on {}",
        bytes(memory.bytes as u64),
        bytes(memory.bytes_unshared as u64),
        count(machine.units.len(), "worker")
    ))?;
    if memory.scratch_bytes > 0 {
        say(format!(
            "{} of it as scratch of kernels, {} for each worker",
            bytes(memory.scratch_bytes as u64),
            bytes(memory.unit_scratch_bytes as u64)
        ))?;
    }
    Ok(Exit::Done)
}

/// Whether training would keep images in memory that were not read here.
fn is_kept(data: &Dataset) -> bool {
    let n_bytes = data.train.n_bytes().saturating_add(data.test.n_bytes());
    data.train.resident().is_none() && n_bytes <= Options::default().allowed_bytes()
}

/// The most bytes of images to make a plan for.
const MAX_BLANK_BYTES: usize = 1 << 30;

/// Any images of a shape do for a plan; as many as a batch has.
fn blank(shape: [usize; 3], classes: usize, n_images: usize) -> Result<Dataset> {
    let n_bytes = shape.iter().try_fold(n_images, |product, &extent| product.checked_mul(extent));
    let Some(n_bytes) = n_bytes.filter(|&n_bytes| n_bytes <= MAX_BLANK_BYTES) else {
        bail!(
            "{n_images} images of {} are more than the {} that can be described: ask for fewer with --batch or for smaller ones",
            extents(&shape),
            bytes(MAX_BLANK_BYTES as u64)
        );
    };
    let split = |n: usize| Split::new(vec![0; n_bytes / n_images * n], vec![0; n]);
    let class_names = (0..classes).map(|class| class.to_string()).collect();
    let (train, test) = (split(n_images)?, split(1)?);
    Ok(Dataset { name: "blank images".into(), shape, classes, class_names, train, test })
}

/// All names.
fn list(args: &Args) -> Result<Exit> {
    if args.json {
        let all = Sequential::BUILTIN.iter().map(|model| json!({ "name": model.name, "about": model.about }));
        say(json!({ "models": all.collect::<Vec<_>>() }))?;
        return Ok(Exit::Done);
    }
    for model in Sequential::BUILTIN {
        say(format!("{:<8} {}", model.name, model.about))?;
    }
    say("\ndahl model NAME describes one; dahl model NAME --toml > mine.toml begins one of your own")?;
    Ok(Exit::Done)
}

fn extents(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

/// A number of floating-point operations with a unit.
fn flops_text(flops: f64) -> String {
    let mut value = flops;
    let mut units = ["flop", "kflop", "Mflop", "Gflop", "Tflop"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while value >= 999.5 {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / 1000.0, next);
    }
    let digits = usize::from(value < 99.95 && value.fract() != 0.0);
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::flops_text;

    #[test]
    fn flops_have_the_unit_that_suits_them() {
        let cases = [
            (0.0, "0 flop"),
            (999.0, "999 flop"),
            (999.6, "1.0 kflop"),
            (27_040.0, "27.0 kflop"),
            (1.5e6, "1.5 Mflop"),
            (3e20, "300000000 Tflop"),
        ];
        for (flops, text) in cases {
            assert_eq!(flops_text(flops), text);
        }
    }
}
