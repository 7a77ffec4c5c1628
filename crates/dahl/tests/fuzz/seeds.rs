//! The corpora to begin with: small files of every format, as dahl and others write them.

use super::{FUZZ, targets};
use dahl::model::Sequential;
use dahl::random::Stream;
use dahl::tensors::{Tensor, Tensors};
use dahl_runtime::machine::{Hardware, Machine, MachineFile};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// At most so many bytes, the same for the same number.
pub fn noise(number: u64, most: usize) -> Vec<u8> {
    let stream = Stream::new(7, number);
    let n = stream.bits(0) % (most as u64 + 1);
    (1..=n).map(|i| stream.bits(i) as u8).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Two parts, as the targets of data sets take them.
fn parts(first: &[u8], second: &[u8]) -> Vec<u8> {
    let length = u16::try_from(first.len()).expect("a short part");
    [&length.to_le_bytes(), first, second].concat()
}

/// Five images of 4 x 3 in IDX, and their labels.
fn idx() -> [Vec<u8>; 2] {
    let sizes = |sizes: &[u32]| sizes.iter().flat_map(|size| size.to_be_bytes()).collect::<Vec<_>>();
    let images = [sizes(&[0x803, 5, 4, 3]), (0..60).map(|i| (i * 37 % 256) as u8).collect()].concat();
    [images, [sizes(&[0x801, 5]), vec![0, 1, 2, 0, 1]].concat()]
}

fn of_folder(folder: &str) -> Vec<(String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut files: Vec<PathBuf> =
        fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), fs::read(path).expect("a file"))).collect()
}

