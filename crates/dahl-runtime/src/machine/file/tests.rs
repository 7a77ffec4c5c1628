use super::*;

fn example() -> MachineFile {
    let cache = |level, kind, bytes| Cache { level, kind, bytes, line_bytes: Some(64), threads: 1, count: 2 };
    let rate = |one: f64| Rate { one, all: 1.9 * one };
    let bandwidth = |name: &str, capacity, one| Bandwidth {
        level: MemoryLevel {
            name: name.into(),
            capacity,
            is_own: capacity.is_some(),
            n_sharing: 2,
            bytes: 1000,
        },
        rates: [rate(one), rate(one / 3.0), rate(one / 7.0)],
    };
    MachineFile {
        machine: Machine::with_workers(2).with_test_unit().with_limit(1, 12345),
        hardware: Hardware {
            kinds: Vec::new(),
            processor: Some("Some # Processor 100 %".into()),
            packages: Some(1),
            cores: Some(2),
            threads: None,
            caches: vec![cache(1, CacheKind::Data, 32768), cache(2, CacheKind::Unified, 1 << 20)],
            memory_bytes: Some(8 << 30),
            memory_limit_bytes: Some(4 << 30),
            nodes: vec![
                Node { id: 0, memory_bytes: Some(8 << 30), threads: vec![0, 1] },
                Node { id: 1, memory_bytes: None, threads: Vec::new() },
            ],
            power: Vec::new(),
        },
        instructions: vec!["plain".into(), "avx2".into()],
        measured: Some(MeasuredRates {
            date: 1_800_000_000,
            n_cores: 2,
            flops_f32: rate(1.2e11),
            flops_f64: rate(0.1 + 0.2),
            bandwidths: vec![bandwidth("L1", Some(32768), 3e11), bandwidth("memory", None, 1e10)],
            task_seconds: Some(1.25e-7),
        }),
    }
}

#[test]
fn what_is_written_is_read() {
    let example = example();
    for file in [
        MachineFile { measured: None, ..example.clone() },
        MachineFile { hardware: Hardware::default(), ..example.clone() },
        MachineFile { instructions: Vec::new(), ..example.clone() },
        MachineFile { machine: Machine::with_workers(1), ..example.clone() },
        example,
    ] {
        let text = file.to_text();
        assert_eq!(MachineFile::from_text(&text).as_ref(), Ok(&file), "{text}");
    }
    let odd = |processor: &str| Hardware { processor: Some(processor.into()), ..Hardware::default() };
    for processor in ["", "ä→b", "a\nb", "#", "%", "--"] {
        let file = MachineFile { hardware: odd(processor), ..self::example() };
        assert_eq!(MachineFile::from_text(&file.to_text()).unwrap().hardware.processor.unwrap(), processor);
    }
}

#[test]
fn comments_spaces_and_empty_lines_do_not_count() {
    let text = example().to_text().replace('\n', "   # why\n\n").replace("flops", "  flops ");
    assert_eq!(MachineFile::from_text(&text), Ok(example()));
}

#[test]
fn a_file_that_was_cut_off_or_changed_is_refused() {
    let text = example().to_text();
    for end in 0..text.len() - 1 {
        let error = MachineFile::from_text(&text[..end]).expect_err("it is not whole");
        assert!(!error.is_empty());
    }
    let lines: Vec<&str> = text.lines().collect();
    for skipped in 1..lines.len() {
        let fewer: Vec<&str> = (0..lines.len()).filter(|&i| i != skipped).map(|i| lines[i]).collect();
        MachineFile::from_text(&fewer.join("\n")).expect_err("a line is missing");
    }
    // Any digit that is another: nothing that was measured changes unseen.
    for (at, digit) in text.char_indices().filter(|(_, c)| c.is_ascii_digit()) {
        let mut changed = text.clone();
        changed.replace_range(at..=at, if digit == '7' { "1" } else { "7" });
        MachineFile::from_text(&changed).expect_err(&changed);
    }
}

#[test]
fn what_was_changed_by_hand_is_read_if_it_says_so_and_makes_sense() {
    let text = example().to_text();
    let by_hand = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} in {text}");
        let changed = text.replacen(from, to, 1);
        let (body, end) = changed.trim_end().rsplit_once('\n').unwrap();
        let end = end.rsplit_once(' ').unwrap().0;
        MachineFile::from_text(&format!("{body}\n{end} -\n"))
    };
    assert_eq!(by_hand("cores 2", "cores 7").unwrap().hardware.cores, Some(7));
    for (from, to, complaint) in [
        ("cores 2", "cores many", "line 4: 'many' is not a number of cores"),
        ("cores 2", "cores 2 3", "'3' is more than there should be"),
        ("cores 2", "hats 2", "nothing called 'hats'"),
        ("memory 1", "memory 7", "memory 7 should be memory 1"),
        ("unit cpu 0", "unit cpu 9", "no memory 9"),
        ("unit cpu 0", "unit gpu 0", "no kind of unit 'gpu'"),
        ("cache 1 data", "cache 1 gold", "no kind of cache 'gold'"),
        ("flops f32 120000000000", "flops f32 0", "0 is not a rate"),
        ("flops f32 120000000000", "flops f32 inf", "inf is not a rate"),
        ("flops f32 120000000000", "flops f16 1", "neither f32 nor f64"),
        ("flops f32", "flops f64", "not all that is measured"),
        (" own ", " rented ", "own or shared"),
        (" own 2 ", " own few ", "'few' is not a number of cores that share it"),
        ("measured 2027", "measured 1927", "is no date such as 1970-01-01T00:00:00Z"),
        ("measured 2027-01-15T08", "measured 2027-01-15T31", "is no date"),
        ("task 0.000000125", "task -1", "-1 is not seconds"),
    ] {
        let error = by_hand(from, to).expect_err(to);
        assert!(error.contains(complaint), "{to}: {error}");
    }
}

#[test]
fn other_versions_and_other_files_are_told_apart() {
    let text = example().to_text();
    let error = MachineFile::from_text(&text.replacen("dahl-machine 1", "dahl-machine 2", 1)).unwrap_err();
    assert!(error.contains("version 2") && error.contains("reads version 1"), "{error}");
    for other in ["", "\n\n", "# nothing", "dahl-plan 1", "dahl-machine", "dahl-machine one", "{}"] {
        let error = MachineFile::from_text(other).unwrap_err();
        assert!(error.contains("no machine file"), "{other}: {error}");
    }
    let error = MachineFile::from_text(&(text + "cores 3\n")).unwrap_err();
    assert!(error.contains("more after the end"), "{error}");
}

#[test]
fn files_are_saved_and_loaded_and_errors_name_them() {
    let path = std::env::temp_dir().join(format!("dahl-machine-{}.txt", std::process::id()));
    example().save(&path).unwrap();
    let loaded = MachineFile::load(&path).unwrap();
    std::fs::write(&path, b"\xff\xfe").unwrap();
    let error = MachineFile::load(&path).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(loaded, example());
    assert!(error.contains("no machine file") && error.contains("dahl-machine-"), "{error}");
    let error = MachineFile::load(&path).unwrap_err().to_string();
    assert!(error.contains("dahl-machine-"), "{error}");
    let error = example().save(path.join("no/folder")).unwrap_err().to_string();
    assert!(error.contains("cannot write"), "{error}");
}
