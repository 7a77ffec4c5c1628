//! Which part of which base allocation a view is, for dependencies.
//!
//! Dependencies belong to base allocations. A view, whatever its shape, is known to them by a box in the
//! coordinates of its base: the smallest one that holds its elements, where the view walks along the
//! dimensions of the base. A box that holds more than the view's own elements may order tasks that could run
//! together, never the other way round.
//!
//! The box is tight where each step of the view is a step along dimensions of the base and all of them stay
//! inside of the extents. So tiles, transposed tiles and parts of a flattened array order only what
//! conflicts. Interleaved views (every second row) have boxes that overlap although their elements do not:
//! their tasks run one after the other. Because such a box holds elements that a task has not written,
//! writing it does not heal them after a failure.

use super::raw::Raw;
use super::{Element, MAX_RANK, Region, Shape};

/// The place of a view in its base allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BaseRegion {
    pub base: usize,
    /// The extents in which regions of the base are given, whatever the shape of the view.
    base_shape: Shape,
    /// A box that covers the view.
    pub region: Region,
    /// Where the first element lies in the base.
    offset: usize,
    /// Whether the dimensions and indices of the view are those of the region.
    is_aligned: bool,
}

impl BaseRegion {
    /// All of an allocation.
    pub fn whole(base: usize, shape: &[usize]) -> Self {
        let base_shape = Shape::new(shape);
        BaseRegion { base, base_shape, region: Region::whole(base_shape), offset: 0, is_aligned: true }
    }

    /// The same memory in another shape.
    pub fn reshaped(mut self) -> Self {
        self.is_aligned = false;
        self
    }

    /// The place of a range of dimension `dim` of the window `of`: `part`, which starts at index `start`.
    pub fn slice<T: Element, const R: usize>(
        &self,
        of: &Raw<T, R>,
        part: &Raw<T, R>,
        dim: usize,
        start: usize,
    ) -> Self {
        let offset = self.offset + start * of.strides[dim];
        let region = if self.is_aligned {
            let first = self.region.lo()[dim] + start;
            self.region.with_range(dim, first..first + part.shape[dim])
        } else {
            covering(self.base_shape, offset, &part.shape, &part.strides)
        };
        BaseRegion { offset, region, ..*self }
    }

    /// The place of a window that begins where this one does and has other dimensions.
    pub fn rearranged<T: Element, const R: usize>(&self, window: &Raw<T, R>) -> Self {
        let region = covering(self.base_shape, self.offset, &window.shape, &window.strides);
        BaseRegion { region, is_aligned: false, ..*self }
    }
}

/// A box of an array of shape `base` that covers a window of it, given by its first element and its
/// distances.
fn covering(base: Shape, offset: usize, shape: &[usize], strides: &[usize]) -> Region {
    let mut region = Region::whole(base);
    if shape.contains(&0) {
        for dim in 0..base.rank() {
            region = region.with_range(dim, 0..0);
        }
        return region;
    }
    // A step of the window is a step along some dimensions of the base. As long as all steps together stay
    // inside of the extents, the indices of the base simply add up, and the box from the first to the last
    // element is tight.
    let (first, mut last) = (coordinates(base, offset), coordinates(base, offset));
    let mut span = 1;
    for (&extent, &stride) in shape.iter().zip(strides).filter(|(extent, _)| **extent > 1) {
        span += (extent - 1) * stride;
        for (last, step) in last.iter_mut().zip(coordinates(base, stride)) {
            *last += (extent - 1) * step;
        }
    }
    if (0..base.rank()).any(|dim| last[dim] >= base[dim]) {
        return bounding_box(base, offset, span);
    }
    for dim in 0..base.rank() {
        region = region.with_range(dim, first[dim]..last[dim] + 1);
    }
    region
}

/// The index of the element at an offset of an array that has elements.
fn coordinates(shape: Shape, offset: usize) -> [usize; MAX_RANK] {
    let mut index = [0; MAX_RANK];
    let (mut rest, mut stride) = (offset, shape.len());
    for dim in 0..shape.rank() {
        stride /= shape[dim];
        index[dim] = rest / stride;
        rest %= stride;
    }
    index
}

/// The smallest box that contains `len` neighbouring elements of an array; `len` is not 0.
fn bounding_box(shape: Shape, start: usize, len: usize) -> Region {
    let mut region = Region::whole(shape);
    let (first, last) = (coordinates(shape, start), coordinates(shape, start + len - 1));
    for dim in 0..shape.rank() {
        region = region.with_range(dim, first[dim]..last[dim] + 1);
        if first[dim] != last[dim] {
            break;
        }
    }
    region
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_around_neighbours_are_tight() {
        let shape = Shape::new(&[4, 3, 2]);
        let around = |start, len| covering(shape, start, &[len], &[1]);
        assert_eq!(around(6, 12), Region::new(&[1..3, 0..3, 0..2]));
        assert_eq!(around(8, 4), Region::new(&[1..2, 1..3, 0..2]));
        assert_eq!(around(23, 1), Region::new(&[3..4, 2..3, 1..2]));
        assert_eq!(around(5, 2), Region::new(&[0..2, 0..3, 0..2]));
        assert!(around(5, 0).is_empty());
        assert_eq!(covering(Shape::new(&[]), 0, &[1, 1], &[1, 1]), Region::new(&[]));
    }

    #[test]
    fn windows_that_follow_the_base_have_tight_boxes() {
        let shape = Shape::new(&[6, 8]);
        // A transposed tile, every second column of a row, two columns of an array of half the width.
        assert_eq!(covering(shape, 10, &[3, 2], &[1, 8]), Region::new(&[1..3, 2..5]));
        assert_eq!(covering(shape, 17, &[3], &[2]), Region::new(&[2..3, 1..6]));
        assert_eq!(covering(shape, 2, &[12, 2], &[4, 1]), Region::new(&[0..6, 0..8]));
        assert_eq!(covering(shape, 2, &[3, 2], &[16, 1]), Region::new(&[0..5, 2..4]));
        // A diagonal.
        assert_eq!(covering(shape, 0, &[6], &[9]), Region::new(&[0..6, 0..6]));
    }

    #[test]
    fn every_element_of_a_window_is_in_its_box() {
        let base = Shape::new(&[3, 4, 5]);
        for offset in 0..base.len() {
            for (shape, strides) in [([2, 3], [7, 2]), ([4, 1], [5, 9]), ([3, 3], [1, 5]), ([2, 2], [20, 1])]
            {
                let span = (shape[0] - 1) * strides[0] + (shape[1] - 1) * strides[1];
                if offset + span >= base.len() {
                    continue;
                }
                let region = covering(base, offset, &shape, &strides);
                for i in 0..shape[0] {
                    for j in 0..shape[1] {
                        let at = coordinates(base, offset + i * strides[0] + j * strides[1]);
                        assert!((0..3).all(|dim| region.range(dim).contains(&at[dim])), "{at:?} in {region}");
                    }
                }
            }
        }
    }
}
