//! Neural networks trained as a graph of asynchronous tasks.

pub mod error;
pub mod dataset;
pub mod op;
