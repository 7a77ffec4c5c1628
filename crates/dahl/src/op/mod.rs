//! The operations: one folder per codelet, with its index line and scalar reference in `mod.rs` and its fast
//! version in `lanes.rs`.
//!
//! Kernels know nothing of tasks or engines: they get views, the regions to compute and parameters. The
//! `reference` takes any layout and any window of a tile, and defines the result. The `lanes` version
//! vectorises over samples: 16 (`f32`) or 8 (`f64`) of them lie side by side, whatever the shape of the rest.
//! The last group of a tile may be ragged; its padding lanes hold anything, also NaN, so that elementwise
//! results may be computed there but sums over samples must leave them out.
//!
//! To add a codelet, add its folder and its line in [`CODELETS`].

#![expect(clippy::needless_range_loop, reason = "kernels index blocks of registers by row and column")]

pub mod planned;
mod channels;
mod flat;
mod math;
mod real;
pub mod simd;
mod sums;
mod window;

pub mod accuracy;
pub mod adam;
pub mod adamw;
pub mod argmax;
pub mod avg_pool;
pub mod avg_pool_backward;
pub mod batch_norm_backward_sums;
pub mod batch_norm_dx;
pub mod batch_norm_inference;
pub mod batch_norm_mean;
pub mod batch_norm_normalise;
pub mod batch_norm_running;
pub mod batch_norm_square_sum;
pub mod channel_sum;
pub mod conv2d;
pub mod conv2d_dw;
pub mod conv2d_dx;
pub mod cross_entropy;
pub mod cross_entropy_backward;
pub mod dense;
pub mod dense_db;
pub mod dense_dw;
pub mod dense_dx;
pub mod dropout;
pub mod dropout_backward;
pub mod load;
pub mod load_labels;
pub mod max_pool;
pub mod max_pool_backward;
pub mod relu;
pub mod relu_backward;
pub mod relu_mask;
pub mod relu_mask_backward;
pub mod sgd;
pub mod sgd_momentum;
pub mod softmax;
pub mod softmax_backward;
pub mod softmax_ce;

use dahl_runtime::codelet::Codelet;

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
];

/// The four implementations that every codelet has: the reference and the lanes version, in both element types.
/// The letters give the layouts that the lanes version needs, in argument order: `L`anes or `R`ow-major.
macro_rules! implementations {
    ($reference:ident, $lanes:ident::$lanes_kernel:ident, $version:literal, [$($layout:ident)*]) => {
        $crate::op::implementations!(
            ($reference::<f32>, $reference::<f64>, $lanes::$lanes_kernel::<f32>, $lanes::$lanes_kernel::<f64>),
            $version, [$($layout)*]
        )
    };
    (($reference32:expr, $reference64:expr, $lanes32:expr, $lanes64:expr), $version:literal, [$($layout:ident)*]) => {{
        use dahl_runtime::array::Dtype::{F32, F64};
        use dahl_runtime::codelet::{Implementation, Needs};
        const LAYOUTS32: Needs = Needs::Layouts(&[$($crate::op::layout!($layout 16)),*]);
        const LAYOUTS64: Needs = Needs::Layouts(&[$($crate::op::layout!($layout 8)),*]);
        &[
            Implementation { name: "reference", version: 1, dtype: F32, needs: Needs::Nothing, kernel: $reference32 },
            Implementation { name: "reference", version: 1, dtype: F64, needs: Needs::Nothing, kernel: $reference64 },
            Implementation { name: "lanes", version: $version, dtype: F32, needs: LAYOUTS32, kernel: $lanes32 },
            Implementation { name: "lanes", version: $version, dtype: F64, needs: LAYOUTS64, kernel: $lanes64 },
        ]
    }};
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

use {implementations, layout};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_folder_is_listed_and_every_line_parses() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/op");
        let folders: BTreeSet<String> = std::fs::read_dir(folder)
            .expect("the source folder is there")
            .map(|entry| entry.expect("a folder entry"))
            .filter(|entry| entry.path().join("lanes.rs").exists())
            .map(|entry| entry.file_name().into_string().expect("a name in ASCII"))
            .collect();
        let listed: BTreeSet<String> = CODELETS.iter().map(|codelet| codelet.name.to_string()).collect();
        assert_eq!(folders, listed);
        for codelet in CODELETS {
            codelet.relation();
        }
    }

    #[test]
    fn every_codelet_has_both_implementations_in_both_types() {
        use dahl_runtime::array::Dtype;
        for codelet in CODELETS {
            for name in ["reference", "lanes"] {
                for dtype in [Dtype::F32, Dtype::F64] {
                    assert!(codelet.implementation(name, dtype).is_some(), "{} {name} {dtype}", codelet.name);
                }
            }
        }
    }
}
