//! Reductions: sum, mean, minimum and maximum, of whole arrays and along one axis.
//!
//! Each of the four has five codelets, from one declaration: `x[..] -> y[]` over everything, and one for each
//! of the up to four axes that can be reduced. Several axes are reduced one after the other. A tile reduces
//! what it has, and partial results are combined in order; a mean divides by the extent of the whole array in
//! every tile, so that the parts of a mean add up to it however it is cut.

use super::Float;
use super::real::Real;
use super::simd::{Kernel, Simd};
use dahl_runtime::arena::Arena;
use dahl_runtime::array::{AnyArray, AnyArrayMut, Array, BEST, Params, infer_shapes, submit};
use dahl_runtime::codelet::{Call, Codelet, for_each_index};
use dahl_runtime::{Error, ErrorKind, Result};
use std::marker::PhantomData;
use std::panic::Location;

/// How numbers are put together.
pub(crate) trait Fold {
    /// The result of no numbers.
    const START: f64;
    /// One number more; also, a partial result more.
    fn fold<T: Real>(result: T, x: T) -> T;
    /// The result of a part, when there are `n` numbers altogether.
    fn finish<T: Real>(result: T, _n: usize) -> T {
        result
    }
}

/// Everything: `y[] = fold x[..]`.
pub(crate) fn whole<T: Real, F: Fold>(call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let mut y = call.output::<T>(0);
    let mut result = T::from_f64(F::START);
    for_each_index(x.region(), |index| result = F::fold(result, x.get(index)));
    let result = F::finish(result, x.extent().len());
    y.set([], if call.accumulate() { F::fold(y.at([]), result) } else { result });
    Ok(())
}

/// [`whole`] on contiguous memory: four vectors of partial results, put together in one order for every
/// instruction set. Chains this short also keep the rounding of long sums small.
pub(crate) fn whole_flat<T: Real, F: Fold>(call: &Call<'_>) -> Result<()> {
    T::dispatch(WholeFlat::<F>(call, PhantomData))
}

struct WholeFlat<'a, 'b, F>(&'a Call<'b>, PhantomData<F>);

impl<T: Real, F: Fold> Kernel<T> for WholeFlat<'_, '_, F> {
    type Output = Result<()>;

    #[inline(always)]
    fn run<S: Simd<T>>(self, _: S) -> Result<()> {
        const CHAINS: usize = 4;
        let call = self.0;
        let x = call.input::<T>(0);
        let mut y = call.output::<T>(0);
        let n = x.extent().len();
        let mut partial = [T::ZERO_LANES; CHAINS];
        partial.iter_mut().for_each(|lanes| lanes.as_mut().fill(T::from_f64(F::START)));
        let x = x.contiguous();
        let (fours, rest) = T::lanes(x).as_chunks::<CHAINS>();
        let fold = |into: &mut T::Lanes, lanes: &T::Lanes| {
            for (result, x) in into.as_mut().iter_mut().zip(lanes.as_ref()) {
                *result = F::fold(*result, *x);
            }
        };
        for four in fours {
            for i in 0..CHAINS {
                fold(&mut partial[i], &four[i]);
            }
        }
        for (i, lanes) in rest.iter().enumerate() {
            fold(&mut partial[i], lanes);
        }
        let mut result = T::from_f64(F::START);
        for part in partial.iter().flat_map(|lanes| lanes.as_ref()).chain(&x[x.len() - x.len() % T::LANES..])
        {
            result = F::fold(result, *part);
        }
        let result = F::finish(result, n);
        y.set([], if call.accumulate() { F::fold(y.at([]), result) } else { result });
        Ok(())
    }
}

/// Along one axis: `y[a,..] = fold_r x[a,r,..]`, where `AXIS` dimensions come before `r`.
pub(crate) fn along<T: Real, F: Fold, const AXIS: usize>(call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let mut y = call.output::<T>(0);
    let (range, rank) = (x.region().range(AXIS), x.region().rank());
    let mut at = [0; dahl_runtime::array::MAX_RANK];
    for_each_index(y.region(), |index| {
        at[..AXIS].copy_from_slice(&index[..AXIS]);
        at[AXIS + 1..rank].copy_from_slice(&index[AXIS..]);
        let mut result = T::from_f64(F::START);
        for r in range.clone() {
            at[AXIS] = r;
            result = F::fold(result, x.get(&at[..rank]));
        }
        let result = F::finish(result, x.extent()[AXIS]);
        y.put(index, if call.accumulate() { F::fold(y.get(index), result) } else { result });
    });
    Ok(())
}

