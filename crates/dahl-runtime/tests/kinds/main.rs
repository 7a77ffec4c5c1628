//! Units of different kinds in one step: who computes what is in the cut, tile by tile, and nobody executes
//! what it cannot run.

#![cfg(not(feature = "shuttle"))]

mod case;
mod strict;

use case::{Case, OTHER, machines, other};
use dahl_runtime::array::Layout;
use dahl_runtime::engine::{Device, Pool};
use dahl_runtime::graph::{Cut, CutOptions, Lowered, lower};
use dahl_runtime::machine::Machine;
use dahl_runtime::perf::{Costs, Models, predict};
use dahl_runtime::plan::{Plan, PlanFile, Planned, Schedule};
use dahl_runtime::schedule::SchedulerKind;
use proptest::prelude::*;
use std::sync::Arc;
use strict::Strict;

/// Half of the samples for the other code, in tiles of their own size.
const HALVES: &str = "tiles:n=4+other:50%:6 impl:lanes,reference groups:3";

fn odd(i: usize, step: u64) -> f32 {
    ((i * 37 + step as usize * 11) % 19) as f32 / 7.0 - 1.0
}

fn whole(i: usize, step: u64) -> f32 {
    ((i * 7 + step as usize * 3) % 5) as f32 - 2.0
}

fn planned(case: &Case, options: &str, machine: &Machine, schedule: Schedule) -> Planned {
    let options = CutOptions::parse(options).unwrap();
    Planned::new(&case.graph, &options, |lowered| schedule.plan(lowered, machine)).unwrap()
}

#[test]
fn an_array_has_tiles_of_both_codes_in_their_layouts() {
    let case = Case::new([24, 5, 3]);
    let cut = Cut::heuristic(&case.graph, &CutOptions::parse(HALVES).unwrap()).unwrap();
    let dense = &cut.tasks[1];
    let by: Vec<(usize, String)> =
        dense.implementations.runs(5).into_iter().map(|(n, by)| (n, by.written())).collect();
    assert_eq!(by, [(3, "lanes".to_string()), (2, "other:rows".to_string())]);
    assert_eq!(dense.tiles[0].1, [0..4, 4..8, 8..12, 12..18, 18..24]);
    // What is changed in place follows, and what nobody else computes, cores do.
    assert_eq!(cut.tasks[2].implementations, dense.implementations);
    assert_eq!(cut.tasks[4].implementations.only().map(|by| by.name), Some("reference"));
    for array in ["loaded", "hidden"] {
        let number = case.graph.arrays().iter().position(|info| info.name == array).unwrap();
        let layouts = cut.layouts[number].runs(5);
        assert_eq!(layouts, [(3, Layout::Lanes(4)), (2, Layout::RowMajor)], "{array}");
    }
    let lowered = lower(&case.graph, &cut).unwrap();
    let codes = |codelet: &str| -> Vec<&str> {
        lowered.tasks().iter().filter(|task| task.codelet == codelet).map(|task| task.code).collect()
    };
    assert_eq!(codes("gradient"), ["cpu", "cpu", "cpu", OTHER, OTHER]);
    assert!(codes("reduce").iter().all(|&code| code == "cpu"));
    // Shares that come to nothing are no shares, and all may be one.
    for (share, expected) in [("0%", "cpu"), ("100%", OTHER)] {
        let options = CutOptions::parse(&format!("tiles:n=4+other:{share}:6 impl:lanes")).unwrap();
        let options = CutOptions { forced: vec![("keep".into(), "reference".into())], ..options };
        let options = CutOptions { implementations: vec!["lanes".into(), "reference".into()], ..options };
        let cut = Cut::heuristic(&case.graph, &options).unwrap();
        assert_eq!(cut.tasks[1].implementations.only().map(|by| by.code), Some(expected));
    }
}

#[test]
fn the_same_cut_has_the_same_bits_whoever_executes_it() {
    let case = Case::new([26, 5, 3]);
    let mut expected: Option<Vec<f32>> = None;
    for machine in machines() {
        let pool = Arc::new(Pool::new(&machine).unwrap());
        for schedule in Schedule::ALL {
            let planned = planned(&case, HALVES, &machine, schedule);
            let seen = case.run(&pool, &planned, odd);
            let expected = expected.get_or_insert_with(|| seen.clone());
            let is_same = seen.iter().zip(&*expected).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(is_same && seen.len() == expected.len(), "{schedule:?} on {machine:?}");
            predict(&planned.lowered, &planned.plan, &machine, &Models::default(), Costs::default()).unwrap();
        }
    }
    // The other code sums the other way round, and that shows.
    let machine = Machine::with_workers(2);
    let pool = Arc::new(Pool::new(&machine).unwrap());
    let cores = planned(&case, "tiles:n=4 impl:lanes,reference groups:3", &machine, Schedule::Replay);
    assert_ne!(case.run(&pool, &cores, odd), expected.unwrap());
}

