//! Finding out what a data set is, and opening it.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dahl_runtime::machine::Hardware;
use dahl_runtime::shown;

use super::split::Split;
use super::{Dataset, Synthetic, cifar, digits, folder, idx, threads};
use crate::error::{Error, Result};
use crate::memory;

/// The part of the machine's memory that images may take, if nobody says otherwise.
const MEMORY_SHARE: u64 = 8;

/// What is assumed of a machine that does not tell its memory.
const ASSUMED_MEMORY_BYTES: u64 = 8 << 30;

/// How a data set is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Channels, height and width that a model takes. Images from files of their own are brought to it; all
    /// others must have it.
    pub shape: Option<[usize; 3]>,
    /// How many training images to use: the first ones, or of a folder of images those of every class in
    /// turn.
    pub limit: Option<usize>,
    /// How many classes there are. Only labels that are mere numbers leave that open, and only where some
    /// class has no image need it be said; all other data must have as many.
    pub classes: Option<usize>,
    /// How many bytes of images may be kept in memory; more are read when they are used. [default: an eighth
    /// of the memory]
    pub memory_bytes: Option<u64>,
    /// Threads to read images on. [default: one per core]
    pub n_threads: Option<usize>,
}

impl Options {
    /// How many bytes of images may be kept in memory.
    pub fn allowed_bytes(&self) -> u64 {
        self.memory_bytes.unwrap_or_else(|| memory_bytes() / MEMORY_SHARE)
    }
}

/// What is told while images are read: how many there are already, and how many there will be.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// What kind of data set a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The four files of MNIST and its relatives.
    Idx,
    /// CIFAR-10 in its binary version.
    Cifar10,
    /// Images, one folder per class.
    Images,
}

impl Kind {
    /// All kinds, in the order in which they are looked for.
    pub const ALL: [Kind; 3] = [Kind::Idx, Kind::Cifar10, Kind::Images];

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Idx => "IDX",
            Kind::Cifar10 => "CIFAR-10",
            Kind::Images => "images",
        }
    }

    /// What a folder of this kind holds.
    pub fn description(self) -> String {
        match self {
            Kind::Idx => format!(
                "{}, {}, {} and {} (MNIST, Fashion-MNIST), each may end in .gz",
                idx::TRAIN_IMAGES,
                idx::TRAIN_LABELS,
                idx::TEST_IMAGES,
                idx::TEST_LABELS
            ),
            Kind::Cifar10 => {
                format!(
                    "{} to {} and {}, each may end in .gz",
                    cifar::FILES[0],
                    cifar::FILES[4],
                    cifar::FILES[5]
                )
            }
            Kind::Images => format!(
                "train/CLASS/* and test/CLASS/*, or CLASS/*: images that end in {}",
                folder::ENDINGS.join(", ")
            ),
        }
    }

    /// The kind of the folder `dir`, if it is a data set.
    pub fn of(dir: &Path) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| match kind {
            Kind::Idx => idx::is_idx(dir),
            Kind::Cifar10 => cifar::is_cifar(dir) || cifar::is_cifar(&dir.join(cifar::ARCHIVE)),
            Kind::Images => folder::has_classes(dir),
        })
    }
}

/// Opens the data set that `spec` names: `digits`, `synthetic:CxHxW[xCLASSES][:COUNT]`, or a folder of any
/// [`Kind`].
///
/// ```
/// use dahl::dataset::{self, Options};
/// let data = dataset::open("synthetic:3x8x8x5:100", &Options::default())?;
/// assert_eq!((data.shape, data.classes, data.train.len()), ([3, 8, 8], 5, 100));
/// # Ok::<(), dahl::Error>(())
/// ```
///
/// # Errors
///
/// Text that names no data set, a folder without one, and everything that is wrong with its files; what was
/// looked for and what was found is told.
pub fn open(spec: &str, options: &Options) -> Result<Dataset> {
    open_with(spec, options, &|_, _| ())
}

/// The same, telling how many images were read already and how many there are.
pub fn open_with(spec: &str, options: &Options, progress: Progress<'_>) -> Result<Dataset> {
    open_unread(spec, options)?.kept(options, progress)
}

impl Dataset {
    /// The same images, in memory as far as they fit there by these options: all of them, or those to test
    /// on, which are fewer, or none. `progress` is told how many were read already and how many there are.
    ///
    /// # Errors
    ///
    /// An image that cannot be read.
    pub fn kept(mut self, options: &Options, progress: Progress<'_>) -> Result<Dataset> {
        let bytes = |split: &Split| if split.resident().is_some() { 0 } else { split.n_bytes() };
        let n_threads = options.n_threads.unwrap_or_else(dahl_runtime::machine::n_cores);
        let (train, test) = (bytes(&self.train), bytes(&self.test));
        // Looking at the machine takes time: only where something is to be kept.
        let allowed = if train.saturating_add(test) > 0 { options.allowed_bytes() } else { 0 };
        // All, or the test images, which are fewer, or none.
        let keeps_train = train.saturating_add(test) <= allowed;
        let keeps_test = keeps_train || test <= allowed / 2;
        let count = |is_kept: bool, split: &Split| {
            if is_kept && split.resident().is_none() { split.len() } else { 0 }
        };
        let n_train = count(keeps_train, &self.train);
        let total = n_train + count(keeps_test, &self.test);
        if keeps_train {
            self.train = self.train.into_resident(n_threads, &|done| progress(done, total))?;
        }
        if keeps_test {
            self.test = self.test.into_resident(n_threads, &|done| progress(n_train + done, total))?;
        }
        Ok(self)
    }
}

