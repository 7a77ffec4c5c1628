//! Dropout: every element is dropped with probability `p`, and those that stay are multiplied by
//! `1 / (1 - p)`, so that the mean stays the same.
//!
//! An element's coin comes from its index in the whole array, the counter of the run and the seed of the
//! layer, so that it is the same in every tile, layout and order, and the backward pass needs no mask. Like a
//! product with a mask, a dropped NaN or infinity is a NaN. Bytes: one element read, one written.

mod lanes;

pub(super) use lanes::toss;

use super::real::Real;
use crate::random::Stream;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};
use dahl_runtime::{Error, ErrorKind, Result};

/// `y = x · coin / (1 - p)`; scalars: `p`, and the seed, a whole number that differs between layers.
pub static CODELET: Codelet = Codelet::new(
    "dropout",
    "x[..] counter[] -> y[..]",
    2.0,
    super::implementations!(reference, lanes::dropout, 1, [L R L]; reference, 1, [R R R]),
)
.in_place()
.samples(sample);

super::forms! {
    /// `x / (1 - p)`, or 0 with probability `p`; the coins follow from `counter`, `seed` and the index of
    /// each element.
    dropout<T, R>(x: [T; R], counter: [u32; 0]; scalars p, seed) -> (y: [T; R]), init dropout_init,
        in_place dropout_self(x: [T; R], counter: [u32; 0])
}

fn sample(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    let sample =
        Sample::new(Tolerance::Exact).scalars(&[[0.0, 0.3, 0.5, 1.0][draw.below(4)], draw.below(99) as f64]);
    sample.real(shape).below(Dtype::U32, [], 1000).real(shape)
}

pub(super) fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let mut y = call.output::<T>(0);
    let coins = Coins::of(call)?;
    for_each_index(y.region(), |index| {
        let place = index.iter().zip(x.extent().iter()).fold(0, |place, (i, extent)| place * extent + i);
        y.put(index, x.get(index) * coins.factor(place as u64));
    });
    Ok(())
}

/// The coins of one run.
#[derive(Clone, Copy)]
struct Coins<T> {
    stream: Stream,
    /// Coins below this, out of 2²⁴, drop their element.
    threshold: u64,
    /// What the others multiply theirs with.
    scale: T,
}

impl<T: Real> Coins<T> {
    fn of(call: &Call<'_>) -> Result<Self> {
        let (p, seed) = (call.scalar(0), call.scalar(1));
        if !(0.0..=1.0).contains(&p) {
            let message = format!("elements are dropped with a probability from 0 to 1, not {p}");
            return Err(Error::new(ErrorKind::Task, message));
        }
        let counter = call.input::<u32>(1).at([]);
        Ok(Coins {
            stream: Stream::new(seed as u64, counter.into()),
            threshold: (p * f64::from(1 << 24)).ceil() as u64,
            scale: T::from_f64(1.0 / (1.0 - p)),
        })
    }

    /// What the element with this index is multiplied with.
    #[inline(always)]
    fn factor(&self, index: u64) -> T {
        if self.stream.bits(index) >> 40 < self.threshold { T::default() } else { self.scale }
    }
}
