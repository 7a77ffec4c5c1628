use super::*;

fn core_kind(name: &str, threads: &[usize], capacity: u32) -> CoreKind {
    CoreKind { name: name.to_string(), threads: threads.to_vec(), capacity }
}

#[test]
fn units_of_a_hybrid_processor_are_of_its_kinds_the_fastest_first() {
    let kinds = vec![core_kind("atom", &[0, 1], 512), core_kind("core", &[2, 3], 1024)];
    let hardware = Hardware { kinds, ..Hardware::default() };
    let machine = |n: usize, threads: &[usize]| {
        let mut machine = Machine::with_workers(n);
        // As if there were as many cores as that.
        machine.units.iter_mut().enumerate().for_each(|(core, unit)| unit.core = Some(core));
        machine.on_cores(&hardware, threads)
    };
    let found = |machine: &Machine| -> Vec<(String, Option<usize>)> {
        let of = |(i, unit): (usize, &Unit)| (machine.kind_of(i).name.clone(), unit.core);
        machine.units.iter().enumerate().map(of).collect()
    };
    let of = |names: &[(&str, usize)]| -> Vec<(String, Option<usize>)> {
        names.iter().map(|(name, core)| (name.to_string(), Some(*core))).collect()
    };
    let all = machine(4, &[0, 1, 2, 3]);
    assert_eq!(found(&all), of(&[("cpu-core", 2), ("cpu-core", 3), ("cpu-atom", 0), ("cpu-atom", 1)]));
    assert_eq!(all.kind_of(2).speed, Speed::NOMINAL.times(0.5));
    assert!(all.check().is_ok());
    // Cores are numbers among those that the process may use.
    assert_eq!(found(&machine(2, &[1, 3])), of(&[("cpu-core", 1), ("cpu-atom", 0)]));
    assert_eq!(machine(2, &[0, 1, 2, 3]).kinds.len(), 1, "slow cores are not needed");
    // What is not told makes no difference.
    assert_eq!(machine(2, &[0, 7]).kinds, [Kind::cpu()]);
    assert_eq!(machine(5, &[0, 1, 2, 3]).kinds, [Kind::cpu()]);
}

#[test]
fn a_test_unit_is_an_ordinary_unit_apart() {
    let machine = Machine::with_workers(3).with_test_unit();
    assert_eq!(machine.units.iter().map(|unit| unit.memory).collect::<Vec<_>>(), [0, 0, 1]);
    assert_eq!((machine.kind_of(1).name.as_str(), machine.kind_of(2).name.as_str()), ("cpu", "test"));
    assert!(machine.link(0, 1).is_some() && machine.link(1, 0).is_some() && machine.link(0, 0).is_none());
    let three = machine.with_unit_apart(1, Kind::cpu().named("fast").times_as_fast(4.0)).with_limit(2, 100);
    assert!(three.check().is_ok());
    assert_eq!(three.memories[2].limit_bytes, Some(100));
    let mean = three.mean_speed().flops_per_second;
    assert!((mean / Speed::NOMINAL.flops_per_second - 2.0).abs() < 1e-12, "{mean}");
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let good = || Machine::with_workers(2).with_test_unit();
    assert!(good().check().is_ok());
    let refused = |change: &dyn Fn(&mut Machine), part: &str| {
        let mut machine = good();
        change(&mut machine);
        let error = machine.check().expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(&|machine| machine.units.clear(), "no unit to compute on");
    refused(&|machine| machine.memories.clear(), "1 to 31 memories");
    refused(&|machine| machine.memories = vec![machine.memories[0].clone(); 32], "not 32");
    refused(&|machine| machine.units[0].memory = 2, "memory 2");
    refused(&|machine| machine.units[0].kind = 7, "kind 7");
    refused(&|machine| machine.links.truncate(1), "not linked");
    refused(&|machine| machine.kinds[1].name = "cpu".to_string(), "called cpu");
    refused(&|machine| machine.kinds[0].speed.flops_per_second = 0.0, "no positive speed");
    refused(&|machine| machine.links[0].bytes_per_second = f64::NAN, "positive speed");
    refused(&|machine| machine.links.push(Link::nominal(0, 5)), "two memories");
}