#[test]
fn a_device_need_not_know_what_others_compute() {
    let case = Case::new([26, 5, 3]);
    let machine = Machine::with_workers(2).with_unit_apart(1, other());
    let cores = Arc::new(Pool::new(&machine).unwrap());
    let expected = case.run(&cores, &planned(&case, HALVES, &machine, Schedule::Fixed), odd);
    for schedule in Schedule::ALL {
        let device = Arc::new(Strict::new(OTHER));
        let pool = Arc::new(Pool::with_devices(&machine, [(1, device as Arc<dyn Device>)]).unwrap());
        let seen = case.run(&pool, &planned(&case, HALVES, &machine, schedule), odd);
        assert!(seen.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{schedule:?}");
    }
}

#[test]
fn a_machine_without_such_a_unit_is_refused() {
    let case = Case::new([12, 2, 2]);
    let cut = Cut::heuristic(&case.graph, &CutOptions::parse(HALVES).unwrap()).unwrap();
    let lowered = lower(&case.graph, &cut).unwrap();
    let (cores, machine) = (Machine::with_workers(2), machines().swap_remove(0));
    for schedule in Schedule::ALL {
        let error = schedule.plan(&lowered, &cores).unwrap_err().to_string();
        assert!(error.contains("in the code other, and no unit of this machine runs that"), "{error}");
        let plan = schedule.plan(&lowered, &machine).unwrap();
        let error = plan.check_machine(&cores).unwrap_err().to_string();
        assert!(error.contains("code other") && error.contains("make a new plan"), "{error}");
        let pool = Arc::new(Pool::new(&cores).unwrap());
        assert!(dahl_runtime::engine::Session::new(&pool, &lowered, &plan, 0).is_err());
    }
    // Nobody computes what lowering inserts without a core.
    let mut others = cores;
    (0..2).for_each(|unit| others = others.clone().with_kind(unit, other()));
    assert!(Plan::heuristic(&lowered, &others).is_err());
}

#[test]
fn a_forced_implementation_may_bring_its_code_along() {
    let case = Case::new([9, 4, 3]);
    let machine = machines().swap_remove(1);
    let pool = Arc::new(Pool::new(&machine).unwrap());
    let options = "tiles:n=4 impl:lanes,reference,dense=other:rows";
    for schedule in Schedule::ALL {
        let planned = planned(&case, options, &machine, schedule);
        let code =
            |codelet: &str| planned.lowered.tasks().iter().find(|task| task.codelet == codelet).unwrap().code;
        assert_eq!((code("dense"), code("gradient")), (OTHER, "cpu"));
        assert_eq!(case.run(&pool, &planned, whole), case.expected(whole));
    }
    let options = CutOptions::parse("tiles:n=4 impl:dense=other:fast").unwrap();
    let error = Cut::heuristic(&case.graph, &options).unwrap_err().to_string();
    assert!(
        error.contains("no implementation 'other:fast' for f32, only reference, lanes, other:rows"),
        "{error}"
    );
}

#[test]
fn plan_files_say_tile_by_tile_who_computes_what() {
    let case = Case::new([24, 5, 3]);
    for machine in machines() {
        let pool = Arc::new(Pool::new(&machine).unwrap());
        for schedule in Schedule::ALL {
            let planned = planned(&case, HALVES, &machine, schedule);
            let mut file = PlanFile::new("test");
            file.add("step", &case.graph, &planned, &machine).unwrap();
            let text = file.to_string();
            assert!(text.starts_with("dahl plan 2\n"), "{text}");
            assert!(text.contains("dense f32 3xlanes+2xother:rows v3+v2 groups 3 n=3x4+2x6\n"), "{text}");
            assert!(text.contains("temporary 3xlanes:4+2xrow-major\n"), "{text}");
            let read = PlanFile::parse("p.plan", &text).unwrap();
            assert_eq!((read.hash(), read.was_edited(), read.to_string()), (file.hash(), false, text));
            let again = read.plan("step", &case.graph, &machine).unwrap();
            let seen = [&planned, &again].map(|planned| case.run(&pool, planned, odd));
            assert_eq!(seen[0], seen[1]);
        }
    }
}

#[test]
fn plan_files_that_ask_too_much_of_a_unit_are_refused() {
    let case = Case::new([24, 5, 3]);
    let machine = Machine::with_workers(3).with_kind(1, other());
    let mut file = PlanFile::new("test");
    let fixed = planned(&case, HALVES, &machine, Schedule::Fixed);
    file.add("step", &case.graph, &fixed, &machine).unwrap();
    let text = file.to_string();
    let read = |text: &str, machine: &Machine| {
        PlanFile::parse("p.plan", text)?.plan("step", &case.graph, machine).map(drop)
    };
    let refused = |text: &str, machine: &Machine, pieces: &[&str]| {
        let message = read(text, machine).unwrap_err().to_string();
        assert!(pieces.iter().all(|piece| message.contains(piece)), "{message}");
    };
    read(&text, &machine).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("run ")).collect();
    for (tile, (from, to), runs) in [("dense 5/5", (1, 2), "runs cpu"), ("dense 1/5", (0, 1), "runs other")] {
        let line = lines.iter().find(|line| line.contains(tile)).unwrap();
        let moved = line.replace(&format!("on {from}"), &format!("on {to}"));
        refused(&text.replace(line, &moved), &machine, &["p.plan, line ", "is written in the code ", runs]);
    }
    // Among units that are alike, it may be moved.
    let line = lines.iter().find(|line| line.contains("load 1/5")).unwrap();
    let sums = read(&text.replace(line, &line.replace("on 0", "on 2")), &machine);
    assert!(sums.is_ok() || sums.unwrap_err().to_string().contains("overlaps"));
    refused(&text, &Machine::with_workers(3), &["is written in the code other"]);
    let first = |text: &str| text.replacen("dahl plan 2", "dahl plan 1", 1);
    refused(&first(&text), &machine, &["version 1 of the format"]);
    let tiles = [
        (
            "3xlanes+2xother:rows",
            "3xlanes+1xother:rows",
            "cut into 5 tiles, and there are implementations for 4",
        ),
        ("3xlanes+2xother:rows", "3xlanes+2xrows", "no implementation rows"),
        ("3xlanes+2xother:rows", "3xlanes+other:rows", "such as 2xlanes, found 'other:rows'"),
        ("3xlanes+2xother:rows", "0xlanes+5xother:rows", "found '0xlanes'"),
        ("v3+v2 groups", "v3 groups", "2 implementations and 1 versions"),
        ("v3+v2 groups", "v3+v9 groups", "version 9 of other:rows"),
        ("3xlanes:4+2xrow-major", "3xlanes:4+1xrow-major", "has 5 tiles, and there are layouts for 4"),
        ("3xlanes:4+2xrow-major", "5xlanes:4+2x", "found ''"),
    ];
    for (old, new, piece) in tiles {
        assert!(text.contains(old), "{old}");
        refused(&text.replace(old, new), &machine, &["p.plan, line ", piece]);
    }
    let mut file = PlanFile::new("test");
    let open = Planned::new(&case.graph, &CutOptions::parse(HALVES).unwrap(), |lowered: &Lowered| {
        Plan::open(lowered, &machine, SchedulerKind::Eager)
    });
    file.add("step", &case.graph, &open.unwrap(), &machine).unwrap();
    refused(&file.to_string(), &Machine::with_workers(3), &["no unit of this machine runs that"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_cuts_compute_the_same(
        sizes in [1_usize..30, 1_usize..6, 1_usize..6],
        tiles in [1_usize..12, 1_usize..12, 1_usize..4],
        share in 0_u32..=10_000,
        (groups, group) in (1_usize..6, 1_usize..4),
        (machine, schedule) in (0_usize..4, 0_usize..4),
        axes in 0_usize..4,
    ) {
        let case = Case::new(sizes);
        let machine = machines().swap_remove(machine);
        let [own, others, columns] = tiles;
        let share = f64::from(share) / 100.0;
        let shared = |axis: &str| format!("{axis}={own}+other:{share}%:{others}");
        let tiling = match axes {
            0 => shared("n"),
            1 => format!("{},i={columns}", shared("n")),
            2 => format!("o={columns},{}", shared("n")),
            _ => format!("n={columns},{}", shared("o")),
        };
        let options = format!("tiles:{tiling} impl:lanes,reference group:{group} groups:{groups}");
        let planned = planned(&case, &options, &machine, Schedule::ALL[schedule]);
        let pool = Arc::new(Pool::new(&machine).unwrap());
        prop_assert_eq!(case.run(&pool, &planned, whole), case.expected(whole), "{}", options);
        let mut file = PlanFile::new("test");
        file.add("step", &case.graph, &planned, &machine).unwrap();
        let read = PlanFile::parse("p.plan", &file.to_string()).unwrap();
        prop_assert_eq!(read.to_string(), file.to_string());
        read.plan("step", &case.graph, &machine).unwrap();
    }
}
