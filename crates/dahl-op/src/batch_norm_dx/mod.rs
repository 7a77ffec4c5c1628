//! Batch normalisation, backward: the gradient of the input, through the mean and the variance of the batch
//! too.
//!
//! With `x̂ = (x - mean) / sqrt(var + eps)` and the `N` values of a channel in the whole array,
//! `dx = gamma / sqrt(var + eps) (dy - dbeta / N - x̂ dgamma / N)`. Bytes: `x` and `dy` read once, `dx`
//! written once.

mod lanes;

use super::channels::{count, inverse_deviation};
use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, View, for_each_index};

/// `dx = gamma / sqrt(var + eps) (dy - dbeta/N - x̂ dgamma/N)`; scalars: `eps`.
pub static CODELET: Codelet = Codelet::new(
    "batch_norm_dx",
    "x[n,c,y,x] dy[n,c,y,x] mean[c] var[c] gamma[c] dgamma[c] dbeta[c] -> dx[n,c,y,x]",
    5.0,
    super::implementations!(reference, lanes::batch_norm_dx, 1, [L L R R R R R L]),
)
.in_place()
.samples(sample);

super::forms! {
    /// The gradient of the input, from that of the output and the gradients of `gamma` and `beta`.
    batch_norm_dx<T>(
        x: [T; 4], dy: [T; 4], mean: [T; 1], var: [T; 1], gamma: [T; 1], dgamma: [T; 1], dbeta: [T; 1]; scalars eps
    ) -> (dx: [T; 4]), init batch_norm_dx_init,
        in_place batch_norm_dx_self(
            dy: [T; 4], x: [T; 4], mean: [T; 1], var: [T; 1], gamma: [T; 1], dgamma: [T; 1], dbeta: [T; 1]
        )
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, c, y, x] = [draw.n_samples(), draw.extent(), draw.extent(), draw.extent()];
    let sample = Sample::new(Tolerance::Scale(30.0)).scalars(&[1e-5]);
    let sample = sample.real([n, c, y, x]).real([n, c, y, x]).real([c]).real_in([c], 0.1..2.0);
    sample.real([c]).real([c]).real([c]).real([n, c, y, x])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (x, dy) = (call.input::<T>(0), call.input::<T>(1));
    let mut dx = call.output::<T>(0);
    let known = Known::of(call);
    for_each_index(dx.region(), |index| {
        let Channel { mean, scale, shift, slope } = known.channel(index[1]);
        dx.put(index, scale * (dy.get(index) - shift - (x.get(index) - mean) * slope));
    });
    Ok(())
}

/// What is known about the channels.
struct Known<'a, T> {
    mean: View<'a, T>,
    var: View<'a, T>,
    gamma: View<'a, T>,
    dgamma: View<'a, T>,
    dbeta: View<'a, T>,
    eps: f64,
    count: T,
}

/// `dx = scale (dy - shift - (x - mean) slope)` in one channel.
struct Channel<T> {
    mean: T,
    scale: T,
    shift: T,
    slope: T,
}

impl<'a, T: Real> Known<'a, T> {
    fn of(call: &'a Call<'_>) -> Self {
        Known {
            mean: call.input(2),
            var: call.input(3),
            gamma: call.input(4),
            dgamma: call.input(5),
            dbeta: call.input(6),
            eps: call.scalar(0),
            count: count(call.input::<T>(0).extent()),
        }
    }

    #[inline(always)]
    fn channel(&self, c: usize) -> Channel<T> {
        let inverse = inverse_deviation(self.var.at([c]), self.eps);
        Channel {
            mean: self.mean.at([c]),
            scale: self.gamma.at([c]) * inverse,
            shift: self.dbeta.at([c]) / self.count,
            slope: self.dgamma.at([c]) * inverse / self.count,
        }
    }
}
