//! `dahl machine`.

pub mod measured;

use crate::exit::Exit;
use crate::output::{bytes, count, say, warn};
use crate::parse::path;
use anyhow::Result;
use dahl::op::simd::Isa;
use dahl_runtime::machine::{Cache, CacheKind, Hardware, Machine, MachineFile, Unit};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What to say about this machine.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dahl machine                       what dahl finds here, in words
  dahl machine --measure             also measures peak flops and bandwidth, in some seconds; dahl stats uses them
  dahl machine --measure -o FILE     also writes all of it as a machine file
  dahl machine --json                the same for programs; null is what the system does not tell")]
pub struct Args {
    /// Measure operations and bytes per second, on one core and on all, and keep the numbers for dahl stats
    #[arg(long)]
    measure: bool,
    /// Write a machine file
    #[arg(short, long, value_name = "FILE", value_parser = path())]
    output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Describes this machine.
pub fn run(args: &Args) -> Result<Exit> {
    let (machine, hardware) = (Machine::detect(), Hardware::detect());
    let isas: Vec<String> = Isa::available().iter().map(Isa::to_string).collect();
    let measured = match args.measure {
        true => Some(measured::measure(&hardware, args.json)?),
        false => measured::known(&hardware),
    };
    let file = MachineFile { machine, hardware, instructions: isas, measured };
    // Measuring took seconds: whatever cannot be written, the numbers are said.
    let written = args.output.as_ref().map_or(Ok(()), |path| file.save(path));
    let output = args.output.as_ref().filter(|_| written.is_ok());
    let kept = if args.measure { measured::keep(&file) } else { Ok(None) };
    let kept = kept.unwrap_or_else(|error| {
        warn(format_args!(
            "{error:#}; dahl stats will find these numbers only in a file of -o, by --machine FILE"
        ));
        None
    });
    say_all(args, &file, output.into_iter().chain(&kept))?;
    written?;
    Ok(Exit::Done)
}

/// Says what a machine is, and which files that was written to.
fn say_all<'a>(
    args: &Args,
    file: &MachineFile,
    mut written: impl Iterator<Item = &'a PathBuf>,
) -> Result<()> {
    let MachineFile { machine, hardware, instructions, measured } = file;
    if args.json {
        let mut json = to_json(machine, hardware, instructions);
        json["measured"] = measured.as_ref().map_or(Value::Null, measured::json);
        json["machine_file"] = json!(written.next());
        return Ok(say(json)?);
    }
    let mut lines = words(machine, hardware, instructions);
    match measured {
        Some(measured) => lines.extend(measured::words(measured)),
        None => {
            lines.push(("measured", "nothing yet: dahl machine --measure takes some seconds".to_string()))
        }
    }
    lines.extend(written.map(|path| ("written", path.display().to_string())));
    for (title, line) in lines {
        say(format!("{title:<13} {line}"))?;
    }
    Ok(())
}

/// Lines with what each is about; where several are about the same thing, only the first says so.
fn words(machine: &Machine, hardware: &Hardware, isas: &[String]) -> Vec<(&'static str, String)> {
    let untold = || "this system does not tell".to_string();
    let counts = [(hardware.packages, "package"), (hardware.cores, "core"), (hardware.threads, "thread")];
    let counts = counts.into_iter().filter_map(|(n, thing)| Some(count(n?, thing)));
    let processor: Vec<String> = hardware.processor.clone().into_iter().chain(counts).collect();
    let processor = if processor.is_empty() { untold() } else { processor.join(", ") };
    let units =
        format!("{} by default, one per thread that dahl may use", count(machine.units.len(), "CPU worker"));
    let mut lines = vec![("processor", processor), ("units", units)];

    let mut caches: Vec<String> = hardware.caches.iter().map(cache_line).collect();
    if caches.is_empty() {
        caches.push(untold());
    }
    lines.extend(caches.into_iter().enumerate().map(|(i, line)| (if i == 0 { "caches" } else { "" }, line)));

    let mut memory = hardware.memory_bytes.map_or_else(untold, bytes);
    if let Some(limit) = hardware.memory_limit_bytes {
        memory.push_str(&format!(", of which {} may be used here", bytes(limit)));
    }
    if !hardware.nodes.is_empty() {
        memory.push_str(&format!(", in {}", count(hardware.nodes.len(), "NUMA node")));
    }
    lines.push(("memory", memory));
    if hardware.nodes.len() > 1 {
        for node in &hardware.nodes {
            let memory = node.memory_bytes.map_or_else(|| "memory unknown".to_string(), bytes);
            let threads = count(node.threads.len(), "thread");
            lines.push(("", format!("node {}: {memory}, {threads}", node.id)));
        }
    }

    // The best comes last; kernels use it.
    let instructions = match isas.split_last() {
        Some((best, [])) => best.clone(),
        Some((best, others)) => format!("{best} (also {})", others.join(", ")),
        None => untold(),
    };
    lines.push(("instructions", instructions));

    let readable: Vec<&str> =
        hardware.power.iter().filter(|source| source.readable).map(|source| source.name.as_str()).collect();
    let power = match (readable.as_slice(), hardware.power.len()) {
        ([], 0) => "no counter of energy: joules can only be modelled".to_string(),
        ([], n) => format!(
            "{} of energy, none readable without more rights: joules can only be modelled",
            count(n, "counter")
        ),
        (names, _) => format!("measured by RAPL: {}", names.join(", ")),
    };
    lines.push(("power", power));
    lines
}

