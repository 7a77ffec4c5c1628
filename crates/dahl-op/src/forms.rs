//! The call forms: operations as functions on arrays.
//!
//! An operation comes in up to three forms, all from one declaration beside its codelet:
//!
//! - into a given output: `op::add(&a, &b, &mut y)?`
//! - in place, where input and output are indexed alike: `op::add_self(&mut a, &b)?`
//! - into a new array of an arena: `let y = op::add_init(&work, &a, &b)?`
//!
//! Arguments come in the order inputs, parameters, outputs. Each call checks shapes, submits one task and
//! returns at once; the best implementation that can take the arrays as they lie in memory is taken. An error
//! names the line of the caller.
//!
//! ```
//! use dahl_op as op;
//! use dahl_runtime::{Runtime, machine::Machine};
//!
//! # fn main() -> dahl_runtime::Result<()> {
//! let runtime = Runtime::new(&Machine::with_workers(2))?;
//! let work = runtime.arena("work");
//! let x = work.array_from([2, 3], &[1.0f32, -2.0, 3.0, -4.0, 5.0, -6.0])?;
//! let mut y = op::relu_init(&work, &x)?; // submitted, not waited for
//! op::relu_self(&mut y)?;
//! assert_eq!(format!("{:.0}", y.read()?), "[[1 0 3]\n [0 5 0]]");
//! # Ok(())
//! # }
//! ```

use dahl_runtime::array::Shape;

/// The extents of an inferred shape, whose rank the codelet's line and the declaration of the form agree on.
pub(crate) fn extents<const R: usize>(shape: Option<&Shape>) -> [usize; R] {
    let extents = shape.and_then(|shape| <[usize; R]>::try_from(&shape[..]).ok());
    extents.expect("the form declares the ranks of its outputs as in the codelet's line")
}

