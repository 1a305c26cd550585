//! Tests of short runs: causality, never a time of this machine.

use crate::kinds::{ClockKind, Dotted, Pruning, Sets, Vectors};
use crate::measured::Measured;
use crate::options::StudyOptions;
use crate::outcome::Study;
use crate::run::run;
use crate::study::{Cost, Mix, StudyLoad, mixes};
use crate::world;
use std::path::Path;
use std::time::Duration;

fn load(mix: Mix, keys: u64, time: Duration) -> StudyLoad {
    StudyLoad {
        mix,
        clients: 60,
        keys,
        value_bytes: 1024,
        think: Duration::from_millis(50),
        time,
        seed: 42,
    }
}

fn run_load<K: ClockKind>(kind: K, load: &StudyLoad) -> Measured {
    // Long clocks cost no more than short ones, so that all kinds run on the same schedule.
    let cost = Cost { byte: Duration::ZERO, ..Cost::STATED };
    world::run(kind, load, cost, &mut |_| {})
}

fn error_counts(measured: &Measured) -> (usize, usize) {
    (measured.errors.false_values.len(), measured.errors.lost.len())
}

#[test]
fn dotted_clocks_are_exact_where_pruned_vectors_lose_writes() {
    // Few keys, many clients, and pruning that takes effect at once: the load that shows the
    // errors.
    let mix = Mix { name: "crafted", weights: [20, 10, 70] };
    let load = load(mix, 20, Duration::from_secs(3));
    let (dotted, sets) = (run_load(Dotted, &load), run_load(Sets, &load));
    assert!(sets.operations > 1_000, "{}", sets.operations);
    assert_eq!(error_counts(&dotted), (0, 0));
    assert_eq!(error_counts(&sets), (0, 0));
    // Both kinds are exact and get the same operations at the same times, so they return the same
    // values.
    assert_eq!(dotted.all().values, sets.all().values);
    assert_eq!(dotted.operations, sets.operations);
    let hasty = Pruning { small: 5, big: 5, young_ms: 0, old_ms: 0 };
    let pruned = run_load(Vectors { pruning: hasty }, &load);
    let (conflicts, lost) = error_counts(&pruned);
    assert!(conflicts > 0, "pruning made no false conflict");
    assert!(lost > 0, "version vectors of clients lost nothing");
    assert!(pruned.errors.false_reads > 0 && lost as u64 >= pruned.errors.lost_blind);
}

#[test]
fn study_run_is_reproducible_from_seed() {
    let load = load(mixes().remove(0), 500, Duration::from_secs(1));
    let [first, second] = [run_load(Sets, &load), run_load(Sets, &load)];
    assert_eq!(first.seconds, second.seconds);
    assert_eq!((first.calls, first.reads.max()), (second.calls, second.reads.max()));
    let mut other = load.clone();
    other.seed = 43;
    assert_ne!(run_load(Sets, &other).seconds, first.seconds);
}

#[test]
fn study_writes_tables_and_figures_and_resumes() {
    let folder = std::env::temp_dir().join(format!("bench-dvv-{}", std::process::id()));
    let options = StudyOptions {
        results: folder.join("results"),
        documents: Some(folder.join("docs")),
        time: Duration::from_millis(1_500),
        clients: 50,
        keys: 1_000,
        value_bytes: vec![1024],
        seed: 42,
        product: None,
        resume: None,
    };
    let mut said = String::new();
    let (results, text) = run(&options, &mut |line| said.push_str(line)).expect("runs");
    assert_eq!(said.lines().count(), 15, "{said}");
    for mix in mixes() {
        assert!(text.contains(&format!("| {} | 1024 |", mix.name)), "{}", mix.name);
    }
    for heading in ["Goals", "Clock sizes and values", "Conflicts and losses", "Latency ratios"] {
        assert!(text.contains(&format!("\n## {heading}\n")), "{heading}");
    }
    let sets = text.lines().filter(|line| line.contains("| DVV sets |") && line.contains("1024"));
    let sets: Vec<_> = sets.filter(|line| line.matches('|').count() == 10).collect();
    assert_eq!(sets.len(), 5);
    for row in sets {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[5..9], ["0", "0", "0", "0"], "{row}");
    }
    for file in ["dvv.md", "dvv.json", "dvv-theory.svg", "dvv-measured.svg"] {
        for place in [&results, &folder.join("docs/performance")] {
            assert!(place.join(file).is_file(), "{file}");
        }
    }
    check_resume(&options, &results.join("results.json"), &text);
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// Resumes a study: finished runs are not run again, and other options are refused.
fn check_resume(options: &StudyOptions, results: &Path, full_text: &str) {
    let mut found: Study =
        serde_json::from_str(&std::fs::read_to_string(results).expect("written and read"))
            .expect("written and read");
    found.outcomes.truncate(7);
    found.outcomes[0].lost = 4_711;
    std::fs::write(results, found.json().expect("written and read")).expect("written and read");
    let resume = Some(results.to_path_buf());
    let options = StudyOptions { resume, documents: None, ..options.clone() };
    let mut said = String::new();
    let (_, text) = run(&options, &mut |line| said.push_str(line)).expect("goes on");
    assert_eq!(said.lines().count(), 8, "{said}");
    assert!(text.contains("4711") && !full_text.contains("4711"));
    let other = StudyOptions { seed: 43, ..options };
    let error = run(&other, &mut |_| {}).expect_err("another study").to_string();
    assert!(error.contains("--seed 42"), "{error}");
}
