//! How the elements of a tile lie in memory.
//!
//! On CPUs activations lie in *sample lanes*: 16 samples of `f32` (8 of `f64`) innermost, which is one cache
//! line and one AVX-512 register. So every kernel vectorises over samples, whatever the shape of its images.
//! The last group of a tile may be ragged; its padding lanes hold anything, so sums over samples must leave
//! them out.

use super::{Dtype, MAX_RANK, Region};

/// The memory order of a tile buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Last dimension fastest.
    RowMajor,
    /// Sample lanes: dimension 0 is cut into groups of this many samples, and the samples of a group lie
    /// innermost: `[n / lanes][other dimensions][n % lanes]`. The last group is padded to full width; the
    /// padding lanes hold unspecified finite or non-finite values which no kernel may let into a result.
    Lanes(usize),
    /// This many elements between neighbours, per dimension: a view that is transposed or leaves out
    /// elements. Tile buffers never lie like this; arrays that a program submits a task on may.
    Strided([usize; MAX_RANK]),
}

impl Layout {
    /// Elements that a tile of this region takes up, padding included. A number that does not fit is
    /// saturated, as that of a [`Shape`](super::Shape) is.
    pub fn len(self, tile: &Region) -> usize {
        match self {
            Layout::RowMajor => tile.len(),
            Layout::Lanes(lanes) => match tile.shape().first() {
                Some(&n) => {
                    let padded = n.checked_next_multiple_of(lanes).unwrap_or(usize::MAX);
                    tile.shape()[1..].iter().fold(padded, |len, &extent| len.saturating_mul(extent))
                }
                None => 1,
            },
            Layout::Strided(_) if tile.is_empty() => 0,
            Layout::Strided(strides) => {
                let steps = tile.shape();
                let steps =
                    steps.iter().zip(strides).map(|(extent, stride)| (extent - 1).saturating_mul(stride));
                steps.fold(1, usize::saturating_add)
            }
        }
    }

    /// Bytes that a tile of this region takes up, if any memory has so many.
    pub(crate) fn checked_bytes(self, tile: &Region, dtype: Dtype) -> Option<usize> {
        self.len(tile).checked_mul(dtype.bytes()).filter(|&bytes| bytes <= isize::MAX as usize)
    }

    /// Where the element with this index lies in a tile that holds the region `tile`.
    #[inline(always)]
    pub fn offset(self, tile: &Region, index: &[usize]) -> usize {
        let (lo, hi) = (tile.lo(), tile.hi());
        debug_assert!(
            index.len() == lo.len() && (0..lo.len()).all(|i| lo[i] <= index[i] && index[i] < hi[i]),
            "index {index:?} is outside the tile {tile}"
        );
        let row_major = |from: usize, start: usize| {
            (from..index.len()).fold(start, |offset, i| offset * (hi[i] - lo[i]) + (index[i] - lo[i]))
        };
        match self {
            Layout::Lanes(lanes) if !index.is_empty() => {
                let n = index[0] - lo[0];
                row_major(1, n / lanes) * lanes + n % lanes
            }
            Layout::Strided(strides) => {
                (0..index.len()).fold(0, |offset, i| offset + (index[i] - lo[i]) * strides[i])
            }
            _ => row_major(0, 0),
        }
    }
}
