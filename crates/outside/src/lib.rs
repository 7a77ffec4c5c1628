//! What somebody builds on dahl without changing it.
//!
//! Codelets with two implementations and a layer made of them ([`Prelu`]), a rule that fuses them, an
//! optimiser with state of its own ([`RmsProp`]), a loss ([`SquaredError`]), a source of images
//! ([`Shapes`]) and a scheduler ([`newest_first`]). All of it uses public items of the crate `dahl` alone,
//! and nothing of it is known there: the tests of this crate fail when dahl closes a door. They train with
//! all of it together.

mod loss;
mod optimizer;
mod prelu;
mod scheduler;
mod shapes;

pub use loss::SquaredError;
pub use optimizer::RmsProp;
pub use prelu::Prelu;
pub use scheduler::newest_first;
pub use shapes::Shapes;

use dahl::layer::Kinds;
use dahl::runtime::array::{Dtype, Layout};
use dahl::runtime::codelet::{Codelet, Implementation, Kernel, Needs};
use dahl::runtime::graph::Fusion;

/// The layers that model files of this crate may have: those of dahl, and `prelu`.
pub fn kinds() -> dahl::Result<Kinds> {
    Kinds::default().with(Prelu::KIND)
}

/// All codelets.
pub static CODELETS: [&Codelet; 7] = [
    &prelu::FORWARD,
    &prelu::BACKWARD,
    &prelu::SLOPE_GRADIENT,
    &prelu::GRADIENTS,
    &optimizer::UPDATE,
    &loss::VALUE,
    &loss::GRADIENT,
];

/// All rules of fusion.
pub static FUSIONS: [&Fusion; 1] = [&prelu::FUSION];

/// The reference, which takes arguments in any layout.
const fn reference(dtype: Dtype, kernel: Kernel) -> Implementation {
    Implementation::new("reference", 1, dtype, Needs::Nothing, kernel)
}

/// A version that asks for layouts.
const fn fast(
    name: &'static str,
    dtype: Dtype,
    layouts: &'static [Layout],
    kernel: Kernel,
) -> Implementation {
    Implementation::new(name, 1, dtype, Needs::Layouts(layouts), kernel)
}
