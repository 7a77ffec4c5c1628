//! The safetensors format: the length of a header, the header as JSON, and the bytes of all tensors.
//!
//! Reading the header, with all its checks of offsets, is the work of the crate of the same name. Writing is
//! done here, because that crate writes texts in an order that changes from run to run.

use super::Tensors;
use super::number::{Data, Dtype};
use super::tensor::{MAX_RANK, Tensor};
use ::safetensors::{Dtype as FileDtype, SafeTensorError, SafeTensors};
use serde_json::Value;
use std::fmt::Write;

/// Readers refuse longer headers.
const MAX_HEADER_BYTES: usize = 100_000_000;

/// The name under which the header keeps texts, so that no tensor can have it.
const TEXTS: &str = "__metadata__";

/// The element types, ours and those of the format.
const DTYPES: [(Dtype, FileDtype, &str); 13] = [
    (Dtype::Bool, FileDtype::BOOL, "BOOL"),
    (Dtype::U8, FileDtype::U8, "U8"),
    (Dtype::I8, FileDtype::I8, "I8"),
    (Dtype::U16, FileDtype::U16, "U16"),
    (Dtype::I16, FileDtype::I16, "I16"),
    (Dtype::U32, FileDtype::U32, "U32"),
    (Dtype::I32, FileDtype::I32, "I32"),
    (Dtype::U64, FileDtype::U64, "U64"),
    (Dtype::I64, FileDtype::I64, "I64"),
    (Dtype::F16, FileDtype::F16, "F16"),
    (Dtype::BF16, FileDtype::BF16, "BF16"),
    (Dtype::F32, FileDtype::F32, "F32"),
    (Dtype::F64, FileDtype::F64, "F64"),
];

/// The tensors and texts in the bytes of a file.
pub(crate) fn parse(bytes: &[u8]) -> Result<Tensors, String> {
    let (header_bytes, header) = SafeTensors::read_metadata(bytes).map_err(|error| refusal(bytes, &error))?;
    let start = 8 + header_bytes;
    let mut tensors = Tensors::new();
    for name in header.offset_keys() {
        let Some(info) = header.info(&name) else { continue };
        let dtype = DTYPES.iter().find(|(_, dtype, _)| *dtype == info.dtype);
        let Some(&(dtype, ..)) = dtype else {
            return Err(format!(
                "expected numbers of 8 to 64 bits, but tensor '{name}' has the element type {}; convert it",
                info.dtype
            ));
        };
        if info.shape.len() > MAX_RANK {
            return Err(format!(
                "tensor '{name}' has {} dimensions; at most {MAX_RANK} make sense",
                info.shape.len()
            ));
        }
        let (from, to) = info.data_offsets;
        let data = start.checked_add(from).zip(start.checked_add(to));
        let data = data.and_then(|(from, to)| bytes.get(from..to)).ok_or_else(|| outside(&name))?;
        if data.len() % dtype.bytes() != 0 {
            return Err(outside(&name));
        }
        let tensor =
            Tensor::of(&info.shape, Data::decode(dtype, data, false)?).map_err(|_| outside(&name))?;
        tensors.insert(name, tensor);
    }
    tensors.metadata = header.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
    Ok(tensors)
}

fn outside(name: &str) -> String {
    format!("the place of tensor '{name}' does not fit its shape: the file is damaged")
}

