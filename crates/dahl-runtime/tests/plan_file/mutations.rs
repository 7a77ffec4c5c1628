//! Random changes to a file: each is refused, or leaves a plan that is safe.

use super::case::Case;
use dahl_runtime::graph::BufferKind;
use dahl_runtime::machine::{HOST, Machine};
use dahl_runtime::plan::{PlanFile, Planned};
use proptest::prelude::*;

/// No two buffers share memory unless every task of the one comes before every task of the other; by brute
/// force.
fn is_safe(planned: &Planned) -> bool {
    let (lowered, memory) = (&planned.lowered, planned.plan.memory(HOST));
    let n = lowered.tasks().len();
    let mut before = vec![vec![false; n]; n];
    let edges = lowered.edges().iter().filter(|edge| edge.distance == 0);
    edges.for_each(|edge| before[edge.from as usize][edge.to as usize] = true);
    if let Some(placement) = planned.plan.placement() {
        for order in &placement.order {
            let fixed: Vec<u32> =
                order.iter().copied().filter(|&task| !placement.is_floating(task)).collect();
            fixed.windows(2).for_each(|pair| before[pair[0] as usize][pair[1] as usize] = true);
        }
    }
    for k in 0..n {
        let after_k = before[k].clone();
        for row in before.iter_mut().filter(|row| row[k]) {
            row.iter_mut().zip(&after_k).for_each(|(reaches, &through_k)| *reaches |= through_k);
        }
    }
    let touches =
        |task: usize, buffer| lowered.tasks()[task].places.iter().any(|place| place.buffer == buffer);
    let users = |buffer: usize| (0..n).filter(move |&task| touches(task, buffer)).collect::<Vec<_>>();
    let all = |a: &[usize], b: &[usize]| a.iter().all(|&x| b.iter().all(|&y| before[x][y]));
    let end = |b: usize| memory.offsets[b].map(|at| at + lowered.buffers()[b].bytes * lowered.versions(b));
    let is_temporary = |b: usize| lowered.buffers()[b].kind == BufferKind::Temporary;
    let pairs = (0..lowered.buffers().len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    let has_cycle = (0..n).any(|task| before[task][task]);
    !has_cycle
        && pairs.into_iter().all(|(a, b)| match (memory.offsets[a], end(a), memory.offsets[b], end(b)) {
            (Some(a0), Some(a1), Some(b0), Some(b1)) if a0.max(b0) < a1.min(b1) => {
                let (x, y) = (users(a), users(b));
                is_temporary(a) && is_temporary(b) && (all(&x, &y) || all(&y, &x))
            }
            _ => true,
        })
}

/// One change to a text.
#[derive(Clone, Debug)]
enum Mutation {
    Truncate(usize),
    Byte(usize, u8),
    RemoveByte(usize),
    SwapLines(usize, usize),
    RepeatLine(usize),
    RemoveLine(usize),
    /// Another number or word in a line, taken from another place of the text.
    Word(usize, usize, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let number = any::<usize>;
    prop_oneof![
        number().prop_map(Mutation::Truncate),
        (number(), prop_oneof![any::<u8>(), b'0'..=b'9', Just(b' '), Just(b'\n')])
            .prop_map(|(i, b)| Mutation::Byte(i, b)),
        number().prop_map(Mutation::RemoveByte),
        (number(), number()).prop_map(|(a, b)| Mutation::SwapLines(a, b)),
        number().prop_map(Mutation::RepeatLine),
        number().prop_map(Mutation::RemoveLine),
        (number(), number(), number()).prop_map(|(a, b, c)| Mutation::Word(a, b, c)),
        (number(), number(), number()).prop_map(|(a, b, c)| Mutation::Word(a, b, c)),
    ]
}

fn mutate(text: &str, mutation: &Mutation) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    let (n_bytes, n) = (bytes.len().max(1), lines.len().max(1));
    if lines.is_empty() {
        return String::new();
    }
    match *mutation {
        Mutation::Truncate(at) => bytes.truncate(at % n_bytes),
        Mutation::Byte(at, byte) => bytes[at % n_bytes] = byte,
        Mutation::RemoveByte(at) => drop(bytes.remove(at % n_bytes)),
        Mutation::SwapLines(a, b) => lines.swap(a % n, b % n),
        Mutation::RepeatLine(at) => lines.insert(at % n, lines[at % n].clone()),
        Mutation::RemoveLine(at) => drop(lines.remove(at % n)),
        Mutation::Word(at, word, from) => {
            let words: Vec<&str> = text.split_whitespace().collect();
            let mut line: Vec<&str> = lines[at % n].split(' ').collect();
            let word = word % line.len();
            // Often the same word of a line of the same kind, which is most likely to be taken.
            let alike: Vec<&str> = text
                .lines()
                .filter(|other| other.starts_with(line[0]))
                .filter_map(|l| l.split(' ').nth(word))
                .collect();
            let pick = if from % 3 == 0 || alike.is_empty() { &words } else { &alike };
            line[word] = pick.get(from / 3 % pick.len().max(1)).copied().unwrap_or("0");
            lines[at % n] = line.join(" ");
        }
    }
    match mutation {
        Mutation::Truncate(_) | Mutation::Byte(..) | Mutation::RemoveByte(_) => {
            String::from_utf8_lossy(&bytes).into_owned()
        }
        _ => lines.join("\n"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_to_a_file_it_is_executed_safely_or_refused(
        mutations in proptest::collection::vec(mutation(), 1..4),
        is_open: bool,
    ) {
        let case = Case::new(8);
        let mut file = PlanFile::new("heuristic");
        let planned = if is_open { case.open() } else { case.planned(2) };
        file.add("a step", &case.graph, &planned, &Machine::with_workers(2)).unwrap();
        let text = mutations.iter().fold(file.to_string(), |text, mutation| mutate(&text, mutation));
        match case.read(&text) {
            Ok(planned) => {
                prop_assert!(is_safe(&planned), "{text}");
                // What was accepted says the same when it is written and read again.
                let mut again = PlanFile::new("heuristic");
                again.add("a step", &case.graph, &planned, &Machine::with_workers(2)).unwrap();
                let hash = PlanFile::parse("p.plan", &text).unwrap().hash();
                prop_assert!(again.hash() == hash || text.matches("\nstep ").count() != 1, "{text}");
            }
            Err(error) => prop_assert!(error.to_string().len() > 20, "{error}"),
        }
    }
}
