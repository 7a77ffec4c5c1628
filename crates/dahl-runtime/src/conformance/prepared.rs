//! Calls of kernels by hand: arguments with their own memory, in any layout and window.

#![expect(unsafe_code, reason = "a kernel call borrows raw memory; the arguments here own it")]

use crate::codelet::{ArgSpec, Call, CallSpec, Codelet, Kernel, for_each_index};
use crate::error::{Error, ErrorKind, Result};
use crate::shape::{Dtype, Layout, Region, Shape};
use std::ptr;

/// Lines behind the scratch of a call.
const GUARD: usize = 4;

/// A cache line, for the alignment that engines give.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// One argument of a call, with its memory.
#[derive(Clone)]
pub struct Arg {
    /// What the kernel is told about it.
    spec: ArgSpec,
    memory: Vec<Line>,
}

impl Arg {
    /// An argument whose memory is filled with bytes of ones: NaN in floating point, 255 in bytes.
    ///
    /// # Panics
    /// If the region is not inside of the tile, or the layout is one of views.
    pub fn new(dtype: Dtype, layout: Layout, extent: Shape, tile: Region, region: Region) -> Self {
        assert!(region.is_empty() || tile.contains(&region), "{region} is not inside of {tile}");
        assert!(!matches!(layout, Layout::Strided(_)), "memory of its own has no strides");
        let bytes = layout.len(&tile) * dtype.bytes();
        let memory = vec![Line([0xff; 64]); bytes.div_ceil(64)];
        Arg { spec: ArgSpec { dtype, layout, tile, region, extent }, memory }
    }

    /// A whole array in this layout.
    pub fn whole(dtype: Dtype, layout: Layout, extent: &[usize]) -> Self {
        let region = Region::whole(Shape::new(extent));
        Arg::new(dtype, layout, Shape::new(extent), region, region)
    }

    /// Fills the region from `values`, last dimension fastest, and leaves everything around it.
    pub fn fill(&mut self, values: &[f64]) {
        self.fill_region(&self.spec.region.clone(), values);
    }

    /// Fills a part of the tile from `values`, last dimension fastest.
    pub fn fill_region(&mut self, region: &Region, values: &[f64]) {
        let mut values = values.iter();
        for_each_index(region, |index| {
            self.set(index, *values.next().expect("a value per element"));
        });
    }

    /// The elements of the region, last dimension fastest.
    pub fn values(&self) -> Vec<f64> {
        let mut values = Vec::new();
        for_each_index(&self.spec.region, |index| values.push(self.get(index)));
        values
    }

    /// The elements of the tile outside of the region, last dimension fastest.
    pub fn values_outside(&self) -> Vec<f64> {
        let mut values = Vec::new();
        let is_inside =
            |index: &[usize]| (0..index.len()).all(|dim| self.spec.region.range(dim).contains(&index[dim]));
        for_each_index(&self.spec.tile, |index| {
            if !is_inside(index) {
                values.push(self.get(index));
            }
        });
        values
    }

    fn bytes(&self) -> &[u8] {
        self.memory.as_flattened_bytes()
    }

    fn place(&self, index: &[usize]) -> usize {
        self.spec.layout.offset(&self.spec.tile, index) * self.spec.dtype.bytes()
    }

    fn get(&self, index: &[usize]) -> f64 {
        let at = self.place(index);
        let bytes = &self.bytes()[at..at + self.spec.dtype.bytes()];
        match self.spec.dtype {
            Dtype::F32 => f32::from_ne_bytes(bytes.try_into().expect("4 bytes")).into(),
            Dtype::F64 => f64::from_ne_bytes(bytes.try_into().expect("8 bytes")),
            Dtype::U8 => bytes[0].into(),
            Dtype::U32 => u32::from_ne_bytes(bytes.try_into().expect("4 bytes")).into(),
        }
    }

    fn set(&mut self, index: &[usize], value: f64) {
        let at = self.place(index);
        let size = self.spec.dtype.bytes();
        let encoded = match self.spec.dtype {
            Dtype::F32 => (value as f32).to_ne_bytes().to_vec(),
            Dtype::F64 => value.to_ne_bytes().to_vec(),
            Dtype::U8 => vec![value as u8],
            Dtype::U32 => (value as u32).to_ne_bytes().to_vec(),
        };
        for (i, byte) in encoded.into_iter().enumerate().take(size) {
            self.memory[(at + i) / 64].0[(at + i) % 64] = byte;
        }
    }
}

