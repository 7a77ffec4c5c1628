//! Which images a folder has, of which class, for training or for testing.
//!
//! The order is that of the names, byte by byte, and never that of the file system.

use std::fs;
use std::path::{Path, PathBuf};

use crate::dataset::file;
use crate::error::{Error, Result};

/// How the names of images end, in small or capital letters; other files are left alone.
pub(in crate::dataset) const ENDINGS: [&str; 6] = ["png", "jpg", "jpeg", "pgm", "ppm", "pnm"];

/// Where test images are, beside `train`.
const TEST_FOLDERS: [&str; 4] = ["test", "val", "valid", "validation"];

/// One image in so many, counted within its class, is for testing, where nothing else says which.
const TEST_EVERY: usize = 6;

/// How deep folders may be nested within a class; links can make circles.
const MAX_DEPTH: usize = 16;

/// The images of a folder.
#[derive(Debug)]
pub(in crate::dataset) struct Listing {
    pub root: PathBuf,
    /// The names of the classes.
    pub classes: Vec<String>,
    /// Relative to the root, with the class.
    pub train: Vec<(Box<Path>, u8)>,
    pub test: Vec<(Box<Path>, u8)>,
}

impl Listing {
    /// Finds the images of `dir`.
    pub fn read(dir: &Path) -> Result<Self> {
        let trained = dir.join("train");
        let (classes, train, test) = if trained.is_dir() {
            let Some(tested) = TEST_FOLDERS.into_iter().find(|name| dir.join(name).is_dir()) else {
                return Err(Error::data(
                    dir,
                    format!(
                        "expected one of the folders {} beside train, but there is none; add one, or put all classes side by \
                         side without train",
                        TEST_FOLDERS.join(", ")
                    ),
                ));
            };
            let (train, test) = (classes(dir, "train")?, classes(dir, tested)?);
            let names: Vec<String> = train.iter().map(|class| class.name.clone()).collect();
            let number = |class: &Class| {
                names.iter().position(|name| *name == class.name).ok_or_else(|| {
                    let names = names.join(", ");
                    Error::data(
                        dir.join(tested).join(&class.name),
                        format!("expected one of the classes of the training images ({names}), but this is none of them; rename or remove it"),
                    )
                })
            };
            let mut tests = Vec::new();
            for class in test {
                let number = number(&class)?;
                tests.extend(class.files.into_iter().map(|file| (file, number)));
            }
            // In the order of the training classes, which need not be that of the test folder's names.
            tests.sort_by_key(|(_, number)| *number);
            let trains = train.into_iter().enumerate();
            let trains =
                trains.flat_map(|(number, class)| class.files.into_iter().map(move |file| (file, number)));
            (names, trains.collect(), tests)
        } else {
            let all = classes(dir, "")?;
            let names = all.iter().map(|class| class.name.clone()).collect();
            let (mut train, mut test) = (Vec::new(), Vec::new());
            for (number, class) in all.into_iter().enumerate() {
                let n = class.files.len();
                for (i, file) in class.files.into_iter().enumerate() {
                    let is_test = (i + 1) % TEST_EVERY == 0 || (2..TEST_EVERY).contains(&n) && i + 1 == n;
                    if is_test { &mut test } else { &mut train }.push((file, number));
                }
            }
            if test.is_empty() {
                return Err(Error::data(
                    dir,
                    "expected at least two images in some class, one of them to test on, but every class has a single one; add images",
                ));
            }
            (names, train, test)
        };
        let label = |files: Vec<(Box<Path>, usize)>| {
            files.into_iter().map(|(file, number)| (file, number as u8)).collect::<Vec<_>>()
        };
        let listing = Listing { root: dir.to_path_buf(), classes, train: label(train), test: label(test) };
        match listing.classes.len() {
            0 => Err(Error::data(dir, "expected a folder for each class, but there is none; check the path")),
            1..=256 => Ok(listing),
            n => Err(Error::data(
                dir,
                format!("expected at most 256 classes, but there are {n} folders; merge some"),
            )),
        }
    }

