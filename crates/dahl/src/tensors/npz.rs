//! The npz format of NumPy: npy files in a zip archive, each named after its array.

use super::{Tensors, npy, zip};

/// The tensors in the bytes of a file.
pub(super) fn parse(bytes: &[u8]) -> Result<Tensors, String> {
    let mut tensors = Tensors::new();
    for member in zip::members(bytes)? {
        let Some(name) = member.name.strip_suffix(".npy") else {
            let hint = match member.name.ends_with(".pkl") {
                true => "this looks like a file of torch.save: use safetensors.torch.save_file instead",
                false => "it was not written by numpy.savez",
            };
            return Err(format!(
                "expected only arrays (.npy) in the archive, but it holds '{}'; {hint}",
                member.name
            ));
        };
        let tensor =
            npy::parse(&member.contents()?).map_err(|sentence| format!("array '{name}': {sentence}"))?;
        if tensors.insert(name, tensor).is_some() {
            return Err(format!("the archive holds two arrays of the name '{name}'"));
        }
    }
    Ok(tensors)
}
