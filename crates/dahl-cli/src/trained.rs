//! A trained model from a file: what `dahl eval` and `dahl predict` have in common.
//!
//! The data must have the classes that the model was trained on. Labels that are mere numbers have no gaps,
//! unless `--classes` says how many classes there are: one wrong label would make up dozens.

use crate::open::{self, Described};
use crate::output::warn;
use crate::parse::{CLASSES, DtypeArg, classes, image_shape, model, name, path, workers};
use crate::train::resume;
use anyhow::{Context, Result, bail};
use dahl::Trainer;
use dahl::dataset::{Dataset, Options};
use dahl::loss;
use dahl::model::Sequential;
use dahl::tensors::{self, Tensors};
use dahl_runtime::array::Dtype;
use dahl_runtime::shown;
use std::borrow::Cow;
use std::path::PathBuf;

/// Where the model is, and how to use it.
#[derive(clap::Args)]
pub struct TrainedArgs {
    /// A checkpoint: a folder of them (the newest is taken), a file, or weights with --model
    #[arg(value_name = "CHECKPOINT", value_parser = path())]
    pub checkpoint: PathBuf,
    /// Other data than the model was trained on; where the file has weights only, what test images and names
    /// of classes come from
    #[arg(long, value_parser = name())]
    pub data: Option<String>,
    /// The network, where the file has weights only: a name that `dahl model` lists, or a model file (.toml)
    #[arg(long, value_name = "NAME|FILE", value_parser = model)]
    pub model: Option<String>,
    /// Channels, height and width of the images, where the file has weights only and no data says so
    /// [default: as usual for the network]
    #[arg(long, value_name = "CxHxW", value_parser = image_shape, requires = "model")]
    pub input: Option<[usize; 3]>,
    /// How many classes there are, where labels are mere numbers and some class has no image, or where the
    /// file has weights only and no data says so [default: as in training, where it is the same data; of
    /// weights 10]
    #[arg(long, value_name = "N", value_parser = classes)]
    pub classes: Option<usize>,
    /// Element type to compute in [default: as in training]
    #[arg(long, value_enum)]
    pub dtype: Option<DtypeArg>,
    /// Worker threads; the result does not depend on it [default: one per core]
    #[arg(long, value_parser = workers)]
    pub workers: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A model with weights.
pub struct Trained {
    pub name: String,
    pub model: Sequential,
    /// Steps of training, where that is known.
    pub steps: Option<u64>,
    /// What names the data, where anything does.
    spec: Option<String>,
    /// Whether the checkpoint names it, and not the user.
    is_kept: bool,
    /// How it is opened.
    options: Options,
    /// The names of the classes that it was trained on, where that is known.
    pub classes: Vec<String>,
    data: Option<Dataset>,
    trainer: Trainer,
}

impl Trained {
    /// Opens what the arguments name.
    pub fn open(args: &TrainedArgs) -> Result<Trained> {
        let machine = open::machine(args.workers);
        let trainer = |dtype: Dtype| Trainer::new(&machine).dtype(args.dtype.map_or(dtype, Dtype::from));
        if let Some(spec) = &args.model {
            return Trained::weights(args, spec, trainer);
        }
        let checkpoint = open::checkpoint(&args.checkpoint)?;
        let Described { name, mut model, data, classes } = open::describe(&checkpoint)?;
        model.set_tensors(&checkpoint.tensors).with_context(|| args.checkpoint.display().to_string())?;
        let usual = loss::usual(&model).to_string();
        if let Some(other) = checkpoint.settings.get("loss").filter(|loss| **loss != usual) {
            warn(format_args!(
                "the loss is the {usual}; the model was trained with another, '{}'",
                shown::name(other)
            ));
        }
        let input = model.input();
        let kept = resume::kept(&checkpoint)?;
        let is_kept = args.data.is_none();
        let options = Options {
            shape: Some([input[0], input[1], input[2]]),
            classes: args.classes.or(kept.classes.filter(|_| is_kept)),
            ..Options::default()
        };
        let is_double = checkpoint.settings.get("dtype").is_some_and(|dtype| dtype == "f64");
        let dtype = if is_double { Dtype::F64 } else { Dtype::F32 };
        Ok(Trained {
            name,
            model,
            steps: Some(checkpoint.step),
            spec: args.data.clone().or(data),
            is_kept,
            options,
            classes,
            data: None,
            // As in training, so that the same weights have the same loss, to the last bit.
            trainer: trainer(dtype).cut(kept.cut),
        })
    }

