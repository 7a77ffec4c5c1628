//! What tasks have in common: codelet, implementation, shapes and integers, checked once.
//!
//! Programs submit the same few combinations again and again. The first time, the relation checks the shapes
//! and the call is prepared; after that a task only names its template. Templates stay as long as the
//! runtime, up to a limit; beyond it (a program whose shapes never repeat) each task carries a template of
//! its own.

use super::BEST;
use super::slots::Address;
use crate::codelet::relation::{Mode, Tile};
use crate::codelet::{ArgSpec, CPU, CallSpec, Codelet, Implementation, Needs};
use crate::error::{Error, ErrorKind, Result};
use crate::shape::{Dtype, Layout, MAX_RANK, Region, Shape};
use crate::sync::OnceLock;
use crate::trace::TaskInfo;
use std::collections::HashMap;

/// An argument of a submitted task: a view of a base allocation.
#[derive(Clone, Copy)]
pub(crate) struct Argument {
    /// The first element of the view.
    pub pointer: Address,
    pub dtype: Dtype,
    /// The extents that the kernel sees.
    pub shape: Shape,
    /// The extents that give the distances between elements: those of the base after the first dimension. If
    /// there are none, the distances themselves.
    pub tile: Shape,
    /// Whether `tile` holds distances.
    pub is_strided: bool,
    /// The allocation that dependencies belong to.
    pub base: usize,
    /// What of the base is touched, in the base's own coordinates.
    pub region: Region,
}

impl Argument {
    /// Whether its elements lie as a kernel needs them that asks for this layout.
    fn lies_in(&self, layout: Layout) -> bool {
        self.tile == self.shape && !self.is_strided && layout == Layout::RowMajor
    }

    fn layout(&self) -> Layout {
        if !self.is_strided {
            return Layout::RowMajor;
        }
        let mut strides = [0; MAX_RANK];
        strides[..self.tile.rank()].copy_from_slice(&self.tile);
        Layout::Strided(strides)
    }
}

/// What is asked for, apart from the arguments.
#[derive(Clone, Copy)]
pub(crate) struct Request<'r> {
    pub codelet: &'static Codelet,
    pub implementation: &'r str,
    pub ints: &'r [i64],
    pub accumulate: bool,
    pub urgent: bool,
}

/// The common part of tasks.
pub(crate) struct Template {
    pub codelet: &'static Codelet,
    pub implementation: &'static Implementation,
    /// The call, without scalars.
    pub spec: CallSpec,
    /// Whether the implementation was left open.
    is_best: bool,
    /// Whether each argument's former content is needed.
    pub reads: Vec<bool>,
    tiles: Vec<Shape>,
    /// Points of the iteration space.
    points: usize,
    /// Bytes that the kernel needs while it runs.
    pub scratch_bytes: usize,
}

impl Template {
    fn new(request: &Request<'_>, args: &[Argument]) -> Result<Self> {
        let relation = request.codelet.relation();
        let n_inputs = relation.n_inputs();
        let shapes: Vec<Shape> = args.iter().map(|arg| arg.shape).collect();
        let bound = relation.bind(&shapes, request.ints)?;
        let points = bound.points_in(&Tile::whole(&bound));
        let implementation = choose(request, args, n_inputs)?;
        let arg_spec = |arg: &Argument| ArgSpec {
            dtype: arg.dtype,
            layout: arg.layout(),
            tile: Region::whole(if arg.is_strided { arg.shape } else { arg.tile }),
            region: Region::whole(arg.shape),
            extent: arg.shape,
        };
        let spec = CallSpec {
            args: args.iter().map(arg_spec).collect(),
            n_inputs,
            ints: request.ints.to_vec(),
            scalars: Vec::new(),
            accumulate: request.accumulate,
            in_place: request.codelet.in_place,
        };
        let keeps = |arg: &crate::codelet::relation::Arg| request.accumulate && arg.accumulate.is_some();
        let reads = relation.args().iter().map(|arg| arg.mode != Mode::Write || keeps(arg)).collect();
        let tiles = args.iter().map(|arg| arg.tile).collect();
        let is_best = request.implementation == BEST;
        let scratch_bytes = (request.codelet.scratch)(implementation, &spec);
        let codelet = request.codelet;
        Ok(Template { codelet, implementation, spec, is_best, reads, tiles, points, scratch_bytes })
    }

    fn fits(&self, request: &Request<'_>, args: &[Argument]) -> bool {
        std::ptr::eq(self.codelet, request.codelet)
            && self.spec.args.len() == args.len()
            && self.spec.accumulate == request.accumulate
            && self.spec.ints.len() == request.ints.len()
            && self.spec.ints.iter().eq(request.ints)
            && (std::ptr::eq(self.implementation.name, request.implementation)
                || self.implementation.name == request.implementation
                || self.is_best && request.implementation == BEST)
            && self.spec.args.iter().zip(&self.tiles).zip(args).all(|((spec, tile), arg)| {
                spec.dtype == arg.dtype
                    && spec.extent == arg.shape
                    && *tile == arg.tile
                    && arg.is_strided == matches!(spec.layout, Layout::Strided(_))
            })
    }

    /// The task in a few words.
    pub fn name(&self) -> String {
        format!("{} ({})", self.codelet.name, self.implementation.name)
    }

    /// An error in a task of this kind, with what is known from here.
    pub fn in_context(&self, error: Error) -> Error {
        let named = self.codelet.relation().args().iter().zip(&self.spec.args);
        let args: Vec<String> = named.map(|(arg, given)| format!("{}{}", arg.name, given.extent)).collect();
        error.in_task(self.name()).of_codelet(self.codelet.name).with_arguments(args.join(", "))
    }

