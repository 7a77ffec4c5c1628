//! The settings of training. What is done with them is in `running.rs` and `inspecting.rs`.

use super::{Checkpoint, FolderLock};
use crate::loss::{AnyLoss, Loss, usual};
use crate::model::Sequential;
use crate::op;
use crate::optim::{AnyOptimizer, LearningRate, Optimizer, Sgd};
use dahl_runtime::engine::Engine;
use dahl_runtime::graph::{CutOptions, Fusion, Lowered};
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::{Plan, PlanFile, Schedule};
use dahl_runtime::schedule::Policy;
use dahl_runtime::shape::Dtype;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Trains models: settings first, then [`Trainer::fit`].
#[derive(Clone, Debug)]
pub struct Trainer {
    pub(super) machine: Machine,
    /// Who executes the steps, if not workers of its own.
    pub(super) engine: Option<Arc<dyn Engine>>,
    pub(super) optimizer: AnyOptimizer,
    /// What is minimised, if not what is usual for the model.
    pub(super) loss: Option<AnyLoss>,
    pub(super) rate: LearningRate,
    pub(super) batch: usize,
    pub(super) epochs: usize,
    pub(super) max_steps: Option<u64>,
    pub(super) seed: u64,
    pub(super) dtype: Dtype,
    pub(super) schedule: Schedule,
    /// The scheduler that decides instead, if the program has one.
    pub(super) policy: Option<Policy>,
    /// Whether workers may evade cores that other programs use.
    pub(super) evades: bool,
    pub(super) cut: CutOptions,
    /// Where the cut comes from.
    pub(super) origin: String,
    /// Whether tasks are fused, if that was said.
    pub(super) fusion: Option<bool>,
    /// The rules by which they are.
    pub(super) fusions: Vec<&'static Fusion>,
    /// The layers that begin a group.
    pub(super) groups: Vec<usize>,
    pub(super) trace_capacity: usize,
    pub(super) plans: Option<Arc<PlanFile>>,
    pub(super) watchdog: Option<Duration>,
    pub(super) checkpoint: Option<CheckpointSettings>,
    /// The lock of the folder of checkpoints, where the program has taken it.
    pub(super) lock: Option<Arc<FolderLock>>,
    pub(super) resume: Option<Arc<Checkpoint>>,
    /// The plans of the checkpoint that training goes on from, which are executed as far as they fit.
    pub(super) kept_plans: Option<Arc<PlanFile>>,
    pub(super) notes: BTreeMap<String, String>,
}

/// Where and when checkpoints are written.
#[derive(Clone, Debug)]
pub(super) struct CheckpointSettings {
    pub dir: PathBuf,
    /// Steps between two, beside those after each epoch.
    pub every: Option<u64>,
}

impl Trainer {
    /// Training on a machine, with settings that suit small images: SGD at 0.1, batches of 64, one epoch,
    /// f32.
    pub fn new(machine: &Machine) -> Self {
        Trainer {
            machine: machine.clone(),
            engine: None,
            optimizer: Arc::new(Sgd::PLAIN),
            loss: None,
            rate: LearningRate::constant(0.1),
            batch: 64,
            epochs: 1,
            max_steps: None,
            seed: 1,
            dtype: Dtype::F32,
            schedule: Schedule::Replay,
            policy: None,
            evades: true,
            cut: dahl_op::default_cut(),
            origin: "heuristic".to_string(),
            fusion: None,
            fusions: op::FUSIONS.to_vec(),
            groups: Vec::new(),
            trace_capacity: 1 << 16,
            plans: None,
            watchdog: None,
            checkpoint: None,
            lock: None,
            resume: None,
            kept_plans: None,
            notes: BTreeMap::new(),
        }
    }

    /// Training by an engine that others use, too, such as the workers of a
    /// [`Runtime`](dahl_runtime::Runtime::pool), instead of workers that are started for each call.
    pub fn on(engine: Arc<dyn Engine>) -> Self {
        Trainer { engine: Some(Arc::clone(&engine)), ..Trainer::new(engine.machine()) }
    }

    /// Plain stochastic gradient descent with this learning rate.
    pub fn sgd(self, learning_rate: f64) -> Self {
        self.optimizer(Sgd::PLAIN).learning_rate(LearningRate::constant(learning_rate))
    }

    /// How gradients become new weights.
    pub fn optimizer(mut self, optimizer: impl Optimizer + 'static) -> Self {
        self.optimizer = Arc::new(optimizer);
        self
    }

    /// What is minimised. Unless this says otherwise, it is the cross-entropy of the softmax of the outputs,
    /// or of the outputs themselves where a model ends in a softmax.
    pub fn loss(mut self, loss: impl Loss + 'static) -> Self {
        self.loss = Some(Arc::new(loss));
        self
    }

    /// The learning rate of each step.
    pub fn learning_rate(mut self, rate: LearningRate) -> Self {
        self.rate = rate;
        self
    }

    /// Images per step.
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// Passes over the training images.
    pub fn epochs(mut self, epochs: usize) -> Self {
        self.epochs = epochs;
        self
    }

    /// Ends training after this many steps, if the epochs have not ended before.
    pub fn max_steps(mut self, steps: Option<u64>) -> Self {
        self.max_steps = steps;
        self
    }

