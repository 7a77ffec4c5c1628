//! PyTorch as a rival: which modes it runs in, and the processes that do.
//!
//! Environment: malloc is left alone in one process per mode, and told in another to keep the memory that it
//! has (both thresholds raised, no mappings of their own for large arrays), which saves PyTorch the page
//! faults of every step. Threads of OpenMP are left to wait as they are used to, which is fastest: they look
//! for work for some milliseconds and then sleep. Only if somebody made them wait actively for ever, or for
//! Intel's 200 ms, that is taken back, because they would take the cores from whose turn it is.
//!
//! PyTorch gets what is quickest there: the faster of its optimisers, indices drawn beforehand, no loss
//! looked at, and images that lie as its layout wants them.

use super::contestant::{Contestant, Started};
use super::settings::Settings;
use anyhow::Result;
use clap::ValueEnum;
use serde_json::json;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Ways to train with PyTorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// One operation after the other
    Eager,
    /// The same with the channels of a pixel side by side
    ChannelsLast,
    /// torch.compile; on a GPU in its mode reduce-overhead, which makes CUDA graphs
    Compile,
    /// On a GPU: torch.compile, and the whole step captured as one CUDA graph
    CudaGraph,
}

/// Where PyTorch computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// The cores that dahl gets
    Cpu,
    /// A GPU, with the data in its memory
    Cuda,
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
}

/// One process of PyTorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rival {
    pub device: Device,
    mode: Mode,
    keeps_memory: bool,
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let malloc = if self.keeps_memory { " +malloc" } else { "" };
        let device = if self.device == Device::Cpu { "" } else { "cuda " };
        write!(f, "{device}{}{malloc}", name(&self.mode))
    }
}

/// All that run in these modes on this device.
pub fn rivals(modes: &[Mode], device: Device) -> Vec<Rival> {
    let modes = modes.iter().filter(|&&mode| device == Device::Cuda || mode != Mode::CudaGraph);
    // The settings of malloc are those of glibc, and a GPU has its own memory.
    let has_two = device == Device::Cpu && cfg!(target_os = "linux");
    let both = [false, true].into_iter().filter(move |&keeps_memory| has_two || !keeps_memory);
    modes
        .flat_map(|&mode| both.clone().map(move |keeps_memory| Rival { device, mode, keeps_memory }))
        .collect()
}

/// The modules of the rival, which it imports from its input: an installed dahl has no files beside it.
const SOURCES: [(&str, &str); 3] = [
    ("random_stream", include_str!("../../../../scripts/random_stream.py")),
    ("models", include_str!("../../../../scripts/models.py")),
    ("torch_bench", include_str!("../../../../scripts/torch_bench.py")),
];

/// Makes these modules importable and starts the last.
const BOOT: &str = "\
import importlib.abc, importlib.util, json, sys
SOURCES = json.loads(sys.stdin.readline())
class Finder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in SOURCES else None
    def get_source(self, name):
        return SOURCES[name]
sys.meta_path.insert(0, Finder())
import torch_bench
torch_bench.main()
";

/// What keeps malloc from giving memory back, as text for glibc: nothing is mapped by itself (the threshold
/// is the largest that every version takes), and nothing is trimmed.
const KEEP_MEMORY: [(&str, &str); 3] = [
    ("MALLOC_MMAP_THRESHOLD_", "33554432"),
    ("MALLOC_MMAP_MAX_", "0"),
    ("MALLOC_TRIM_THRESHOLD_", "68719476736"),
];

impl Rival {
    /// Starts the process, which then loads PyTorch by itself.
    pub fn start(self, python: &Path, workers: usize, patience: Duration) -> Result<Started> {
        let mut command = Command::new(python);
        command.args(["-c", BOOT]).stderr(Stdio::piped());
        command.env_remove("OMP_WAIT_POLICY").env_remove("GOMP_SPINCOUNT").env("KMP_BLOCKTIME", "20");
        command.env("OMP_NUM_THREADS", workers.to_string());
        for (key, value) in KEEP_MEMORY {
            match self.keeps_memory {
                true => command.env(key, value),
                false => command.env_remove(key),
            };
        }
        let sources: serde_json::Map<_, _> =
            SOURCES.iter().map(|&(name, text)| (name.to_string(), json!(text))).collect();
        Started::new(&mut command, &[json!(sources)], patience)
    }

    /// Tells the process what to train, and waits until it is ready.
    pub fn ready(self, started: Started, settings: &Settings) -> Result<Contestant> {
        let mut asked = settings.to_json();
        (asked["mode"], asked["device"]) = (json!(name(&self.mode)), json!(name(&self.device)));
        started.ready(&asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_runs_where_it_can() {
        let names = |modes: &[Mode], device| -> Vec<String> {
            rivals(modes, device).iter().map(ToString::to_string).collect()
        };
        let all = [Mode::Eager, Mode::ChannelsLast, Mode::Compile, Mode::CudaGraph];
        assert_eq!(
            names(&all, Device::Cuda),
            ["cuda eager", "cuda channels-last", "cuda compile", "cuda cuda-graph"]
        );
        assert!(names(&all, Device::Cpu).iter().all(|name| !name.contains("graph")));
        if cfg!(target_os = "linux") {
            assert_eq!(names(&[Mode::Compile], Device::Cpu), ["compile", "compile +malloc"]);
        }
        assert!(names(&[], Device::Cpu).is_empty());
    }
}
