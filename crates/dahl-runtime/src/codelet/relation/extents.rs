//! The extents of the axes: from the shapes of arguments, from bounds, and from equations.
//!
//! Both inference and binding start here; the one knows the shapes of some arguments, the other of all. The
//! invariant for what follows: known extents agree with every argument, bound and equation, and numbers are
//! small enough that interval arithmetic does not overflow.

use super::interval::{Affine, MAX_INDEX};
use super::{Dim, Equation, Factor, Relation};
use crate::error::{Error, ErrorKind, Result};
use crate::shape::Shape;

/// A mismatch between shapes or parameters and the relation.
pub(super) fn misfit(sentence: String) -> Error {
    Error::new(ErrorKind::Shape, sentence)
}

impl Relation {
    /// The extents of all axes as far as the given shapes, bounds and equations determine them, checked.
    pub(super) fn solve(&self, given: &[Option<Shape>], ints: &[i64]) -> Result<Solved> {
        self.check_params(ints)?;
        let rest = self.rest_rank(given)?;
        let mut extents: Vec<Option<usize>> = vec![None; self.axes.len() + rest];
        let mut source: Vec<usize> = vec![0; extents.len()];
        for (arg, shape) in given.iter().enumerate() {
            let Some(shape) = shape else { continue };
            for (dim, &extent) in self.dims(arg, rest).into_iter().zip(shape.iter()) {
                let Some(axis) = dim else { continue };
                match extents[axis] {
                    Some(expected) if expected != extent => {
                        let first = source[axis];
                        return Err(misfit(format!(
                            "{} was given the shape {shape}, where {} is {extent}, expected {expected} as in {} of shape {}",
                            self.show(arg),
                            self.axis_name(axis),
                            self.show(first),
                            given[first].unwrap_or_default()
                        )));
                    }
                    _ => (extents[axis], source[axis]) = (Some(extent), arg),
                }
            }
        }
        for bound in &self.bounds {
            let expected = value(bound.extent, ints) as usize;
            match extents[bound.axis] {
                Some(extent) if extent != expected => {
                    let first = source[bound.axis];
                    return Err(misfit(format!(
                        "{} was given the shape {}, where {} is {extent}, expected {expected}, its bound",
                        self.show(first),
                        given[first].unwrap_or_default(),
                        self.axis_name(bound.axis)
                    )));
                }
                _ => extents[bound.axis] = Some(expected),
            }
        }
        let equations = self.equations.iter().map(|e| evaluate(e, ints)).collect::<Result<Vec<_>>>()?;
        let equation_context = |i: usize, extents: &[Option<usize>]| self.context(i, extents, given, ints);
        loop {
            let mut found = false;
            for (i, equation) in equations.iter().enumerate() {
                let mut unknown = equation.axes().filter(|&axis| extents[axis].is_none());
                if let (Some(axis), None) = (unknown.next(), unknown.next()) {
                    check_size(equation, &extents).map_err(|s| misfit(s + &equation_context(i, &extents)))?;
                    let extent = extent_in(equation, &extents, axis);
                    if extent < 1 {
                        let sentence = "the window does not fit".to_owned();
                        return Err(misfit(sentence + &equation_context(i, &extents)));
                    }
                    extents[axis] = Some(extent as usize);
                    found = true;
                }
            }
            if !found {
                break;
            }
        }
        for (i, equation) in equations.iter().enumerate() {
            if equation.axes().any(|axis| extents[axis].is_none()) {
                continue;
            }
            check_size(equation, &extents).map_err(|s| misfit(s + &equation_context(i, &extents)))?;
            let position = equation.terms[0].0;
            let (extent, expected) = (extents[position], extent_in(equation, &extents, position));
            if expected < 1 {
                return Err(misfit("the window does not fit".to_owned() + &equation_context(i, &extents)));
            }
            if extent != Some(expected as usize) {
                let name = self.axis_name(position);
                let sentence = format!("{name} should be {expected}, not {}", extent.unwrap_or_default());
                return Err(misfit(sentence + &equation_context(i, &extents)));
            }
        }
        Ok(Solved { extents, equations, rest })
    }

    fn check_params(&self, ints: &[i64]) -> Result<()> {
        if ints.len() != self.params.len() {
            return Err(misfit(format!(
                "expected {} integer parameters ({}), but {} were given",
                self.params.len(),
                self.params.join(", "),
                ints.len()
            )));
        }
        let coefficients = self.equations.iter().flat_map(|e| &e.terms).flat_map(|(_, factors)| factors);
        let constants = self.equations.iter().flat_map(|e| &e.constants).flat_map(|(_, factors)| factors);
        let bounds = self.bounds.iter().map(|bound| &bound.extent);
        let needs = coefficients.chain(bounds).map(|f| (f, 1)).chain(constants.map(|f| (f, 0)));
        for (factor, least) in needs {
            let given = value(*factor, ints);
            let name = match *factor {
                Factor::Param(param) => format!("the parameter {}", self.params[param]),
                Factor::Int(_) => "a number in the relation".to_owned(),
            };
            if given < least {
                return Err(misfit(format!("{name} is {given}, expected at least {least}")));
            }
            if i128::from(given) > MAX_INDEX {
                return Err(misfit(format!("{name} is {given}, expected at most {MAX_INDEX}")));
            }
        }
        Ok(())
    }

