//! A comparison in words, as a table, and as JSON.

use super::contest::{Case, Score};
use super::floor::Floor;
use super::torch::Device;
use crate::output::{align, bytes, count, thousands};
use serde_json::{Value, json};

/// Who took how long in one case.
pub fn words(case: &Case) -> String {
    let settings = &case.settings;
    let mut text = format!(
        "{}, batch {}, {}, {}; cut: {}\n",
        settings.about(),
        settings.batch,
        settings.dtype,
        count(settings.workers, "worker"),
        case.origin
    );
    let mut rows =
        vec![["  who", "images/s", "step", "GFLOP/s", "memory", "in training"].map(String::from).to_vec()];
    let row = |name: String, score: &Score| {
        let memory = |n: Option<u64>| n.map_or_else(|| "untold".to_string(), bytes);
        let (whole, training) = (memory(score.memory.whole()), memory(score.memory.training()));
        vec![name, rate(case, score), micros(score.step()), effective(case, score), whole, training]
    };
    rows.push(row("  dahl".to_string(), &case.dahl));
    for (rival, score) in &case.rivals {
        match score {
            Ok(score) => rows.push(row(format!("  {rival}"), score)),
            Err(_) => rows.push(vec![format!("  {rival}"), "-".to_string()]),
        }
    }
    text.push_str(&align(&rows, 1));
    for (rival, score) in &case.rivals {
        if let Err(error) = score {
            text.push_str(&format!("  {rival} could not be measured: {error}\n"));
        }
    }
    if let Some(floor) = &case.floor {
        text.push_str(&format!(
            "  at least {} by plain arithmetic at the peak of {:.0} GFLOP/s, {} by bytes\n",
            micros(floor.flop_seconds),
            1e-9 * floor.flops_per_second,
            micros(floor.byte_seconds)
        ));
    }
    for device in case.devices() {
        let Some((rival, score)) = case.best(device) else { continue };
        let [low, middle, high] = case.dahl.ratio(score, |turn| turn.step_seconds);
        // Where others use the cores too, steps that are shorter than a slice of time have the better median.
        let [_, mean, _] = case.dahl.ratio(score, |turn| turn.mean_seconds);
        text.push_str(&format!(
            "  dahl is {middle:.2} times as fast as PyTorch's best, {rival} (quartiles over the rounds {low:.2} to {high:.2}; by mean \
             steps {mean:.2}){}\n",
            if case.n_disturbed > 0 { ": disturbed" } else { "" }
        ));
    }
    if case.n_disturbed > 0 {
        let (n, all) = (case.n_disturbed, case.dahl.turns.len());
        text.push_str(&format!(
            "  disturbed: others used the cores in {n} of {all} rounds, so measure again when nothing else runs\n"
        ));
    }
    text
}

/// All cases, a line each; one for each device of rivals.
pub fn table(cases: &[Case]) -> String {
    let has_rivals = cases.iter().any(|case| !case.rivals.is_empty());
    let mut header = vec!["network", "type", "batch", "workers", "images/s"];
    if has_rivals {
        header.splice(1..1, ["PyTorch's best"]);
        header.extend(["PyTorch", "ratio", "quartiles"]);
    }
    header.extend(["GFLOP/s", "flop floor", "byte floor", "memory"]);
    if has_rivals {
        header.push("PyTorch's");
    }
    let mut rows = vec![header.into_iter().map(String::from).collect::<Vec<_>>()];
    for case in cases {
        let devices = case.devices().into_iter().map(Some);
        let devices: Vec<Option<Device>> =
            if case.rivals.is_empty() { vec![None] } else { devices.collect() };
        for device in devices {
            let mut line = line(case, device, has_rivals);
            line.extend((case.n_disturbed > 0).then(|| "disturbed".to_string()));
            rows.push(line);
        }
    }
    align(&rows, if has_rivals { 3 } else { 2 })
}

