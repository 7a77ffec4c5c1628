//! Detection of hardware, on trees of files as Linux has them.

use dahl_runtime::machine::{Cache, CacheKind, CoreKind, Hardware, Node, PowerSource};
use std::fs;
use std::path::{Path, PathBuf};

/// A tree of files of our own that goes with the test.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Tree {
        let path = std::env::temp_dir().join(format!("dahl-hardware-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Tree(path)
    }

    fn with(self, path: impl AsRef<Path>, text: &str) -> Tree {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// The cache `index` of a hardware thread.
    fn cache(self, thread: usize, index: usize, [level, kind, size, shared]: [&str; 4]) -> Tree {
        let folder = PathBuf::from(format!("sys/devices/system/cpu/cpu{thread}/cache/index{index}"));
        self.with(folder.join("level"), &format!("{level}\n"))
            .with(folder.join("type"), &format!("{kind}\n"))
            .with(folder.join("size"), &format!("{size}\n"))
            .with(folder.join("shared_cpu_list"), &format!("{shared}\n"))
            .with(folder.join("coherency_line_size"), "64\n")
    }

    fn read(&self) -> Hardware {
        Hardware::read(&self.0)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Two packages of one core with two threads each, and two nodes.
fn two_packages(name: &str) -> Tree {
    let mut tree = Tree::new(name)
        .with(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Test 9000: fast\nprocessor\t: 1\nmodel name\t: Test 9000\n",
        )
        .with("proc/meminfo", "MemTotal:       24682416 kB\nMemFree:        1 kB\n")
        .with("sys/devices/system/cpu/online", "0-3\n");
    for thread in 0..4 {
        let (package, siblings) = if thread % 2 == 0 { ("0", "0,2") } else { ("1", "1,3") };
        let topology = PathBuf::from(format!("sys/devices/system/cpu/cpu{thread}/topology"));
        tree = tree
            .with(topology.join("physical_package_id"), package)
            .with(topology.join("thread_siblings_list"), siblings)
            .cache(thread, 0, ["1", "Data", "32K", siblings])
            .cache(thread, 1, ["1", "Instruction", "64K", siblings])
            .cache(thread, 10, ["3", "Unified", "8M", "0-3"]);
    }
    tree
}

#[test]
fn a_whole_tree_is_understood() {
    let tree = two_packages("whole")
        .with("proc/self/cgroup", "0::/jobs/mine\n")
        .with("sys/fs/cgroup/jobs/memory.max", "1000000\n")
        .with("sys/fs/cgroup/jobs/mine/memory.max", "max\n")
        .with("sys/devices/system/node/node1/cpulist", "1,3\n")
        .with(
            "sys/devices/system/node/node1/meminfo",
            "Node 1 MemTotal:       1024 kB\nNode 1 MemFree: 1 kB\n",
        )
        .with("sys/devices/system/node/node0/cpulist", "\n")
        .with("sys/devices/system/node/has_cpu", "0-1\n")
        .with("sys/class/powercap/intel-rapl:0/name", "package-0\n")
        .with("sys/class/powercap/intel-rapl:0/energy_uj", "123456\n")
        .with("sys/class/powercap/intel-rapl/enabled", "1\n");
    let hardware = tree.read();
    let cache = |level, kind, bytes, threads, count| Cache {
        level,
        kind,
        bytes,
        line_bytes: Some(64),
        threads,
        count,
    };
    let expected = Hardware {
        processor: Some("Test 9000: fast".into()),
        packages: Some(2),
        cores: Some(2),
        threads: Some(4),
        kinds: Vec::new(),
        caches: vec![
            cache(1, CacheKind::Data, 32 << 10, 2, 2),
            cache(1, CacheKind::Instruction, 64 << 10, 2, 2),
            cache(3, CacheKind::Unified, 8 << 20, 4, 1),
        ],
        memory_bytes: Some(24_682_416 << 10),
        memory_limit_bytes: Some(1_000_000),
        // A node of memory only has no threads.
        nodes: vec![
            Node { id: 0, memory_bytes: None, threads: vec![] },
            Node { id: 1, memory_bytes: Some(1 << 20), threads: vec![1, 3] },
        ],
        power: vec![PowerSource { zone: "intel-rapl:0".into(), name: "package-0".into(), readable: true }],
    };
    assert_eq!(hardware, expected);
    assert!(hardware.measures_energy());
}

/// A tree with so many hardware threads.
fn threads(name: &str, n: usize) -> Tree {
    Tree::new(name).with("sys/devices/system/cpu/online", &format!("0-{}\n", n - 1))
}

fn of_thread(thread: usize, file: &str) -> PathBuf {
    PathBuf::from(format!("sys/devices/system/cpu/cpu{thread}/{file}"))
}

fn core_kind(name: &str, threads: &[usize], capacity: u32) -> CoreKind {
    CoreKind { name: name.into(), threads: threads.to_vec(), capacity }
}

#[test]
fn kinds_of_cores_are_told_by_lists_and_by_capacity() {
    let listed = |name: &str| {
        threads(name, 4)
            .with("sys/devices/cpu_core/cpus", "0-1\n")
            .with("sys/devices/cpu_atom/cpus", "2-3,9\n")
    };
    assert_eq!(
        listed("listed").read().kinds,
        [core_kind("core", &[0, 1], 1024), core_kind("atom", &[2, 3], 1024)]
    );
    let mut tree = listed("clocked");
    for (thread, kilohertz) in ["4800000", "5000000", "2500000", "2500000"].into_iter().enumerate() {
        tree = tree.with(of_thread(thread, "cpufreq/cpuinfo_max_freq"), kilohertz);
    }
    assert_eq!(tree.read().kinds, [core_kind("core", &[0, 1], 1024), core_kind("atom", &[2, 3], 512)]);
    let capacities = |name: &str, capacities: [&str; 3]| {
        let set = |tree: Tree, (thread, capacity): (usize, &str)| {
            tree.with(of_thread(thread, "cpu_capacity"), capacity)
        };
        capacities.into_iter().enumerate().fold(threads(name, 3), set).read().kinds
    };
    let expected = [core_kind("256", &[0, 1], 256), core_kind("1024", &[2], 1024)];
    assert_eq!(capacities("capacity", ["256", "256", "1024"]), expected);
    // Alike, or nonsense: one kind, of which nothing need be said.
    assert_eq!(capacities("alike", ["800", "800", "800"]), []);
    assert_eq!(capacities("no-capacity", ["fast", "", "-1"]), []);
    // One list alone tells no kinds apart.
    assert_eq!(threads("single", 2).with("sys/devices/cpu_core/cpus", "0-1\n").read().kinds, []);
}

#[test]
fn nothing_there_is_nothing_found() {
    assert_eq!(Tree::new("empty").read(), Hardware::default());
    assert_eq!(Hardware::read(Path::new("no/such/root")), Hardware::default());
    assert!(!Hardware::default().measures_energy());
}

#[test]
fn what_makes_no_sense_is_left_out_and_the_rest_is_kept() {
    let tree = two_packages("nonsense")
        .with("proc/cpuinfo", "model name\t:\n\n")
        .with("proc/meminfo", "MemTotal: many kB\n")
        // No list of numbers that could be threads; the folders are counted instead.
        .with("sys/devices/system/cpu/online", "3-99999999999\n")
        .with("sys/devices/system/cpu/cpufreq/x", "")
        .cache(0, 0, ["1", "Data", "big", "0,2"])
        .cache(1, 1, ["1", "Trace", "12K", "1,3"])
        .cache(2, 10, ["3", "Unified", "8M", "3-0"])
        .with("proc/self/cgroup", "1:cpu:/old\n")
        .with("sys/devices/system/node/node0/cpulist", "0-\n")
        .with("sys/devices/system/node/node0/meminfo", "garbage")
        .with("sys/class/powercap/a/name", "package-0")
        .with("sys/class/powercap/a/energy_uj", "not a number");
    let hardware = tree.read();
    assert_eq!((hardware.processor, hardware.memory_bytes, hardware.memory_limit_bytes), (None, None, None));
    assert_eq!((hardware.threads, hardware.cores, hardware.packages), (Some(4), Some(2), Some(2)));
    let caches: Vec<_> = hardware.caches.iter().map(|cache| (cache.level, cache.kind, cache.count)).collect();
    let expected = [
        (1, CacheKind::Data, 2),
        (1, CacheKind::Instruction, 2),
        // One says that its thread has it alone, as nothing else can be made of its list.
        (3, CacheKind::Unified, 1),
        (3, CacheKind::Unified, 1),
    ];
    assert_eq!(caches, expected);
    assert_eq!(hardware.nodes, [Node { id: 0, memory_bytes: None, threads: vec![] }]);
    assert_eq!(hardware.power.len(), 1);
    assert!(!hardware.power[0].readable);
}

#[test]
fn the_real_machine_is_described_without_contradiction() {
    let hardware = Hardware::detect();
    if let (Some(packages), Some(cores), Some(threads)) =
        (hardware.packages, hardware.cores, hardware.threads)
    {
        assert!(packages <= cores && cores <= threads, "{hardware:?}");
    }
    for cache in &hardware.caches {
        assert!(cache.count >= 1 && cache.threads >= 1 && cache.bytes > 0, "{cache:?}");
    }
    #[cfg(target_os = "linux")]
    assert!(hardware.memory_bytes.is_some() && hardware.threads.is_some(), "{hardware:?}");
}
