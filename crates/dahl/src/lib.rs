//! Neural networks trained as a graph of asynchronous tasks.

pub mod dataset;
pub mod error;
pub mod op;
