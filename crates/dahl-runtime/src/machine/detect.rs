//! What hardware this machine has, as far as its operating system tells.
//!
//! Everything is read from files below one root (`proc/`, `sys/` as Linux has them), so a tree made for a
//! test does as well as the real one. Nothing here fails: a file that is missing or makes no sense leaves its
//! field empty, and so does a system without such files.

use crate::file::read_text;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The hardware of a machine. What could not be found out is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// What the processor calls itself.
    pub processor: Option<String>,
    /// Processor packages (sockets).
    pub packages: Option<usize>,
    /// Physical cores.
    pub cores: Option<usize>,
    /// Hardware threads that are online.
    pub threads: Option<usize>,
    /// The kinds of cores of a hybrid processor; empty where all are alike.
    pub kinds: Vec<CoreKind>,
    /// The caches, one entry per kind, nearest to the cores first.
    pub caches: Vec<Cache>,
    /// Main memory.
    pub memory_bytes: Option<u64>,
    /// How much of it this process may use, where a control group limits that.
    pub memory_limit_bytes: Option<u64>,
    /// The NUMA nodes.
    pub nodes: Vec<Node>,
    /// Counters of energy.
    pub power: Vec<PowerSource>,
}

/// Cores of one kind of a hybrid processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreKind {
    /// What the system calls them: `core` and `atom`, or how fast they are.
    pub name: String,
    /// Their hardware threads.
    pub threads: Vec<usize>,
    /// How fast they are: 1024 is as fast as the fastest.
    pub capacity: u32,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// Caches of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cache {
    /// 1 is nearest to a core.
    pub level: usize,
    /// What it holds.
    pub kind: CacheKind,
    /// Bytes of each.
    pub bytes: u64,
    /// Bytes of a line, where that is told.
    pub line_bytes: Option<u64>,
    /// Hardware threads that share one of them.
    pub threads: usize,
    /// How many such caches there are.
    pub count: usize,
}

/// A NUMA node: memory, and the threads that are near to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: usize,
    /// Its memory.
    pub memory_bytes: Option<u64>,
    /// Its hardware threads.
    pub threads: Vec<usize>,
}

/// A counter of energy (RAPL).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerSource {
    /// The system's name of the counter, such as `intel-rapl:0`.
    pub zone: String,
    /// What it counts, such as `package-0`.
    pub name: String,
    /// Whether this process may read it.
    pub readable: bool,
}

impl Hardware {
    /// The hardware of this machine.
    pub fn detect() -> Hardware {
        Hardware::read(Path::new("/"))
    }

    /// The hardware that the files below `root` describe.
    pub fn read(root: &Path) -> Hardware {
        let cpus = root.join("sys/devices/system/cpu");
        let threads = threads(&cpus);
        let topology = |thread: &usize, file: &str| text(&cpus.join(format!("cpu{thread}/topology/{file}")));
        let distinct = |file: &str| {
            let values: BTreeSet<String> =
                threads.iter().filter_map(|thread| topology(thread, file)).collect();
            Some(values.len()).filter(|&n| n > 0)
        };
        Hardware {
            processor: processor(&root.join("proc/cpuinfo")),
            packages: distinct("physical_package_id"),
            cores: distinct("thread_siblings_list"),
            threads: Some(threads.len()).filter(|&n| n > 0),
            kinds: kinds(root, &cpus, &threads),
            caches: caches(&cpus, &threads),
            memory_bytes: memory_bytes(&root.join("proc/meminfo")),
            memory_limit_bytes: memory_limit_bytes(root),
            nodes: nodes(&root.join("sys/devices/system/node")),
            power: power(&root.join("sys/class/powercap")),
        }
    }

    /// Whether any counter of energy can be read; without one, energy can only be modelled.
    pub fn measures_energy(&self) -> bool {
        self.power.iter().any(|source| source.readable)
    }
}

/// More hardware threads than any machine has: a list that names others is not believed.
const MAX_THREADS: usize = 1 << 16;

/// The longest of the files is that of the processors, with a few kilobytes for each.
const MAX_BYTES: u64 = 16 << 20;

/// The text of a file, without the white space around it.
fn text(path: &Path) -> Option<String> {
    Some(read_text(path, MAX_BYTES).ok()?.trim().to_string()).filter(|text| !text.is_empty())
}

fn number<T: FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

/// The entries of a folder whose names are `prefix` and a number, by number.
fn numbered(folder: &Path, prefix: &str) -> BTreeMap<usize, PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |path: PathBuf| Some((path.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok()?, path));
    entries.filter_map(|entry| of(entry.path())).collect()
}

