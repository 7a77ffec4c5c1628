//! Squares that slide over images: where they fit, and how many there are.

use crate::error::{Error, Result};
use dahl_runtime::array::Shape;

/// A square window that moves over an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// Its side.
    pub(super) side: usize,
    /// The step between windows.
    pub(super) stride: usize,
    /// Rows and columns around the image that windows may reach into.
    pub(super) padding: usize,
}

impl Window {
    /// Channels, and the number of windows down and across, of an image of this shape; `kind` is for messages.
    pub(super) fn output(&self, kind: &str, input: Shape) -> Result<[usize; 3]> {
        let &[channels, height, width] = &input[..] else {
            let message = format!("{kind} takes images [channels,height,width], not {input}");
            return Err(Error::setting(message));
        };
        let Window { side, stride, padding } = *self;
        if side == 0 || stride == 0 {
            let message =
                format!("{kind} needs a window and a stride of at least 1, not {side} and {stride}");
            return Err(Error::setting(message));
        }
        let along = |extent: usize| (extent + 2 * padding).checked_sub(side).map(|room| room / stride + 1);
        match (along(height), along(width)) {
            (Some(height), Some(width)) => Ok([channels, height, width]),
            _ => Err(Error::setting(format!(
                "{kind} with windows of {side}×{side} and padding {padding} does not fit images of {input}: use smaller \
                 windows or more padding"
            ))),
        }
    }

    /// Stride and padding, as codelets take them.
    pub(super) fn ints(&self) -> [i64; 2] {
        [self.stride as i64, self.padding as i64]
    }

    /// Stride, padding and side, as the codelets of pooling take them.
    pub(super) fn pool_ints(&self) -> [i64; 3] {
        [self.stride as i64, self.padding as i64, self.side as i64]
    }
}
