//! What a checkpoint of training holds: weights and statistics under their names, what the optimiser keeps,
//! the position, the settings that bits depend on, and the plans.
//!
//! A run that goes on compares every setting and names the differences. On another number of workers it plans
//! anew, which bits do not depend on.

use super::position::Position;
use super::state::Part;
use super::workbench::Workbench;
use super::{Checkpoint, Trainer};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::layer::Kinds;
use crate::loss::usual;
use crate::model::{NamedParameter, Sequential};
use crate::op::Float;
use crate::optim::Decay;
use crate::tensors::{Tensor, Tensors};
use dahl_runtime::graph::StateId;
use dahl_runtime::hash::Fingerprint;
use dahl_runtime::plan::PlanFile;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The checkpoint of a run between two steps; `settings` are those of the whole run.
pub(super) fn checkpoint<T: Float>(
    run: &Workbench<'_, T>,
    position: &Position,
    settings: &BTreeMap<String, String>,
) -> Result<Checkpoint> {
    let mut tensors = Tensors::new();
    for (id, name, named) in contents(run)? {
        let range = named.offset..named.offset + named.parameter.shape.len();
        let values: Vec<f64> = run.store.get::<T>(id)[range].iter().map(|value| value.widen()).collect();
        tensors.insert(name, Tensor::from_f64(T::DTYPE, &named.parameter.shape, &values)?);
    }
    let mut settings = settings.clone();
    settings.extend(run.trainer.notes.clone());
    settings.insert(SCHEDULE.to_string(), run.trainer.decider());
    position.save(&mut settings);
    Ok(Checkpoint { step: position.step, tensors, settings, plan: run.plans.to_string() })
}

/// Puts a checkpoint into a run that has these settings, and says where it is then.
pub(super) fn restore<T: Float>(
    run: &mut Workbench<'_, T>,
    checkpoint: &Checkpoint,
    settings: &BTreeMap<String, String>,
) -> Result<Position> {
    let position = Position::load(&checkpoint.settings)?;
    let (mut differences, mut misfits) = (Vec::new(), Vec::new());
    let usual = usual(run.model).to_string();
    for (key, value) in settings {
        let before = match key.as_str() {
            FUSION => OFF,
            LOSS => &*usual,
            _ => "",
        };
        let found = checkpoint.settings.get(key).map_or(before, String::as_str);
        if found != value {
            let short =
                |text: &str| if text.contains('\n') { "another".to_string() } else { format!("'{text}'") };
            differences.push(format!("{key} was {}, now it is {}", short(found), short(value)));
        }
    }
    for (id, name, named) in contents(run)? {
        let range = named.offset..named.offset + named.parameter.shape.len();
        match checkpoint.tensors.get(&name) {
            None => misfits.push(format!("{name} is missing")),
            Some(tensor)
                if tensor.dtype() != T::DTYPE.into() || tensor.shape() != &named.parameter.shape[..] =>
            {
                let (expected, dtype) = (named.parameter.shape, T::DTYPE);
                let (shape, found) = (tensor.shape(), tensor.dtype());
                misfits.push(format!("{name} is {found}{shape:?}, not {dtype}{expected}"));
            }
            Some(tensor) => {
                let values = &mut run.store.get_mut::<T>(id)[range];
                values.iter_mut().zip(tensor.to_f64()?).for_each(|(to, from)| *to = T::from_f64(from));
            }
        }
    }
    // Where one tensor is another, most are.
    let n_more = misfits.len().saturating_sub(NAMED_TENSORS);
    differences.extend(misfits.into_iter().take(NAMED_TENSORS));
    if n_more > 0 {
        differences.push(format!("{n_more} more tensors are missing or others"));
    }
    if !differences.is_empty() {
        return Err(Error::setting(format!(
            "the checkpoint is of another run: {}; go on with the settings it was made with",
            differences.join("; ")
        )));
    }
    if checkpoint.step != position.step {
        let (step, other) = (checkpoint.step, position.step);
        return Err(Error::setting(format!(
            "the checkpoint says that it is of step {step} and of step {other}: take another one"
        )));
    }
    position.check(run.data.train.len(), run.batches(Part::Train)[0])?;
    Ok(position)
}

/// The trainer, with the plans of the checkpoint it goes on from, if it has no others and they can be
/// executed here. If not, the steps are planned anew; [`restore`] sees to it that they are cut as before.
pub(super) fn with_plans(trainer: &Trainer) -> Trainer {
    let mut trainer = trainer.clone();
    if let Some(checkpoint) = &trainer.resume {
        // Checkpoints that do not say were made before there was fusion.
        let fusion = checkpoint.settings.get(FUSION).is_some_and(|fusion| fusion == ON);
        trainer.fusion = trainer.fusion.or(Some(fusion));
    }
    let plans = trainer.resume.as_ref().filter(|_| trainer.plans.is_none()).and_then(|checkpoint| {
        let is_same = checkpoint.settings.get(SCHEDULE) == Some(&trainer.decider());
        let mut plans =
            PlanFile::parse("the plan of the checkpoint", &checkpoint.plan).ok().filter(|_| is_same)?;
        trainer.policy.iter().for_each(|policy| plans.provide(policy.clone()));
        Some(plans)
    });
    trainer.kept_plans = plans.map(Arc::new);
    trainer
}

