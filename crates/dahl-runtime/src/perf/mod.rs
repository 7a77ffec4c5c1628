//! What tasks cost on this machine: measured, kept, and used to say what a plan will take.
//!
//! A trace is summed up per *key* (code, unit, shapes) and *condition* (cold or warm caches, how many
//! workers): `observe.rs`, `summary.rs`. A *history* combines what several runs said (`history.rs`); for
//! shapes that were never executed a *regression* over sizes answers (`regression.rs`). [`Models`] asks them
//! in this order, and says which of them answered and how far off it may be. [`predict()`] executes a plan on
//! a virtual clock with such times (`simulate.rs`). A [`Store`] keeps measurements from one run to the next.
//!
//! ```
//! use dahl_runtime::perf::{Condition, Date, Key, Models, RunId, Basis};
//! # let trace = dahl_runtime::trace::Trace::default();
//! let mut models = Models::new();
//! models.learn(&trace, RunId::of("the first run of a Monday"), Date::of_seconds(1_794_700_800));
//! let key = Key { codelet: "conv2d".into(), unit: "cpu".into(), ..Key::default() };
//! let estimate = models.estimate(&key, Condition { is_cold: false, workers: 2 }, 1e6, 4096);
//! // This trace was empty.
//! assert_eq!(estimate.basis, Basis::Guess);
//! assert!(estimate.seconds > 0.0);
//! ```
//!
//! Nothing here decides anything: what is learned changes no plan by itself. Ids and dates of runs come from
//! the caller; the only look at a clock is that of a writer who waits for the lock of a [`Store`].

mod date;
mod key;
mod summary;
mod observe;
mod history;
mod regression;
mod models;
mod costs;
mod simulate;
mod predict;
mod store;

pub use costs::ModelCosts;
pub use date::Date;
pub use history::{History, N_RUNS, Run, RunId};
pub use key::{Condition, Key};
pub use models::{Basis, Entry, Estimate, Models};
pub use observe::{MAX_WARM_UP, Observed, observe};
pub use predict::{Bases, Costs, Link, Prediction, Why, predict};
pub use regression::{Point, Regression, guess};
pub use store::{
    Choice, FORMAT_VERSION, Identity, Loaded, MAX_CHOICES, MAX_CONDITIONS, MAX_KEYS, MAX_TEXT, Store, Warning,
};
pub use summary::{N_BLOCKS, OUTLIER_SIGMAS, Summary};
