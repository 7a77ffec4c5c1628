//! What was measured on this machine, in the user's cache folder: times of tasks, and choices that were made
//! by them.
//!
//! Times may be added by every run. Choices change bits, so only `dahl calibrate` makes them, and one that
//! cannot be used is said loudly. Each is read when it is first asked for: a run that trains needs no times.
//!
//! Only the command reads these files. A program that uses `Trainer` has the bits of the heuristic cut, or of
//! the cut it asks for. A run notes its cut among its arguments, so a resumed run is not affected by a later
//! calibration.

use crate::output::warn;
use crate::parse::impls;
use anyhow::Result;
use dahl::op::default_cut;
use dahl::op::simd::Isa;
use dahl_runtime::date::day;
use dahl_runtime::env::cache_folder;
use dahl_runtime::graph::CutOptions;
use dahl_runtime::machine::Hardware;
use dahl_runtime::perf::{Choice, Date, Identity, Models, RunId, Store, Warning};
use dahl_runtime::trace::Trace;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The measurements of this machine.
pub struct Measurements {
    store: Option<Store>,
    /// What was measured before this is of others.
    opened: Date,
    models: OnceCell<Models>,
    choices: OnceCell<BTreeMap<String, Choice>>,
}

impl Measurements {
    /// Finds the files. Whatever is wrong with them is told on standard error when they are read, and less is
    /// known then.
    pub fn open() -> Measurements {
        let identity = Identity::new(&Hardware::detect(), &Isa::current().to_string());
        let store = cache_folder().map(|folder| Store::at(folder, identity));
        Measurements { store, opened: now(), models: OnceCell::new(), choices: OnceCell::new() }
    }

    /// The file of times, if the system has a place for it.
    pub fn path(&self) -> Option<&Path> {
        self.store.as_ref().map(Store::path)
    }

    /// What tasks cost.
    pub fn models(&self) -> &Models {
        self.models.get_or_init(|| {
            let loaded = self.store.as_ref().map(|store| store.models(now())).unwrap_or_default();
            tell(&loaded.warnings);
            loaded.known
        })
    }

    fn all_choices(&self) -> &BTreeMap<String, Choice> {
        self.choices.get_or_init(|| {
            let loaded = self.store.as_ref().map(Store::choices).unwrap_or_default();
            loaded.warnings.iter().for_each(|warning| warn(format_args!("WARNING: {warning}")));
            loaded.known
        })
    }

    /// All that was chosen, by what it was chosen for.
    pub fn choices(&self) -> impl Iterator<Item = (&String, &Choice)> {
        self.all_choices().iter()
    }

    /// The cut that was chosen for such steps, and where it comes from.
    pub fn choice(&self, key: &str) -> Option<(CutOptions, String)> {
        let choice = self.all_choices().get(key)?;
        let cut = default_cut().read(&choice.text).map_err(|error| error.to_string());
        match cut.and_then(|cut| impls(&cut.impls()).map(|_| cut)) {
            Ok(cut) => Some((cut, format!("calibrated on {}", day(choice.date.seconds())))),
            // A choice of another version of dahl may name what is no longer there.
            Err(error) => {
                warn(format_args!(
                    "WARNING: the calibrated cut '{}' for {key} cannot be used ({error}), and results will have other \
                     bits than with it: run dahl calibrate again, or take it back with dahl calibrate --forget",
                    choice.text
                ));
                None
            }
        }
    }

    /// Keeps what was measured since this was opened, all rounds of it as one run: a history keeps few runs,
    /// and many of one command would push out those of all others. That it cannot be kept is told, and no
    /// reason to fail.
    pub fn keep(&self, models: &Models) {
        let Some(store) = &self.store else { return };
        match store.add(&models.since(self.opened).condensed(new_run(), now()), now()) {
            Ok(warnings) => tell(&warnings),
            Err(error) => warn(format_args!("what was measured is not kept: {error:#}")),
        }
    }

    /// Keeps a choice for all runs from now on.
    pub fn choose(&self, key: &str, cut: &CutOptions, note: &str) -> Result<()> {
        let choice = Choice { text: cut.to_string(), date: now(), note: note.to_string() };
        self.store
            .as_ref()
            .map_or(Ok(Vec::new()), |store| store.choose(key, choice))
            .map(|warnings| tell(&warnings))?;
        Ok(())
    }

    /// Takes a choice back, and says whether there was one.
    pub fn forget(&self, key: &str) -> Result<bool> {
        let Some(store) = &self.store else { return Ok(false) };
        let was_there = self.all_choices().contains_key(key);
        tell(&store.forget(key)?);
        Ok(was_there)
    }
}

fn tell(warnings: &[Warning]) {
    for warning in warnings {
        warn(warning);
    }
}

/// What a trace says, as models to be kept or asked.
pub fn learn(models: &mut Models, trace: &Trace) {
    models.learn(trace, new_run(), now());
}

/// An id that no other run has.
fn new_run() -> RunId {
    /// Ids of this process so far.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    RunId::of(format_args!("{} {} {number}", now().0, std::process::id()))
}

fn now() -> Date {
    Date::from(SystemTime::now())
}
