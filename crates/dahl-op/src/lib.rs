//! The operations: codelets with their kernels, and functions that submit them on arrays.
//!
//! ```
//! use dahl_op as op;
//! use dahl_runtime::{Runtime, machine::Machine};
//!
//! fn main() -> dahl_runtime::Result<()> {
//!     let runtime = Runtime::new(&Machine::with_workers(2))?;
//!     let work = runtime.arena("work");
//!     let x = work.array_from([2, 2], &[1.0f32, -2.0, 3.0, -4.0])?;
//!     let mut y = op::matmul_init(&work, &x, &x)?;
//!     op::relu_self(&mut y)?;
//!     assert_eq!(y.read()?.to_vec(), [0.0, 6.0, 0.0, 10.0]);
//!     Ok(())
//! }
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | [`mod@conv2d`], [`mod@dense`], [`mod@relu`], … | a codelet each, which graphs record |
//! | [`forms`] | the functions on arrays: into a given one, in place (`_self`), into a new one (`_init`) |
//! | [`CODELETS`], [`FUSIONS`] | all codelets, and which of them take the place of several others |
//! | [`default_cut`] | how steps of them are cut, unless somebody says otherwise |
//! | [`random`] | random numbers by counter |
//! | [`simd`] | vectors of all instruction sets, and the choice between them |
//! | [`planned`] | index relations whose kernels are still to be written |
//!
//! There is one folder per codelet, with its index line, samples and scalar reference in `mod.rs` and its
//! fast version, where it has one, in `lanes.rs` or `flat.rs`.
//!
//! Kernels know nothing of tasks or engines: they get views, the regions to compute and parameters. The
//! `reference` takes any layout and any window of a tile, and defines the result. The `lanes` version
//! vectorises over samples: 16 (`f32`) or 8 (`f64`) of them lie side by side, whatever the shape of the rest.
//! The last group of a tile may be ragged; its padding lanes hold anything, also NaN, so that elementwise
//! results may be computed there but sums over samples must leave them out. A `flat` version vectorises over
//! neighbouring elements in row-major order.
//!
//! To add a codelet, add its folder and its line in [`CODELETS`]; CONTRIBUTING.md goes through it step by
//! step.

#![expect(clippy::needless_range_loop, reason = "kernels index blocks of registers by row and column")]

mod cut;
mod padded;
pub mod planned;
pub mod random;
mod elementwise;
pub mod forms;
mod channels;
mod algorithm;
mod convolve;
mod winograd;
mod small_batch;
mod math;
mod real;
mod reduce;
mod scratch;
pub mod simd;
mod sums;
mod update;
mod window;

pub mod accuracy;
pub use accuracy::forms::*;
pub mod adam;
pub use adam::forms::*;
pub mod adamw;
pub use adamw::forms::*;
pub mod argmax;
pub use argmax::forms::*;
pub mod avg_pool;
pub use avg_pool::forms::*;
pub mod avg_pool_backward;
pub use avg_pool_backward::forms::*;
pub mod batch_norm_backward_sums;
pub use batch_norm_backward_sums::forms::*;
pub mod batch_norm_dx;
pub use batch_norm_dx::forms::*;
pub mod batch_norm_inference;
pub use batch_norm_inference::forms::*;
pub mod batch_norm_mean;
pub use batch_norm_mean::forms::*;
pub mod batch_norm_normalise;
pub use batch_norm_normalise::forms::*;
pub mod batch_norm_running;
pub use batch_norm_running::forms::*;
pub mod batch_norm_square_sum;
pub use batch_norm_square_sum::forms::*;
pub mod channel_sum;
pub use channel_sum::forms::*;
pub mod conv2d;
pub use conv2d::forms::*;
pub mod conv2d_dw;
pub use conv2d_dw::forms::*;
pub mod conv2d_dx;
pub use conv2d_dx::forms::*;
pub mod conv2d_relu;
pub use conv2d_relu::forms::*;
pub mod relu_conv2d_dx;
pub use relu_conv2d_dx::forms::*;
pub mod conv2d_relu_max_pool;
pub use conv2d_relu_max_pool::forms::*;
pub mod conv2d_relu_max_pool_dw;
pub use conv2d_relu_max_pool_dw::forms::*;
pub mod cross_entropy;
pub use cross_entropy::forms::*;
pub mod cross_entropy_backward;
pub use cross_entropy_backward::forms::*;
pub mod dense;
pub use dense::forms::*;
pub mod dense_db;
pub use dense_db::forms::*;
pub mod dense_dw;
pub use dense_dw::forms::*;
pub mod dense_dx;
pub use dense_dx::forms::*;
pub mod dropout;
pub use dropout::forms::*;
pub mod dropout_backward;
pub use dropout_backward::forms::*;
pub mod load;
pub use load::forms::*;
pub mod load_labels;
pub use load_labels::forms::*;
pub mod max_pool;
pub use max_pool::forms::*;
pub mod max_pool_backward;
pub use max_pool_backward::forms::*;
pub mod relu;
pub use relu::forms::*;
pub mod relu_backward;
pub use relu_backward::forms::*;
pub mod relu_mask;
pub use relu_mask::forms::*;
pub mod relu_mask_backward;
pub use relu_mask_backward::forms::*;
pub mod sgd;
pub use sgd::forms::*;
pub mod sgd_momentum;
pub use sgd_momentum::forms::*;
pub mod softmax;
pub use softmax::forms::*;
pub mod softmax_backward;
pub use softmax_backward::forms::*;
pub mod softmax_ce;
pub use softmax_ce::forms::*;