    /// Keeps `limit` training images: the first of every class, then the second of every class, and so on;
    /// their order stays.
    pub fn limit(&mut self, limit: usize) {
        let mut seen = vec![0_usize; self.classes.len()];
        let mut ranks: Vec<(usize, usize)> = Vec::with_capacity(self.train.len());
        for (i, (_, label)) in self.train.iter().enumerate() {
            let seen = &mut seen[usize::from(*label)];
            ranks.push((*seen, i));
            *seen += 1;
        }
        ranks.sort_unstable();
        let mut is_kept = vec![false; self.train.len()];
        ranks.iter().take(limit).for_each(|&(_, i)| is_kept[i] = true);
        let mut is_kept = is_kept.into_iter();
        self.train.retain(|_| is_kept.next() == Some(true));
        self.train.shrink_to_fit();
    }
}

/// Whether there are class folders with images in `dir`, or in its folder `train`.
pub(in crate::dataset) fn has_classes(dir: &Path) -> bool {
    let trained = dir.join("train");
    let dir = if trained.is_dir() { trained.as_path() } else { dir };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && !is_hidden(path))
        .any(|class| fs::read_dir(class).into_iter().flatten().flatten().any(|entry| is_image(&entry.path())))
}

struct Class {
    name: String,
    /// Relative to the root.
    files: Vec<Box<Path>>,
}

/// The classes in the folder `part` of `root`.
fn classes(root: &Path, part: &str) -> Result<Vec<Class>> {
    let mut classes = Vec::new();
    for name in entries(&root.join(part))? {
        let inner = Path::new(part).join(&name);
        if is_hidden(&name) || !root.join(&inner).is_dir() {
            continue;
        }
        let Some(class) = name.to_str() else {
            return Err(Error::data(
                root.join(&inner),
                "expected the name of a class in UTF-8, but this folder's has other bytes; rename it",
            ));
        };
        let mut files = Vec::new();
        let mut n_others = 0;
        collect(root, &inner, 0, &mut files, &mut n_others)?;
        if files.is_empty() {
            return Err(Error::data(
                root.join(&inner),
                format!(
                    "expected at least one image in the folder of a class (a file that ends in {}), but there are only {n_others} \
                     other files; add images or remove the folder",
                    ENDINGS.join(", ")
                ),
            ));
        }
        files.sort_unstable();
        classes.push(Class { name: class.to_owned(), files });
    }
    if classes.is_empty() {
        return Err(Error::data(
            root.join(part),
            "expected a folder for each class, but there is none; check the path",
        ));
    }
    Ok(classes)
}

/// Adds the images in `inner` and below.
fn collect(
    root: &Path,
    inner: &Path,
    depth: usize,
    files: &mut Vec<Box<Path>>,
    n_others: &mut usize,
) -> Result<()> {
    let outer = root.join(inner);
    if depth > MAX_DEPTH {
        let message = format!(
            "expected at most {MAX_DEPTH} folders within each other, but there are more; look for links that make a circle"
        );
        return Err(Error::data(outer, message));
    }
    for name in entries(&outer)? {
        let path = inner.join(&name);
        if is_hidden(&name) {
            continue;
        }
        if is_image(&name) && !root.join(&path).is_dir() {
            files.push(path.into_boxed_path());
        } else if root.join(&path).is_dir() {
            collect(root, &path, depth + 1, files, n_others)?;
        } else {
            *n_others += 1;
        }
    }
    Ok(())
}

/// The names in a folder, sorted.
fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(dir)?.map(|entry| Ok(PathBuf::from(entry?.file_name()))).collect()
    };
    let mut names = read().map_err(|error| file::unreadable(dir, error))?;
    names.sort_unstable();
    Ok(names)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}