    /// Opens weights alone, whose model is `spec`. Data says what images and classes there are; without it,
    /// that is said by other arguments, or as usual for this network.
    fn weights(args: &TrainedArgs, spec: &str, trainer: impl Fn(Dtype) -> Trainer) -> Result<Trained> {
        let options = Options { shape: args.input, classes: args.classes, ..Options::default() };
        let data = args.data.as_ref().map(|data| open::data(data, &options, args.json)).transpose()?;
        let (input, n_classes) = match &data {
            Some(data) => (Some(data.shape), data.classes),
            None => (args.input, args.classes.unwrap_or(CLASSES)),
        };
        let mut model = open::model(spec, input, n_classes)?;
        if let Some(data) = &data {
            check_classes(data, &model, &[])?;
        }
        let weights = Tensors::load(&args.checkpoint)?;
        model.set_tensors(&weights).with_context(|| {
            let hint = match data {
                Some(_) => "",
                None => " (--input and --classes say for what images and how many classes they were trained)",
            };
            format!("{}{hint}", args.checkpoint.display())
        })?;
        // By the weights: counts of batches have 64 bits, too.
        let is_double = weights.iter().any(|(_, tensor)| tensor.dtype() == tensors::Dtype::F64);
        Ok(Trained {
            name: spec.to_string(),
            model,
            steps: None,
            spec: None,
            is_kept: false,
            options,
            classes: data.as_ref().map(|data| data.class_names.clone()).unwrap_or_default(),
            data,
            trainer: trainer(if is_double { Dtype::F64 } else { Dtype::F32 }),
        })
    }

    /// The data, read when it is asked for. It must have the classes that the model was trained on.
    pub fn data(&self, is_quiet: bool) -> Result<Cow<'_, Dataset>> {
        if let Some(data) = &self.data {
            return Ok(Cow::Borrowed(data));
        }
        let open = if self.is_kept { open::data_of_checkpoint } else { open::data };
        let spec = self.spec.as_deref();
        let spec = spec.context("nothing says which data the model was trained on: add --data")?;
        let data = open(spec, &self.options, is_quiet)?;
        check_classes(&data, &self.model, &self.classes)?;
        Ok(Cow::Owned(data))
    }

    /// What evaluates it.
    pub fn trainer(&self) -> &Trainer {
        &self.trainer
    }
}

/// Refuses data of other classes than those that a model was trained on, or with other names, where those are
/// known: what would be counted as right or wrong means nothing.
pub fn check_classes(data: &Dataset, model: &Sequential, names: &[String]) -> Result<()> {
    let n = if names.is_empty() { model.classes()? } else { names.len() };
    let (name, n_here) = (&data.name, data.classes);
    if n_here != n {
        let are_numbers = data.class_names.iter().enumerate().all(|(i, name)| *name == i.to_string());
        let hint = match are_numbers && n_here < n {
            true => format!("; if they are the same and some have no image here, add --classes {n}"),
            false => String::new(),
        };
        bail!(
            "{name} has {n_here} classes, and the model was trained on {n}: take data of the same classes{hint}"
        );
    }
    let other = data.class_names.iter().zip(names).position(|(here, known)| here != known);
    if let Some(class) = other {
        let (here, known) = (&data.class_names[class], &names[class]);
        bail!(
            "class {class} of {name} is {here:?}, and the model was trained on {known:?}: take data of the same classes"
        );
    }
    Ok(())
}
