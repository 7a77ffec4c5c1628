//! Winograd's minimal filtering: convolutions of 3x3 or 5x5 taps that move by one, and their gradients, by
//! fewer multiplications.
//!
//! Outputs are computed in tiles of 2x2. Along one axis the two outputs of three taps over four pixels need
//! four products instead of six, F(2, 3), and those of five taps over six pixels seven instead of ten
//! ([`transform`] has the formulas). Along both, a tile of F(2x2, 3x3) takes 16 products for 36, and one of
//! 5x5 taps 49 for 100. Taps, pixels and sums are transformed once each; the products, added up over
//! channels, are what takes the time. Tiles are counted from the first output of a call.
//!
//! - [`transform`]: what taps, pixels, outputs and gradients are in the products, along one axis; `under`:
//!   pixels under tiles, transformed down their columns; `terms`: the order of products in memory.
//! - `forward`, `weights`, `products`, [`target`]: `y = b + x ⋆ w`, with or without a rectifier, and the same
//!   code on planes that are turned round for the gradient of the input of 3x3 taps. Where a pool of 2x2
//!   follows, its windows are the tiles, and each is pooled in registers.
//! - [`input_gradient`]: `dx = dy ⋆ᵀ w` of 5x5 taps: each tile of gradients adds to the 6x6 pixels under it.
//! - [`weight_gradient`]: `dw = x ⋆ dy` of 5x5 taps, behind a pool or not: 35 or 70 products for 100.
//!
//! **When.** 3x3 taps over 29 channels or more: 154 to 183 % of what the direct convolution could reach at
//! best were measured. With fewer channels a pool may be fused, whose sums must be those of the direct
//! convolution. 5x5 taps whatever the channels. The gradient of 3x3 weights was tried and is not worth its
//! 300 lines: 1.25 times as fast without a pool, and no faster than selecting pixels behind one.
//!
//! **Rounding.** Each output is a sum of 9 chains of multiply-adds over the input channels instead of one
//! chain over channels and taps, and depends on no pixel but those under its own taps. Rounding is relative
//! to sums and differences of pixels and not to each product, but chains are shorter: for values as in
//! training, errors are 0.4 to 0.9 of those of the direct convolution, and 0.5 to 1.3 for gradients of
//! weights. Tests hold all to below 1.5. Only ones and halves are factors; six products for ten, which need
//! thirds, had errors three times as large.
//!
//! **Large values.** Infinities would become NaN where they are subtracted, and very large values overflow.
//! So a call with such is left to the direct algorithm as a whole.

mod forward;
pub(crate) mod input_gradient;
mod products;
#[cfg(test)]
mod rounding;
pub(crate) mod target;
mod terms;
pub(crate) mod transform;
mod under;
pub(crate) mod weight_gradient;
mod weights;

/// Values like those of images, weights and gradients in training, the same every time: what rounding is
/// measured with.
#[cfg(test)]
fn values(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..n).map(|_| uniform() + uniform() + uniform()).collect()
}