/// A list of numbers as the kernel writes it: `0-3,8`.
fn list(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MAX_THREADS {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// A number of bytes as the kernel writes it: `32K`.
fn bytes(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit: u64 = match text[split..].trim() {
        "" | "B" => 1,
        "K" | "kB" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    text[..split].parse::<u64>().ok()?.checked_mul(unit)
}

/// The value of a line `key : value`.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let of = |line: &'a str| {
        line.split_once(':').filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    };
    text.lines().find_map(of).filter(|value| !value.is_empty())
}

/// The hardware threads that are online.
fn threads(cpus: &Path) -> Vec<usize> {
    let online = text(&cpus.join("online")).and_then(|text| list(&text));
    online.unwrap_or_else(|| numbered(cpus, "cpu").into_keys().collect())
}

/// What the fastest core of a machine has; Linux counts like this.
const FULL_CAPACITY: u32 = 1024;

/// The kinds of cores. On Intel's hybrid processors each has a list of its own; elsewhere they are told apart
/// by their capacity. One that no frequency and no capacity is known of is taken to be as fast as any.
fn kinds(root: &Path, cpus: &Path, threads: &[usize]) -> Vec<CoreKind> {
    let capacity = |thread: usize| number::<u32>(&cpus.join(format!("cpu{thread}/cpu_capacity")));
    let listed = ["core", "atom", "lowpower"].into_iter().filter_map(|name| {
        let text = text(&root.join(format!("sys/devices/cpu_{name}/cpus")))?;
        let mut of = list(&text)?;
        of.retain(|thread| threads.contains(thread));
        (!of.is_empty()).then(|| (name.to_string(), of))
    });
    let mut found: Vec<(String, Vec<usize>)> = listed.collect();
    if found.len() < 2 {
        let mut by_capacity: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for &thread in threads {
            by_capacity.entry(capacity(thread).unwrap_or(0)).or_default().push(thread);
        }
        found = by_capacity.into_iter().map(|(capacity, of)| (capacity.to_string(), of)).collect();
    }
    if found.len() < 2 {
        return Vec::new();
    }
    let frequency =
        |thread: usize| number::<u32>(&cpus.join(format!("cpu{thread}/cpufreq/cpuinfo_max_freq")));
    // The fastest of a kind stands for all: some cores may go a little further than others.
    let fastest =
        |of: &[usize], speed: &dyn Fn(usize) -> Option<u32>| of.iter().filter_map(|&t| speed(t)).max();
    let speeds = |speed: &dyn Fn(usize) -> Option<u32>| -> Option<Vec<u32>> {
        found.iter().map(|(_, of)| fastest(of, speed).filter(|&speed| speed > 0)).collect()
    };
    let speeds = speeds(&capacity).or_else(|| speeds(&frequency)).unwrap_or_else(|| vec![1; found.len()]);
    let most = u64::from(speeds.iter().copied().max().unwrap_or(1));
    let kind = |((name, threads), speed): ((String, Vec<usize>), u32)| {
        let capacity = (u64::from(FULL_CAPACITY) * u64::from(speed) / most).max(1) as u32;
        CoreKind { name, threads, capacity }
    };
    found.into_iter().zip(speeds).map(kind).collect()
}

impl CoreKind {
    /// How fast they are, as a share of the fastest.
    pub fn speed(&self) -> f64 {
        f64::from(self.capacity) / f64::from(FULL_CAPACITY)
    }
}

fn processor(cpuinfo: &Path) -> Option<String> {
    let text = text(cpuinfo)?;
    // The first is x86's, the others are what different systems on Arm, RISC-V and POWER have.
    ["model name", "Model", "Hardware", "uarch", "cpu"]
        .iter()
        .find_map(|key| value(&text, key))
        .map(str::to_string)
}

fn caches(cpus: &Path, threads: &[usize]) -> Vec<Cache> {
    // The same cache is listed by each of the threads that share it.
    let mut seen = BTreeSet::new();
    for thread in threads {
        for index in numbered(&cpus.join(format!("cpu{thread}/cache")), "index").values() {
            let cache = || {
                let kind = match text(&index.join("type"))?.as_str() {
                    "Data" => CacheKind::Data,
                    "Instruction" => CacheKind::Instruction,
                    "Unified" => CacheKind::Unified,
                    _ => return None,
                };
                let shared = text(&index.join("shared_cpu_list")).and_then(|text| list(&text));
                let shared = shared.unwrap_or_else(|| vec![*thread]);
                let cache = Cache {
                    level: number(&index.join("level"))?,
                    kind,
                    bytes: bytes(&text(&index.join("size"))?)?,
                    line_bytes: number(&index.join("coherency_line_size")),
                    threads: shared.len(),
                    count: 0,
                };
                Some((cache, shared))
            };
            seen.extend(cache());
        }
    }
    let mut kinds: Vec<Cache> = Vec::new();
    for (cache, _) in seen {
        match kinds.last_mut() {
            Some(last) if (Cache { count: 0, ..*last }) == cache => last.count += 1,
            _ => kinds.push(Cache { count: 1, ..cache }),
        }
    }
    kinds
}

fn memory_bytes(meminfo: &Path) -> Option<u64> {
    bytes(value(&text(meminfo)?, "MemTotal")?)
}

/// The smallest limit of this process's control group (version 2) and those above it.
fn memory_limit_bytes(root: &Path) -> Option<u64> {
    let groups = text(&root.join("proc/self/cgroup"))?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let limit = |group: &Path| number::<u64>(&root.join("sys/fs/cgroup").join(group).join("memory.max"));
    Path::new(group).ancestors().filter_map(limit).min()
}

fn nodes(folder: &Path) -> Vec<Node> {
    let node = |(id, path): (usize, PathBuf)| Node {
        id,
        memory_bytes: text(&path.join("meminfo"))
            .and_then(|text| bytes(value(&text, &format!("Node {id} MemTotal"))?)),
        threads: text(&path.join("cpulist")).and_then(|text| list(&text)).unwrap_or_default(),
    };
    numbered(folder, "node").into_iter().map(node).collect()
}

fn power(folder: &Path) -> Vec<PowerSource> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let source = |path: PathBuf| {
        let counter = path.join("energy_uj");
        counter.exists().then_some(())?;
        Some(PowerSource {
            zone: path.file_name()?.to_str()?.to_string(),
            name: text(&path.join("name"))?,
            // Since 2020 Linux lets only root read them: times of other programs' work could be told from
            // them.
            readable: number::<u64>(&counter).is_some(),
        })
    };
    let mut sources: Vec<PowerSource> = entries.filter_map(|entry| source(entry.path())).collect();
    sources.sort_by(|a, b| a.zone.cmp(&b.zone));
    sources
}
