//! Fusion against its definition: again and again, all tasks are looked at for the first to which a rule can
//! be applied.

use super::index::{reads, writes};
use super::*;
use crate::codelet::{Codelet, Implementation, Needs};
use proptest::prelude::*;

const NONE: &[Implementation] = &[];
static A: Codelet = Codelet::new("a", "x[i] -> y[i]", 1.0, NONE).in_place();
static B: Codelet = Codelet::new("b", "x[i] -> y[i]", 2.0, NONE).in_place();
static JOIN: Codelet = Codelet::new("join", "x[i] y[i] -> z[i]", 1.0, NONE);
static ADD: Codelet = Codelet::new("add", "x[i] y[i] -> y[i]", 1.0, NONE);
static AB: Codelet = Codelet::new("ab", "x[i] -> y[i]", 3.0, NONE);

static RULES: [Fusion; 4] = [
    Fusion {
        name: "two in one",
        given: &[],
        replaces: &[TaskPattern::new(&A, "x -> c", ""), TaskPattern::new(&B, "c -> y", "")],
        with: &[TaskPattern::new(&AB, "x -> y", "")],
        when: |_| true,
    },
    Fusion {
        name: "beside a given task",
        given: &[TaskPattern::new(&AB, "x -> y", "")],
        replaces: &[TaskPattern::new(&JOIN, "y z -> w", ""), TaskPattern::new(&A, "w -> v", "")],
        with: &[TaskPattern::new(&JOIN, "y z -> v", "")],
        when: |_| true,
    },
    Fusion {
        name: "three become two that may begin it again",
        given: &[],
        replaces: &[
            TaskPattern::new(&B, "x -> y", ""),
            TaskPattern::new(&B, "y -> z", ""),
            TaskPattern::new(&A, "z -> w", ""),
        ],
        with: &[TaskPattern::new(&A, "x -> y", ""), TaskPattern::new(&B, "y -> w", "")],
        when: |_| true,
    },
    Fusion {
        name: "tasks that have nothing to do with each other",
        given: &[],
        replaces: &[TaskPattern::new(&ADD, "x -> y", ""), TaskPattern::new(&AB, "u -> v", "")],
        with: &[TaskPattern::new(&ADD, "u -> v", "")],
        when: |_| true,
    },
];