/// Declares the codelets of a reduction and their call forms. `$fold` says how numbers are put together,
/// `$how` how partial results are, in the notation of index relations; `$argument` is the kind of sample it
/// is tried on.
macro_rules! reductions {
    (
        $doc:literal, $name:literal, $how:literal, $fold:ident, $tolerance:ident, $argument:ident,
        $whole:ident, $whole_init:ident, $axis:ident, $axis_init:ident, $axes_init:ident
    ) => {
        #[doc = concat!("The ", $doc, " of everything.")]
        pub static WHOLE: Codelet = Codelet::new(
            $name,
            concat!("x[..] -> y[] ", $how),
            1.0,
            $crate::implementations!(
                (whole::<f32, $fold>, whole::<f64, $fold>),
                flat, (whole_flat::<f32, $fold>, whole_flat::<f64, $fold>), 1, [R R]
            ),
        )
        .samples(|draw| Sample::new(Tolerance::$tolerance).$argument(draw.shape()).real([]));

        reductions!(@axis $doc, $name, $how, $fold, $tolerance, $argument, AXIS0, 0, "_axis0", "x[r,..] -> y[..] ", |draw| {
            let [a, b] = [draw.extent(), draw.extent()];
            ([draw.n_samples(), a, b], [a, b])
        });
        reductions!(@axis $doc, $name, $how, $fold, $tolerance, $argument, AXIS1, 1, "_axis1", "x[a,r,..] -> y[a,..] ", |draw| {
            let [a, b] = [draw.n_samples(), draw.extent()];
            ([a, draw.extent(), b], [a, b])
        });
        reductions!(@axis $doc, $name, $how, $fold, $tolerance, $argument, AXIS2, 2, "_axis2", "x[a,b,r,..] -> y[a,b,..] ", |draw| {
            let [a, b, c] = [draw.n_samples(), draw.extent(), draw.extent()];
            ([a, b, draw.extent(), c], [a, b, c])
        });
        reductions!(@axis $doc, $name, $how, $fold, $tolerance, $argument, AXIS3, 3, "_axis3", "x[a,b,c,r] -> y[a,b,c] ", |draw| {
            let [a, b, c] = [draw.n_samples(), draw.extent(), draw.extent()];
            ([a, b, c, draw.extent()], [a, b, c])
        });

        /// The operation as functions on arrays.
        pub mod forms {
            use super::{AXIS0, AXIS1, AXIS2, AXIS3, WHOLE};
            use $crate::Float;
            use $crate::reduce::{reduce_along, reduce_axes, reduce_whole};
            use dahl_runtime::{Result, arena::Arena, array::Array, codelet::Codelet};

            static AXES: [&Codelet; 4] = [&AXIS0, &AXIS1, &AXIS2, &AXIS3];

            #[doc = concat!("The ", $doc, " of all elements.")]
            #[track_caller]
            pub fn $whole<T: Float, const R: usize>(x: &Array<'_, T, R>, y: &mut Array<'_, T, 0>) -> Result<()> {
                reduce_whole(&WHOLE, x, y)
            }

            #[doc = concat!("The ", $doc, " of all elements, as a new array of `arena`.")]
            #[track_caller]
            pub fn $whole_init<'m, T: Float, const R: usize>(
                arena: &'m Arena,
                x: &Array<'_, T, R>,
            ) -> Result<Array<'m, T, 0>> {
                let mut y = arena.array([])?;
                reduce_whole(&WHOLE, x, &mut y)?;
                Ok(y)
            }

            #[doc = concat!("The ", $doc, " along an axis; `y` has one dimension less.")]
            #[track_caller]
            pub fn $axis<T: Float, const R: usize, const S: usize>(
                x: &Array<'_, T, R>,
                axis: usize,
                y: &mut Array<'_, T, S>,
            ) -> Result<()> {
                reduce_along(&AXES, x, axis, y)
            }

            #[doc = concat!("The ", $doc, " along an axis, as a new array of `arena`, which has one dimension less.")]
            #[track_caller]
            pub fn $axis_init<'m, T: Float, const R: usize, const S: usize>(
                arena: &'m Arena,
                x: &Array<'_, T, R>,
                axis: usize,
            ) -> Result<Array<'m, T, S>> {
                reduce_axes(&AXES, arena, x, &[axis])
            }

            #[doc = concat!("The ", $doc, " along several axes, as a new array of `arena` with the dimensions left.")]
            #[track_caller]
            pub fn $axes_init<'m, T: Float, const R: usize, const S: usize>(
                arena: &'m Arena,
                x: &Array<'_, T, R>,
                axes: &[usize],
            ) -> Result<Array<'m, T, S>> {
                reduce_axes(&AXES, arena, x, axes)
            }
        }
    };

    (
        @axis $doc:literal, $name:literal, $how:literal, $fold:ident, $tolerance:ident, $argument:ident,
        $codelet:ident, $axis:literal, $suffix:literal, $line:literal, $shapes:expr
    ) => {
        #[doc = concat!("The ", $doc, " along axis ", $axis, ".")]
        pub static $codelet: Codelet = Codelet::new(
            concat!($name, $suffix),
            concat!($line, $how),
            1.0,
            $crate::implementations!((along::<f32, $fold, $axis>, along::<f64, $fold, $axis>)),
        )
        .samples(|draw| {
            let shapes: fn(&mut Draw) -> _ = $shapes;
            let (x, y) = shapes(draw);
            Sample::new(Tolerance::$tolerance).$argument(x).real(y)
        });
    };
}
pub(crate) use reductions;

