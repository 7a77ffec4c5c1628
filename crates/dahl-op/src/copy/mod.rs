//! A copy, for every element type. Bytes: one element read, one written.

use dahl_runtime::Result;
use dahl_runtime::array::Element;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `y = x`
pub static CODELET: Codelet = Codelet::new(
    "copy",
    "x[..] -> y[..]",
    0.0,
    super::implementations!(reference for f32 F32, f64 F64, u8 U8, u32 U32; flat [R R]),
)
.samples(sample);

super::forms! {
    /// `y = x`.
    copy<E, R>(x: [E; R]) -> (y: [E; R]), init copy_init
}

fn sample(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    Sample::new(Tolerance::Exact).real(shape).real(shape)
}

fn reference<E: Element>(call: &Call<'_>) -> Result<()> {
    call.map(|x: E| x);
    Ok(())
}

fn flat<E: Element>(call: &Call<'_>) -> Result<()> {
    call.output::<E>(0).contiguous().copy_from_slice(call.input::<E>(0).contiguous());
    Ok(())
}
