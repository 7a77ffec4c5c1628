//! Neural networks trained as a graph of asynchronous tasks on whatever a user has.
//!
//! A [`model::Sequential`] is a list of layers. A [`train::Trainer`] records one training step of it as a task
//! graph, plans it, and replays it for every batch:
//!
//! ```
//! use dahl::{Trainer, dataset, model::Sequential};
//! use dahl_runtime::machine::Machine;
//!
//! let machine = Machine::detect();
//! let data = dataset::digits();
//! let mut model = Sequential::new([1, 8, 8]).conv2d(8, 3).relu().max_pool(2).flatten().dense(10);
//! let report = Trainer::new(&machine).sgd(0.2).batch(64).epochs(3).fit(&mut model, &data)?;
//! assert!(report.epochs[2].loss < report.epochs[0].loss);
//! # Ok::<(), dahl::Error>(())
//! ```

pub mod dataset;
pub mod error;
pub mod file;
pub mod layer;
pub mod loss;
pub mod measure;
mod memory;
pub mod model;
pub mod optim;
pub mod tensors;
pub mod train;
pub mod tune;

pub use dahl_op as op;
pub use dahl_op::random;
pub use error::{Error, ErrorKind, Result};
pub use train::Trainer;