// General operations.
pub mod add;
pub use add::forms::*;
pub mod add_value;
pub use add_value::forms::*;
pub mod clip;
pub use clip::forms::*;
pub mod copy;
pub use copy::forms::*;
pub mod diagonal;
pub use diagonal::forms::*;
pub mod div;
pub use div::forms::*;
pub mod dot;
pub use dot::forms::*;
pub mod fill;
pub use fill::forms::*;
pub mod matmul;
pub use matmul::forms::*;
pub mod matvec;
pub use matvec::forms::*;
pub mod max;
pub use max::forms::*;
pub mod mean;
pub use mean::forms::*;
pub mod min;
pub use min::forms::*;
pub mod mul;
pub use mul::forms::*;
pub mod outer;
pub use outer::forms::*;
pub mod power;
pub use power::forms::*;
pub mod round;
pub use round::forms::*;
pub mod scale;
pub use scale::forms::*;
pub mod sub;
pub use sub::forms::*;
pub mod sum;
pub use sum::forms::*;
pub mod transpose;
pub use transpose::forms::*;
pub mod vecmat;
pub use vecmat::forms::*;

pub use cut::{FEW, default_cut};
pub use real::Float;

use dahl_runtime::codelet::Codelet;
use dahl_runtime::graph::Fusion;

/// Every codelet: what registration, documentation, conformance tests and benchmarks go through.
pub static CODELETS: &[&Codelet] = &[
    &load::CODELET,
    &load_labels::CODELET,
    &conv2d::CODELET,
    &conv2d_dx::CODELET,
    &conv2d_dw::CODELET,
    &channel_sum::CODELET,
    &batch_norm_mean::CODELET,
    &batch_norm_square_sum::CODELET,
    &batch_norm_normalise::CODELET,
    &batch_norm_running::CODELET,
    &batch_norm_inference::CODELET,
    &batch_norm_backward_sums::CODELET,
    &batch_norm_dx::CODELET,
    &relu::CODELET,
    &relu_backward::CODELET,
    &relu_mask::CODELET,
    &relu_mask_backward::CODELET,
    &max_pool::CODELET,
    &max_pool_backward::CODELET,
    &avg_pool::CODELET,
    &avg_pool_backward::CODELET,
    &dropout::CODELET,
    &dropout_backward::CODELET,
    &dense::CODELET,
    &dense_dx::CODELET,
    &dense_dw::CODELET,
    &dense_db::CODELET,
    &softmax::CODELET,
    &softmax_backward::CODELET,
    &cross_entropy::CODELET,
    &cross_entropy_backward::CODELET,
    &softmax_ce::CODELET,
    &argmax::CODELET,
    &accuracy::CODELET,
    &sgd::CODELET,
    &sgd_momentum::CODELET,
    &adam::CODELET,
    &adamw::CODELET,
    // General operations.
    &add::CODELET,
    &sub::CODELET,
    &mul::CODELET,
    &div::CODELET,
    &scale::CODELET,
    &add_value::CODELET,
    &power::CODELET,
    &clip::CODELET,
    &round::CODELET,
    &fill::CODELET,
    &copy::CODELET,
    &sum::WHOLE,
    &sum::AXIS0,
    &sum::AXIS1,
    &sum::AXIS2,
    &sum::AXIS3,
    &mean::WHOLE,
    &mean::AXIS0,
    &mean::AXIS1,
    &mean::AXIS2,
    &mean::AXIS3,
    &min::WHOLE,
    &min::AXIS0,
    &min::AXIS1,
    &min::AXIS2,
    &min::AXIS3,
    &max::WHOLE,
    &max::AXIS0,
    &max::AXIS1,
    &max::AXIS2,
    &max::AXIS3,
    &matmul::NN,
    &matmul::NT,
    &matmul::TN,
    &matmul::TT,
    &matvec::CODELET,
    &vecmat::CODELET,
    &outer::CODELET,
    &dot::CODELET,
    &transpose::CODELET,
    &diagonal::CODELET,
    // Several of the above in one.
    &conv2d_relu::CODELET,
    &relu_conv2d_dx::CODELET,
    &conv2d_relu_max_pool::CODELET,
    &conv2d_relu_max_pool_dw::CODELET,
];