/// Declares the call forms of a codelet, in a module `forms` beside it.
///
/// ```text
/// super::forms! {
///     /// `y = a + b`, element by element.
///     add<T, R>(a: [T; R], b: [T; R]) -> (y: [T; R]), init add_init, in_place add_self(a: [T; R], b: [T; R])
/// }
/// ```
///
/// After the name stand the type parameters: `<T>` for an element type that is computed in, `<T, R>` for that
/// and a rank, `<E>` and `<E, R>` for any element type, `<>` for none. Then come the inputs, after `; ints`
/// and `; scalars` the names of parameters, and the outputs, all in the order of the codelet's line. The form
/// into given outputs is always there. `init NAME` adds the one whose outputs' shapes are inferred,
/// `in_place NAME` the one that writes its result to the first array in its list, which names all inputs, the
/// others in order. The codelet is the one called `CODELET`, or the one after `of`.
macro_rules! forms {
    ($($(#[$doc:meta])* $name:ident<$($generic:ident),*> $inputs:tt -> $outputs:tt
        $(, init $init:ident)? $(, in_place $in_place:ident $arrays:tt)? $(, of $codelet:ident)?)+) => {
        /// The operation as functions on arrays.
        pub mod forms {
            #[allow(unused_imports, reason = "not every operation has every form")]
            use {
                dahl_runtime::{Result, arena::Arena},
                dahl_runtime::array::{
                    Array, BEST, Element, Params, infer_shapes, submit, submit_in_place,
                },
                $crate::{Float, forms::{extents, form}},
            };
            $(form!(
                all [$($generic)*] [$(#[$doc])*] $inputs ($($codelet)?)
                [$name $outputs] [$($init $outputs)?] [$($in_place $arrays)?]
            );)+
        }
    };
}

/// The functions of one declaration in [`forms`], and one of them.
macro_rules! form {
    (all $generics:tt $docs:tt $inputs:tt $codelet:tt [$into:ident $outputs:tt]
        [$($init:ident $new:tt)?] [$($in_place:ident $arrays:tt)?]
    ) => {
        form!(into $generics $docs $into $inputs $outputs $codelet);
        $(form!(init $generics $docs $init $inputs $new $codelet);)?
        $(form!(in_place $generics $docs $in_place $inputs $arrays $codelet);)?
    };

    // The type parameters with their bounds.
    ($form:ident [T] $($rest:tt)*) => { form!(@$form [T: Float] $($rest)*); };
    ($form:ident [T R] $($rest:tt)*) => { form!(@$form [T: Float, const R: usize] $($rest)*); };
    ($form:ident [E] $($rest:tt)*) => { form!(@$form [E: Element] $($rest)*); };
    ($form:ident [E R] $($rest:tt)*) => { form!(@$form [E: Element, const R: usize] $($rest)*); };
    ($form:ident [] $($rest:tt)*) => { form!(@$form [] $($rest)*); };

    (@codelet ()) => { &super::CODELET };
    (@codelet ($codelet:ident)) => { &super::$codelet };

    (@into [$($generics:tt)*] [$($doc:tt)*] $name:ident
        ($($in:ident: [$it:ty; $ir:tt]),* $(; ints $($int:ident),+)? $(; scalars $($scalar:ident),+)?)
        ($($out:ident: [$ot:ty; $or:tt]),+) $codelet:tt
    ) => {
        $($doc)*
        #[track_caller]
        #[allow(clippy::too_many_arguments, reason = "as many as the operation has")]
        pub fn $name<$($generics)*>(
            $($in: &Array<'_, $it, $ir>,)*
            $($($int: usize,)+)?
            $($($scalar: f64,)+)?
            $($out: &mut Array<'_, $ot, $or>),+
        ) -> Result<()> {
            let (ints, scalars) = (&[$($($int as i64),+)?], &[$($($scalar),+)?]);
            let params = Params { ints, scalars, ..Params::default() };
            submit(form!(@codelet $codelet), BEST, &[$($in),*], &mut [$($out),+], params)
        }
    };

    (@init [$($generics:tt)*] [$($doc:tt)*] $name:ident
        ($($in:ident: [$it:ty; $ir:tt]),* $(; ints $($int:ident),+)? $(; scalars $($scalar:ident),+)?)
        ($($out:ident: [$ot:ty; $or:tt]),+) $codelet:tt
    ) => {
        $($doc)*
        ///
        /// The result is a new array of `arena`.
        #[track_caller]
        #[allow(clippy::too_many_arguments, reason = "as many as the operation has")]
        #[allow(unused_parens, reason = "one output is no tuple")]
        pub fn $name<'m, $($generics)*>(
            arena: &'m Arena,
            $($in: &Array<'_, $it, $ir>,)*
            $($($int: usize,)+)?
            $($($scalar: f64),+)?
        ) -> Result<($(Array<'m, $ot, $or>),+)> {
            let (ints, scalars) = (&[$($($int as i64),+)?], &[$($($scalar),+)?]);
            let shapes = infer_shapes(form!(@codelet $codelet), &[$($in),*], ints)?;
            let mut shapes = shapes.iter();
            $(let mut $out = arena.array::<$ot, $or>(extents(shapes.next()))?;)+
            let params = Params { ints, scalars, ..Params::default() };
            submit(form!(@codelet $codelet), BEST, &[$($in),*], &mut [$(&mut $out),+], params)?;
            Ok(($($out),+))
        }
    };

    (@in_place [$($generics:tt)*] [$($doc:tt)*] $name:ident
        ($($input:ident: [$it:ty; $ir:tt]),* $(; ints $($int:ident),+)? $(; scalars $($scalar:ident),+)?)
        ($place:ident: [$pt:ty; $pr:tt] $(, $in:ident: [$jt:ty; $jr:tt])*) $codelet:tt
    ) => {
        $($doc)*
        ///
        #[doc = concat!("The result takes the place of `", stringify!($place), "`.")]
        #[track_caller]
        #[allow(clippy::too_many_arguments, reason = "as many as the operation has")]
        pub fn $name<$($generics)*>(
            $place: &mut Array<'_, $pt, $pr>,
            $($in: &Array<'_, $jt, $jr>,)*
            $($($int: usize,)+)?
            $($($scalar: f64),+)?
        ) -> Result<()> {
            let place = [$(stringify!($input)),*].iter().position(|name| *name == stringify!($place));
            let place = place.expect("the form names an input of the operation");
            let (ints, scalars) = (&[$($($int as i64),+)?], &[$($($scalar),+)?]);
            let params = Params { ints, scalars, ..Params::default() };
            submit_in_place(form!(@codelet $codelet), BEST, place, &[$($in),*], &mut [$place], params)
        }
    };
}

pub(crate) use {form, forms};
