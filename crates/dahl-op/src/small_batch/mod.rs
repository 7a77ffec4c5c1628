//! Small batches: convolutions and gradients of so few samples that vectors of samples would be mostly empty.
//!
//! Up to half as many samples as there are lanes are computed one at a time, in vectors of neighbouring
//! pixels ([`Flat`]) instead of samples: six times as fast for one sample. In arrays with lanes over samples,
//! most of what is left is the time to take one value of 16 out of every cache line and put it back. So a
//! step of a small batch has no lanes at all (implementations called `flat`, [`SampleOrder::Rows`]), and a
//! convolution of one sample takes half of that again. A tile whose last group is nearly empty has its full
//! groups computed in lanes and the rest one by one ([`SampleOrder::parts`]).
//!
//! - `order`: how samples lie, and where one of them is; `flat`: its pixels and outputs side by side;
//!   `suits`: whether that pays.
//! - `convolve`: `y = b + x ⋆ w` and the gradient of the input, with the chains of the direct convolution;
//!   `pool`: the same, and the maxima of its windows; `weight_gradient`: `dw = x ⋆ dy`; `unpool`: `dy` of
//!   that where a pool follows.
//!
//! Zeros around an image are multiplied like pixels, which gives the bits of leaving them out where weights
//! (or, for gradients of weights, all that is multiplied) are finite. Kernels look first, which takes about a
//! hundredth of their time, and leave what is not finite to the direct algorithm.

mod convolve;
mod flat;
mod order;
mod pool;
mod suits;
mod unpool;
mod weight_gradient;

pub(crate) use convolve::SmallBatch;
pub(crate) use flat::Flat;
pub(crate) use order::{SampleElements, SampleOrder};
pub(crate) use pool::Pool;
pub(crate) use suits::{suits_convolution, suits_gradient};
pub(crate) use unpool::{Biases, Unpool};
pub(crate) use weight_gradient::WeightGradient;
