//! Neural networks trained as a graph of asynchronous tasks on whatever a user has.
//!
//! A [`Sequential`] is a list of layers. A [`Trainer`] records one training step of it as a task graph, plans
//! it, and replays it for every batch:
//!
//! ```
//! use dahl::prelude::*;
//!
//! fn main() -> dahl::Result<()> {
//!     let machine = Machine::detect();
//!     let data = dataset::digits();
//!     let mut model = Sequential::new([1, 8, 8]).conv2d(8, 3).relu().max_pool(2).flatten().dense(10);
//!     let report = Trainer::new(&machine).sgd(0.2).batch(64).epochs(3).fit(&mut model, &data)?;
//!     assert!(report.epochs[2].loss < report.epochs[0].loss);
//!     Ok(())
//! }
//! ```
//!
//! [Operations](op) work on arrays too, as tasks that are submitted at once and waited for where they are
//! read:
//!
//! ```
//! use dahl::prelude::*;
//!
//! fn main() -> dahl::Result<()> {
//!     let runtime = Runtime::new(&Machine::detect())?;
//!     let work = runtime.arena("work");
//!     let x = work.array_from([2, 2], &[1.0f32, -2.0, 3.0, -4.0])?;
//!     let mut y = op::matmul_init(&work, &x, &x)?;
//!     op::relu_self(&mut y)?;
//!     assert_eq!(y.read()?.to_vec(), [0.0, 6.0, 0.0, 10.0]);
//!     Ok(())
//! }
//! ```
//!
//! A program needs no crate but this one: the runtime below it is [`runtime`].
//!
//! | module | what is in it |
//! |---|---|
//! | [`prelude`] | what nearly every program needs |
//! | [`dataset`] | labelled images: digits that are built in, IDX, CIFAR-10, folders of images |
//! | [`model`], [`layer`] | networks, built in Rust or read from a file, and what they are made of |
//! | [`loss`], [`optim`] | what training starts from, and how gradients become new weights |
//! | [`train`] | training, evaluation, checkpoints, reports |
//! | [`tensors`], [`mod@file`] | tensors in files (safetensors, npy, npz, csv); reading and writing files |
//! | [`op`], [`random`] | operations on arrays with their kernels, and random numbers by counter |
//! | [`check`] | layers, losses and codelets tried out, for tests |
//! | [`tune`], [`measure`] | which cut of a step is best on a machine; its peaks |
//! | [`runtime`] | arrays, codelets, task graphs, plans, engines, traces, machines |
//! | [`error`] | the one [`Error`], to which `?` converts those of the runtime |

pub mod prelude;
pub mod check;
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

#[cfg(doctest)]
mod texts;

pub use dahl_op as op;
pub use dahl_op::random;
pub use dahl_runtime as runtime;
pub use dahl_runtime::Runtime;
pub use dahl_runtime::array::{Array, Dtype, Owned};
pub use dahl_runtime::graph::Graph;
pub use dahl_runtime::machine::Machine;
pub use error::{Error, ErrorKind, Result};
pub use model::Sequential;
pub use train::Trainer;
