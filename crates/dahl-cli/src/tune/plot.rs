//! A picture of a sweep: images per second over samples per task, a line per network, batch and number of
//! workers.

use super::sweep::Case;
use crate::output::thousands;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::graph::CutOptions;
use std::fmt::Write;

/// Colours that most eyes can tell apart, on white.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933"];
const PLOT: (f64, f64) = (560.0, 320.0);
/// Left of the plot and above it.
const MARGIN: (f64, f64) = (90.0, 30.0);

/// Samples per task of a batch, if tasks are cut by samples.
fn samples(cut: &CutOptions, batch: usize) -> Option<usize> {
    cut.tilings.iter().flatten().find_map(|(axis, size)| match size {
        TileSize::Size(size) if axis == "n" => Some(*size),
        TileSize::Between(least, _) if axis == "n" => Some(size.tile(batch, 0).len().max(*least)),
        _ => None,
    })
}

/// The points of a case: for each size of task the best grouping.
fn points(case: &Case) -> Vec<(usize, f64)> {
    let mut points: Vec<(usize, f64)> = Vec::new();
    for plan in &case.plans {
        let Some(size) = samples(&plan.cut, case.batch) else { continue };
        let rate = case.batch as f64 / plan.step();
        match points.iter_mut().find(|(other, _)| *other == size) {
            Some((_, best)) => *best = best.max(rate),
            None => points.push((size, rate)),
        }
    }
    points.sort_unstable_by_key(|&(size, _)| size);
    points
}

/// The picture, as SVG.
pub fn svg(cases: &[Case]) -> String {
    let lines: Vec<(String, Vec<(usize, f64)>)> = cases
        .iter()
        .map(|case| (format!("{}, batch {}, {} workers", case.model, case.batch, case.workers), points(case)))
        .collect();
    draw(&lines)
}

fn draw(lines: &[(String, Vec<(usize, f64)>)]) -> String {
    let all = || lines.iter().flat_map(|(_, points)| points);
    let sizes = || all().map(|&(size, _)| (size.max(1) as f64).log2());
    let (low, high) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(f64::NEG_INFINITY, f64::max));
    let top = all().map(|&(_, rate)| rate).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let (width, height) = PLOT;
    let x = |size: usize| {
        let place = ((size.max(1) as f64).log2() - low) / (high - low).max(1e-9);
        MARGIN.0 + width * if high > low { place } else { 0.5 }
    };
    let y = |rate: f64| MARGIN.1 + height * (1.0 - rate / top);
    let full = (
        MARGIN.0 + width + 250.0,
        (MARGIN.1 + height + 60.0).max(MARGIN.1 + 20.0 * lines.len() as f64 + 20.0),
    );
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        full.0, full.1
    );
    for part in 0..=4 {
        let rate = top * f64::from(part) / 4.0;
        let (left, right, at) = (MARGIN.0, MARGIN.0 + width, y(rate));
        let _ = writeln!(
            text,
            "<line x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            at + 4.0,
            thousands(rate as u64)
        );
    }
    let mut ticks: Vec<usize> = all().map(|&(size, _)| size).collect();
    ticks.sort_unstable();
    ticks.dedup();
    for size in ticks {
        let (at, bottom) = (x(size), MARGIN.1 + height + 20.0);
        let _ = writeln!(text, "<text x=\"{at:.1}\" y=\"{bottom}\" text-anchor=\"middle\">{size}</text>");
    }
    let (middle, bottom) = (MARGIN.0 + width / 2.0, MARGIN.1 + height + 44.0);
    let _ =
        writeln!(text, "<text x=\"{middle}\" y=\"{bottom}\" text-anchor=\"middle\">samples per task</text>");
    let _ = writeln!(text, "<text x=\"{}\" y=\"18\" text-anchor=\"end\">images/s</text>", MARGIN.0 - 8.0);
    for (i, (name, points)) in lines.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let path: Vec<String> =
            points.iter().map(|&(size, rate)| format!("{:.1},{:.1}", x(size), y(rate))).collect();
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for &(size, rate) in points {
            let _ = writeln!(
                text,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"><title>{}: {size} samples per task, {} \
                 images/s</title></circle>",
                x(size),
                y(rate),
                escaped(name),
                thousands(rate as u64)
            );
        }
        let (left, at) = (MARGIN.0 + width + 20.0, MARGIN.1 + 20.0 * i as f64 + 10.0);
        let _ = writeln!(
            text,
            "<rect x=\"{left}\" y=\"{:.1}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"{:.1}\">{}</text>",
            at - 10.0,
            left + 18.0,
            at + 1.0,
            escaped(name)
        );
    }
    text + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_drawn_and_names_are_escaped() {
        let lines =
            vec![("a<b".to_string(), vec![(16, 10.0), (32, 20.0)]), ("c".to_string(), vec![(16, 5.0)])];
        let text = draw(&lines);
        assert_eq!(text.matches("<circle").count(), 3);
        assert_eq!(text.matches("<polyline").count(), 2);
        assert!(text.contains("a&lt;b") && !text.contains("a<b") && !text.contains("NaN"));
        assert!(!draw(&[]).contains("NaN") && !draw(&[("none".into(), Vec::new())]).contains("inf"));
    }
}
