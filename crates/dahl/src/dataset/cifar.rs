//! Reads CIFAR-10 in its binary version.
//!
//! Six files, `data_batch_1.bin` to `data_batch_5.bin` for training and `test_batch.bin` for testing, hold
//! records of 3073 bytes: the label, then 32 x 32 pixels of red, of green and of blue, row by row. That is
//! already NCHW. The names of the classes are the lines of `batches.meta.txt`, if that is there.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use dahl_runtime::file::read_text;

use super::{Dataset, Split, file, numbered, threads};
use crate::error::{Error, Result};
use crate::memory;

pub(super) const SHAPE: [usize; 3] = [3, 32, 32];
const PIXELS: usize = 3 * 32 * 32;
const RECORD: usize = 1 + PIXELS;

/// The folder that the published archive unpacks to.
pub(super) const ARCHIVE: &str = "cifar-10-batches-bin";
const META: &str = "batches.meta.txt";
/// The names of 256 classes are far shorter.
const MAX_META_BYTES: u64 = 1 << 20;
/// What the published files are about, where no file says otherwise.
const NAMES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// The files, the test images last.
pub(super) const FILES: [&str; 6] = [
    "data_batch_1.bin",
    "data_batch_2.bin",
    "data_batch_3.bin",
    "data_batch_4.bin",
    "data_batch_5.bin",
    "test_batch.bin",
];

/// The most bytes one file may hold, since all of it is kept in memory: a hundred times the published one.
const MAX_BYTES: usize = 1_000_000 * RECORD;

/// Reads CIFAR-10 from the folder `dir`.
///
/// The folder holds `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, each as it is or
/// compressed with the ending `.gz`, or it holds a folder `cifar-10-batches-bin` that does.
///
/// ```no_run
/// let data = dahl::dataset::cifar10("data/cifar-10")?;
/// assert_eq!(data.shape, [3, 32, 32]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// A file that is missing or damaged, one that is no whole number of records, and labels beyond the classes
/// are errors that name the file, what was expected and what came.
pub fn cifar10(dir: impl AsRef<Path>) -> Result<Dataset> {
    let outer = dir.as_ref();
    let dir = &inner(outer);
    let class_names = class_names(dir)?;
    let classes = class_names.len();
    let [batches @ .., test] = read_all(dir, classes);
    let batches = batches.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(Dataset {
        name: file::name(outer),
        shape: SHAPE,
        classes,
        class_names,
        train: split(dir, &batches)?,
        test: split(dir, &[test?])?,
    })
}

/// The folder that holds the files.
fn inner(dir: &Path) -> PathBuf {
    let archive = dir.join(ARCHIVE);
    if is_cifar(dir) || !archive.is_dir() { dir.to_path_buf() } else { archive }
}

/// What is wrong with each of the files by itself.
pub(super) fn faults(dir: &Path) -> Vec<Error> {
    let dir = &inner(dir);
    match class_names(dir) {
        Ok(names) => read_all(dir, names.len()).into_iter().filter_map(Result::err).collect(),
        Err(error) => vec![error],
    }
}

/// How many training and test images there are, as far as the sizes of the files tell.
pub(super) fn counts(dir: &Path) -> (Option<usize>, Option<usize>) {
    let dir = inner(dir);
    let count = |stem: &str| Some(fs::metadata(dir.join(stem)).ok()?.len() as usize / RECORD);
    (FILES[..5].iter().map(|stem| count(stem)).sum(), count(FILES[5]))
}

/// Reads all files at once, since inflating takes time; results are in a fixed order.
fn read_all(dir: &Path, classes: usize) -> [Result<Vec<u8>>; 6] {
    threads::each(FILES, |stem| read(file::find(dir, stem)?, classes))
}

/// Labels and pixels apart.
fn split(dir: &Path, files: &[Vec<u8>]) -> Result<Split> {
    let n = files.iter().map(|bytes| bytes.len() / RECORD).sum::<usize>();
    let no_room = |sentence| Error::data(dir, sentence);
    let mut labels = memory::room(n, "labels").map_err(no_room)?;
    let mut images = memory::room(n * PIXELS, "images").map_err(no_room)?;
    for record in files.iter().flat_map(|bytes| bytes.chunks_exact(RECORD)) {
        labels.push(record[0]);
        images.extend_from_slice(&record[1..]);
    }
    Split::new(images, labels)
}

/// Whether a folder has any of the files of CIFAR-10.
pub(super) fn is_cifar(dir: &Path) -> bool {
    FILES.iter().any(|stem| file::present(dir, stem).is_some())
}

/// The classes that the folder tells of, or the published ones.
fn class_names(dir: &Path) -> Result<Vec<String>> {
    let path = dir.join(META);
    let text = match read_text(&path, MAX_META_BYTES) {
        Ok(text) => text,
        Err(error) if error.is_absent() => return Ok(NAMES.map(str::to_owned).to_vec()),
        Err(error) => return Err(file::unreadable(&path, error)),
    };
    let names: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    match names.len() {
        0 => Ok(numbered(NAMES.len())),
        1..=256 => Ok(names),
        n => Err(Error::data(
            &path,
            format!(
                "expected a line for each of at most 256 classes, but there are {n}; fetch the file again"
            ),
        )),
    }
}

/// All records of one file.
fn read(path: PathBuf, classes: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut source = file::open(&path)?;
    let read = source.by_ref().take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
    let end = match read {
        Ok(_) => String::new(),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            ", where the compressed data break off".to_owned()
        }
        Err(error) => return Err(file::damaged(&path, error)),
    };
    let n = bytes.len();
    if n > MAX_BYTES {
        return Err(Error::data(
            &path,
            format!("expected at most {MAX_BYTES} bytes, since they are kept in memory, but there are more"),
        ));
    }
    if n == 0 || n % RECORD != 0 || !end.is_empty() {
        return Err(Error::data(
            &path,
            format!(
                "expected records of {RECORD} bytes (a label and 3 x 32 x 32 pixels), but the file has {n} bytes{end}, which is \
                 {} records and {} bytes; it is cut off or of another kind: fetch it again",
                n / RECORD,
                n % RECORD
            ),
        ));
    }
    let wrong = bytes.chunks_exact(RECORD).position(|record| usize::from(record[0]) >= classes);
    if let Some(at) = wrong {
        return Err(Error::data(
            &path,
            format!(
                "expected labels from 0 to {}, but that of record {at} is {}; the file is damaged or of another \
                 data set: fetch it again",
                classes - 1,
                bytes[at * RECORD]
            ),
        ));
    }
    Ok(bytes)
}