trait Flatten {
    fn as_flattened_bytes(&self) -> &[u8];
}

impl Flatten for Vec<Line> {
    fn as_flattened_bytes(&self) -> &[u8] {
        // SAFETY: `Line` is `repr(C)` with 64 bytes and an alignment of 64, so a slice of lines is a slice of
        // bytes without padding.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.len() * 64) }
    }
}

/// A call with its arguments, ready to run as often as wanted.
pub struct Prepared {
    spec: CallSpec,
    args: Vec<Arg>,
    pointers: Vec<*mut u8>,
    kernel: Kernel,
    /// What the codelet declares, and a guard behind it that no kernel may touch.
    scratch: Vec<Line>,
    scratch_bytes: usize,
}

impl Prepared {
    /// The implementation `name` of a codelet, on `args`.
    ///
    /// # Panics
    /// If there is no such implementation.
    pub fn new(codelet: &Codelet, name: &str, dtype: Dtype, mut args: Vec<Arg>, call: &Settings<'_>) -> Self {
        let implementation = codelet
            .implementation(name, dtype)
            .unwrap_or_else(|| panic!("{} has no {name} for {dtype}", codelet.name));
        let spec = CallSpec {
            args: args.iter().map(|arg| arg.spec.clone()).collect(),
            n_inputs: call.n_inputs,
            ints: call.ints.to_vec(),
            scalars: call.scalars.to_vec(),
            accumulate: call.accumulate,
            in_place: codelet.in_place,
        };
        let pointers = args.iter_mut().map(|arg| arg.memory.as_mut_ptr().cast()).collect();
        let scratch_bytes = (codelet.scratch)(implementation, &spec);
        // Ones in every bit are NaN, so that a kernel which reads what it has not written shows.
        let scratch = vec![Line([0xff; 64]); scratch_bytes.div_ceil(64) + GUARD];
        Prepared { spec, args, pointers, kernel: implementation.kernel, scratch, scratch_bytes }
    }

    /// Lets output `to` use the memory of input `from`, both counted among all arguments: for work in place.
    ///
    /// # Panics
    /// If the codelet does not work in place, or another output is there already.
    pub fn share(&mut self, from: usize, to: usize) {
        let CallSpec { in_place, n_inputs, .. } = self.spec;
        assert!(in_place && from < n_inputs && n_inputs <= to, "argument {to} cannot be in place of {from}");
        assert!(!self.pointers[n_inputs..].contains(&self.pointers[from]), "another output is there already");
        assert_eq!(self.args[from].memory.len(), self.args[to].memory.len());
        self.pointers[to] = self.pointers[from];
    }

    /// Runs the kernel, with as much scratch as its codelet declares and not a byte more.
    ///
    /// # Errors
    ///
    /// Those of the kernel, and what it has written behind its scratch.
    pub fn run(&mut self) -> Result<()> {
        let declared = ptr::slice_from_raw_parts_mut(self.scratch.as_mut_ptr().cast(), self.scratch_bytes);
        // SAFETY: every pointer belongs to the memory of an argument that `self` owns, sized by its layout,
        // aligned to 64 bytes and initialised; regions are inside of tiles, and nothing else touches them
        // meanwhile, nor the scratch. Only `share` lets an input be an output, of a codelet that works in
        // place.
        let outcome = unsafe { (self.kernel)(&Call::new(&self.spec, &self.pointers, declared)) };
        let guard = &self.scratch.as_flattened_bytes()[self.scratch_bytes..];
        if guard.iter().any(|&byte| byte != 0xff) {
            return Err(Error::new(
                ErrorKind::Task,
                "the kernel wrote behind its scratch: declare more of it",
            ));
        }
        outcome
    }

    /// The arguments back.
    pub fn into_args(self) -> Vec<Arg> {
        self.args
    }
}

/// What a call has besides its arguments.
#[derive(Clone, Copy, Default)]
pub struct Settings<'a> {
    /// How many arguments are only read.
    pub n_inputs: usize,
    /// Integer parameters.
    pub ints: &'a [i64],
    /// Floating-point parameters.
    pub scalars: &'a [f64],
    /// Whether outputs add to what is there.
    pub accumulate: bool,
}
