//! What was measured on this machine, in the user's cache folder: times of tasks, and choices that were made by them.
//!
//! Times may be added by every run. Choices change bits, so only `dahl calibrate` makes them.

use anyhow::Result;
use dahl::op::simd::Isa;
use dahl_runtime::date::day;
use dahl_runtime::env::cache_folder;
use dahl_runtime::machine::Hardware;
use dahl_runtime::perf::{Choice, Identity, Loaded, Models, RunId, Store, Warning};
use dahl_runtime::plan::CutOptions;
use dahl_runtime::trace::Trace;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The measurements of this machine.
pub struct Measured {
    store: Option<Store>,
    loaded: Loaded,
}

impl Measured {
    /// Reads what there is. Whatever is wrong with it is told on standard error, and less is known then.
    pub fn open() -> Measured {
        let identity = Identity::new(&Hardware::detect(), &Isa::current().to_string());
        let store = cache_folder().map(|folder| Store::at(folder, identity));
        let loaded = store.as_ref().map(Store::load).unwrap_or_default();
        tell(&loaded.warnings);
        Measured { store, loaded }
    }

    /// The file, if the system has a place for it.
    pub fn path(&self) -> Option<&Path> {
        self.store.as_ref().map(Store::path)
    }

    /// What tasks cost.
    pub fn models(&self) -> &Models {
        &self.loaded.models
    }

    /// All that was chosen, by what it was chosen for.
    pub fn choices(&self) -> impl Iterator<Item = (&String, &Choice)> {
        self.loaded.choices.iter()
    }

    /// The cut that was chosen for such steps, and where it comes from.
    pub fn choice(&self, key: &str) -> Option<(CutOptions, String)> {
        let choice = self.loaded.choices.get(key)?;
        // A choice of another version of dahl may name what is no longer there.
        let cut = CutOptions::parse(&choice.text).ok()?;
        Some((cut, format!("calibrated on {}", day(choice.date))))
    }

    /// Keeps what was measured. That it cannot be kept is told, and no reason to fail.
    pub fn keep(&self, models: &Models) {
        match self.store.as_ref().map_or(Ok(Vec::new()), |store| store.add(models)) {
            Ok(warnings) => tell(&warnings),
            Err(error) => eprintln!("dahl: what was measured is not kept: {error}"),
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
        tell(&store.forget(key)?);
        Ok(self.loaded.choices.contains_key(key))
    }
}

fn tell(warnings: &[Warning]) {
    for warning in warnings {
        eprintln!("dahl: {warning}");
    }
}

/// What a trace says, as models to be kept or asked.
pub fn learn(models: &mut Models, trace: &Trace) {
    /// Traces of this process so far.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    models.learn(trace, RunId::of(format_args!("{nanos} {} {number}", std::process::id())), now());
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
