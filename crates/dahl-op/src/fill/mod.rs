//! The same value everywhere. Bytes: one element written.

use dahl_runtime::Result;
use dahl_runtime::array::Element;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};

/// `y = value`; scalars: value.
pub static CODELET: Codelet = Codelet::new(
    "fill",
    "-> y[..]",
    0.0,
    super::implementations!(reference for f32 F32, f64 F64, u8 U8, u32 U32; flat [R]),
)
.samples(sample);

super::forms! {
    /// `y = value`, as the nearest number of the element type.
    fill<E, R>(; scalars value) -> (y: [E; R])
}

fn sample(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    Sample::new(Tolerance::Exact).scalars(&[3.0]).real(shape)
}

/// An element type that holds the nearest of a number.
trait Nearest: Element {
    fn nearest(value: f64) -> Self;
}

macro_rules! nearest {
    ($($ty:ident)*) => {$(
        impl Nearest for $ty {
            fn nearest(value: f64) -> Self {
                nearest!(@$ty value)
            }
        }
    )*};
    (@u8 $value:ident) => { $value.round_ties_even() as u8 };
    (@u32 $value:ident) => { $value.round_ties_even() as u32 };
    (@$ty:ident $value:ident) => { $value as $ty };
}
nearest!(f32 f64 u8 u32);

fn reference<E: Nearest>(call: &Call<'_>) -> Result<()> {
    let mut y = call.output::<E>(0);
    let value = E::nearest(call.scalar(0));
    for_each_index(y.region(), |index| y.put(index, value));
    Ok(())
}

fn flat<E: Nearest>(call: &Call<'_>) -> Result<()> {
    call.output::<E>(0).contiguous().fill(E::nearest(call.scalar(0)));
    Ok(())
}
