//! Samples one after another: each window adds its gradient to the pixel of its maximum. A pixel gets them in
//! the order of the windows.

use crate::max_pool::checked_size;
use crate::real::Real;
use crate::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

pub(super) fn max_pool_backward<T: Real>(call: &Call<'_>) -> Result<()> {
    let (arg, dy) = (call.input::<u8>(0), call.input::<T>(1));
    let mut dx = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let size = checked_size(call.int(2))?;
    let (rows, columns) = (dx.region().range(2), dx.region().range(3));
    let (oys, oxs) = (dy.region().range(2), dy.region().range(3));
    let dx = dx.contiguous();
    if !call.accumulate() {
        dx.fill(T::default());
    }
    // Divisions take as long as all the rest.
    let mut places = [[0; 2]; 256];
    for (at, place) in places[..size * size].iter_mut().enumerate() {
        *place = [at / size, at % size];
    }
    let mut windows = dy.contiguous().iter().zip(arg.contiguous());
    for dx in dx.chunks_exact_mut((rows.len() * columns.len()).max(1)) {
        for oy in oys.clone() {
            for (ox, (&dy, &place)) in oxs.clone().zip(&mut windows) {
                let [ky, kx] = places[usize::from(place)];
                let (iy, ix) = (window.input(oy, ky, &rows), window.input(ox, kx, &columns));
                if let (Some(iy), Some(ix)) = (iy, ix) {
                    // A place beyond the last is none.
                    let gradient = if usize::from(place) < size * size { dy } else { T::default() };
                    dx[(iy - rows.start) * columns.len() + ix - columns.start] += gradient;
                }
            }
        }
    }
    Ok(())
}
