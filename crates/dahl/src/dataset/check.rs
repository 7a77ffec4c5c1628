//! What a folder holds, in short, and whether all of it can be used.
//!
//! A check reads every image and goes on where one is damaged, so that one run tells everything that is
//! wrong. Sums are integers: what is told does not depend on the number of threads.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use dahl_runtime::shown;

use super::open::{Kind, Options, Progress, open_unread};
use super::split::Split;
use super::{cifar, folder, idx, threads};
use crate::error::{Error, ErrorKind, Result};
use crate::random::Stream;

/// Something that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file, or what stands for it.
    pub place: String,
    /// What is wrong with it.
    pub message: String,
}

/// What a check found out about a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Its name; empty if it could not be opened, as everything else but the faults.
    pub name: String,
    /// Channels, height and width.
    pub shape: [usize; 3],
    /// The names of the classes.
    pub class_names: Vec<String>,
    /// The training images, then the test images.
    pub parts: Vec<PartCheck>,
    /// Test images whose pixels are those of a training image.
    pub n_shared: usize,
    /// Everything that cannot be used, in the order of the images.
    pub faults: Vec<Fault>,
}

/// What a check found out about the training or the test images.
#[derive(Clone, Debug, PartialEq)]
pub struct PartCheck {
    /// `train` or `test`.
    pub name: &'static str,
    /// How many images there are, damaged ones included.
    pub n_images: usize,
    /// How many of them are of each class.
    pub per_class: Vec<usize>,
    /// How many were read; what follows is about these.
    pub n_read: usize,
    /// The smallest value of a pixel.
    pub min: u8,
    /// The largest value of a pixel.
    pub max: u8,
    /// The mean of all pixels.
    pub mean: f64,
    /// Their standard deviation.
    pub std: f64,
    /// Images whose pixels are those of an earlier one of this part, in whatever order they are looked at.
    pub n_duplicates: usize,
}

/// Reads all images of the data set that `spec` names (see [`super::open()`]) and tells what is wrong.
///
/// # Errors
///
/// There is no such data set. Damaged files are not errors but [`Check::faults`].
pub fn check(spec: &str, options: &Options, progress: Progress<'_>) -> Result<Check> {
    let data = match open_unread(spec, options) {
        Ok(data) => data,
        Err(error) => return unopened(spec, error),
    };
    let n_threads = options.n_threads.unwrap_or_else(dahl_runtime::machine::n_cores);
    let total = data.train.len() + data.test.len();
    let (train, train_hashes, mut faults) =
        check_part("train", &data.train, data.classes, n_threads, &|done| progress(done, total));
    let (test, test_hashes, test_faults) = check_part("test", &data.test, data.classes, n_threads, &|done| {
        progress(data.train.len() + done, total)
    });
    faults.extend(test_faults);
    let known: HashSet<u64> = train_hashes.into_iter().collect();
    let n_shared = test_hashes.iter().filter(|hash| known.contains(hash)).count();
    Ok(Check {
        name: data.name,
        shape: data.shape,
        class_names: data.class_names,
        parts: vec![train, test],
        n_shared,
        faults,
    })
}

/// The faults of a data set that cannot be opened: those of all its files, or the one that kept it from being
/// opened.
fn unopened(spec: &str, error: Error) -> Result<Check> {
    let dir = Path::new(spec);
    let errors = match (error.kind(), Kind::of(dir)) {
        (ErrorKind::Data(_), Some(Kind::Idx)) => idx::faults(dir),
        (ErrorKind::Data(_), Some(Kind::Cifar10)) => cifar::faults(dir),
        (ErrorKind::Data(_), Some(Kind::Images)) => Vec::new(),
        _ => return Err(error),
    };
    let errors = if errors.is_empty() { vec![error] } else { errors };
    Ok(Check {
        name: String::new(),
        shape: [0; 3],
        class_names: Vec::new(),
        parts: Vec::new(),
        n_shared: 0,
        faults: errors.iter().map(|error| fault(error, spec)).collect(),
    })
}

fn fault(error: &Error, place: &str) -> Fault {
    match error.kind() {
        ErrorKind::Data(path) => {
            Fault { place: shown::path(path).to_string(), message: error.whole_message() }
        }
        _ => Fault { place: place.to_owned(), message: error.whole_message() },
    }
}

/// What one thread has seen.
struct Seen {
    n_read: usize,
    min: u8,
    max: u8,
    sum: u64,
    squares: u128,
    hashes: Vec<u64>,
    faults: Vec<(usize, Fault)>,
}