/// Submits the reduction of everything.
#[track_caller]
pub(crate) fn reduce_whole(
    codelet: &'static Codelet,
    x: &dyn AnyArray,
    y: &mut dyn AnyArrayMut,
) -> Result<()> {
    submit(codelet, BEST, &[x], &mut [y], Params::default())
}

/// Submits the reduction along one axis of an array with `R` dimensions.
#[track_caller]
pub(crate) fn reduce_along<T: Float, const R: usize, const S: usize>(
    codelets: &[&'static Codelet; 4],
    x: &Array<'_, T, R>,
    axis: usize,
    y: &mut Array<'_, T, S>,
) -> Result<()> {
    check_axes::<R, S>(codelets, &[axis])?;
    submit(codelets[axis], BEST, &[x], &mut [y], Params::default())
}

/// Submits reductions along one axis after the other, the last first, through temporaries in the arena.
#[track_caller]
pub(crate) fn reduce_axes<'m, T: Float, const R: usize, const S: usize>(
    codelets: &[&'static Codelet; 4],
    arena: &'m Arena,
    x: &Array<'_, T, R>,
    axes: &[usize],
) -> Result<Array<'m, T, S>> {
    let mut axes = axes.to_vec();
    axes.sort_unstable();
    check_axes::<R, S>(codelets, &axes)?;
    let mut temporary: Option<Box<dyn AnyArrayMut + 'm>> = None;
    while let Some(axis) = axes.pop() {
        let from: &dyn AnyArray = match &temporary {
            Some(array) => array.as_ref(),
            None => x,
        };
        let shape = infer_shapes(codelets[axis], &[from], &[])?[0];
        if axes.is_empty() {
            let mut y = arena.array::<T, S>(super::forms::extents(Some(&shape)))?;
            submit(codelets[axis], BEST, &[from], &mut [&mut y], Params::default())?;
            return Ok(y);
        }
        let mut next: Box<dyn AnyArrayMut + 'm> = match shape[..] {
            [a] => Box::new(arena.array::<T, 1>([a])?),
            [a, b] => Box::new(arena.array::<T, 2>([a, b])?),
            [a, b, c] => Box::new(arena.array::<T, 3>([a, b, c])?),
            _ => unreachable!("of at most four dimensions one is gone, and one is left"),
        };
        submit(codelets[axis], BEST, &[from], &mut [next.as_mut()], Params::default())?;
        temporary = Some(next);
    }
    let mut y = arena.array::<T, S>(super::forms::extents(Some(&x.shape().into())))?;
    submit(&super::copy::CODELET, BEST, &[x], &mut [&mut y], Params::default())?;
    Ok(y)
}

/// Refuses axes that an array with `R` dimensions does not have or that leave other than `S`; they are
/// sorted.
#[track_caller]
fn check_axes<const R: usize, const S: usize>(codelets: &[&Codelet; 4], axes: &[usize]) -> Result<()> {
    let distinct = axes.windows(2).all(|pair| pair[0] != pair[1]);
    if distinct && axes.iter().all(|&axis| axis < R) && R == S + axes.len() {
        return Ok(());
    }
    let message = format!(
        "axes {axes:?} of an array with {R} dimensions cannot be reduced to {S}; \
         expected different axes below {R}, as many as dimensions go"
    );
    let name = codelets[0].name.trim_end_matches("_axis0");
    Err(Error::new(ErrorKind::Shape, message).in_task(name).at(Location::caller()))
}