/// The rules by which recorded tasks become fused ones, in the order in which they are tried.
pub static FUSIONS: &[&Fusion] = &[
    &conv2d_relu_max_pool::FUSION,
    &conv2d_relu_max_pool_dw::FUSION,
    &conv2d_relu_max_pool::FUSION_BACKWARD,
    &conv2d_relu_max_pool_dw::FUSION_INNER,
    &conv2d_relu::FUSION,
    &relu_conv2d_dx::FUSION,
];

/// The implementations of a codelet, in `f32` and `f64`: the reference alone, or the reference and a fast
/// version.
///
/// `implementations!(reference, lanes::relu, 1, [L L])`: the fast version is called after its module, has a
/// version number that rises with every change of its bits, and needs its arguments in these layouts, in
/// argument order: `L`anes or `R`ow-major. A second list of layouts offers the same kernel once more, as
/// `flat`; or a kernel of its own, after a semicolon:
/// `implementations!(reference, lanes::load, 1, [R R L]; flat::load, 1, [R R R])`.
///
/// `implementations!(reference for f32 F32, u8 U8; flat [R R])`: these element types, with or without a flat
/// version.
///
/// All of them are code of cores. One in another code is appended to the list by `Implementation::in_code`.
macro_rules! implementations {
    ($reference:ident) => {
        $crate::implementations!(($reference::<f32>, $reference::<f64>))
    };
    (($reference32:expr, $reference64:expr)) => {
        &[
            $crate::implementation!("reference", 1, F32, dahl_runtime::codelet::Needs::Nothing, $reference32),
            $crate::implementation!("reference", 1, F64, dahl_runtime::codelet::Needs::Nothing, $reference64),
        ]
    };
    ($reference:ident for $($type:ident $dtype:ident),+) => {
        &[$($crate::implementation!(
            "reference", 1, $dtype, dahl_runtime::codelet::Needs::Nothing, $reference::<$type>
        ),)+]
    };
    ($reference:ident for $($type:ident $dtype:ident),+; $flat:ident $layouts:tt) => {
        &[
            $($crate::implementation!(
                "reference", 1, $dtype, dahl_runtime::codelet::Needs::Nothing, $reference::<$type>
            ),)+
            $($crate::implementation!("flat", 1, $dtype, $crate::layouts!(16 $layouts), $flat::<$type>).of_family(&$crate::cut::FEW),)+
        ]
    };
    (
        $reference:ident, $fast:ident::$kernel:ident, $version:literal, $layouts:tt;
        $($flat:ident)::+, $flat_version:literal, $flat_layouts:tt
    ) => {
        $crate::implementations!(
            ($reference::<f32>, $reference::<f64>), $fast, ($fast::$kernel::<f32>, $fast::$kernel::<f64>),
            $version, $layouts; ($($flat)::+::<f32>, $($flat)::+::<f64>), $flat_version, $flat_layouts
        )
    };
    ($reference:ident, $fast:ident::$kernel:ident, $version:literal, $layouts:tt, $flat:tt) => {
        $crate::implementations!(
            $reference, $fast::$kernel, $version, $layouts; $fast::$kernel, $version, $flat
        )
    };
    ($reference:ident, $fast:ident::$kernel:ident, $version:literal, $layouts:tt) => {
        $crate::implementations!(
            ($reference::<f32>, $reference::<f64>), $fast, ($fast::$kernel::<f32>, $fast::$kernel::<f64>),
            $version, $layouts
        )
    };
    (
        ($reference32:expr, $reference64:expr), $name:ident, ($fast32:expr, $fast64:expr),
        $version:literal, $layouts:tt $(; ($flat32:expr, $flat64:expr), $flat_version:literal, $flat:tt)?
    ) => {
        &[
            $crate::implementation!("reference", 1, F32, dahl_runtime::codelet::Needs::Nothing, $reference32),
            $crate::implementation!("reference", 1, F64, dahl_runtime::codelet::Needs::Nothing, $reference64),
            $crate::implementation!(stringify!($name), $version, F32, $crate::layouts!(16 $layouts), $fast32),
            $crate::implementation!(stringify!($name), $version, F64, $crate::layouts!(8 $layouts), $fast64),
            $(
                $crate::implementation!("flat", $flat_version, F32, $crate::layouts!(16 $flat), $flat32).of_family(&$crate::cut::FEW),
                $crate::implementation!("flat", $flat_version, F64, $crate::layouts!(8 $flat), $flat64).of_family(&$crate::cut::FEW),
            )?
        ]
    };
}

