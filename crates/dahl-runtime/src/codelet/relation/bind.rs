//! From a [`Relation`] and shapes to a [`Bound`]: what each axis may do, and whether the shapes allow it.
//!
//! The extents come from [`super::extents`]; here they are judged. A bound relation has no reads outside of
//! an argument that does not expect them, and no output element that is never written.

use super::bound::{BoundArg, Role, whole};
use super::extents::{extent_in, misfit};
use super::interval::{Affine, Interval, propagate};
use super::{Bound, BoundAxis, Dim, Mode, Outside, Relation, Split};
use crate::error::{Error, Result};
use crate::shape::{MAX_RANK, Shape};

impl Relation {
    /// Binds the relation to the shapes of all arguments, in call order, and to its integer parameters.
    ///
    /// Fails if a rank is wrong, axes disagree, a window does not fit, an argument is read outside without
    /// saying what it is there, or a parameter makes no sense (a stride of 0, negative padding).
    pub fn bind(&self, shapes: &[Shape], ints: &[i64]) -> Result<Bound> {
        if shapes.len() != self.args.len() {
            let names: Vec<String> = (0..self.args.len()).map(|arg| self.show(arg)).collect();
            return Err(misfit(format!(
                "expected {} arguments ({}), but {} shapes were given",
                self.args.len(),
                names.join(" "),
                shapes.len()
            )));
        }
        let given: Vec<Option<Shape>> = shapes.iter().copied().map(Some).collect();
        let solved = self.solve(&given, ints)?;
        let n_axes = self.axes.len() + solved.rest;
        let mut extents = Vec::with_capacity(n_axes);
        for axis in 0..n_axes {
            extents.push(solved.extents[axis].ok_or_else(|| self.unknown(axis))?);
        }

        let args: Vec<BoundArg> = (0..self.args.len())
            .map(|arg| BoundArg {
                mode: self.args[arg].mode,
                shape: shapes[arg],
                dims: self.dims(arg, solved.rest),
            })
            .collect();
        let components = components(&solved.equations);
        let roles = self.roles(&args, &extents, &components, &solved.equations)?;
        self.check_reads(&args, &roles)?;
        self.check_writes(&args, &extents, &solved.equations)?;

        let linked = links(&solved.equations, n_axes);
        let axes = (0..n_axes)
            .map(|axis| BoundAxis {
                name: self.axis_name(axis),
                extent: extents[axis],
                split: if self.is_fixed(axis) {
                    Split::Never
                } else {
                    self.split(axis, &args, &roles[axis], &linked[axis])
                },
            })
            .collect();
        Ok(Bound { axes, args, roles, components })
    }

    /// The shapes of the outputs, from the shapes of the arguments that are read: those only read, in call
    /// order, then those read and written (whose own shapes are returned unchanged at their place).
    ///
    /// Where an equation leaves a choice, the window is taken to fit exactly: the array under it gets the
    /// smallest extent (the input gradient of a strided convolution may be larger), the position and the
    /// offsets the largest.
    pub fn infer(&self, input_shapes: &[Shape], ints: &[i64]) -> Result<Vec<Shape>> {
        let read: Vec<usize> =
            (0..self.args.len()).filter(|&arg| self.args[arg].mode != Mode::Write).collect();
        if input_shapes.len() != read.len() {
            let names: Vec<String> = read.iter().map(|&arg| self.show(arg)).collect();
            return Err(misfit(format!(
                "expected {} shapes ({}), but {} were given",
                read.len(),
                names.join(" "),
                input_shapes.len()
            )));
        }
        let mut given = vec![None; self.args.len()];
        for (&arg, &shape) in read.iter().zip(input_shapes) {
            given[arg] = Some(shape);
        }
        let solved = self.solve(&given, ints)?;
        let mut outputs = Vec::new();
        for arg in self.n_inputs..self.args.len() {
            let mut extents = Vec::new();
            for dim in self.dims(arg, solved.rest) {
                let axis = dim.expect("outputs are not indexed by data");
                extents.push(solved.extents[axis].ok_or_else(|| self.unknown(axis))?);
            }
            if extents.len() > MAX_RANK {
                return Err(misfit(format!("{} would have more than {MAX_RANK} dimensions", self.show(arg))));
            }
            outputs.push(Shape::new(&extents));
        }
        Ok(outputs)
    }