    /// What initial weights, the order of images and dropout are drawn from.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The element type to compute in: `F32` or `F64`.
    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = dtype;
        self
    }

    /// Who decides which worker executes what. Bits do not depend on it.
    ///
    /// By default it is [`Schedule::Replay`], and workers evade cores that other programs use
    /// ([`Lookout`](dahl_runtime::engine::Lookout)). A schedule that is asked for is kept to, come what may;
    /// so is a plan.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        (self.schedule, self.policy, self.evades) = (schedule, None, false);
        self
    }

    /// Lets a scheduler of the program's own decide which worker executes what, as tasks become ready. Bits
    /// do not depend on it, and it is kept to as a [`Trainer::schedule`] is. Plans name it.
    pub fn scheduler(mut self, policy: impl Into<Policy>) -> Self {
        (self.policy, self.evades) = (Some(policy.into()), false);
        self
    }

    /// How tasks are cut. Bits depend on it.
    pub fn cut(mut self, cut: CutOptions) -> Self {
        (self.cut, self.origin) = (cut, "given".to_string());
        self
    }

    /// Where the cut comes from, for whoever looks at the plan.
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origin = origin.into();
        self
    }

    /// Whether tasks that hand arrays to each other become one, where there is a codelet for that. They do,
    /// unless this says otherwise or training goes on from a checkpoint without. The results are the same to
    /// the last bit, as long as all numbers are finite.
    pub fn fusion(mut self, fusion: bool) -> Self {
        self.fusion = Some(fusion);
        self
    }

    /// Fuses tasks by these rules, too, after those that are built in ([`op::FUSIONS`]).
    pub fn fusions(mut self, rules: &[&'static Fusion]) -> Self {
        self.fusions.extend(rules);
        self
    }

    /// Divides the layers into groups, each of which begins with one of `first_layers`, counted from 0 and in
    /// ascending order; without any, all layers are one group. The weights of a group are one flat array, as
    /// are their gradients and each array that the optimiser keeps, so that a group can be updated, summed
    /// and sent as a whole. Bits and checkpoints do not depend on it.
    pub fn groups(mut self, first_layers: &[usize]) -> Self {
        self.groups = first_layers.to_vec();
        self
    }

    /// How many events each worker keeps; 0 turns tracing off.
    pub fn trace_capacity(mut self, events: usize) -> Self {
        self.trace_capacity = events;
        self
    }

    /// Executes these plans, whatever cut, fusion and schedule say: read from a file, or made by
    /// [`Trainer::make_plans`]. They must hold every step of the run. Where they name a scheduler of the
    /// program's own, it must be provided ([`PlanFile::provide`]).
    pub fn plan(mut self, plans: PlanFile) -> Self {
        (self.plans, self.evades) = (Some(Arc::new(plans)), false);
        self
    }

    /// Ends training with an error that says who is stuck where if no task finishes for this long; see
    /// [`Session::set_watchdog`](dahl_runtime::engine::Session::set_watchdog).
    pub fn watchdog(mut self, limit: Option<Duration>) -> Self {
        self.watchdog = limit;
        self
    }

    /// Writes checkpoints into a folder: after each epoch, when training is stopped, and if asked for, after
    /// every so many steps. [`Trainer::fit`] locks the folder for as long as it lasts ([`FolderLock`]), and
    /// fails at once where another run has it or nothing can be written there.
    pub fn checkpoint(mut self, dir: impl Into<PathBuf>, every: Option<u64>) -> Self {
        self.checkpoint =
            Some(CheckpointSettings { dir: dir.into(), every: every.filter(|&steps| steps > 0) });
        self
    }

    /// Uses a lock on the folder of checkpoints that was taken before, so that nobody else saves there
    /// between a look into it and the training.
    pub fn lock(mut self, lock: FolderLock) -> Self {
        self.lock = Some(Arc::new(lock));
        self
    }

    /// Goes on from a checkpoint, to the same bits as if training had never been interrupted. Model, data and
    /// settings must be those of the checkpoint; [`Trainer::fit`] refuses it otherwise and names every
    /// difference.
    ///
    /// The plans of the checkpoint are executed if they fit this machine and no others were given. Otherwise
    /// the steps are planned anew, and refused if they would be cut in another way, since bits depend on
    /// that.
    pub fn resume(mut self, checkpoint: Checkpoint) -> Self {
        self.resume = Some(Arc::new(checkpoint));
        self
    }

    /// Adds a setting to the checkpoints that are written, for the program that reads them.
    pub fn note(mut self, key: &str, value: impl Into<String>) -> Self {
        self.notes.insert(format!("note.{key}"), value.into());
        self
    }

    /// The plan of a step, by whoever decides.
    pub(super) fn place(&self, lowered: &Lowered) -> dahl_runtime::Result<Plan> {
        match &self.policy {
            Some(policy) => Plan::open(lowered, &self.machine, policy),
            None => self.schedule.plan(lowered, &self.machine),
        }
    }

    /// Who decides, in a word.
    pub(super) fn decider(&self) -> String {
        self.policy
            .as_ref()
            .map_or_else(|| format!("{:?}", self.schedule), |policy| policy.name().to_string())
    }

    /// What is minimised for this model.
    pub(super) fn loss_of(&self, model: &Sequential) -> AnyLoss {
        self.loss.clone().unwrap_or_else(|| usual(model))
    }

    /// Steps of the whole run, with this many in an epoch.
    pub(super) fn n_steps(&self, n_batches: usize) -> u64 {
        let all = (self.epochs as u64).saturating_mul(n_batches as u64);
        self.max_steps.map_or(all, |steps| steps.min(all))
    }
}
