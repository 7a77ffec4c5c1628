//! The diagonal of a square matrix, for every element type: `d[i] = x[i,i]`. Bytes: one element read, one
//! written.

use dahl_runtime::Result;
use dahl_runtime::array::Element;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `d = diag x`
pub static CODELET: Codelet = Codelet::new(
    "diagonal",
    "x[j,k] -> d[i] where j = i, k = i",
    0.0,
    super::implementations!(reference for f32 F32, f64 F64, u8 U8, u32 U32),
)
.samples(sample);

super::forms! {
    /// The diagonal of a square matrix.
    diagonal<E>(x: [E; 2]) -> (d: [E; 1]), init diagonal_init
}

fn sample(draw: &mut Draw) -> Sample {
    let i = draw.between(1, 20);
    Sample::new(Tolerance::Exact).real([i, i]).real([i])
}

fn reference<E: Element>(call: &Call<'_>) -> Result<()> {
    let x = call.input::<E>(0);
    let mut d = call.output::<E>(0);
    for i in d.region().range(0) {
        d.set([i], x.at([i, i]));
    }
    Ok(())
}