impl Seen {
    const NOTHING: Seen =
        Seen { n_read: 0, min: u8::MAX, max: 0, sum: 0, squares: 0, hashes: Vec::new(), faults: Vec::new() };

    fn look(&mut self, pixels: &[u8]) {
        self.n_read += 1;
        let mut squares = 0_u64;
        for &pixel in pixels {
            self.min = self.min.min(pixel);
            self.max = self.max.max(pixel);
            self.sum += u64::from(pixel);
            squares += u64::from(pixel).pow(2);
        }
        self.squares += u128::from(squares);
        self.hashes.push(hash(pixels));
    }

    fn merge(&mut self, other: Seen) {
        self.n_read += other.n_read;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.squares += other.squares;
        self.hashes.extend(other.hashes);
        self.faults.extend(other.faults);
    }
}

/// 64 bits that differ for different images but for one pair in 10¹⁹.
fn hash(pixels: &[u8]) -> u64 {
    pixels.chunks(8).fold(pixels.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        Stream::new(hash, u64::from_le_bytes(word)).bits(0)
    })
}

/// Looks at every image of a part: its numbers, the hashes of its images, its faults.
fn check_part(
    name: &'static str,
    split: &Split,
    classes: usize,
    n_threads: usize,
    progress: &(dyn Fn(usize) + Sync),
) -> (PartCheck, Vec<u64>, Vec<Fault>) {
    let (next, n_done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let all = Mutex::new(Seen::NOTHING);
    let look = || {
        let mut seen = Seen::NOTHING;
        let mut pixels = vec![0; split.image_bytes()];
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= split.len() {
                break;
            }
            match split.read_into(i, &mut pixels) {
                Ok(()) => seen.look(&pixels),
                Err(error) => seen.faults.push((i, fault(&error, &split.place(i)))),
            }
            progress(n_done.fetch_add(1, Ordering::Relaxed) + 1);
        }
        all.lock().expect("no thread panics with this lock").merge(seen);
    };
    threads::crowd(n_threads, look);
    let Seen { n_read, min, max, sum, squares, hashes, mut faults } =
        all.into_inner().expect("no thread panics with this lock");
    faults.sort_by_key(|(i, _)| *i);
    let mut per_class = vec![0; classes];
    for &label in split.labels() {
        per_class[usize::from(label)] += 1;
    }
    let n = (n_read * split.image_bytes()).max(1) as f64;
    let mean = sum as f64 / n;
    let distinct: HashSet<u64> = hashes.iter().copied().collect();
    let part = PartCheck {
        name,
        n_images: split.len(),
        per_class,
        n_read,
        min: if n_read == 0 { 0 } else { min },
        max,
        mean,
        std: (squares as f64 / n - mean * mean).max(0.0).sqrt(),
        n_duplicates: hashes.len() - distinct.len(),
    };
    (part, hashes, faults.into_iter().map(|(_, fault)| fault).collect())
}

/// What a folder holds, as far as that can be told without reading all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// What kind of data set it is.
    pub kind: Kind,
    /// Channels, height and width; images in files of their own have none in common.
    pub shape: Option<[usize; 3]>,
    /// The number of classes.
    pub classes: Option<usize>,
    /// The number of training images.
    pub n_train: Option<usize>,
    /// The number of test images.
    pub n_test: Option<usize>,
}

/// Looks at names, sizes and headers in the folder `dir`; `None` if it is no data set.
///
/// # Errors
///
/// A data set of which not even this can be told.
pub fn summary(dir: impl AsRef<Path>) -> Result<Option<Summary>> {
    let dir = dir.as_ref();
    let Some(kind) = Kind::of(dir) else { return Ok(None) };
    let mut summary = Summary { kind, shape: None, classes: None, n_train: None, n_test: None };
    match kind {
        Kind::Idx => {
            let [train, test] = idx::sizes(dir)?;
            summary.shape = Some([1, train[1], train[2]]);
            (summary.n_train, summary.n_test) = (Some(train[0]), Some(test[0]));
        }
        Kind::Cifar10 => {
            summary.shape = Some(cifar::SHAPE);
            (summary.n_train, summary.n_test) = cifar::counts(dir);
        }
        Kind::Images => {
            let listing = folder::Listing::read(dir)?;
            summary.classes = Some(listing.classes.len());
            (summary.n_train, summary.n_test) = (Some(listing.train.len()), Some(listing.test.len()));
        }
    }
    Ok(Some(summary))
}
