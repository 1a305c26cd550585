//! Every target with its corpus and changes of it, from one seed; and the corpus itself.

use fuzz::{Corpus, TARGETS, Target, attack, check};
use std::time::Instant;

/// Most bytes of all corpora together.
const CORPUS_BYTES_MAX: usize = 300 << 10;
/// Seed of the ordinary tests.
const SEED: u64 = 23;
/// Generated inputs in the long form, for each one in the ordinary tests.
const LONG_FACTOR: usize = 50;

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// `FUZZ_TARGET` chooses one target, `FUZZ_INPUT` one file of its corpus, `FUZZ_CASES` and
/// `FUZZ_SEED` other generated inputs.
#[test]
fn every_target_holds_for_its_corpus_and_changes_of_it() {
    let chosen: Option<String> = variable("FUZZ_TARGET");
    let seed = variable("FUZZ_SEED").unwrap_or(SEED);
    let mut failures = Vec::new();
    for target in
        TARGETS.iter().filter(|target| chosen.as_ref().is_none_or(|name| name == target.name))
    {
        let started = Instant::now();
        let factor = if variable("CREDENZA_TEST_LONG") == Some(1) { LONG_FACTOR } else { 1 };
        let cases = variable("FUZZ_CASES").unwrap_or(target.cases * factor);
        let outcome = match variable::<String>("FUZZ_INPUT") {
            Some(file) => repeat(target, &file).map(|()| 1),
            None => attack(target, cases, seed),
        };
        let seconds = started.elapsed().as_secs_f64();
        match outcome {
            Ok(inputs) => println!("{}: {inputs} inputs in {seconds:.1} s", target.name),
            Err(what) => failures.push(what),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn repeat(target: &Target, file: &str) -> Result<(), String> {
    let bytes = std::fs::read(Corpus::folder(target).join(file)).expect("the file is there");
    check(target, &bytes)
}

#[test]
fn every_target_has_a_small_corpus_and_every_corpus_a_target() {
    let mut bytes = 0;
    for target in TARGETS {
        let corpus = Corpus::read(target);
        assert!(corpus.files.len() >= 3, "{}: {} inputs are kept", target.name, corpus.files.len());
        let longest = corpus.files.iter().map(|(_, bytes)| bytes.len()).max().unwrap_or(0);
        assert!(longest <= target.input_bytes_max, "{}: an input of {longest} bytes", target.name);
        bytes += corpus.files.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    }
    assert!(bytes <= CORPUS_BYTES_MAX, "{bytes} bytes are kept");
    let parent = Corpus::folder(&TARGETS[0]).join("..");
    for folder in std::fs::read_dir(parent).expect("the corpora are there").flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        assert!(Target::named(&name).is_some(), "no target is called {name}");
    }
}

/// A decoder that trusts a length, and one that trusts its input: both are noticed.
#[test]
fn panic_and_excess_memory_are_reported() {
    fn panics(input: &[u8]) {
        assert!(input.len() < 3, "it is long");
    }
    fn trusts_a_length(input: &[u8]) {
        let bytes = vec![1_u8; usize::from(input[0]) << 20];
        assert_eq!(bytes.iter().map(|byte| u64::from(*byte)).max().unwrap_or(1), 1);
    }
    fn panics_on_a_thread(_: &[u8]) {
        let _ = std::thread::spawn(|| panic!("nobody waits for it")).join();
    }
    let target = |run| Target {
        name: "made-up",
        run,
        input_bytes_max: 8,
        memory_bytes_max: 8 << 20,
        cases: 1,
    };
    assert_eq!(check(&target(panics), b"ab"), Ok(()));
    assert!(check(&target(panics), b"abc").is_err_and(|what| what.contains("it is long")));
    assert_eq!(check(&target(trusts_a_length), &[2]), Ok(()));
    assert!(check(&target(trusts_a_length), &[200]).is_err_and(|what| what.contains("bytes")));
    let noticed = check(&target(panics_on_a_thread), b"");
    assert!(noticed.is_err_and(|what| what.contains("nobody waits for it")));
}
