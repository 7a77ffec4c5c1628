//! Submitting a codelet on arrays.
//!
//! Inputs are `&`, outputs are `&mut`, and tasks hold no borrows: they know their data by address and base
//! allocation.

#![expect(unsafe_code, reason = "vouches for the memory of arrays towards the executor")]

use super::dense::Array;
use super::owned::Owned;
use super::view::Part;
use super::{Element, Shape};
use crate::codelet::Codelet;
use crate::engine::submit::{Address, Argument, MAX_ARGS, Request};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::Inner;
use crate::sync::Arc;
use std::panic::Location;

mod sealed {
    use super::*;

    /// The runtime of an array, which is nobody else's business.
    pub struct Home<'g>(pub(super) &'g Arc<Inner>);

    /// The list that arrays add themselves to.
    pub struct List<'g> {
        pub(super) args: &'g mut Vec<Argument>,
        pub(super) runtime: &'g Arc<Inner>,
        /// Whether all of them belong to this runtime.
        pub(super) is_at_home: bool,
    }

    pub trait Sealed {
        fn home(&self) -> Home<'_>;
        fn extents(&self) -> Shape;
        fn add_to(&self, list: &mut List<'_>);
    }

    impl<T: Element, const R: usize> Sealed for Array<'_, T, R> {
        fn home(&self) -> Home<'_> {
            Home(&self.runtime)
        }
        fn extents(&self) -> Shape {
            Shape::new(&self.raw.shape)
        }
        fn add_to(&self, list: &mut List<'_>) {
            list.is_at_home &= Arc::ptr_eq(&self.runtime, list.runtime);
            let tile = self.raw.tile();
            list.args.push(Argument {
                pointer: Address(self.raw.pointer.cast()),
                dtype: T::DTYPE,
                shape: Shape::new(&self.raw.shape),
                tile: tile.unwrap_or(Shape::new(&self.raw.strides)),
                is_strided: tile.is_none(),
                base: self.place.base,
                region: self.place.region,
            });
        }
    }

    impl<T: Element, const R: usize> Sealed for Owned<T, R> {
        fn home(&self) -> Home<'_> {
            (**self).home()
        }
        fn extents(&self) -> Shape {
            (**self).extents()
        }
        fn add_to(&self, list: &mut List<'_>) {
            (**self).add_to(list);
        }
    }

    impl<T: Element, const R: usize> Sealed for Part<'_, T, R> {
        fn home(&self) -> Home<'_> {
            (**self).home()
        }
        fn extents(&self) -> Shape {
            (**self).extents()
        }
        fn add_to(&self, list: &mut List<'_>) {
            (**self).add_to(list);
        }
    }
}

/// An array of any type and rank, as an input of a task.
pub trait AnyArray: sealed::Sealed {}
/// An array of any type and rank, as an output of a task.
pub trait AnyArrayMut: AnyArray {}

impl<T: Element, const R: usize> AnyArray for Array<'_, T, R> {}
impl<T: Element, const R: usize> AnyArrayMut for Array<'_, T, R> {}
impl<T: Element, const R: usize> AnyArray for Owned<T, R> {}
impl<T: Element, const R: usize> AnyArrayMut for Owned<T, R> {}
impl<T: Element, const R: usize> AnyArray for Part<'_, T, R> {}

/// The parameters of a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Params<'p> {
    /// Integer parameters, in the order in which the relation line mentions them.
    pub ints: &'p [i64],
    /// Floating-point parameters, as the codelet defines them.
    pub scalars: &'p [f64],
    /// Whether accumulating outputs (`+=`) add to what is there; otherwise they start afresh.
    pub accumulate: bool,
    /// Whether the task goes before others, once it is ready.
    pub urgent: bool,
}