/// What a name stands for: a view, and who wrote it last.
type Names = Vec<(&'static str, (Var, Option<usize>))>;

fn writer(graph: &Graph, var: &Var, before: usize, without: &[usize]) -> Option<usize> {
    let writes_it = |task: &usize| writes(&graph.tasks[*task]).any(|arg| arg.overlaps(var));
    (0..before).rev().filter(|task| !without.contains(task)).find(writes_it)
}

/// Extends a list of tasks by those of more patterns, all tasks tried in order.
fn find(
    graph: &Graph,
    rule: &Fusion,
    patterns: &[&TaskPattern],
    tasks: &[usize],
    names: &Names,
) -> Option<(Vec<usize>, Names)> {
    let Some((pattern, rest)) = patterns.split_first() else {
        let replaced = &tasks[rule.given.len()..];
        return may_be_applied(graph, rule, replaced, names).then(|| (replaced.to_vec(), names.clone()));
    };
    (0..graph.tasks.len()).find_map(|task| {
        let recorded = &graph.tasks[task];
        if recorded.codelet.name != pattern.codelet.name || tasks.contains(&task) {
            return None;
        }
        let (inputs, outputs) = pattern.slots().unwrap();
        let mut names = names.clone();
        for (i, &slot) in inputs.iter().chain(&outputs).enumerate() {
            let var = recorded.args[i];
            let value = (var, if i < inputs.len() { writer(graph, &var, task, &[]) } else { Some(task) });
            match names.iter().find(|(known, _)| *known == slot) {
                Some((_, known)) if *known != value => return None,
                Some(_) => {}
                None => names.push((slot, value)),
            }
        }
        find(graph, rule, rest, &[tasks, &[task]].concat(), &names)
    })
}

fn value(names: &Names, slot: &str) -> (Var, Option<usize>) {
    names.iter().find(|(known, _)| *known == slot).unwrap().1
}

fn may_be_applied(graph: &Graph, rule: &Fusion, replaced: &[usize], names: &Names) -> bool {
    let at = replaced.iter().copied().max().unwrap();
    let slots = |patterns: &[TaskPattern]| -> (Vec<&str>, Vec<&str>) {
        let (inputs, outputs): (Vec<_>, Vec<_>) =
            patterns.iter().map(|pattern| pattern.slots().unwrap()).unzip();
        (inputs.concat(), outputs.concat())
    };
    let (read, written) = slots(rule.with);
    let is_there = |slot: &&&str| {
        let (var, from) = value(names, slot);
        writer(graph, &var, at, replaced) == from
    };
    let is_unnoticed = |slot: &&str| {
        let (var, from) = value(names, slot);
        let Some(from) = from else { return false };
        if written.contains(slot) {
            return (from + 1..at).all(|task| {
                replaced.contains(&task) || !graph.tasks[task].args.iter().any(|arg| arg.overlaps(&var))
            });
        }
        let mut others = (from + 1..graph.tasks.len()).chain(0..from);
        let ends = others.find_map(|task| {
            let recorded = &graph.tasks[task];
            let is_read = reads(recorded).any(|arg| arg.overlaps(&var)) && !replaced.contains(&task);
            (is_read || writes(recorded).any(|arg| *arg == var)).then_some(!is_read)
        });
        graph.arrays[var.array].role == Role::Temporary && ends.unwrap_or(true)
    };
    let read = read.iter().filter(|slot| !written.contains(slot)).collect::<Vec<_>>();
    read.iter().all(is_there) && slots(rule.replaces).1.iter().all(is_unnoticed)
}

/// Tasks as codelets with arguments, and what they stand for.
type Written = Vec<(&'static str, Vec<Var>, Vec<&'static str>)>;

fn written(graph: &Graph) -> Written {
    graph.tasks.iter().map(|task| (task.codelet.name, task.args.clone(), task.fused.clone())).collect()
}

fn fuse_by_definition(graph: &mut Graph, rule: &Fusion) -> Result<()> {
    let patterns: Vec<&TaskPattern> = rule.given.iter().chain(rule.replaces).collect();
    while let Some((replaced, names)) = find(graph, rule, &patterns, &[], &Names::new()) {
        let stays = |name: &str| rule.with.iter().any(|pattern| pattern.codelet.name == name);
        let fused: Vec<&str> = replaced.iter().flat_map(|&task| graph.tasks[task].stands_for()).collect();
        let again: Vec<&str> = fused.iter().copied().filter(|name| stays(name)).collect();
        let fused: Vec<&str> = fused.into_iter().filter(|name| !stays(name)).collect();
        let at = replaced.iter().copied().max().unwrap();
        let after = graph.tasks.split_off(at + 1);
        let mut number = 0;
        graph.tasks.retain(|_| {
            number += 1;
            !replaced.contains(&(number - 1))
        });
        for pattern in rule.with {
            let (inputs, outputs) = pattern.slots().unwrap();
            let vars = |slots: &[&str]| slots.iter().map(|slot| value(&names, slot).0).collect::<Vec<_>>();
            graph.task(pattern.codelet, Dtype::F32, &vars(&inputs), &vars(&outputs), &[], &[])?;
            if !again.contains(&pattern.codelet.name) {
                graph.tasks.last_mut().unwrap().fused = fused.clone();
            }
        }
        graph.tasks.extend(after);
    }
    Ok(())
}

/// A graph of tasks that are given by codelet and arguments, those left out that make no sense.
fn recorded(tasks: &[(usize, [(usize, usize); 3])]) -> Graph {
    let mut graph = Graph::new(1);
    let arrays: Vec<Var> = (0..7)
        .map(|i| match i {
            0 => graph.output("out", Dtype::F32, [4]),
            _ => graph.temporary(&format!("t{i}"), Dtype::F32, [4]),
        })
        .collect();
    for (codelet, args) in tasks {
        let codelet = [&A, &B, &A, &B, &JOIN, &ADD, &AB][*codelet];
        // Mostly whole arrays.
        let view = |(array, part): (usize, usize)| match part {
            0 => arrays[array].part(0, [2]).unwrap(),
            1 => arrays[array].part(2, [2]).unwrap(),
            _ => arrays[array],
        };
        let vars = args.map(view);
        let (n_inputs, n_args) = (codelet.relation().n_inputs(), codelet.relation().args().len());
        let _ = graph.task(codelet, Dtype::F32, &vars[..n_inputs], &vars[n_inputs..n_args], &[], &[]);
    }
    graph
}

#[test]
fn tasks_are_fused_for_codes_that_the_fused_one_has() {
    const BOTH: &[Implementation] = &[
        Implementation::new("reference", 1, Dtype::F32, Needs::Nothing, |_| Ok(())),
        Implementation::new("reference", 1, Dtype::F32, Needs::Nothing, |_| Ok(())).in_code("other"),
    ];
    static AB2: Codelet = Codelet::new("ab2", "x[i] -> y[i]", 3.0, BOTH);
    static RULE: Fusion = Fusion {
        name: "two in one of two codes",
        given: &[],
        replaces: &[TaskPattern::new(&A, "x -> c", ""), TaskPattern::new(&B, "c -> y", "")],
        with: &[TaskPattern::new(&AB2, "x -> y", "")],
        when: |found| !found.codes().contains(&"slow".to_string()),
    };
    let fused = |rule, codes: &[&str]| {
        let whole = |array| (array, 2);
        let graph = recorded(&[(0, [whole(1), whole(2), whole(2)]), (1, [whole(2), whole(0), whole(0)])]);
        let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
        let graph =
            fuse(graph, &[rule], &Prospect { codes: codes.clone(), ..Prospect::default() }).unwrap().graph;
        assert_eq!(graph.codes(), codes);
        graph.tasks.len() == 1
    };
    assert!(fused(&RULES[0], &[]) && !fused(&RULES[0], &["other"]));
    assert!(fused(&RULE, &[]) && fused(&RULE, &["other"]) && !fused(&RULE, &["other", "third"]));
    assert!(!fused(&RULE, &["slow"]));
}

#[test]
fn a_rule_may_ask_whether_the_cut_sums_a_task_whole() {
    static SUM: Codelet = Codelet::new("sum", "x[n,i] y[n,o] -> g[o,i] +=", 2.0, NONE);
    static BOTH: Codelet = Codelet::new("both", "x[n,i] y[n,o] -> g[o,i] += h[n,o]", 2.0, NONE);
    static KEEP: Codelet = Codelet::new("keep", "y[n,o] -> h[n,o]", 2.0, NONE);
    static RULE: Fusion = Fusion {
        name: "a sum and something",
        given: &[],
        replaces: &[TaskPattern::new(&SUM, "x y -> g", ""), TaskPattern::new(&KEEP, "y -> h", "")],
        with: &[TaskPattern::new(&BOTH, "x y -> g h", "")],
        when: |found| !found.may_sum_whole(&SUM),
    };
    // Many weights of few samples are summed whole, unless there is one partial result; few weights never.
    for (n, side, max_groups, is_fused) in
        [(8, 512, 16, false), (8, 512, 1, true), (8, 16, 16, true), (1, 512, 16, true)]
    {
        let mut graph = Graph::new(1);
        let [x, y] = ["x", "y"].map(|name| graph.port(name, Dtype::F32, [n, side]));
        let (g, h) = (graph.output("g", Dtype::F32, [side, side]), graph.output("h", Dtype::F32, [n, side]));
        graph.task(&SUM, Dtype::F32, &[x, y], &[g], &[], &[]).unwrap();
        graph.task(&KEEP, Dtype::F32, &[y], &[h], &[], &[]).unwrap();
        let fused =
            fuse(graph, &[&RULE], &Prospect { codes: Vec::new(), axes: vec!["n".to_string()], max_groups })
                .unwrap();
        assert_eq!(fused.graph.tasks.len() == 1, is_fused, "{n} {side} {max_groups}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_graph_is_fused_as_defined(
        tasks in prop::collection::vec((0_usize..7, any::<[(u8, u8); 3]>()), 0..24),
        rules in prop::collection::vec(0_usize..4, 1..4),
    ) {
        let args = |args: [(u8, u8); 3]| args.map(|(array, part)| (usize::from(array) % 7, usize::from(part) % 12));
        let tasks: Vec<_> = tasks.into_iter().map(|(codelet, drawn)| (codelet, args(drawn))).collect();
        let rules: Vec<&'static Fusion> = rules.into_iter().map(|rule| &RULES[rule]).collect();
        let mut expected = recorded(&tasks);
        let is_fused = rules.iter().try_for_each(|rule| fuse_by_definition(&mut expected, rule)).is_ok();
        drop_untouched(&mut expected);
        let fused = fuse(recorded(&tasks), &rules, &Prospect::default());
        prop_assert_eq!(fused.is_ok(), is_fused);
        if let Ok(fused) = fused {
            prop_assert_eq!(written(&fused.graph), written(&expected));
        }
    }
}
