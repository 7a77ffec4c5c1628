//! `--batches` and `--dump`: exactly these batches, and everything that another program needs to compare.

use crate::open;
use anyhow::{Context, Result, bail};
use dahl::file;
use dahl::model::Sequential;
use dahl::tensors::{Tensor, Tensors};
use dahl::train::StepDump;
use dahl_runtime::array::Dtype;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const LOSSES: &str = "losses.json";
const FIRST_STEP: &str = "step1.safetensors";
const LAST: &str = "final.safetensors";

/// A folder that a run is dumped into.
pub struct Dump {
    dir: PathBuf,
    dtype: Dtype,
}

impl Dump {
    /// Makes the folder. Files of an earlier dump stay until those of this run take their place.
    pub fn create(dir: &Path, dtype: Dtype) -> Result<Dump> {
        file::create_folder(dir)?;
        for name in [LOSSES, FIRST_STEP, LAST] {
            open::writable(&dir.join(name))?;
        }
        Ok(Dump { dir: dir.to_path_buf(), dtype })
    }

    /// Writes the loss of each step, before its update.
    pub fn losses(&self, losses: &[f64]) -> Result<()> {
        let text = serde_json::to_string(losses).context("losses are numbers")?;
        Ok(file::write(self.dir.join(LOSSES), |out| writeln!(out, "{text}"))?)
    }

    /// Writes logits, loss and gradients of the first step.
    pub fn first_step(&self, model: &Sequential, step: &StepDump) -> Result<()> {
        let classes = model.classes()?;
        let mut tensors = Tensors::new();
        let loss = step.losses.first().copied().unwrap_or(f64::NAN);
        tensors.insert("loss", Tensor::from_f64(self.dtype, &[], &[loss])?);
        tensors.insert(
            "logits",
            Tensor::from_f64(self.dtype, &[step.logits.len() / classes, classes], &step.logits)?,
        );
        for named in model.parameters()? {
            let shape = named.parameter.shape;
            let gradient = &step.gradients[named.offset..named.offset + shape.len()];
            tensors.insert(format!("grad.{}", named.name), Tensor::from_f64(self.dtype, &shape, gradient)?);
        }
        Ok(tensors.save(self.dir.join(FIRST_STEP))?)
    }

    /// Removes the first step of an earlier dump, which would be taken for that of this run.
    pub fn no_first_step(&self) -> Result<()> {
        let path = self.dir.join(FIRST_STEP);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(file::unwritable(&path, error).into())
            }
            _ => Ok(()),
        }
    }

    /// Writes the weights and running statistics at the end.
    pub fn last(&self, model: &Sequential) -> Result<()> {
        Ok(model.to_tensors(self.dtype)?.save(self.dir.join(LAST))?)
    }
}

/// Reads batches: `indices` of [steps, batch] whole numbers, each that of a training image.
pub fn read_batches(path: &Path) -> Result<Vec<Vec<u32>>> {
    let tensors = Tensors::load(path)?;
    let place = path.display();
    let Some(indices) = tensors.get("indices") else {
        let names: Vec<&str> = tensors.names().collect();
        bail!(
            "{place}: expected a tensor 'indices' of [steps, batch], but there are only: {}",
            names.join(", ")
        );
    };
    let &[steps, batch] = indices.shape() else {
        bail!("{place}: expected indices of [steps, batch], but they are {:?}", indices.shape());
    };
    let Some(values) = indices.get::<i64>() else {
        bail!("{place}: expected indices of type i64, but they are {}", indices.dtype());
    };
    if steps == 0 || batch == 0 {
        bail!(
            "{place}: expected at least one batch of at least one image, but indices are [{steps}, {batch}]"
        );
    }
    let index = |&value: &i64| u32::try_from(value).with_context(|| format!("{place}: {value} is no image"));
    values.chunks_exact(batch).map(|row| row.iter().map(index).collect()).collect()
}
