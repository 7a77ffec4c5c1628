//! What was measured on this machine, in the user's cache folder: times of tasks, and choices that were made by them.
//!
//! Times may be added by every run. Choices change bits, so only `dahl calibrate` makes them.

use anyhow::Result;
use dahl::op::simd::Isa;
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
        let instructions = Isa::available().last().map_or_else(String::new, Isa::to_string);
        let identity = Identity::new(&Hardware::detect(), &instructions);
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

/// The day of a time in seconds since 1970, as in 2026-11-15.
pub fn day(seconds: u64) -> String {
    // Years begin in March here, so that the day that some years have comes last.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let day_of = |days: u64| day(days * 86_400 + 86_399);
        assert_eq!(day_of(0), "1970-01-01");
        assert_eq!(day_of(58), "1970-02-28");
        assert_eq!(day_of(59), "1970-03-01");
        assert_eq!(day_of(789), "1972-02-29");
        assert_eq!(day_of(11_016), "2000-02-29");
        assert_eq!(day_of(20_772), "2026-11-15");
        assert_eq!(day_of(47_540), "2100-02-28");
        assert_eq!(day_of(47_541), "2100-03-01");
    }
}
