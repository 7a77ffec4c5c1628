//! What the workers are doing with submitted tasks: traces and the watchdog.

use super::{N_TEMPLATES, Tasks};
use crate::error::{Error, ErrorKind};
use crate::graph::TaskId;
use crate::machine::HOST;
use crate::trace::{Dispatch, Scene, TaskInfo, Trace, ticks};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

impl Tasks {
    /// The events since the last call. Tasks are told apart by codelet, implementation and shapes.
    pub fn take_trace(&self) -> Trace {
        // Events first: the templates that they name are there afterwards.
        let taken: Vec<_> = self.workers.iter().map(|worker| worker.recorder.take(HOST)).collect();
        let mut scene = Scene { dispatch: Dispatch::Submitted, ..Scene::of_machine(&self.machine) };
        scene.tasks = self.templates.iter().map(super::Template::info).collect();
        // Where there were too many combinations to keep, tasks are only counted.
        let others = scene.tasks.len() as TaskId;
        let other = TaskInfo { codelet: "other".to_string(), tile: (0, 1), ..TaskInfo::default() };
        scene.tasks.push(other);
        let mut trace = Trace { ticks_per_second: self.clock.ticks_per_second(), ..Trace::default() };
        for mut taken in taken {
            for event in taken.events.iter_mut().filter(|event| event.task == N_TEMPLATES as TaskId) {
                event.task = others;
            }
            trace.workers.push(taken.events);
            trace.n_dropped.push(taken.n_dropped);
        }
        trace.transfers.resize_with(self.workers.len() + 1, Vec::new);
        trace.n_dropped.push(0);
        trace.scene = Arc::new(scene);
        trace
    }

    /// Tasks that have finished, as far as somebody wants to know.
    pub(super) fn progress(&self) -> u64 {
        self.workers.iter().map(|worker| worker.recorder.look().count).sum()
    }

    /// Says what the submitted tasks are stuck in.
    #[cold]
    pub(super) fn stuck(&self, limit: Duration) -> Error {
        let mut text = format!("no submitted task has finished for {:.1} s", limit.as_secs_f64());
        let per_second = self.clock.ticks_per_second();
        let mut culprit = None;
        for (worker, running) in self.workers.iter().map(|worker| worker.recorder.look().running).enumerate()
        {
            let Some((task, _, since)) = running else { continue };
            let template = self.templates.iter().nth(task as usize);
            let name = template.map_or("a task".to_string(), |template| template.name());
            let seconds = ticks().saturating_sub(since) as f64 / per_second;
            let _ = write!(text, "; worker {worker} has been executing {name} for {seconds:.1} s");
            culprit = culprit.or(template.map(|template| (worker, template)));
        }
        let count = |count: &crate::sync::Padded<super::AtomicUsize>| count.0.load(super::Ordering::SeqCst);
        // Finished tasks are counted some at a time.
        let unfinished = count(&self.n_submitted).saturating_sub(count(&self.n_finished));
        let _ = write!(
            text,
            "; about {unfinished} submitted tasks are not finished, the ready ones of which wait for"
        );
        let _ = write!(text, " a worker and the others for them. If a kernel is only slow, allow more time");
        let error = Error::new(ErrorKind::Stuck, text);
        match culprit {
            Some((worker, template)) => template.in_context(error).on_worker(worker),
            None => error,
        }
    }
}
