//! Tensor files.

use dahl::tensors::{Format, Tensors};

/// What is read is written and read again, to the same bits.
fn check(format: Format, bytes: &[u8]) {
    let Ok(tensors) = Tensors::parse(format, bytes) else { return };
    for (name, tensor) in tensors.iter() {
        assert_eq!(tensor.shape().iter().product::<usize>(), tensor.len(), "{name}");
        assert_eq!(tensor.values().len(), tensor.len(), "{name}");
        assert_eq!(tensor.bytes(), tensor.len() * tensor.dtype().bytes(), "{name}");
    }
    // Names that safetensors cannot have are refused there.
    let Ok(written) = tensors.to_bytes() else { return };
    let again = Tensors::parse(Format::Safetensors, &written).expect("what dahl writes it reads");
    assert_eq!(again.to_bytes().expect("written before"), written);
    assert!(again.names().eq(tensors.names()) && again.metadata == tensors.metadata);
}

pub fn safetensors(bytes: &[u8]) {
    check(Format::Safetensors, bytes);
}

pub fn npy(bytes: &[u8]) {
    check(Format::Npy, bytes);
}

pub fn npz(bytes: &[u8]) {
    check(Format::Npz, bytes);
}

pub fn csv(bytes: &[u8]) {
    check(Format::Csv, bytes);
}