    fn unknown(&self, axis: usize) -> Error {
        misfit(format!("nothing says how large the axis {} is; bound it or pass it", self.axis_name(axis)))
    }

    pub(super) fn axis_name(&self, axis: usize) -> String {
        match self.axes.get(axis) {
            Some(name) => name.clone(),
            None => format!(".{}", axis - self.axes.len()),
        }
    }

    /// The axis of each dimension of an argument when `..` stands for `rest` dimensions.
    pub(super) fn dims(&self, arg: usize, rest: usize) -> Vec<Option<usize>> {
        let mut dims = Vec::new();
        for dim in &self.args[arg].dims {
            match *dim {
                Dim::Axis(axis) => dims.push(Some(axis)),
                Dim::Data => dims.push(None),
                Dim::Rest => dims.extend((0..rest).map(|i| Some(self.axes.len() + i))),
            }
        }
        dims
    }

    /// Whether `!` forbids to split the axis.
    fn is_fixed(&self, axis: usize) -> bool {
        let dim = if axis < self.axes.len() { Dim::Axis(axis) } else { Dim::Rest };
        self.args.iter().any(|arg| arg.never.contains(&dim))
    }

    fn roles(
        &self,
        args: &[BoundArg],
        extents: &[usize],
        components: &[Vec<Affine>],
        equations: &[Affine],
    ) -> Result<Vec<Role>> {
        let indexes = |axis: usize, outputs: bool| {
            args.iter().any(|arg| (arg.mode != Mode::Read) == outputs && arg.dims.contains(&Some(axis)))
        };
        // Outputs limit an axis that an equation defines, and so does being an intermediate that no argument
        // has. Inputs do not: there it goes wherever the equation says, and reads outside have their value.
        let defined = |axis: usize| equations.iter().any(|equation| equation.left == axis);
        let follows = |axis: usize| defined(axis) && indexes(axis, false) && !indexes(axis, true);
        let mut known: Vec<Option<Interval>> =
            (0..extents.len()).map(|axis| (!follows(axis)).then(|| whole(extents[axis]))).collect();
        // No axis depends on itself, so each round finds at least one more.
        while let Some(equation) = equations.iter().find(|equation| {
            known[equation.left].is_none() && equation.terms.iter().all(|&(axis, _)| known[axis].is_some())
        }) {
            let right = equation.right(|axis| known[axis].expect("just checked"));
            known[equation.left] = Some(right.ok_or_else(|| {
                misfit(format!("the indices of the axis {} are too large", self.axis_name(equation.left)))
            })?);
        }
        let mut reach: Vec<Interval> = known.into_iter().map(|known| known.expect("found above")).collect();
        for component in components {
            propagate(component, &mut reach);
        }
        Ok((0..extents.len())
            .map(|axis| Role {
                component: components.iter().position(|c| c.iter().any(|e| e.axes().any(|a| a == axis))),
                independent: !defined(axis),
                follows: follows(axis),
                reach: reach[axis],
            })
            .collect())
    }

    /// Refuses reads outside of arguments that do not say what lies there.
    fn check_reads(&self, args: &[BoundArg], roles: &[Role]) -> Result<()> {
        for (number, (arg, bound)) in self.args.iter().zip(args).enumerate() {
            if arg.mode != Mode::Read || arg.outside != Outside::Error {
                continue;
            }
            for (dim, &extent) in bound.dims.iter().zip(bound.shape.iter()) {
                let Some(axis) = *dim else { continue };
                let reach = roles[axis].reach;
                if !reach.is_empty() && !whole(extent).contains(reach) {
                    return Err(misfit(format!(
                        "{} of shape {} is read outside: {} goes from {} to {}, expected 0 to {}; \
                         write ?0, ?-inf or ?skip after it in the relation, or change the padding",
                        self.show(number),
                        bound.shape,
                        self.axis_name(axis),
                        reach.lo,
                        reach.hi,
                        extent as i64 - 1
                    )));
                }
            }
        }
        Ok(())
    }

