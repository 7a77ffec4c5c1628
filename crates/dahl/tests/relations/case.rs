//! Random numbers for shapes, and the record that a definition fills in.

use dahl_runtime::array::{MAX_RANK, Shape};

/// A stream of random bytes that shrinks towards the smallest choices.
pub struct Draw {
    bytes: std::vec::IntoIter<u8>,
}

impl Draw {
    pub fn new(bytes: Vec<u8>) -> Self {
        Draw { bytes: bytes.into_iter() }
    }

    /// A number from `lo` to `hi`, both included.
    pub fn number(&mut self, lo: usize, hi: usize) -> usize {
        lo + usize::from(self.bytes.next().unwrap_or(0)) % (hi - lo + 1)
    }

    /// An extent: mostly 1 to 3, now and then 0.
    pub fn size(&mut self) -> usize {
        match self.number(0, 15) {
            15 => 0,
            byte => 1 + byte % 3,
        }
    }

    /// An extent that is at least 1.
    pub fn full(&mut self) -> usize {
        self.number(1, 4)
    }
}

/// An index, padded with zeros to the largest rank.
pub type Index = [usize; MAX_RANK];

/// One elementary contribution: where it stands in the loop nest, and what it touches.
pub struct Contribution {
    /// Axis and value for every loop it is inside.
    pub at: Vec<(&'static str, usize)>,
    /// Argument and index of every element that it reads.
    pub reads: Vec<(usize, Index)>,
    /// Argument and index of every element that it writes.
    pub writes: Vec<(usize, Index)>,
}

/// The shapes and parameters of one call, and its contributions.
pub struct Case {
    /// Integer parameters.
    pub ints: Vec<i64>,
    /// Names and shapes of the arguments in call order.
    pub args: Vec<(&'static str, Shape)>,
    /// What the shapes of the outputs follow to be from the inputs, by PyTorch's formulas.
    pub inferred: Option<Vec<Shape>>,
    pub contributions: Vec<Contribution>,
}

impl Case {
    /// A case whose outputs, the last `n_outputs` arguments, have the shapes that must be inferred.
    pub fn new(ints: &[usize], n_outputs: usize, args: &[(&'static str, &[usize])]) -> Self {
        let args: Vec<_> = args.iter().map(|&(name, extents)| (name, Shape::new(extents))).collect();
        let inferred = args[args.len() - n_outputs..].iter().map(|&(_, shape)| shape).collect();
        let ints = ints.iter().map(|&int| int as i64).collect();
        Case { ints, args, inferred: Some(inferred), contributions: Vec::new() }
    }

    /// A new contribution inside these loops.
    pub fn point(&mut self, at: &[(&'static str, usize)]) -> Point<'_> {
        self.contributions.push(Contribution { at: at.to_vec(), reads: Vec::new(), writes: Vec::new() });
        let contribution = self.contributions.last_mut().expect("just pushed");
        Point { args: &self.args, contribution }
    }
}

/// A contribution being described.
pub struct Point<'a> {
    args: &'a [(&'static str, Shape)],
    contribution: &'a mut Contribution,
}

impl Point<'_> {
    fn find<const R: usize>(&self, name: &str, index: [usize; R]) -> Option<(usize, Index)> {
        let arg = self.args.iter().position(|(arg, _)| *arg == name).expect("an argument of the case");
        let shape = self.args[arg].1;
        assert_eq!(shape.rank(), R, "{name} has the shape {shape}");
        let mut padded = [0; MAX_RANK];
        padded[..R].copy_from_slice(&index);
        index.iter().zip(shape.iter()).all(|(i, extent)| i < extent).then_some((arg, padded))
    }

    /// Reads an element that is there.
    pub fn reads<const R: usize>(self, name: &str, index: [usize; R]) -> Self {
        let read = self.find(name, index).unwrap_or_else(|| panic!("{name}{index:?} does not exist"));
        self.contribution.reads.push(read);
        self
    }

    /// Reads an element if it is there.
    pub fn reads_padded<const R: usize>(self, name: &str, index: [i64; R]) -> Self {
        // A negative index becomes one that is far too large.
        let read = self.find(name, index.map(|i| usize::try_from(i).unwrap_or(usize::MAX)));
        self.contribution.reads.extend(read);
        self
    }

    /// Writes an element.
    pub fn writes<const R: usize>(self, name: &str, index: [usize; R]) -> Self {
        let write = self.find(name, index).unwrap_or_else(|| panic!("{name}{index:?} does not exist"));
        self.contribution.writes.push(write);
        self
    }
}

/// Every index below these extents, the last one fastest.
pub fn grid<const R: usize>(extents: [usize; R]) -> impl Iterator<Item = [usize; R]> {
    let points = extents.iter().product::<usize>();
    (0..points).map(move |mut point| {
        let mut index = [0; R];
        for dim in (0..R).rev() {
            index[dim] = point % extents[dim];
            point /= extents[dim];
        }
        index
    })
}
