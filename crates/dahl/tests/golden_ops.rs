//! Every operation against PyTorch: all implementations, in `f64` and `f32`.
//!
//! `scripts/golden_ops.py` makes the files: inputs and results of single calls, in `f64`.

use dahl::op::CODELETS;
use dahl_runtime::array::{Dtype, Layout};
use dahl_runtime::codelet::{Codelet, Implementation, Needs};
use dahl_runtime::conformance::{Arg, Prepared, Settings};
use safetensors::SafeTensors;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A tensor of the file.
#[derive(Clone)]
struct Tensor {
    /// The element type, or none for floating point, which is converted to what is computed in.
    dtype: Option<Dtype>,
    shape: Vec<usize>,
    values: Vec<f64>,
}

/// One call of the file.
#[derive(Default)]
struct Golden {
    tensors: BTreeMap<String, Tensor>,
}

impl Golden {
    fn list(&self, what: &str) -> Vec<&Tensor> {
        (0..).map_while(|i| self.tensors.get(&format!("{what}{i}"))).collect()
    }

    fn numbers(&self, what: &str) -> Vec<f64> {
        self.tensors.get(what).map_or_else(Vec::new, |tensor| tensor.values.clone())
    }
}

/// The calls of both files, by operation.
fn calls() -> Vec<(String, Golden)> {
    let mut calls: BTreeMap<(String, String), Golden> = BTreeMap::new();
    for file in ["general", "network"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{file}.safetensors"));
        let bytes = std::fs::read(&path).expect("the golden file is there");
        let tensors = SafeTensors::deserialize(&bytes).expect("the golden file is readable");
        for (name, view) in tensors.tensors() {
            let [operation, number, what] = name.split('.').collect::<Vec<_>>()[..] else {
                panic!("{name} is no tensor of a call")
            };
            let (dtype, values) = match view.dtype() {
                safetensors::Dtype::F64 => (None, numbers(view.data(), f64::from_le_bytes)),
                safetensors::Dtype::I64 => {
                    (None, numbers(view.data(), |word| i64::from_le_bytes(word) as f64))
                }
                safetensors::Dtype::U32 => {
                    (Some(Dtype::U32), numbers(view.data(), |word| u32::from_le_bytes(word).into()))
                }
                safetensors::Dtype::U8 => {
                    (Some(Dtype::U8), numbers(view.data(), |[byte]: [u8; 1]| byte.into()))
                }
                other => panic!("{name} has the element type {other:?}"),
            };
            let tensor = Tensor { dtype, shape: view.shape().to_vec(), values };
            let call = calls.entry((operation.to_string(), number.to_string())).or_default();
            call.tensors.insert(what.to_string(), tensor);
        }
    }
    calls.into_iter().map(|((operation, _), golden)| (operation, golden)).collect()
}

fn numbers<const N: usize>(bytes: &[u8], decode: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|word| decode(*word)).collect()
}

/// Runs an implementation on a call and compares what comes out.
fn check(codelet: &'static Codelet, implementation: &Implementation, golden: &Golden) {
    let (inputs, outputs, before) = (golden.list("in"), golden.list("out"), golden.list("before"));
    let arg = |(i, tensor, fill): (usize, &Tensor, Option<&Tensor>)| {
        let layout = match implementation.needs {
            Needs::Layouts(layouts) => layouts[i],
            Needs::Nothing => Layout::RowMajor,
        };
        let mut arg = Arg::whole(tensor.dtype.unwrap_or(implementation.dtype), layout, &tensor.shape);
        if let Some(tensor) = fill {
            arg.fill(&tensor.values);
        }
        arg
    };
    let read = inputs.iter().map(|&tensor| (tensor, Some(tensor)));
    let written = outputs.iter().enumerate().map(|(i, &tensor)| (tensor, before.get(i).copied()));
    let args = read.chain(written).enumerate().map(|(i, (tensor, fill))| arg((i, tensor, fill)));
    let ints: Vec<i64> = golden.numbers("ints").iter().map(|&number| number as i64).collect();
    let scalars = golden.numbers("scalars");
    let settings = Settings { n_inputs: inputs.len(), ints: &ints, scalars: &scalars, accumulate: false };
    let (name, dtype) = (implementation.name, implementation.dtype);
    let mut prepared = Prepared::new(codelet, name, dtype, args.collect(), &settings);
    prepared.run().unwrap_or_else(|error| panic!("{} {name} {dtype}: {error}", codelet.name));
    let rounding = if dtype == Dtype::F64 { 1e-13 } else { 2e-6 };
    for (output, expected) in prepared.into_args()[inputs.len()..].iter().zip(&outputs) {
        let finite = expected.values.iter().filter(|value| value.is_finite());
        let scale = finite.fold(1.0, |scale: f64, value| scale.max(value.abs()));
        for (i, (got, want)) in output.values().iter().zip(&expected.values).enumerate() {
            let is_close =
                got == want || got.is_nan() && want.is_nan() || (got - want).abs() <= rounding * scale;
            assert!(
                is_close,
                "{} {name} {dtype}: {got} at {i} of {:?}, not {want}",
                codelet.name, expected.shape
            );
        }
    }
}

#[test]
fn every_implementation_agrees_with_pytorch() {
    for (operation, golden) in calls() {
        let codelet = CODELETS.iter().find(|codelet| codelet.name == operation);
        let codelet = codelet.unwrap_or_else(|| panic!("there is no codelet {operation}"));
        for implementation in codelet.implementations {
            if matches!(implementation.dtype, Dtype::F32 | Dtype::F64) {
                check(codelet, implementation, &golden);
            }
        }
    }
}

#[test]
fn golden_values_are_those_of_codelets() {
    let known: BTreeSet<String> = calls().into_iter().map(|(operation, _)| operation).collect();
    let listed: BTreeSet<String> = CODELETS.iter().map(|codelet| codelet.name.to_string()).collect();
    let stale: Vec<_> = known.difference(&listed).collect();
    assert!(stale.is_empty(), "golden values of what is no codelet: {stale:?}");
    // A new codelet is complete without them; whoever has PyTorch at hand adds them.
    for name in listed.difference(&known) {
        println!("no golden values: {name} (add it to scripts/golden and run scripts/golden_ops.py)");
    }
    assert!(known.len() >= 70, "only {} operations have golden values", known.len());
}