    /// What a trace says about such tasks.
    pub fn info(&self) -> TaskInfo {
        let bytes = |arg: &ArgSpec| arg.extent.len() * arg.dtype.bytes();
        TaskInfo {
            codelet: self.codelet.name.to_string(),
            implementation: self.implementation.name.to_string(),
            version: self.implementation.version,
            algorithm: (self.codelet.algorithms)(self.implementation, &self.spec),
            dtype: self.implementation.dtype.to_string(),
            footprint: self.spec.footprint(self.implementation.dtype, |_, _| false).trim_end().to_string(),
            tile: (0, 1),
            bytes: self.spec.args.iter().map(bytes).sum(),
            flops: self.codelet.flops_per_point * self.points as f64,
            ..TaskInfo::default()
        }
    }
}

/// The number of a template.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TemplateId(u32);

impl TemplateId {
    /// Its place in [`Templates::iter`].
    pub fn number(self) -> u32 {
        self.0
    }
}

pub(super) const N_TEMPLATES: usize = if cfg!(feature = "shuttle") { 8 } else { 4096 };

/// The templates, for workers.
pub(crate) struct Templates(Box<[OnceLock<Template>]>);

impl Templates {
    pub fn new() -> Self {
        Templates((0..N_TEMPLATES).map(|_| OnceLock::new()).collect())
    }

    pub fn get(&self, id: TemplateId) -> &Template {
        self.0[id.0 as usize].get().expect("templates are made before they are named")
    }

    /// Those that are there, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Template> {
        self.0.iter().map_while(OnceLock::get)
    }
}

/// Finds templates; belongs to whoever holds the submission lock.
#[derive(Default)]
pub(crate) struct Finder {
    by_hash: HashMap<u64, TemplateId>,
    last: TemplateId,
}

/// The template of a task.
pub(crate) enum Found {
    /// One of [`Templates`].
    Known(TemplateId),
    /// There was no room for another one.
    Own(Box<Template>),
}

impl Finder {
    /// The template for these arguments, which are checked if they are new.
    pub fn find(&mut self, templates: &Templates, request: &Request<'_>, args: &[Argument]) -> Result<Found> {
        let fits = |id: TemplateId| templates.get(id).fits(request, args);
        if !self.by_hash.is_empty() && fits(self.last) {
            return Ok(Found::Known(self.last));
        }
        let hash = hash(request, args);
        match self.by_hash.get(&hash) {
            Some(&id) if fits(id) => {
                self.last = id;
                return Ok(Found::Known(id));
            }
            // Two combinations with the same hash: very rare, and not worth more than this.
            Some(_) => return Ok(Found::Own(Box::new(Template::new(request, args)?))),
            None => (),
        }
        let template = Template::new(request, args)?;
        if self.by_hash.len() == N_TEMPLATES {
            return Ok(Found::Own(Box::new(template)));
        }
        self.last = TemplateId(self.by_hash.len() as u32);
        templates.0[self.by_hash.len()].get_or_init(|| template);
        self.by_hash.insert(hash, self.last);
        Ok(Found::Known(self.last))
    }
}

fn hash(request: &Request<'_>, args: &[Argument]) -> u64 {
    let mut hash = std::ptr::from_ref(request.codelet) as u64 ^ u64::from(request.accumulate);
    let mut mix = |word: u64| hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
    request.implementation.bytes().for_each(|byte| mix(byte.into()));
    request.ints.iter().for_each(|&int| mix(int as u64));
    for arg in args {
        mix(arg.dtype as u64 ^ (arg.shape.rank() as u64) << 8 ^ u64::from(arg.is_strided) << 16);
        arg.shape.iter().chain(arg.tile.iter()).for_each(|&extent| mix(extent as u64));
    }
    hash
}

/// The implementation of this name for the floating-point type of the arguments, if it can take them.
fn choose(request: &Request<'_>, args: &[Argument], n_inputs: usize) -> Result<&'static Implementation> {
    let (codelet, name) = (request.codelet, request.implementation);
    let (inputs, outputs) = args.split_at(n_inputs);
    let float = outputs.iter().chain(inputs).map(|arg| arg.dtype).find(|dtype| dtype.is_float());
    // Without a floating-point argument, implementations are listed under a type of an argument, or under
    // any.
    let of_cores = || codelet.implementations.iter().filter(|i| i.code == CPU);
    let has = |dtype: Dtype| of_cores().any(|i| i.dtype == dtype);
    let listed = || args.iter().map(|arg| arg.dtype).find(|&dtype| has(dtype));
    let any = || of_cores().next().map(|i| i.dtype);
    let dtype = float.or_else(listed).or_else(any).unwrap_or(args[0].dtype);
    let takes = |implementation: &Implementation| match implementation.needs {
        Needs::Nothing => true,
        Needs::Layouts(layouts) => args.iter().zip(layouts).all(|(arg, layout)| arg.lies_in(*layout)),
    };
    let best = || codelet.of_code(CPU, dtype).filter(|i| takes(i)).last();
    let named = if name == BEST { best() } else { codelet.implementation(name, dtype) };
    let Some(chosen) = named else {
        let known = of_cores().map(|i| format!("{} ({})", i.name, i.dtype));
        let known = known.collect::<Vec<_>>().join(", ");
        let message = format!("there is no implementation `{name}` for {dtype}; there are: {known}");
        return Err(Error::new(ErrorKind::Usage, message));
    };
    if !takes(chosen) {
        let message =
            format!("implementation `{name}` needs row-major arrays in one piece: take another one");
        return Err(Error::new(ErrorKind::Shape, message));
    }
    Ok(chosen)
}
