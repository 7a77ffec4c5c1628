//! Weights and running statistics by name, as in PyTorch's files.

use super::{NamedParameter, Sequential};
use crate::error::{Error, Result};
use crate::tensors::{self, Tensor, Tensors};
use dahl_runtime::array::Dtype;

/// What weights may be stored as.
const FLOATS: [tensors::Dtype; 4] =
    [tensors::Dtype::F16, tensors::Dtype::BF16, tensors::Dtype::F32, tensors::Dtype::F64];

impl Sequential {
    /// The weights and running statistics under their names, rounded to `dtype`. Fails where there are none
    /// yet.
    pub fn to_tensors(&self, dtype: Dtype) -> Result<Tensors> {
        let (Some(weights), Some(statistics)) = (self.weights(), self.statistics()) else {
            return Err(Error::setting("the model has no weights yet: train it, or draw initial ones"));
        };
        let mut tensors = Tensors::new();
        for (all, values) in [(self.parameters()?, weights), (self.buffers()?, statistics)] {
            for NamedParameter { name, offset, parameter } in all {
                let values = &values[offset..offset + parameter.shape.len()];
                tensors.insert(name, Tensor::from_f64(dtype, &parameter.shape, values)?);
            }
        }
        Ok(tensors)
    }

    /// Replaces all weights and running statistics by those in `tensors`, of any floating-point type. Fails
    /// with every name and shape that does not fit, and then changes nothing.
    ///
    /// What optimisers keep (`optimizer.`…), as checkpoints have it, and PyTorch's counts of batches
    /// (…`.num_batches_tracked`) are passed over.
    pub fn set_tensors(&mut self, tensors: &Tensors) -> Result<()> {
        let (parameters, buffers) = (self.parameters()?, self.buffers()?);
        let mut mismatches = Vec::new();
        let mut take = |all: &[NamedParameter]| -> Result<Vec<f64>> {
            let mut values = Vec::new();
            for NamedParameter { name, parameter, .. } in all {
                match tensors.get(name) {
                    None => mismatches.push(format!("{name} is missing")),
                    Some(tensor) if tensor.shape() != &parameter.shape[..] => {
                        let (came, expected) = (tensor.shape(), &parameter.shape[..]);
                        mismatches.push(format!("{name} is {came:?}, where the model has {expected:?}"));
                    }
                    Some(tensor) if !FLOATS.contains(&tensor.dtype()) => {
                        mismatches.push(format!(
                            "{name} is of type {}, which is no floating-point type",
                            tensor.dtype()
                        ));
                    }
                    Some(tensor) => values.extend(tensor.to_f64()?),
                }
            }
            Ok(values)
        };
        let (weights, statistics) = (take(&parameters)?, take(&buffers)?);
        let is_known = |name: &str| parameters.iter().chain(&buffers).any(|named| named.name == name);
        let is_passed = |name: &str| name.starts_with("optimizer.") || name.ends_with(".num_batches_tracked");
        for name in tensors.names().filter(|name| !is_known(name) && !is_passed(name)) {
            mismatches.push(format!("{name} is not in the model"));
        }
        if !mismatches.is_empty() {
            return Err(Error::setting(format!(
                "the weights do not fit the model: {}",
                mismatches.join("; ")
            )));
        }
        self.set_weights(weights)?;
        self.set_statistics(statistics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_come_back_by_name() {
        let mut model = Sequential::seed([1, 8, 8], 10);
        assert!(model.to_tensors(Dtype::F32).unwrap_err().to_string().contains("no weights yet"));
        model.initialise(3).unwrap();
        let tensors = model.to_tensors(Dtype::F32).unwrap();
        assert_eq!(
            tensors.names().collect::<Vec<_>>(),
            ["conv1.bias", "conv1.weight", "fc1.bias", "fc1.weight"]
        );
        let mut other = Sequential::seed([1, 8, 8], 10);
        other.set_tensors(&tensors).unwrap();
        // Initial weights are exact in f32.
        assert_eq!(other.weights(), model.weights());
    }

    #[test]
    fn every_mismatch_is_named() {
        let mut model = Sequential::seed([1, 8, 8], 10);
        model.initialise(3).unwrap();
        let before = model.weights().unwrap().to_vec();
        let mut tensors = model.to_tensors(Dtype::F64).unwrap();
        tensors.remove("conv1.bias");
        tensors.insert("fc1.bias", Tensor::new(&[2], vec![0.0f32; 2]).unwrap());
        tensors.insert("conv1.weight", Tensor::new(&[8, 1, 3, 3], vec![0i64; 72]).unwrap());
        tensors.insert("head.weight", Tensor::new(&[1], vec![0.0f32]).unwrap());
        tensors.insert("bn1.num_batches_tracked", Tensor::new(&[], vec![7i64]).unwrap());
        tensors.insert("optimizer.momentum.fc1.bias", Tensor::new(&[1], vec![0.0f32]).unwrap());
        let message = model.set_tensors(&tensors).unwrap_err().to_string();
        let parts = [
            "conv1.bias is missing",
            "fc1.bias is [2], where the model has [10]",
            "conv1.weight is of type i64",
            "head.weight is not in the model",
        ];
        for part in parts {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert!(!message.contains("optimizer") && !message.contains("tracked"), "{message}");
        assert_eq!(model.weights().unwrap(), before);
    }
}