fn line(case: &Case, device: Option<Device>, has_rivals: bool) -> Vec<String> {
    let (settings, dahl) = (&case.settings, &case.dahl);
    let best = device.and_then(|device| case.best(device));
    let untold = || "-".to_string();
    let whole = |score: &Score| score.memory.whole().map_or_else(untold, bytes);
    let mut cells = vec![settings.model.clone()];
    if has_rivals {
        cells.push(best.map_or_else(untold, |(rival, _)| rival.to_string()));
    }
    cells.extend([
        settings.dtype.to_string(),
        settings.batch.to_string(),
        settings.workers.to_string(),
        rate(case, dahl),
    ]);
    if has_rivals {
        let ratio = best.map(|(_, score)| dahl.ratio(score, |turn| turn.step_seconds));
        cells.push(best.map_or_else(untold, |(_, score)| rate(case, score)));
        cells.push(ratio.map_or_else(untold, |[_, middle, _]| format!("{middle:.2}")));
        cells.push(ratio.map_or_else(untold, |[low, _, high]| format!("{low:.2}..{high:.2}")));
    }
    let floor = case.floor.as_ref();
    let of_floor = |of: &dyn Fn(&Floor) -> String| floor.map_or_else(untold, of);
    cells.push(effective(case, dahl));
    cells.push(of_floor(&|floor| micros(floor.flop_seconds)));
    cells.push(of_floor(&|floor| micros(floor.byte_seconds)));
    cells.push(whole(dahl));
    if has_rivals {
        cells.push(best.map_or_else(untold, |(_, score)| whole(score)));
    }
    cells
}

/// A case as a JSON object.
pub fn json(case: &Case) -> Value {
    let settings = &case.settings;
    let device = |device: Device| {
        let best = case.best(device);
        let ratio = best.map(|(_, score)| case.dahl.ratio(score, |turn| turn.step_seconds));
        let mean = best.map(|(_, score)| case.dahl.ratio(score, |turn| turn.mean_seconds));
        json!({
            "device": format!("{device:?}").to_lowercase(),
            "best": best.map(|(rival, _)| rival.to_string()),
            "ratio": ratio.map(|ratio| ratio[1]),
            "ratio_quartiles": ratio.map(|[low, _, high]| [low, high]),
            "ratio_of_means": mean.map(|ratio| ratio[1]),
        })
    };
    let rival = |(rival, result): &super::contest::Scored| {
        let mut json = match result {
            Ok(found) => score(case, found),
            Err(error) => json!({ "error": error }),
        };
        json["name"] = json!(rival.to_string());
        json
    };
    json!({
        "model": settings.model, "input": settings.shape, "classes": settings.classes, "images": settings.images,
        "batch": settings.batch, "workers": settings.workers, "dtype": settings.dtype.to_string(),
        "cut": settings.cut, "origin": case.origin,
        "flops_per_step": case.least.flops,
        "image_bytes_per_step": case.least.image_bytes,
        "weight_bytes": case.least.weight_bytes,
        "floor": case.floor.map(|floor| json!({
            "flop_us": 1e6 * floor.flop_seconds, "byte_us": 1e6 * floor.byte_seconds,
            "flops_per_second": floor.flops_per_second, "bytes_per_second": floor.bytes_per_second,
        })),
        "disturbed_rounds": case.n_disturbed,
        "dahl": score(case, &case.dahl),
        "torch": case.rivals.iter().map(rival).collect::<Vec<_>>(),
        "against_torch": case.devices().into_iter().map(device).collect::<Vec<_>>(),
    })
}

fn score(case: &Case, score: &Score) -> Value {
    let batch = case.settings.batch as f64;
    let memory = &score.memory;
    json!({
        "images_per_s": batch / score.step(),
        "mean_images_per_s": batch / score.mean(),
        "step_us": 1e6 * score.step(),
        "rounds_us": score.turns.iter().map(|turn| 1e6 * turn.step_seconds).collect::<Vec<_>>(),
        "flops_per_s": case.least.flops / score.step(),
        "peak_fraction": case.floor.map(|floor| floor.flop_seconds / score.step()),
        "memory": {
            "peak_bytes": memory.peak, "data_bytes": memory.data, "start_bytes": memory.start, "ready_bytes": memory.ready,
            "whole_bytes": memory.whole(), "training_bytes": memory.training(), "device_peak_bytes": memory.device_peak,
        },
        "about": score.about,
    })
}

/// Effective GFLOP/s: those of plain convolutions and full gradients, also where Winograd's method does less.
fn effective(case: &Case, score: &Score) -> String {
    format!("{:.1}", 1e-9 * case.least.flops / score.step())
}

fn rate(case: &Case, score: &Score) -> String {
    thousands((case.settings.batch as f64 / score.step()) as u64)
}

fn micros(seconds: f64) -> String {
    format!("{:.1} us", 1e6 * seconds)
}
