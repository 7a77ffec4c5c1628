//! The training loop.
//!
//! An epoch is a sequence of *slices*: runs of the session over some hundred steps. Between two slices
//! nothing is under way, so that is where checkpoints are written and weights copied; within them nothing
//! waits.
//!
//! Everything that bits depend on is a function of settings and position: the order of images of (seed,
//! epoch), see `order`, the learning rate of (step, steps in all), dropout of (seed, step). So a checkpoint
//! holds arrays, position, settings and plans, and no state of any random generator.
//!
//! The last, smaller batch has a step of its own. The first step of a run is a slice by itself, so that the
//! time to it can be told. How far the program feeds ahead of the workers depends on what a step computes, so
//! that Ctrl-C is heard soon.

use super::feed::Feed;
use super::position::{Position, Sums};
use super::report::{Epoch, Event, Progress, Report, Startup};
use super::saved;
use super::state::Part;
use super::step::StepInfo;
use super::used::{self, ArenaUse};
use super::workbench::{Prepared, Workbench};
use super::{Trainer, diagnose};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::model::Sequential;
use crate::op::Float;
use crate::random::Stream;
use dahl_runtime::engine::{Lookout, Notice, Workspace};
use dahl_runtime::machine::{HOST, peak_resident_bytes};
use dahl_runtime::trace::Trace;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

/// Steps in a slice, at most.
const SLICE: u64 = 512;

/// Notices that a report has, at most.
const MAX_NOTICES: usize = 64;

/// Trains a model, telling about everything as it happens.
pub(super) fn fit<T: Float>(
    trainer: &Trainer,
    model: &mut Sequential,
    data: &Dataset,
    on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
) -> Result<Report> {
    let mut fit = Fit::<T>::new(trainer, model, data)?;
    let report = fit.run(on_event)?;
    let unsaved = fit.unsaved.take();
    // What steps needed is given back before the weights are copied, so that the process is never larger than
    // in training.
    fit.training.clear();
    fit.evaluation.clear();
    fit.run.workspace = Workspace::new();
    fit.before.clear();
    let (weights, statistics) = fit.run.values();
    drop(fit);
    // What was learned is not lost with a disk that is full.
    model.set_weights(weights)?;
    model.set_statistics(statistics)?;
    unsaved.map_or(Ok(report), Err)
}

/// A run of training.
struct Fit<'a, T> {
    run: Workbench<'a, T>,
    /// The step of full batches, and that of the rest.
    training: Vec<Prepared>,
    evaluation: Vec<Prepared>,
    position: Position,
    /// Steps of an epoch.
    n_batches: usize,
    /// Steps of the whole run, which the learning rate may depend on.
    n_steps: u64,
    startup: Startup,
    /// When all was ready for the first step, until it is over.
    prepared: Option<Instant>,
    /// Everything that training changes, as it was before the slice that is under way.
    before: Vec<Vec<T>>,
    /// Seconds that the epoch has waited for images.
    waited: f64,
    /// Somebody to see which cores other programs use.
    lookout: Option<Lookout>,
    notices: Vec<Notice>,
    /// What a checkpoint holds of the settings.
    settings: BTreeMap<String, String>,
    /// The newest checkpoint.
    saved: Option<PathBuf>,
    /// Why the last one could not be written.
    unsaved: Option<Error>,
}

/// How a slice, or all of an epoch, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// All of it was done.
    Complete,
    /// Somebody asked to stop, or a checkpoint could not be written.
    Stopped,
}

impl<'a, T: Float> Fit<'a, T> {
    fn new(trainer: &'a Trainer, model: &'a Sequential, data: &'a Dataset) -> Result<Self> {
        let start = Instant::now();
        let mut run = Workbench::<T>::new(trainer, model, data)?;
        let training = run.prepare_all(Part::Train)?;
        let evaluation = run.prepare_all(Part::Test)?;
        let n_batches = run.n_batches();
        let n_steps = trainer.n_steps(n_batches);
        let settings = saved::settings(&run, n_steps)?;
        let position = match &trainer.resume {
            Some(checkpoint) => saved::restore(&mut run, checkpoint, &settings)?,
            None => Position::START,
        };
        let lookout = run.lookout();
        Ok(Fit {
            run,
            training,
            evaluation,
            position,
            n_batches,
            n_steps,
            startup: Startup { plan: start.elapsed().as_secs_f64(), ..Startup::default() },
            prepared: Some(Instant::now()),
            before: Vec::new(),
            waited: 0.0,
            lookout,
            notices: Vec::with_capacity(MAX_NOTICES),
            settings,
            saved: None,
            unsaved: None,
        })
    }