/// What is wrong with a file that cannot be read, in words for people.
fn refusal(bytes: &[u8], error: &SafeTensorError) -> String {
    match error {
        _ if bytes.starts_with(b"PK") => {
            "expected safetensors, but this is a zip archive, perhaps written by torch.save or numpy.savez; \
             save it with safetensors.torch.save_file, or name it .npz"
                .into()
        }
        _ if bytes.starts_with(super::npy::MAGIC) => {
            "expected safetensors, but this is an array of NumPy; name it .npy".into()
        }
        SafeTensorError::HeaderTooSmall => {
            format!(
                "expected at least the 8 bytes that begin a safetensors file, but there are {}",
                bytes.len()
            )
        }
        SafeTensorError::HeaderTooLarge => {
            "the header claims to be longer than 100 MB: this is no safetensors file".into()
        }
        SafeTensorError::InvalidHeaderLength => {
            format!(
                "the header claims to be longer than the file, which has {} bytes: it is cut off, or no safetensors file",
                bytes.len()
            )
        }
        SafeTensorError::MetadataIncompleteBuffer => {
            "the header speaks of more or fewer bytes than the file has: it is cut off or damaged".into()
        }
        SafeTensorError::InvalidOffset(name) => {
            format!("tensor '{name}' overlaps another one or leaves a gap: the file is damaged")
        }
        SafeTensorError::TensorInvalidInfo | SafeTensorError::ValidationOverflow => {
            "a tensor's place does not fit its shape: the file is damaged".into()
        }
        error => format!("the header cannot be read ({error}): the file is damaged, or no safetensors file"),
    }
}

/// A file to be written: its header and the tensors in the order of their places.
pub(crate) struct Image<'a> {
    header: Vec<u8>,
    tensors: Vec<&'a Tensor>,
}

impl<'a> Image<'a> {
    /// The file of these tensors and texts. Larger elements come first, so that all are aligned, then names
    /// decide.
    pub(crate) fn new<'t, T>(tensors: &'a Tensors, texts: T) -> Result<Self, String>
    where
        T: IntoIterator<Item = (&'t String, &'t String)>,
    {
        let mut placed: Vec<(&str, &Tensor)> = tensors.iter().collect();
        placed.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.dtype().bytes()));
        let mut header = String::from("{");
        let mut is_first = true;
        for (name, text) in texts {
            header.push_str(if is_first { "\"__metadata__\":{" } else { "," });
            is_first = false;
            // Writing to a text cannot fail.
            let _ = write!(header, "{}:{}", quoted(name), quoted(text));
        }
        header.push_str(if is_first { "" } else { "}" });
        let mut offset = 0;
        for (name, tensor) in &placed {
            if *name == TEXTS {
                return Err(format!(
                    "no tensor can have the name {TEXTS}, which safetensors files use themselves"
                ));
            }
            header.push_str(if header.len() > 1 { "," } else { "" });
            let end = offset + tensor.bytes();
            let dtype =
                DTYPES.iter().find(|(dtype, ..)| *dtype == tensor.dtype()).map_or("", |dtype| dtype.2);
            let shape = super::tensor::Extents(tensor.shape());
            let _ = write!(
                header,
                "{}:{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{offset},{end}]}}",
                quoted(name)
            );
            offset = end;
        }
        header.push('}');
        let padded = header.len().next_multiple_of(8);
        if padded > MAX_HEADER_BYTES {
            return Err(format!(
                "texts and names of {padded} bytes are more than the 100 MB that safetensors files can have"
            ));
        }
        let mut bytes = Vec::with_capacity(8 + padded);
        bytes.extend_from_slice(&(padded as u64).to_le_bytes());
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(8 + padded, b' ');
        Ok(Image { header: bytes, tensors: placed.into_iter().map(|(_, tensor)| tensor).collect() })
    }

    /// The length of the header and the header, to be changed without changing its length.
    pub(crate) fn header_mut(&mut self) -> &mut [u8] {
        &mut self.header
    }

    /// Bytes of the file.
    pub(crate) fn len(&self) -> usize {
        self.header.len() + self.tensors.iter().map(|tensor| tensor.bytes()).sum::<usize>()
    }

    /// Hands all bytes of the file to `take`, in order, piece by piece.
    pub(crate) fn pieces<E>(&self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        take(&self.header)?;
        self.tensors.iter().try_for_each(|tensor| tensor.encode(&mut take))
    }
}

/// A text as JSON writes it.
fn quoted(text: &str) -> Value {
    Value::from(text)
}