    /// Refuses outputs that an equation leaves partly unwritten, unless they accumulate and so have a start
    /// value.
    fn check_writes(&self, args: &[BoundArg], extents: &[usize], equations: &[Affine]) -> Result<()> {
        for (number, (arg, bound)) in self.args.iter().zip(args).enumerate() {
            if arg.mode == Mode::Read || arg.accumulate.is_some() {
                continue;
            }
            for equation in equations.iter().filter(|e| bound.dims.contains(&Some(e.left))) {
                let known: Vec<Option<usize>> = extents.iter().copied().map(Some).collect();
                let expected = extent_in(equation, &known, equation.left);
                if expected != extents[equation.left] as i64 {
                    return Err(misfit(format!(
                        "{} of shape {} is not written everywhere: {} should be {expected}, not {}",
                        self.show(number),
                        bound.shape,
                        self.axis_name(equation.left),
                        extents[equation.left]
                    )));
                }
            }
        }
        Ok(())
    }

    fn split(&self, axis: usize, args: &[BoundArg], role: &Role, linked: &[bool]) -> Split {
        let outputs = || self.args.iter().zip(args).filter(|(arg, _)| arg.mode != Mode::Read);
        // An axis that an equation defines follows from others, unless an output is indexed by it.
        if !role.independent && outputs().all(|(_, bound)| !bound.dims.contains(&Some(axis))) {
            return Split::Never;
        }
        // Kernels see regions, not tiles: of an axis that indexes nothing, nobody could tell them which part
        // to compute.
        if args.iter().all(|bound| !bound.dims.contains(&Some(axis))) {
            return Split::Never;
        }
        // Tiles of an axis that an equation ties to another axis of an output would write overlapping boxes.
        if outputs().any(|(_, bound)| bound.dims.iter().flatten().any(|&dim| linked[dim])) {
            return Split::Never;
        }
        let mut missing = outputs().filter(|(_, bound)| !bound.dims.contains(&Some(axis))).peekable();
        if missing.peek().is_none() {
            Split::Free
        } else if missing.all(|(arg, _)| arg.accumulate.is_some()) {
            Split::Reduce
        } else {
            Split::Never
        }
    }
}

/// The equations, grouped into those that share axes.
fn components(equations: &[Affine]) -> Vec<Vec<Affine>> {
    let mut components: Vec<Vec<Affine>> = Vec::new();
    for equation in equations {
        let touches =
            |c: &Vec<Affine>| c.iter().flat_map(Affine::axes).any(|a| equation.axes().any(|b| a == b));
        let (mut joined, others): (Vec<_>, Vec<_>) = components.into_iter().partition(touches);
        joined.push(vec![equation.clone()]);
        components = others;
        components.push(joined.concat());
    }
    components
}

/// `links[a][b]`: whether an equation, or a chain of them, defines one of two different axes by the other.
fn links(equations: &[Affine], n_axes: usize) -> Vec<Vec<bool>> {
    let mut defines = vec![vec![false; n_axes]; n_axes];
    for equation in equations {
        for &(axis, _) in &equation.terms {
            defines[equation.left][axis] = true;
        }
    }
    for via in 0..n_axes {
        for from in 0..n_axes {
            for to in 0..n_axes {
                defines[from][to] |= defines[from][via] && defines[via][to];
            }
        }
    }
    (0..n_axes).map(|a| (0..n_axes).map(|b| defines[a][b] || defines[b][a]).collect()).collect()
}
