//! Tensors in files: safetensors are read and written; npy, npz and csv are read.
//!
//! Whatever is read may be damaged or made to harm. A size that a file claims is compared with the bytes that
//! are there before memory is taken for it, and what does not fit is an error that names the file and says
//! what is wrong.
//!
//! Here numbers have any of the types that files have ([`Dtype`]), and tensors any rank; arrays, which are
//! computed with, have fewer of both.

pub mod half;
mod csv;
mod npy;
mod npz;
mod number;
mod safetensors;
mod tensor;
mod value;
mod zip;

pub use number::{Dtype, Number};
pub use tensor::Tensor;
pub use value::{Grid, Value};

pub(crate) use safetensors::{Image, parse as parse_safetensors};

use crate::error::{Error, Result};
use crate::file;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The name of the tensor in a file that holds only one and gives it no name (npy, csv).
pub const UNNAMED: &str = "";

/// The largest file of tensors that is read, since all of it is kept in memory.
pub(crate) const MAX_BYTES: u64 = 1 << 36;

/// The kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Named tensors and texts.
    Safetensors,
    /// One array of NumPy.
    Npy,
    /// Several arrays of NumPy, named, in a zip archive.
    Npz,
    /// Numbers as text, a row per line. A csv knows rows and columns only.
    Csv,
}

impl Format {
    /// The kind of the file at `path`: what its ending says, or else what its first bytes look like.
    pub fn of(path: &Path, bytes: &[u8]) -> Format {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        match ending.as_deref() {
            Some("safetensors") => Format::Safetensors,
            Some("npy") => Format::Npy,
            Some("npz") => Format::Npz,
            Some("csv" | "tsv" | "txt" | "dat") => Format::Csv,
            _ if bytes.starts_with(npy::MAGIC) => Format::Npy,
            _ if bytes.starts_with(b"PK") => Format::Npz,
            _ if bytes.get(8) == Some(&b'{') => Format::Safetensors,
            _ => Format::Csv,
        }
    }

    /// Whether the tensors of such a file have names.
    pub fn has_names(self) -> bool {
        matches!(self, Format::Safetensors | Format::Npz)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Safetensors => "safetensors",
            Format::Npy => "npy",
            Format::Npz => "npz",
            Format::Csv => "csv",
        })
    }
}

/// Tensors by name, in the order of their names, and texts about them.
///
/// ```
/// use dahl::tensors::{Tensor, Tensors};
/// let path = std::env::temp_dir().join(format!("dahl-doc-{}.safetensors", std::process::id()));
/// let mut tensors = Tensors::new();
/// tensors.insert("fc1.bias", Tensor::new(&[2], vec![0.5f32, -1.0])?);
/// tensors.save(&path)?;
/// let loaded = Tensors::load(&path)?;
/// assert_eq!(loaded.get("fc1.bias").and_then(|bias| bias.get::<f32>()), Some(&[0.5, -1.0][..]));
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), dahl::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensors {
    by_name: BTreeMap<String, Tensor>,
    /// Texts by name, which only safetensors have.
    pub metadata: BTreeMap<String, String>,
}

impl Tensors {
    /// None.
    pub fn new() -> Self {
        Tensors::default()
    }

    /// Reads the file at `path`; its ending says of what kind it is, or else its first bytes.
    pub fn load(path: impl AsRef<Path>) -> Result<Tensors> {
        Ok(Tensors::load_with_format(path)?.0)
    }

    /// Reads the file at `path`, and says of what kind it is.
    pub fn load_with_format(path: impl AsRef<Path>) -> Result<(Tensors, Format)> {
        let path = path.as_ref();
        let bytes = file::read(path, MAX_BYTES)?;
        let format = Format::of(path, &bytes);
        let tensors = Tensors::parse(format, &bytes).map_err(|sentence| Error::data(path, sentence))?;
        Ok((tensors, format))
    }

    /// The tensors in the bytes of a file, or a sentence that says what is wrong with them.
    pub fn parse(format: Format, bytes: &[u8]) -> std::result::Result<Tensors, String> {
        match format {
            Format::Safetensors => safetensors::parse(bytes),
            Format::Npy => npy::parse(bytes).map(|tensor| [(UNNAMED, tensor)].into_iter().collect()),
            Format::Npz => npz::parse(bytes),
            Format::Csv => csv::parse(bytes).map(|tensor| [(UNNAMED, tensor)].into_iter().collect()),
        }
    }

    /// Writes all of it as safetensors, whole or not at all ([`file::write`]). Equal contents give equal
    /// bytes.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let image = Image::new(self, &self.metadata).map_err(|sentence| Error::data(path, sentence))?;
        file::write(path, |out| image.pieces(|bytes| out.write_all(bytes)))
    }

    /// The bytes of a safetensors file.
    pub fn to_bytes(&self) -> std::result::Result<Vec<u8>, String> {
        let image = Image::new(self, &self.metadata)?;
        let mut all = Vec::with_capacity(image.len());
        image.pieces(|bytes| {
            all.extend_from_slice(bytes);
            Ok::<_, String>(())
        })?;
        Ok(all)
    }

    /// Adds a tensor, in place of the one of the same name, which is returned.
    pub fn insert(&mut self, name: impl Into<String>, tensor: Tensor) -> Option<Tensor> {
        self.by_name.insert(name.into(), tensor)
    }

    /// Takes a tensor out.
    pub fn remove(&mut self, name: &str) -> Option<Tensor> {
        self.by_name.remove(name)
    }

    /// The tensor of this name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name)
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// All names and tensors, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.by_name.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

impl<N: Into<String>> FromIterator<(N, Tensor)> for Tensors {
    fn from_iter<I: IntoIterator<Item = (N, Tensor)>>(all: I) -> Self {
        let by_name = all.into_iter().map(|(name, tensor)| (name.into(), tensor)).collect();
        Tensors { by_name, metadata: BTreeMap::new() }
    }
}