fn cache_line(cache: &Cache) -> String {
    let kind = match cache.kind {
        CacheKind::Data => "data",
        CacheKind::Instruction => "instructions",
        CacheKind::Unified => "",
    };
    let size = bytes(cache.bytes);
    let name = format!("L{} {kind}", cache.level);
    format!("{name:<15} {size:>8}  x {}, each for {}", cache.count, count(cache.threads, "thread"))
}

fn to_json(machine: &Machine, hardware: &Hardware, isas: &[String]) -> Value {
    let unit = |unit: &Unit| json!({ "kind": machine.kinds[unit.kind].name, "memory": unit.memory, "core": unit.core });
    let cache = |cache: &Cache| {
        let kind = match cache.kind {
            CacheKind::Data => "data",
            CacheKind::Instruction => "instruction",
            CacheKind::Unified => "unified",
        };
        json!({
            "level": cache.level, "kind": kind, "bytes": cache.bytes, "line_bytes": cache.line_bytes,
            "threads": cache.threads, "count": cache.count,
        })
    };
    let nodes = hardware
        .nodes
        .iter()
        .map(|node| json!({ "id": node.id, "memory_bytes": node.memory_bytes, "threads": node.threads }));
    let power = hardware
        .power
        .iter()
        .map(|source| json!({ "zone": source.zone, "name": source.name, "readable": source.readable }));
    json!({
        "processor": hardware.processor,
        "packages": hardware.packages,
        "cores": hardware.cores,
        "threads": hardware.threads,
        "units": machine.units.iter().map(unit).collect::<Vec<_>>(),
        "caches": hardware.caches.iter().map(cache).collect::<Vec<_>>(),
        "memory_bytes": hardware.memory_bytes,
        "memory_limit_bytes": hardware.memory_limit_bytes,
        "nodes": nodes.collect::<Vec<_>>(),
        "instruction_sets": isas,
        "power": power.collect::<Vec<_>>(),
        "energy": if hardware.measures_energy() { "measured" } else { "modelled" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dahl_runtime::machine::{Node, PowerSource};

    fn text(hardware: &Hardware) -> String {
        let lines = words(&Machine::with_workers(1), hardware, &["plain".into(), "avx2".into()]);
        lines.into_iter().map(|(title, line)| format!("{title}: {line}\n")).collect()
    }

    #[test]
    fn a_machine_that_tells_nothing_is_described_all_the_same() {
        let text = text(&Hardware::default());
        let expected = "\
processor: this system does not tell
units: 1 CPU worker by default, one per thread that dahl may use
caches: this system does not tell
memory: this system does not tell
instructions: avx2 (also plain)
power: no counter of energy: joules can only be modelled
";
        assert_eq!(text, expected);
    }

    #[test]
    fn nodes_limits_and_counters_are_told() {
        let source = |name: &str, readable| PowerSource { zone: "z".into(), name: name.into(), readable };
        let mut hardware = Hardware {
            processor: Some("Test".into()),
            cores: Some(1),
            memory_bytes: Some(2 << 30),
            memory_limit_bytes: Some(1 << 30),
            nodes: (0..2).map(|id| Node { id, memory_bytes: None, threads: vec![id] }).collect(),
            power: vec![source("package-0", false)],
            ..Hardware::default()
        };
        let before = text(&hardware);
        assert!(before.contains("processor: Test, 1 core\n"), "{before}");
        assert!(
            before.contains("memory: 2 GiB, of which 1 GiB may be used here, in 2 NUMA nodes\n"),
            "{before}"
        );
        assert!(before.contains(": node 1: memory unknown, 1 thread\n"), "{before}");
        assert!(before.contains("1 counter of energy, none readable"), "{before}");
        hardware.power.push(source("dram", true));
        assert!(text(&hardware).contains("power: measured by RAPL: dram\n"));
    }
}
