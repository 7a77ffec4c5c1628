//! The transpose of a matrix, for every element type: `y[j,i] = x[i,j]`. Bytes: one element read, one
//! written.

use dahl_runtime::Result;
use dahl_runtime::array::Element;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `y = xᵀ`
pub static CODELET: Codelet = Codelet::new(
    "transpose",
    "x[i,j] -> y[j,i]",
    0.0,
    super::implementations!(reference for f32 F32, f64 F64, u8 U8, u32 U32),
)
.samples(sample);

super::forms! {
    /// The transpose of a matrix.
    transpose<E>(x: [E; 2]) -> (y: [E; 2]), init transpose_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [i, j] = [draw.n_samples(), draw.wide()];
    Sample::new(Tolerance::Exact).real([i, j]).real([j, i])
}

fn reference<E: Element>(call: &Call<'_>) -> Result<()> {
    let x = call.input::<E>(0);
    let mut y = call.output::<E>(0);
    for j in y.region().range(0) {
        for i in y.region().range(1) {
            y.set([j, i], x.at([i, j]));
        }
    }
    Ok(())
}
