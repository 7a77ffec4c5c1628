//! Checkpoints: everything that a training run needs to go on as if it had never stopped, in one file.
//!
//! A checkpoint is a safetensors file, so that any program that reads those can take the weights out of it.
//! Settings and plan are among its texts (`format.rs`), with a checksum over the whole file: a file that was
//! changed or cut off anywhere is refused. A folder holds the last two of a run (`folder.rs`), each written
//! whole or not at all ([`crate::file`]); for as long as a run lasts it is locked (`lock.rs`).
//!
//! What is in the tensors and settings is the business of the trainer.

mod checksum;
mod folder;
mod format;
mod lock;

pub use lock::FolderLock;

use crate::error::{Error, Result};
use crate::file;
use crate::tensors::Tensors;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A training run at the end of a step.
///
/// ```
/// use dahl::tensors::Tensor;
/// use dahl::train::Checkpoint;
/// # let folder = std::env::temp_dir().join(format!("dahl-doc-{}", std::process::id()));
/// let mut checkpoint = Checkpoint { step: 120, ..Checkpoint::default() };
/// checkpoint.tensors.insert("fc1.bias", Tensor::new(&[2], vec![0.5f32, -1.0])?);
/// checkpoint.settings.insert("seed".into(), "1".into());
/// let path = checkpoint.save(&folder)?;
/// assert!(path.ends_with("step-000000000120.safetensors"));
/// let loaded = Checkpoint::load(&folder)?;
/// assert_eq!((loaded.checkpoint, loaded.path), (checkpoint, path));
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), dahl::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// Steps done since the beginning of the run; the name of the file.
    pub step: u64,
    /// Weights, state of the optimiser and so on. Texts are not kept with them: that is what settings are
    /// for.
    pub tensors: Tensors,
    /// What else must be the same, by name.
    pub settings: BTreeMap<String, String>,
    /// The plan that is executed, as text.
    pub plan: String,
}

/// A checkpoint that was read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it holds.
    pub checkpoint: Checkpoint,
    /// The file it is from.
    pub path: PathBuf,
    /// The newer files of the folder that were refused, newest first.
    pub refused: Vec<Refused>,
}

/// A file that is no intact checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The file.
    pub path: PathBuf,
    /// Why it was refused, without its path.
    pub reason: String,
}

impl Checkpoint {
    /// Writes it into `folder`, which is created if need be. Then those before the last two are removed;
    /// later ones, of a run that went further, are left alone.
    ///
    /// After an error, everything that was in the folder before is still there, and no half-written file.
    /// Whoever saves more than once keeps others out of the folder by a [`FolderLock`], as the trainer does.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<PathBuf> {
        let folder = folder.as_ref();
        file::create_folder(folder)?;
        file::remove_stale(folder);
        let path = folder.join(folder::name(self.step));
        format::write(self, &path)?;
        folder::prune(folder, self.step);
        Ok(path)
    }

    /// Reads a checkpoint file, or the newest intact one of a folder.
    pub fn load(path: impl AsRef<Path>) -> Result<Loaded> {
        let path = path.as_ref();
        if path.is_dir() {
            return Checkpoint::newest(path);
        }
        let checkpoint = format::read(path)?;
        Ok(Loaded { checkpoint, path: path.to_path_buf(), refused: Vec::new() })
    }

    /// Reads the newest intact checkpoint of a folder, and says which newer ones were refused. Fails if there
    /// is none.
    pub fn newest(folder: impl AsRef<Path>) -> Result<Loaded> {
        let folder = folder.as_ref();
        let mut refused = Vec::new();
        for step in folder::steps(folder)?.into_iter().rev() {
            let path = folder.join(folder::name(step));
            match format::read_sentence(&path) {
                Ok(checkpoint) => return Ok(Loaded { checkpoint, path, refused }),
                Err(reason) => refused.push(Refused { path, reason }),
            }
        }
        if refused.is_empty() {
            return Err(Error::data(
                folder,
                "expected a folder with checkpoints (step-….safetensors), but there is none in it; check the path",
            ));
        }
        let reasons = refused.iter().map(|refused| {
            let name = refused.path.file_name().unwrap_or_default().to_string_lossy();
            format!("{name}: {}", refused.reason)
        });
        let reasons: Vec<String> = reasons.collect();
        Err(Error::data(folder, format!("no checkpoint in this folder is intact ({})", reasons.join("; "))))
    }

    /// The steps whose checkpoints are in a folder, intact or not, in rising order.
    pub fn steps(folder: impl AsRef<Path>) -> Result<Vec<u64>> {
        folder::steps(folder.as_ref())
    }
}