    fn run(&mut self, on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>) -> Result<Report> {
        let plan = self.training[0].plan;
        let copy = self.run.state.trained().map(|id| size_of_val(self.run.store.get::<T>(id)));
        let mut report = Report {
            startup: self.startup,
            plan,
            planned_bytes: self.run.store.bytes()
                + self.run.workspace.memory_use(HOST).0
                + copy.sum::<usize>(),
            used: Vec::new(),
            plans: self.run.plans.clone(),
            epochs: Vec::new(),
            trace: Trace::default(),
            n_steps: self.position.step,
            notices: Vec::new(),
            is_stopped: false,
            checkpoint: None,
        };
        let mut feed = self.feed();
        // A run that was stopped after its last step has only its evaluation left.
        let mut is_unfinished = self.position.batch > 0 && !self.position.is_told;
        while self.position.step < self.n_steps || is_unfinished {
            is_unfinished = false;
            let start = Instant::now();
            let before = self.position;
            let end = self.train_epoch(&mut feed, on_event)?;
            let seconds = start.elapsed().as_secs_f64();
            diagnose::check(&self.run, self.position.step)?;
            if end == End::Stopped {
                report.is_stopped = true;
                report.trace = self.training[0].session.take_trace();
                if self.unsaved.is_none() {
                    self.save(on_event);
                }
                break;
            }
            let (test_loss, test_accuracy) = self.evaluate()?.means();
            diagnose::check_losses(&self.run, &self.position, test_loss)?;
            let trace = self.training[0].session.take_trace();
            let (loss, accuracy) = self.position.sums.means();
            let n_images = self.position.sums.n_images - before.sums.n_images;
            let epoch = Epoch {
                epoch: self.position.epoch,
                loss,
                accuracy,
                test_loss,
                test_accuracy,
                seconds,
                images_per_s: n_images as f64 / seconds,
                peak_bytes: peak_resident_bytes(),
                reading: self.waited / seconds,
                usage: trace.usage(),
            };
            self.position.is_told = true;
            if self.position.batch >= self.n_batches {
                self.position = self.position.next_epoch();
            }
            report.epochs.push(epoch);
            let is_asked_to_stop = on_event(Event::Epoch(&epoch)).is_break();
            self.save(on_event);
            let is_over = self.position.step >= self.n_steps;
            // One trace at a time: they are large.
            if is_asked_to_stop || is_over || self.unsaved.is_some() {
                report.trace = trace;
            }
            report.is_stopped = is_asked_to_stop && !is_over;
            if is_asked_to_stop || self.unsaved.is_some() {
                break;
            }
        }
        report.startup = self.startup;
        report.used = self.used();
        report.n_steps = self.position.step;
        report.notices = std::mem::take(&mut self.notices);
        report.checkpoint = self.saved.take();
        Ok(report)
    }

    /// What the run has taken of each memory.
    fn used(&self) -> Vec<ArenaUse> {
        let copies = self.before.iter().map(|copy| size_of_val(copy.as_slice())).sum();
        let Workbench { store, workspace, trainer, .. } = &self.run;
        // Copied whole, so all of it was touched.
        used::arenas(store, workspace, trainer.machine.memories.len(), (copies, Some(copies)))
    }

    /// The training images from where the run is to its end. Reading goes on from epoch to epoch, so that
    /// none begins with a wait.
    fn feed(&self) -> Feed {
        let (seed, n) = (self.run.trainer.seed, self.run.data.train.len());
        let done = (self.position.batch * self.training[0].n).min(n);
        let last = self.n_steps.div_ceil(self.n_batches as u64) as usize;
        let orders = (self.position.epoch..=last).flat_map(move |epoch| order(seed, epoch, n));
        self.run.feed(Part::Train, orders.skip(done))
    }

