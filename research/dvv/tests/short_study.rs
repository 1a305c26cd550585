//! The program from its command line to its files: a short study, and words that it can't read.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn study(arguments: &[&str], results: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dvv-study"));
    command.args(arguments).arg("-d").arg(results).output().expect("it can be started")
}

#[test]
fn short_study_finds_dotted_clocks_exact_and_small() {
    let results = std::env::temp_dir().join(format!("dvv-study-{}", std::process::id()));
    let seconds = if std::env::var_os("CREDENZA_TEST_LONG").is_some() { "20" } else { "2" };
    let done = study(&["--quick", "--seconds", seconds], &results);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let folder = std::fs::read_dir(&results).expect("made").flatten().next().expect("one run");
    let study = std::fs::read_to_string(folder.path().join("dvv.json")).expect("written");
    std::fs::remove_dir_all(&results).expect("removed");
    let study: Value = serde_json::from_str(&study).expect("JSON");
    let outcomes = study["outcomes"].as_array().expect("a list");
    assert_eq!(outcomes.len(), 15, "five mixes, three kinds of clock");
    for outcome in outcomes {
        let wrong = ["false_reads", "false_values", "lost"].map(|what| outcome[what].as_u64());
        let mean = |bytes: &str| outcome[bytes]["mean"].as_f64().expect("measured");
        match outcome["kind"].as_str() {
            Some("DVV sets") => {
                assert_eq!(wrong, [Some(0); 3], "{outcome}");
                assert!(mean("coded") <= 64.0, "{outcome}");
            }
            Some("DVV") => assert_eq!(wrong, [Some(0); 3], "{outcome}"),
            _ => assert!(mean("terms") > 20.0, "{outcome}"),
        }
    }
    let vectors = outcomes.iter().filter(|outcome| outcome["kind"] == "version vectors");
    let lost: u64 = vectors.filter_map(|outcome| outcome["lost"].as_u64()).sum();
    assert!(lost > 0, "the judge sees nothing");
}

#[test]
fn invalid_arguments_yield_json_error_and_exit_code_2() {
    for (arguments, expected) in [
        (["--quik", "--json"], "unexpected argument '--quik'"),
        (["--clients=0", "--json"], "--clients wants 1 to 10000"),
    ] {
        let done = study(&arguments, &std::env::temp_dir());
        let complaint: Value = serde_json::from_slice(&done.stderr).expect("an object");
        assert_eq!((done.status.code(), &complaint["kind"]), (Some(2), &"invalid".into()));
        assert!(
            complaint["text"].as_str().is_some_and(|text| text.contains(expected)),
            "{complaint}"
        );
    }
}
