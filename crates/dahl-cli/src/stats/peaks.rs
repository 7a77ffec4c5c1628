//! The measured peaks to compare with.

use anyhow::Result;
use dahl_runtime::machine::Peaks;
use serde_json::{Value, json};
use std::path::Path;

/// Peaks and where they are from.
pub struct Found {
    measured: Option<Peaks>,
    nominal: Peaks,
}

pub fn find(_path: Option<&Path>, _n_workers: usize) -> Result<Found> {
    Ok(Found { measured: None, nominal: Peaks::nominal() })
}

impl Found {
    pub fn known(&self) -> Option<&Peaks> {
        self.measured.as_ref()
    }

    pub fn known_or_nominal(&self) -> &Peaks {
        self.measured.as_ref().unwrap_or(&self.nominal)
    }

    pub fn words(&self) -> String {
        "this machine's peaks are not known: measure them by dahl machine --measure".to_string()
    }

    pub fn json(&self) -> Value {
        json!(null)
    }
}