/// The lines of a file of measurements between those that say what it is.
fn measurements() -> String {
    use dahl_runtime::perf::{Condition, Date, Identity, Key, Models, Run, RunId, Store, Summary};
    let mut models = Models::new();
    for (codelet, is_cold) in [("conv2d", false), ("conv2d", true), ("dense", false)] {
        let key = Key {
            codelet: codelet.into(),
            implementation: "lanes".into(),
            algorithm: if is_cold { "winograd3".into() } else { String::new() },
            version: 1,
            unit: "cpu".into(),
            dtype: "f32".into(),
            footprint: "16x3".into(),
        };
        let summary = Summary::of(&[1e-5; 100]).expect("a hundred executions");
        let run = Run { id: RunId(7), date: Date(1_700_000_000_000_000_000), summary };
        models.add(key, 1e6, 4096, Condition { is_cold, workers: 1 }, run);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("seeds");
    let store = Store::at(&folder, Identity::new(&Hardware::default(), "any"));
    let _ = fs::remove_file(store.path());
    store.add(&models, Date(1_800_000_000_000_000_000)).expect("written");
    let text = fs::read_to_string(store.path()).expect("written just now");
    let lines: Vec<&str> = text.lines().collect();
    lines[2..lines.len() - 1].join("\n")
}

/// A trace of six steps of two tasks on two workers.
fn trace() -> Vec<u8> {
    use dahl_runtime::graph::ScopeId;
    use dahl_runtime::trace::{Event, Release, Scene, TaskInfo, Trace, WorkerInfo};
    use dahl_trace::Format;
    let worker = |core| WorkerInfo { kind: "cpu".into(), memory: 0, core: Some(core) };
    let task = |codelet: &str, tile, scopes: &[usize]| TaskInfo {
        codelet: codelet.into(),
        implementation: "lanes".into(),
        version: 1,
        dtype: "f32".into(),
        footprint: "f32[16,8]".into(),
        tile: (tile, 2),
        bytes: 512,
        flops: 1e4,
        scopes: scopes.iter().map(|&scope| ScopeId(scope)).collect(),
        ..TaskInfo::default()
    };
    let scene = Scene {
        memories: vec!["memory".into()],
        workers: vec![worker(0), worker(1)],
        scopes: vec!["fc1".into(), "relu1".into()],
        tasks: vec![task("dense", 0, &[0, 1]), task("dense", 1, &[])],
        ..Scene::default()
    };
    let events = |task: u32| {
        let event = |step: u32| Event {
            task,
            step,
            start: 1000 * u64::from(step) + 100 * u64::from(task),
            end: 1000 * u64::from(step) + 700,
        };
        (0..6).map(event).collect::<Vec<_>>()
    };
    let trace = Trace {
        scene: scene.into(),
        workers: vec![events(0), events(1)],
        releases: vec![Release { steps: 4, ticks: 0 }, Release { steps: 6, ticks: 3900 }],
        ticks_per_second: 1e9,
        n_dropped: vec![0, 0],
        ..Trace::default()
    };
    let mut bytes = Vec::new();
    dahl_trace::write(&trace, Format::Json, &mut bytes).expect("memory");
    bytes
}

fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut all: Vec<(&'static str, String, Vec<u8>)> = Vec::new();
    let mut add = |target, name: &str, bytes: &[u8]| all.push((target, name.to_string(), bytes.to_vec()));
    for target in ["arrays", "plans", "regions"] {
        (0..4).for_each(|i| add(target, &format!("random-{i}"), &noise(1 << 32 | i, 300)));
    }

    let [images, labels] = idx();
    add("idx", "plain", &parts(&images, &labels));
    add("idx", "gzip", &parts(&gzip(&images), &gzip(&labels)));
    add("idx", "short", &parts(&images[..40], &labels));
    let record = [&[3_u8][..], &[90; 3072]].concat();
    add("cifar", "plain", &parts(&record, b""));
    add("cifar", "gzip", &parts(&gzip(&record), b"cat\ndog\nbird\nship\n"));
    for (name, bytes) in of_folder("golden/images") {
        if !name.ends_with("safetensors") && bytes.len() < 2000 {
            add("picture", &name, &[&[1, 7, 7][..], &bytes].concat());
        }
    }
    ["3x32x32", "1x4x4x3:20", "1x1x1x256:1", "0x4x4"].iter().enumerate().for_each(|(i, text)| {
        add("synthetic", &format!("text-{i}"), text.as_bytes());
    });

    for (name, bytes) in of_folder("tensor_files") {
        match name.rsplit('.').next() {
            Some("npy") => add("npy", &name, &bytes),
            Some("npz") => add("npz", &name, &bytes),
            Some("csv") => add("csv", &name, &bytes),
            Some("safetensors") => add("safetensors", &name, &bytes),
            _ => {}
        }
    }
    let mut tensors = Tensors::new();
    tensors.insert("bias", Tensor::new(&[2], vec![0.5_f32, -1.0]).expect("two values"));
    tensors.insert("none", Tensor::new::<f64>(&[3, 0], Vec::new()).expect("no values"));
    tensors.metadata.insert("about".into(), "a text".into());
    add("safetensors", "own", &tensors.to_bytes().expect("names that fit"));

    for name in ["seed", "lenet5", "resnet8"] {
        let model = Sequential::builtin(name, [1, 28, 28], 10).expect("built in");
        add("model", name, model.to_toml().as_bytes());
    }
    add("model", "small", b"[[layer]]\nkind = \"conv2d\"\nfilters = 2\nkernel = 3\n\n[[layer]]\nkind = \"flatten\"\n\n[[layer]]\nkind = \"dense\"\noutputs = \"classes\"\n");
    let hardware = Hardware { processor: Some("a processor".into()), cores: Some(2), ..Hardware::default() };
    let machine = MachineFile {
        machine: Machine::with_workers(2).with_test_unit(),
        hardware,
        instructions: vec!["plain".into(), "avx2".into()],
        measured: None,
    };
    add("machine", "own", machine.to_text().as_bytes());
    let by_hand = "dahl-machine 1\nprocessor some%20processor\nmemory 0 1000000 -\nunit cpu 0 0\nmeasured 2026-01-02T03:04:05 1\nflops f32 1e10 1e10\nflops f64 5e9 5e9\ntask 1e-7\nend 8 -\n";
    add("machine", "by-hand", by_hand.as_bytes());
    [
        "tiles:n=16to64/i=4096max impl:few,lanes,flat,reference group:1 groups:16 fusion:on",
        "tiles:i=3,j=2parts groups:2",
        "impl:reference,turn=reference",
    ]
    .iter()
    .enumerate()
    .for_each(|(i, text)| add("cut", &format!("text-{i}"), text.as_bytes()));
    add("plan", "two-workers", targets::small_plan("tiles:i=4/j=4 impl:reference", 2).as_bytes());
    add("plan", "tiles", targets::small_plan("tiles:i=3,j=5 impl:reference groups:2", 2).as_bytes());
    add("plan", "one-worker", targets::small_plan("impl:reference", 1).as_bytes());

    add("measurements", "own", measurements().as_bytes());
    add("choices", "choice", b"choice a%20graph 1700000000000000000 tiles:n=32 %");
    add("choices", "two", b"choice a 1 b c\nchoice b 2 % %25");
    add("trace", "own", &trace());
    add("checkpoint", "own", &targets::small_checkpoint());

    let conv = "x[n,c,iy,ix]?0 w[k,c,ky,kx] b[k] -> y[n,k,oy,ox] += where iy = oy*s+ky-p, ix = ox*s+kx-p";
    let lines = [
        conv,
        "x[..,i] -> y[..] max=",
        "t[*,d] n[b] -> y[b,d]",
        "g[i] lr[] p[i] -> p[i]",
        "x[i!] -> y[i] where i < k",
    ];
    for (i, line) in lines.iter().enumerate() {
        add(
            "relation",
            &format!("line-{i}"),
            &[line.as_bytes(), b"\n\x03\x01\x04\x02\x03\x07\x07\x04\x02\x03\x03\x03\x01\x02\x04\x03\x01"]
                .concat(),
        );
    }
    all
}

#[test]
#[ignore = "writes fuzz/corpus"]
fn write_seeds() {
    for (target, name, bytes) in seeds() {
        let folder = Path::new(FUZZ).join("corpus").join(target);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(name), bytes).expect("written");
    }
}