    /// Trains from where the run is to the end of the epoch, or of the run.
    fn train_epoch(
        &mut self,
        feed: &mut Feed,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<End> {
        let seed = self.run.trainer.seed;
        let order = order(seed, self.position.epoch, self.run.data.train.len());
        let waited = feed.waited();
        while self.position.batch < self.n_batches && self.position.step < self.n_steps {
            if self.train_slice(&order, feed, on_event)? == End::Stopped {
                return Ok(End::Stopped);
            }
            if self.every().is_some_and(|every| self.position.step.is_multiple_of(every)) {
                diagnose::check(&self.run, self.position.step)?;
                self.save(on_event);
                if self.unsaved.is_some() {
                    return Ok(End::Stopped);
                }
            }
        }
        self.waited = (feed.waited() - waited).as_secs_f64();
        Ok(End::Complete)
    }

    /// Trains for some steps that have batches of the same size.
    fn train_slice(
        &mut self,
        order: &[u32],
        feed: &mut Feed,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<End> {
        let slice = self.next_slice();
        self.run.snapshot(&mut self.before);
        let (position, n_batches) = (&mut self.position, self.n_batches);
        let at = *position;
        let (mut end, mut bad) = (End::Complete, None);
        let prepared = &mut self.training[slice.step];
        let (lookout, notices) = (&mut self.lookout, &mut self.notices);
        lookout.iter_mut().for_each(Lookout::resume);
        let trainer = self.run.trainer;
        let ran = prepared.run::<T>(
            &mut self.run.store,
            slice.count,
            |i, step, ports| {
                let info = slice.info(trainer, self.n_steps, i);
                feed.fill::<T>(step, ports, slice.images(order, i), info)
            },
            |i, metrics, _| {
                if bad.is_some() {
                    return ControlFlow::Continue(());
                }
                if !metrics.loss.is_finite() {
                    bad = Some((i, metrics.loss));
                    return ControlFlow::Break(());
                }
                position.batch += 1;
                position.step += 1;
                position.sums.add(metrics);
                position.is_told = false;
                let progress = Progress {
                    epoch: at.epoch,
                    step: position.batch,
                    n_steps: n_batches,
                    loss: metrics.loss,
                    n_images: metrics.n_images,
                };
                let flow = on_event(Event::Step(progress));
                if flow.is_break() {
                    end = End::Stopped;
                }
                if let Some(notice) = lookout.as_mut().and_then(|lookout| lookout.look(metrics.n_images)) {
                    if notices.len() < MAX_NOTICES {
                        notices.push(notice);
                    }
                    // Whoever wants to stop is asked again after the next step.
                    let _ = on_event(Event::Noticed(notice));
                }
                flow
            },
        );
        feed.check()?;
        ran?;
        if let Some(prepared) = self.prepared.take() {
            self.startup.first_step = prepared.elapsed().as_secs_f64();
        }
        match bad {
            Some(bad) => Err(diagnose::explain(
                &mut self.run,
                prepared,
                &self.before,
                order,
                &slice,
                bad,
                self.n_steps,
            )),
            None => Ok(end),
        }
    }

    /// The steps up to the next moment at which something else is to be done.
    fn next_slice(&self) -> Slice {
        let at = self.position;
        let full = self.training[0].n;
        let n_full = self.run.data.train.len() / full;
        let step = usize::from(at.batch >= n_full);
        let left = if step == 0 { n_full - at.batch } else { 1 };
        let to_checkpoint = self.every().map_or(SLICE, |every| every - at.step % every);
        // The first step is one by itself: how long it takes to get there is told.
        let most = if self.prepared.is_some() { 1 } else { SLICE };
        let count = (left as u64).min(most).min(to_checkpoint).min(self.n_steps - at.step);
        Slice { step, count, at, full, n: self.training[step].n }
    }

    /// Sums over all test images.
    fn evaluate(&mut self) -> Result<Sums> {
        evaluate::<T>(&mut self.run, &mut self.evaluation)
    }

    /// Steps between two checkpoints.
    fn every(&self) -> Option<u64> {
        self.run.trainer.checkpoint.as_ref().and_then(|checkpoint| checkpoint.every)
    }

    /// Writes a checkpoint, if there is a folder for it, or says why that cannot be done.
    fn save(&mut self, on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>) {
        let Some(settings) = &self.run.trainer.checkpoint else { return };
        let checkpoint = saved::checkpoint(&self.run, &self.position, &self.settings);
        match checkpoint.and_then(|checkpoint| checkpoint.save(&settings.dir)) {
            Ok(path) => {
                // Whoever wants to stop is asked again after the next step.
                let _ = on_event(Event::Saved(&path));
                self.saved = Some(path);
            }
            Err(error) => self.unsaved = Some(error),
        }
    }
}

/// The order in which an epoch takes its images.
pub(super) fn order(seed: u64, epoch: usize, n_images: usize) -> Vec<u32> {
    Stream::new(seed, u64::MAX - epoch as u64).permutation(n_images)
}

/// Some steps in a row with batches of the same size.
pub(super) struct Slice {
    /// Which of the prepared steps.
    step: usize,
    pub count: u64,
    /// Where the run is before it.
    pub at: Position,
    /// Images in a full batch.
    full: usize,
    /// Images in these batches.
    pub n: usize,
}

impl Slice {
    /// The images of its `i`-th batch.
    pub fn images<'o>(&self, order: &'o [u32], i: u64) -> &'o [u32] {
        let first = self.first_image(i);
        &order[first..first + self.n]
    }

    /// Where in the order of the epoch its `i`-th batch begins.
    pub fn first_image(&self, i: u64) -> usize {
        (self.at.batch + i as usize) * self.full
    }