impl Checkpoint {
    /// The model that it is of, with its weights. `kinds` are the layers that the program knows: those that
    /// are built in ([`Kinds::default`]), and its own.
    ///
    /// # Errors
    ///
    /// A checkpoint that does not say of which model it is, a layer that is not among the kinds, and weights
    /// that do not fit.
    #[track_caller]
    pub fn model(&self, kinds: &Kinds) -> Result<Sequential> {
        let mut model = self.untrained_model(kinds)?;
        model.set_tensors(&self.tensors)?;
        Ok(model)
    }

    /// The same model without weights.
    #[track_caller]
    pub fn untrained_model(&self, kinds: &Kinds) -> Result<Sequential> {
        let Some(text) = self.settings.get(MODEL) else {
            return Err(Error::setting("the checkpoint does not say of which model it is: take another one"));
        };
        let read = Sequential::from_toml_with(text, "the model of the checkpoint", None, None, kinds);
        read.map_err(|error| {
            let message = "the checkpoint is of a model that this program cannot make: use the program that wrote it, or give \
                           the kinds of its layers (layer::Kinds)";
            Error::setting(message).because_of(error)
        })
    }
}

/// The setting that describes the model.
const MODEL: &str = "model";

/// Tensors that a complaint names, of all that do not fit.
const NAMED_TENSORS: usize = 3;

/// The setting that tells who decided which worker executes what; bits do not depend on it.
const SCHEDULE: &str = "note.schedule";

/// The setting that tells what is minimised; checkpoints without it minimise what is usual for their model.
const LOSS: &str = "loss";

/// The setting that tells whether there are fused tasks.
const FUSION: &str = "fusion";
const ON: &str = "on";
const OFF: &str = "off";

/// Every array of a run that training changes, parameter by parameter, with the name it has in a checkpoint.
fn contents<T: Float>(run: &Workbench<'_, T>) -> Result<Vec<(StateId, String, NamedParameter)>> {
    let (parameters, buffers) = (run.model.parameters()?, run.model.buffers()?);
    let mut contents = Vec::new();
    let mut add = |id: StateId, prefix: &str, named: &[NamedParameter]| {
        contents.extend(named.iter().map(|named| (id, format!("{prefix}{}", named.name), named.clone())));
    };
    let groups = || run.state.groups.iter();
    groups().for_each(|group| add(group.weights, "", &group.own(&parameters)));
    if let Some(statistics) = run.state.statistics {
        add(statistics, "", &buffers);
    }
    for (i, name) in run.trainer.optimizer.state_names().iter().enumerate() {
        let prefix = format!("optimizer.{name}.");
        groups().for_each(|group| add(group.optimizer[i], &prefix, &group.own(&parameters)));
    }
    Ok(contents)
}

/// The settings that bits depend on, which must be the same when a run goes on, once all steps are planned.
pub(super) fn settings<T: Float>(run: &Workbench<'_, T>, n_steps: u64) -> Result<BTreeMap<String, String>> {
    let Trainer { optimizer, rate, batch, seed, .. } = run.trainer;
    let mut settings = BTreeMap::from([
        (MODEL.to_string(), run.model.to_toml()),
        ("dtype".to_string(), T::DTYPE.to_string()),
        ("optimizer".to_string(), optimizer.to_string()),
        ("learning rate".to_string(), rate.to_string()),
        ("batch".to_string(), batch.to_string()),
        ("seed".to_string(), seed.to_string()),
        ("data".to_string(), fingerprint(run.data)?),
        ("cut".to_string(), cut_hash(run)?.to_string()),
        (LOSS.to_string(), run.loss.to_string()),
        (FUSION.to_string(), if run.plans.has_fused() { ON } else { OFF }.to_string()),
    ]);
    if matches!(rate.decay, Decay::Linear { .. } | Decay::Cosine { .. }) {
        settings.insert("steps in all".to_string(), n_steps.to_string());
    }
    Ok(settings)
}

/// The hash of the cut of all steps. Bits do not depend on groups of layers, so where these are not given by
/// plans, it is that of steps without them.
fn cut_hash<T: Float>(run: &Workbench<'_, T>) -> Result<Fingerprint> {
    if run.trainer.groups.is_empty() || run.trainer.plans.is_some() {
        return Ok(run.plans.cut_hash());
    }
    let trainer = Trainer { groups: Vec::new(), ..run.trainer.clone() };
    Ok(Workbench::<T>::new(&trainer, run.model, run.data)?.into_plans()?.cut_hash())
}

/// What tells data sets apart: all labels, and the pixels of some images, wherever they lie.
fn fingerprint(data: &Dataset) -> Result<String> {
    const IMAGES: usize = 16;
    let mut bytes = Vec::new();
    for split in [&data.train, &data.test] {
        bytes.extend_from_slice(split.labels());
        for i in (0..split.len()).step_by(split.len().div_ceil(IMAGES).max(1)) {
            bytes.extend_from_slice(&split.image(i)?);
        }
    }
    let (n, hash) = (data.train.len(), Fingerprint::of_bytes(bytes));
    Ok(format!("{} with {n} training images, {hash}", data.name))
}
