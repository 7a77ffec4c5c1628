//! Takes the images of a batch from the data set: `x[n,c,y,x] = images[index[n],c,y,x] / divisor`.
//!
//! The division is a true one (not a product with the reciprocal), so that the values are those that other
//! frameworks compute. An index beyond the data set is an error. Bytes: one byte read and one element written
//! per pixel.

mod flat;
mod lanes;

use super::real::Real;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};
use dahl_runtime::{Error, ErrorKind, Result};
use std::ops::Range;

/// `x[n] = images[index[n]] / divisor`; scalars: the divisor (255 for images in 0..1).
pub static CODELET: Codelet = Codelet::new(
    "load",
    "images[*,c,y,x] index[n] -> x[n,c,y,x]",
    1.0,
    super::implementations!(reference, lanes::load, 1, [R R L]; flat::load, 1, [R R R]),
)
.samples(sample);

super::forms! {
    /// `x[n] = images[index[n]] / divisor`.
    load<T>(images: [u8; 4], index: [u32; 1]; scalars divisor) -> (x: [T; 4]), init load_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, c, y, x] = [draw.n_samples(), draw.extent(), draw.extent(), draw.extent()];
    let sample = Sample::new(Tolerance::Exact).scalars(&[255.0]);
    sample.below(Dtype::U8, [9, c, y, x], 256).below(Dtype::U32, [n], 9).real([n, c, y, x])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (images, index) = (call.input::<u8>(0), call.input::<u32>(1));
    let mut x = call.output::<T>(0);
    let divisor = T::from_f64(call.scalar(0));
    for n in index.region().range(0) {
        checked(index.at([n]), n, &images.region().range(0))?;
    }
    for_each_index(x.region(), |at| {
        let &[n, c, row, column] = at else { unreachable!("x has four dimensions") };
        let pixel = images.at([index.at([n]) as usize, c, row, column]);
        x.set([n, c, row, column], T::from_f64(f64::from(pixel)) / divisor);
    });
    Ok(())
}

/// The index of sample `n`, or the error that there is no such entry in the data set.
pub(super) fn checked(index: u32, n: usize, entries: &Range<usize>) -> Result<usize> {
    if entries.contains(&(index as usize)) {
        return Ok(index as usize);
    }
    let (first, end) = (entries.start, entries.end);
    Err(Error::new(
        ErrorKind::Task,
        format!("sample {n} of the batch asks for entry {index}, but the data set holds {first}..{end}"),
    ))
}