    /// Checks the ranks of the given shapes; returns how many dimensions `..` stands for.
    fn rest_rank(&self, given: &[Option<Shape>]) -> Result<usize> {
        let mut rest: Option<(usize, usize)> = None;
        for (number, shape) in given.iter().enumerate() {
            let Some(shape) = shape else { continue };
            let dims = &self.args[number].dims;
            let refuse = |expected: String| {
                let name = self.show(number);
                Err(misfit(format!("{name} was given the shape {shape}, expected {expected}")))
            };
            if !dims.contains(&Dim::Rest) {
                if shape.rank() != dims.len() {
                    return refuse(format!("{} dimensions", dims.len()));
                }
                continue;
            }
            let named = dims.len() - 1;
            match rest {
                None if shape.rank() < named => return refuse(format!("at least {named} dimensions")),
                None => rest = Some((shape.rank() - named, number)),
                Some((rank, first)) if shape.rank() != named + rank => {
                    let like = given[first].unwrap_or_default();
                    return refuse(format!(
                        "{} dimensions, like {} of shape {like}",
                        named + rank,
                        self.show(first)
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(rest.map_or(0, |(rank, _)| rank))
    }

    /// What an error about an equation is about: the equation, its numbers and the arguments it concerns.
    fn context(
        &self,
        equation: usize,
        extents: &[Option<usize>],
        given: &[Option<Shape>],
        ints: &[i64],
    ) -> String {
        let equation = &self.equations[equation];
        let axes = || std::iter::once(equation.left).chain(equation.terms.iter().map(|(axis, _)| *axis));
        let mut numbers: Vec<String> =
            axes().filter_map(|axis| Some(format!("{}={}", self.axis_name(axis), extents[axis]?))).collect();
        let coefficients = equation.terms.iter().map(|(_, factors)| factors);
        for factor in coefficients.chain(equation.constants.iter().map(|(_, factors)| factors)).flatten() {
            if let Factor::Param(param) = *factor {
                numbers.push(format!("{}={}", self.params[param], ints[param]));
            }
        }
        let concerned = |arg: usize| axes().any(|axis| self.args[arg].dims.contains(&Dim::Axis(axis)));
        let shapes: Vec<String> = (0..given.len())
            .filter(|&arg| concerned(arg))
            .filter_map(|arg| Some(format!("{} is {}", self.show(arg), given[arg]?)))
            .collect();
        format!(", in `{}` with {}; {}", equation.text, numbers.join(", "), shapes.join(", "))
    }
}

/// What is known about the axes.
pub(super) struct Solved {
    /// The extent of each axis, where known.
    pub extents: Vec<Option<usize>>,
    /// The equations with numbers for parameters.
    pub equations: Vec<Affine>,
    /// How many dimensions `..` stands for.
    pub rest: usize,
}

fn value(factor: Factor, ints: &[i64]) -> i64 {
    match factor {
        Factor::Int(number) => number,
        Factor::Param(param) => ints[param],
    }
}

/// The equation with numbers for parameters.
fn evaluate(equation: &Equation, ints: &[i64]) -> Result<Affine> {
    let product = |factors: &[Factor]| {
        let product = factors.iter().try_fold(1i128, |p, f| p.checked_mul(i128::from(value(*f, ints))));
        product
            .filter(|p| *p <= MAX_INDEX)
            .ok_or_else(|| misfit(format!("the parameters in `{}` are too large to multiply", equation.text)))
    };
    let mut terms = Vec::new();
    for (axis, factors) in &equation.terms {
        terms.push((*axis, product(factors)? as i64));
    }
    let mut constant = 0;
    for (minus, factors) in &equation.constants {
        let product = product(factors)?;
        constant += if *minus { -product } else { product };
    }
    if constant.abs() > MAX_INDEX {
        return Err(misfit(format!("the constant in `{}` is too large", equation.text)));
    }
    Ok(Affine { left: equation.left, terms, constant: constant as i64 })
}

/// Refuses equations whose axes are empty or reach further than the arithmetic does.
fn check_size(equation: &Affine, extents: &[Option<usize>]) -> std::result::Result<(), String> {
    let mut reach = i128::from(equation.constant.abs());
    for &(axis, factor) in &equation.terms {
        reach += i128::from(factor) * extents[axis].unwrap_or(1) as i128;
    }
    if equation.axes().any(|axis| extents[axis] == Some(0)) {
        return Err("a window needs extents of at least 1".to_owned());
    }
    let left = extents[equation.left].unwrap_or(0) as i128;
    if reach.max(left) > MAX_INDEX {
        return Err("the indices are too large".to_owned());
    }
    Ok(())
}

/// The extent of one axis of an equation from those of the others: the smallest for the left axis, the
/// largest for the others, such that the last window ends at most one padding past the end.
pub(super) fn extent_in(equation: &Affine, extents: &[Option<usize>], axis: usize) -> i64 {
    let last = |axis: usize| extents[axis].map_or(0, |extent| extent as i64 - 1);
    let padding = (-equation.constant).max(0);
    let others: i64 = equation
        .terms
        .iter()
        .filter(|&&(term, _)| term != axis)
        .map(|&(term, factor)| factor * last(term))
        .sum();
    match equation.terms.iter().find(|&&(term, _)| term == axis) {
        Some(&(_, factor)) => {
            (last(equation.left) + padding - equation.constant - others).div_euclid(factor) + 1
        }
        None => others + equation.constant - padding + 1,
    }
}