/// Submits a task: `codelet` on these arrays, by the implementation of this name (or [`BEST`](super::BEST)).
/// Returns at once.
///
/// Inputs are the arguments that the relation line only reads, outputs those that it writes (also those that
/// it reads as well), both in the order of the line. Shapes are checked here; an error of the kernel is
/// reported by whoever [reads](Array::read) what depends on it.
///
/// ```
/// use dahl_runtime::array::{Dtype, Params, submit};
/// use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs};
/// use dahl_runtime::{Result, Runtime, machine::Machine};
///
/// static AXPY: Codelet = Codelet::new("axpy", "x[i] y[i] -> y[i]", 2.0, &[
///     Implementation::new("reference", 1, Dtype::F32, Needs::Nothing, axpy),
/// ]);
///
/// fn axpy(call: &Call<'_>) -> Result<()> {
///     let (x, mut y) = (call.input::<f32>(0), call.output::<f32>(0));
///     for i in y.region().range(0) {
///         let sum = call.scalar(0) as f32 * x.at([i]) + y.at([i]);
///         y.set([i], sum);
///     }
///     Ok(())
/// }
///
/// # fn main() -> Result<()> {
/// let runtime = Runtime::new(&Machine::with_workers(2))?;
/// let arena = runtime.arena("work");
/// let x = arena.array_from([4], &[1.0f32, 2.0, 3.0, 4.0])?;
/// let mut y = arena.filled([4], 10.0f32)?;
/// let twice = Params { scalars: &[2.0], ..Params::default() };
/// submit(&AXPY, "reference", &[&x], &mut [&mut y], twice)?;
/// submit(&AXPY, "reference", &[&x], &mut [&mut y], twice)?;
/// assert_eq!(format!("{:.1}", y.read()?), "[14.0 18.0 22.0 26.0]");
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn submit(
    codelet: &'static Codelet,
    implementation: &str,
    inputs: &[&dyn AnyArray],
    outputs: &mut [&mut dyn AnyArrayMut],
    params: Params<'_>,
) -> Result<()> {
    submit_task(codelet, implementation, inputs, None, outputs, params)
}

/// Submits a task whose first output is also its input number `place`; `inputs` are the other ones. Only for
/// codelets that [can work in place](Codelet::in_place).
#[track_caller]
pub fn submit_in_place(
    codelet: &'static Codelet,
    implementation: &str,
    place: usize,
    inputs: &[&dyn AnyArray],
    outputs: &mut [&mut dyn AnyArrayMut],
    params: Params<'_>,
) -> Result<()> {
    if !codelet.in_place || place > inputs.len() {
        let message = format!("`{}` cannot write its input {place} in place", codelet.line);
        let error = Error::new(ErrorKind::Usage, message);
        return Err(error.in_task(codelet.name).at(Location::caller()));
    }
    submit_task(codelet, implementation, inputs, Some(place), outputs, params)
}

/// The shapes of a codelet's outputs, from those of the arrays that it reads.
#[track_caller]
pub fn infer_shapes(codelet: &Codelet, inputs: &[&dyn AnyArray], ints: &[i64]) -> Result<Vec<Shape>> {
    let location = Location::caller();
    let shapes: Vec<Shape> = inputs.iter().map(|array| array.extents()).collect();
    let inferred = codelet.relation().infer(&shapes, ints);
    inferred.map_err(|error| error.in_task(codelet.name).at(location))
}

#[track_caller]
fn submit_task(
    codelet: &'static Codelet,
    implementation: &str,
    inputs: &[&dyn AnyArray],
    place: Option<usize>,
    outputs: &mut [&mut dyn AnyArrayMut],
    params: Params<'_>,
) -> Result<()> {
    let location = Location::caller();
    let relation = codelet.relation();
    let (n_inputs, n_args) = (relation.n_inputs(), relation.args().len());
    let with_context = |error: Error| error.of_codelet(codelet.name).at(location);
    let given = inputs.len() + usize::from(place.is_some());
    if given != n_inputs || outputs.len() != n_args - n_inputs || n_args > MAX_ARGS {
        let written = outputs.len();
        let message = format!(
            "`{}` takes {n_inputs} inputs and {} outputs (at most {MAX_ARGS} together), not {given} and {written}",
            codelet.line,
            n_args - n_inputs
        );
        return Err(with_context(Error::new(ErrorKind::Shape, message)));
    }
    let Some(first) = outputs.first() else {
        return Err(with_context(Error::new(ErrorKind::Usage, "a task needs an output")));
    };
    let sealed::Home(runtime) = first.home();
    let arguments = |args: &mut Vec<Argument>| {
        let mut list = sealed::List { args, runtime, is_at_home: true };
        let mut inputs = inputs.iter().peekable();
        for i in 0..n_inputs {
            match inputs.next_if(|_| place != Some(i)) {
                Some(array) => array.add_to(&mut list),
                None => first.add_to(&mut list),
            }
        }
        outputs.iter().for_each(|array| array.add_to(&mut list));
        match list.is_at_home {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Usage, "the arguments belong to different runtimes")),
        }
    };
    let request = Request {
        codelet,
        implementation,
        ints: params.ints,
        accumulate: params.accumulate,
        urgent: params.urgent,
    };
    // SAFETY: memory of arrays lives until its base is idle (`Slabs::retire`, `Arena::reset`), the program
    // touches it only through guards, which wait, and a view's region covers its elements (`BaseRegion`).
    // Outputs are borrowed exclusively, so they are neither inputs nor one another, except for the one input
    // that a codelet which works in place shares with its first output.
    unsafe { runtime.tasks.submit(request, arguments, params.scalars, location) }.map_err(with_context)
}