    /// What else its `i`-th step is told.
    pub fn info(&self, trainer: &Trainer, n_steps: u64, i: u64) -> StepInfo {
        let number = self.at.step + i;
        StepInfo { number, rate: trainer.rate.at(number, n_steps), seed: trainer.seed }
    }
}

/// Sums over all test images.
pub(super) fn evaluate<T: Float>(run: &mut Workbench<'_, T>, steps: &mut [Prepared]) -> Result<Sums> {
    let order: Vec<u32> = (0..run.data.test.len() as u32).collect();
    let mut feed = run.feed(Part::Test, order.clone().into_iter());
    let (mut all, mut left) = (Sums::default(), &order[..]);
    for prepared in steps {
        let n = prepared.n;
        let (now, later) = left.split_at(left.len() - left.len() % n);
        let ran = prepared.run::<T>(
            &mut run.store,
            (now.len() / n) as u64,
            |i, step, ports| feed.fill::<T>(step, ports, &now[i as usize * n..][..n], StepInfo::NONE),
            |_, metrics, _| {
                all.add(metrics);
                ControlFlow::Continue(())
            },
        );
        feed.check()?;
        ran?;
        left = later;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset;
    use dahl_runtime::engine::Pool;
    use dahl_runtime::machine::Machine;
    use dahl_runtime::plan::Schedule;
    use std::sync::Arc;
    use std::time::Duration;

    fn model(data: &Dataset) -> Sequential {
        let mut model = Sequential::seed(data.shape, data.classes);
        model.initialise(1).unwrap();
        model
    }

    #[test]
    fn a_busy_core_changes_neither_bits_nor_plans_nor_memory() {
        let (data, machine) = (dataset::digits(), Machine::with_workers(2));
        let untrained = model(&data);
        let pool = Arc::new(Pool::new(&machine).unwrap());
        let trainer = Trainer::on(pool.clone()).epochs(100_000);
        let mut fit = Fit::<f32>::new(&trainer, &untrained, &data).unwrap();
        let begun = Instant::now();
        // For half of the time, the second core is somebody else's.
        let tell = move |waited: &mut [Duration]| {
            waited[1] = begun.elapsed() / 2;
            Some(Duration::ZERO)
        };
        fit.lookout = Lookout::told_by(&pool, Box::new(tell));
        if fit.lookout.is_none() {
            return eprintln!("skipped: there is no core for each of two workers");
        }
        let (mut first, mut n_later) = (None, 0);
        let report = fit.run(&mut |event| {
            match event {
                Event::Noticed(notice) => first = first.or(Some(notice)),
                Event::Step(_) if first.is_some() => n_later += 1,
                _ => {}
            }
            // Long enough for a worker that rests to come back.
            match n_later > 500 || begun.elapsed() > Duration::from_secs(60) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let (report, weights) = (report.unwrap(), fit.run.values());
        let first = first.expect("a worker that has half a core is noticed");
        assert_eq!((first.worker, report.notices[0]), (1, first));

        let trainer =
            Trainer::new(&machine).schedule(Schedule::Replay).epochs(100_000).max_steps(Some(report.n_steps));
        let mut fit = Fit::<f32>::new(&trainer, &untrained, &data).unwrap();
        let plain = fit.run(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(plain.notices.is_empty());
        assert_eq!((plain.n_steps, fit.run.values()), (report.n_steps, weights));
        assert_eq!(plain.plans.to_string(), report.plans.to_string());
        assert_eq!(plain.planned_bytes, report.planned_bytes);
        let planned =
            |report: &Report| report.used.iter().map(|arena| arena.planned_bytes).collect::<Vec<_>>();
        assert_eq!(planned(&plain), planned(&report));
        let is_kept = |arena: &ArenaUse| {
            arena
                .resident_bytes
                .is_none_or(|bytes| bytes <= arena.planned_bytes.next_multiple_of(4096) + 4096)
        };
        assert!(report.used.iter().all(is_kept), "{:?}", report.used);
    }

    #[test]
    fn what_was_asked_for_is_kept_to() {
        let (data, machine) = (dataset::digits(), Machine::with_workers(1));
        let untrained = model(&data);
        let trainer = Trainer::new(&machine);
        let plans = trainer.make_plans(&untrained, &data).unwrap();
        let is_watched =
            |trainer: &Trainer| Fit::<f32>::new(trainer, &untrained, &data).unwrap().lookout.is_some();
        assert!(!is_watched(&trainer.clone().plan(plans)));
        for schedule in Schedule::ALL {
            assert!(!is_watched(&trainer.clone().schedule(schedule)));
        }
    }
}