/// Opens a data set without reading images that have files of their own.
pub(super) fn open_unread(spec: &str, options: &Options) -> Result<Dataset> {
    if options.limit == Some(0) {
        return Err(Error::setting("expected a limit of at least one training image, but it is 0"));
    }
    let mut data = if spec == "digits" {
        digits()
    } else if let Some(sizes) = synthetic_sizes(spec) {
        Synthetic::parse(sizes)?.dataset()
    } else {
        let dir = Path::new(spec);
        match Kind::of(dir) {
            Some(Kind::Idx) => idx::read(dir, options.classes)?,
            Some(Kind::Cifar10) => cifar::cifar10(dir)?,
            Some(Kind::Images) => folder::folder(dir, options.shape, options.limit)?,
            None => return Err(nothing_found(dir)),
        }
    };
    if let Some(limit) = options.limit {
        data.train.truncate(limit);
    }
    if let Some(classes) = options.classes.filter(|&classes| classes != data.classes) {
        return Err(Error::setting(format!(
            "{spec}: expected {classes} classes, the number that was given, but there are {}; leave it out (--classes)",
            data.classes
        )));
    }
    if let Some(shape) = options.shape.filter(|shape| *shape != data.shape) {
        let text = |[c, h, w]: [usize; 3]| format!("{c}x{h}x{w}");
        return Err(Error::setting(format!(
            "{spec}: expected images of {}, which the model takes, but these are {}; only images in files of their own can be \
             resized: take another data set or another model",
            text(shape),
            text(data.shape)
        )));
    }
    Ok(data)
}

/// What follows `synthetic:`.
fn synthetic_sizes(spec: &str) -> Option<&str> {
    if spec == "synthetic" { Some("") } else { spec.strip_prefix("synthetic:") }
}

/// What there is instead of a data set.
fn nothing_found(dir: &Path) -> Error {
    let wanted = "`digits`, `synthetic:CxHxW`, or a folder with IDX files (MNIST), CIFAR-10 or images in a folder per class";
    let found = match fs::read_dir(dir) {
        Err(_) if !dir.exists() => "there is no such folder; check the path".to_owned(),
        Err(_) if !dir.is_dir() => "this is a file; name its folder".to_owned(),
        Err(error) => format!("the folder cannot be read ({error}); check who may read it"),
        Ok(entries) => {
            let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
            names.sort_unstable();
            let inner = names.iter().map(|name| dir.join(name)).find(|inner| Kind::of(inner).is_some());
            let shown: Vec<_> =
                names.iter().take(5).map(|name| shown::path(Path::new(name)).to_string()).collect();
            let more = if names.len() > 5 { format!(" and {} more", names.len() - 5) } else { String::new() };
            match inner {
                Some(inner) => {
                    format!("no data set, but its folder {} is one: try that", shown::path(&inner))
                }
                None if names.is_empty() => "the folder is empty; check the path".to_owned(),
                None => format!("no data set: the folder has {}{more}; check the path", shown.join(", ")),
            }
        }
    };
    Error::data(dir, format!("{found} (expected {wanted})"))
}

/// The memory of this machine, or of the group that this process is confined to.
fn memory_bytes() -> u64 {
    let hardware = Hardware::detect();
    let known = hardware.memory_bytes.into_iter().chain(hardware.memory_limit_bytes);
    known.min().unwrap_or(ASSUMED_MEMORY_BYTES)
}

impl Split {
    /// The same images, all in memory, read by several threads. Of several that cannot be read, the first is
    /// told.
    fn into_resident(self, n_threads: usize, progress: &(dyn Fn(usize) + Sync)) -> Result<Split> {
        if self.resident().is_some() {
            return Ok(self);
        }
        let n_bytes = usize::try_from(self.n_bytes()).unwrap_or(usize::MAX);
        let mut images = memory::zeros(n_bytes, "images").map_err(Error::setting)?;
        let first_error: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        let (is_failed, n_done) = (AtomicBool::new(false), AtomicUsize::new(0));
        let chunks = Mutex::new(images.chunks_exact_mut(self.image_bytes().max(1)).enumerate());
        let lock = "no thread panics with this lock";
        let read = || {
            // Images are taken in order, so those before a damaged one are read, too, and may be told
            // instead.
            while !is_failed.load(Ordering::Relaxed) {
                let Some((i, pixels)) = chunks.lock().expect(lock).next() else { return };
                if let Err(error) = self.read_into(i, pixels) {
                    is_failed.store(true, Ordering::Relaxed);
                    let mut first = first_error.lock().expect(lock);
                    if first.as_ref().is_none_or(|(at, _)| i < *at) {
                        *first = Some((i, error));
                    }
                }
                progress(n_done.fetch_add(1, Ordering::Relaxed) + 1);
            }
        };
        threads::crowd(n_threads, read);
        match first_error.into_inner().expect(lock) {
            Some((_, error)) => Err(error),
            None => Split::new(images, self.labels().to_vec()),
        }
    }
}