/// One implementation.
macro_rules! implementation {
    ($name:expr, $version:literal, $dtype:ident, $needs:expr, $kernel:expr) => {
        dahl_runtime::codelet::Implementation::new(
            $name,
            $version,
            dahl_runtime::array::Dtype::$dtype,
            $needs,
            $kernel,
        )
    };
}

/// What an implementation needs, from the letters in [`implementations`].
macro_rules! layouts {
    ($lanes:literal [$($layout:ident)*]) => {
        dahl_runtime::codelet::Needs::Layouts(&[$($crate::layout!($layout $lanes)),*])
    };
}

/// A layout from its letter in [`implementations`].
macro_rules! layout {
    (L $lanes:literal) => {
        dahl_runtime::array::Layout::Lanes($lanes)
    };
    (R $lanes:literal) => {
        dahl_runtime::array::Layout::RowMajor
    };
}

use elementwise::elementwise;
use forms::forms;
use {implementation, implementations, layout, layouts};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    #[test]
    fn every_folder_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let list = include_str!("lib.rs");
        let list = &list[list.find("static CODELETS").expect("the list")..];
        let list = &list[..list.find("];").expect("the end of the list")];
        for entry in fs::read_dir(folder).expect("the source folder is there") {
            let entry = entry.expect("a folder entry");
            let source = fs::read_to_string(entry.path().join("mod.rs")).unwrap_or_default();
            let name = entry.file_name().into_string().expect("a name in ASCII");
            let is_codelet = source.contains("Codelet");
            assert!(!is_codelet || list.contains(&format!("&{name}::")), "{name} is not in CODELETS");
            for line in source.lines().filter_map(|line| line.strip_prefix("pub static ")) {
                let Some((codelet, kind)) = line.split_once(": ") else { continue };
                assert!(kind.starts_with("Codelet"), "{name}: a static that is no codelet is not public");
                assert!(
                    list.contains(&format!("&{name}::{codelet},")),
                    "{name}::{codelet} is not in CODELETS"
                );
            }
        }
    }

    #[test]
    fn every_codelet_has_a_name_of_its_own_a_line_that_parses_samples_and_a_reference() {
        use dahl_runtime::array::Dtype;
        let mut names = BTreeSet::new();
        for codelet in CODELETS {
            codelet.relation();
            assert!(names.insert(codelet.name), "two codelets are called {}", codelet.name);
            assert!(codelet.sample.is_some(), "{} has no samples", codelet.name);
            for dtype in [Dtype::F32, Dtype::F64] {
                let first = codelet.implementations.iter().find(|i| i.dtype == dtype);
                assert!(first.is_some_and(|i| i.name == "reference"), "{} {dtype}", codelet.name);
            }
        }
    }
}
