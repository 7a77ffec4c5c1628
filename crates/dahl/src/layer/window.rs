//! Squares that slide over images: where they fit, and how many there are.

use super::Setting;
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
    /// Channels, and the number of windows down and across, of an image of this shape; `kind` is for
    /// messages.
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
        let along = |extent: usize| {
            extent.saturating_add(padding.saturating_mul(2)).checked_sub(side).map(|room| room / stride + 1)
        };
        match (along(height), along(width)) {
            (Some(height), Some(width)) => Ok([channels, height, width]),
            _ => Err(Error::setting(format!(
                "{kind} with windows of {side}×{side} and padding {padding} does not fit images of {input}: use smaller \
                 windows or more padding"
            ))),
        }
    }

    /// As in PyTorch, every window of a pool has a pixel of the image in its middle.
    pub(super) fn check_padding(&self, kind: &str) -> Result<()> {
        let Window { side, padding, .. } = *self;
        if padding > side / 2 {
            let message =
                format!("{kind} takes a padding of at most half its window, not {padding} of {side}");
            return Err(Error::setting(message));
        }
        Ok(())
    }

    /// Its settings, the side under this key; the usual stride and no padding are not mentioned.
    pub(super) fn settings(
        &self,
        side: &'static str,
        stride: usize,
    ) -> Vec<(&'static str, Setting<'static>)> {
        let mut settings = vec![(side, Setting::Count(self.side))];
        settings.extend((self.stride != stride).then_some(("stride", Setting::Count(self.stride))));
        settings.extend((self.padding != 0).then_some(("padding", Setting::Count(self.padding))));
        settings
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
