//! Where the images of steps come from: memory, or files that are read ahead of their use.
//!
//! Images that lie in memory are state, and a step is told by a port which of them to take; others are ports
//! themselves, filled with what reading threads have decoded ([`Batches`]). Gathering and conversion are
//! tasks of the step (`load`), so they overlap with the step before. Two numbers tell whether images come too
//! late: `Usage::stall` is the share of the workers' time in which their next step had not been fed,
//! `Epoch::reading` the share of the program's time in which an image was not decoded yet.

use super::step::{Step, StepInfo};
use crate::dataset::{Batches, Split};
use crate::error::{Error, Result};
use crate::op::Float;
use dahl_runtime::engine::Ports;
use std::ops::ControlFlow;
use std::time::Duration;

/// Fills the ports of steps with images of a split.
#[derive(Default)]
pub(super) struct Feed {
    /// Images that do not lie in memory, in the order in which they are used.
    stream: Option<Batches>,
    labels: Vec<u8>,
    /// Why an image could not be had.
    error: Option<Error>,
}

impl Feed {
    /// The images of `split` in the order of `order`, read by so many threads where they do not lie in
    /// memory.
    pub fn new(split: &Split, order: impl Iterator<Item = u32> + Send + 'static, n_threads: usize) -> Self {
        let stream = split.resident().is_none().then(|| split.batches(order, n_threads));
        Feed { stream, ..Feed::default() }
    }

    /// Fills the ports of the next step, which takes these images. After an image that cannot be had, nothing
    /// of the run counts any more.
    pub fn fill<T: Float>(
        &mut self,
        step: &Step,
        ports: &mut Ports<'_>,
        images: &[u32],
        info: StepInfo,
    ) -> ControlFlow<()> {
        step.feed::<T>(ports, images, info);
        let Some(stream) = &mut self.stream else { return ControlFlow::Continue(()) };
        self.labels.resize(images.len(), 0);
        let read =
            step.feed_pixels(ports, &mut self.labels, |pixels, labels| stream.next_into(pixels, labels));
        match read {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error.get_or_insert(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Whether all images could be had so far.
    pub fn check(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// How long steps have waited for images.
    pub fn waited(&self) -> Duration {
        self.stream.as_ref().map_or(Duration::ZERO, Batches::waited)
    }
}

#[cfg(test)]
mod tests {
    use crate::Trainer;
    use crate::dataset::{Dataset, Split};
    use crate::model::Sequential;
    use crate::train::Epoch;
    use dahl_runtime::machine::Machine;
    use std::time::Duration;

    /// Two epochs with 30 images, read by one thread for one worker.
    fn trained(train: Split) -> [Epoch; 2] {
        let (name, shape, class_names) = ("grey".to_string(), [1, 8, 8], Vec::new());
        let data = Dataset { name, shape, classes: 10, class_names, test: train.clone(), train };
        let trainer = Trainer::new(&Machine::with_workers(1)).batch(2).epochs(2);
        let report = trainer.fit(&mut Sequential::seed(shape, 10), &data).unwrap();
        [report.epochs[0], report.epochs[1]]
    }

    #[test]
    fn what_workers_wait_for_images_is_told() {
        // Two images take 40 ms to read, and far less to learn from. How large the shares are is the
        // machine's business.
        let [slow, _] = trained(Split::slow(30, 64, Duration::from_millis(20)));
        assert!(slow.reading > 0.0 && slow.reading <= 1.0, "{slow:?}");
        assert!(slow.usage.stall > 0.0 && slow.usage.stall <= slow.usage.overhead, "{slow:?}");
        let [_, resident] = trained(Split::new(vec![100; 30 * 64], vec![1; 30]).unwrap());
        assert_eq!(resident.reading, 0.0);
        assert!(resident.usage.stall <= resident.usage.overhead, "{resident:?}");
    }
}
