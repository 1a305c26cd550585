//! Run of the whole study: every mix and size of values with every kind of clock, and its results.

use crate::kinds::{ClockKind, Dotted, Pruning, Sets, Vectors};
use crate::options::StudyOptions;
use crate::outcome::{LoadOutcome, Study};
use crate::study::{self, Cost, StudyLoad};
use crate::{figures, product, tables, world};
use load_generator::error::BenchError;
use load_generator::machine::Machine;
use load_generator::report::{progress_bar, time_name};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Runs the study and writes its results; returns the folder and the Markdown text.
pub fn run(
    options: &StudyOptions,
    report: &mut dyn FnMut(&str),
) -> Result<(PathBuf, String), BenchError> {
    let started = time_name(SystemTime::now());
    let folder = options.results.join(format!("dvv-{started}"));
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("can't make {}: {error}", folder.display()))?;
    let mut study = Study {
        started,
        credenza: env!("CARGO_PKG_VERSION").into(),
        machine: Machine::current(),
        seconds: options.time.as_secs_f64(),
        clients: options.clients,
        keys: options.keys,
        seed: options.seed,
        outcomes: Vec::new(),
        product: Vec::new(),
    };
    let mut known =
        options.resume.as_deref().map(|file| resumed_outcomes(file, &study)).transpose()?;
    for value_bytes in &options.value_bytes {
        for mix in study::mixes() {
            let load = StudyLoad {
                mix,
                clients: options.clients,
                keys: options.keys,
                value_bytes: *value_bytes,
                think: Duration::from_millis(50),
                time: options.time,
                seed: options.seed,
            };
            let vectors = Vectors { pruning: Pruning::RIAK };
            let known = &mut known;
            study.outcomes.push(run_unless_known(known, vectors, &load, report));
            study.outcomes.push(run_unless_known(known, Dotted, &load, report));
            study.outcomes.push(run_unless_known(known, Sets, &load, report));
            // The results are written after every load, so that an interrupted study leaves them.
            write(&folder, "results.json", &study.json()?)?;
        }
    }
    if let Some(time) = options.product {
        study.product = product::run(options, time, &folder, report)?;
    }
    let text = tables::markdown(&study, "");
    write_all(&folder, "dvv.md", &study, &text)?;
    if let Some(documents) = &options.documents {
        write_all(&documents.join("performance"), "dvv.md", &study, &text)?;
    }
    Ok((folder, text))
}

/// Returns the runs of an interrupted study. Fails if it had other options.
fn resumed_outcomes(file: &Path, study: &Study) -> Result<Vec<LoadOutcome>, BenchError> {
    let error_text =
        |error: &dyn std::fmt::Display| format!("can't go on from {}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| error_text(&error))?;
    let found: Study = serde_json::from_str(&text).map_err(|error| error_text(&error))?;
    let options = |it: &Study| (it.seconds.to_bits(), it.clients, it.keys, it.seed);
    if options(&found) != options(study) {
        let text = format!(
            "it has --seconds {} --clients {} --keys {} --seed {}; say the same",
            found.seconds, found.clients, found.keys, found.seed
        );
        return Err(error_text(&text).into());
    }
    Ok(found.outcomes)
}

/// Runs one load with one kind of clock, unless its result is known.
fn run_unless_known<K: ClockKind>(
    known: &mut Option<Vec<LoadOutcome>>,
    kind: K,
    load: &StudyLoad,
    report: &mut dyn FnMut(&str),
) -> LoadOutcome {
    let same = |it: &mut LoadOutcome| {
        (&*it.kind, &*it.mix, it.value_bytes) == (K::NAME, load.mix.name, load.value_bytes)
    };
    let found = known.as_mut().and_then(|known| known.extract_if(.., same).next());
    found.unwrap_or_else(|| run_load(kind, load, report))
}

/// Runs one load with one kind of clock.
fn run_load<K: ClockKind>(kind: K, load: &StudyLoad, report: &mut dyn FnMut(&str)) -> LoadOutcome {
    let what = format!("{:<15} {:>5} bytes  {:<16}", load.mix.name, load.value_bytes, K::NAME);
    let bar = progress_bar(100);
    let mut progress = |part: f64| {
        bar.set_position((part * 100.0) as u64);
        bar.set_message(what.clone());
    };
    let measured = world::run(kind, load, Cost::STATED, &mut progress);
    bar.finish_and_clear();
    let outcome = LoadOutcome::of(K::NAME, load, &measured);
    report(&format!("{what} {}\n", outcome.line()));
    outcome
}

fn write_all(folder: &Path, name: &str, study: &Study, text: &str) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    write(folder, name, text)?;
    write(folder, "dvv.json", &study.json()?)?;
    for (name, chart) in figures::charts(study)? {
        write(folder, name, &chart)?;
    }
    Ok(())
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|error| format!("can't write {}: {error}", path.display()))
}
