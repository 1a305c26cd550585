//! A config of Basho Bench as it was published, against the door that speaks Riak's HTTP; and the
//! published case study of clocks, a short one.

use super::{fresh, output};
use proof::report::times;
use proof::rigs::{Scratch, text};
use serde_json::Value;

const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/published/httpraw.config");

#[test]
fn a_published_config_of_basho_bench_loads_a_node() {
    let (scratch, server) = fresh("published-load");
    let results = scratch.join("results");
    let addresses = format!("riak_addresses=[\"{}\"]", server.address);
    let keys = "key_generator=[\"int_to_str\", [\"uniform_int\", 20]]";
    let words = ["bench", PUBLISHED, "-d", text(&results), "-n", "one", "--json"];
    let mut command = proof::server::tool(&words);
    command.args(["--set", &addresses, "--set", "duration=5s", "--set", keys]);
    command.args(["--set", "report_interval=500ms", "--set", "think_time=5ms"]);
    let done = output(command);
    let complained = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{complained}");
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON and nothing else");
    let update = &report["operations"]["update"];
    assert_eq!(report["failed"], 0, "{report}");
    // Every key is soon there, so nearly every get finds a row, its context and its values.
    let (ok, found) = (update["ok"].as_u64(), update["values_per_key"]["count"].as_u64());
    assert!(ok > Some(60) && found > ok.map(|ok| ok / 2), "{report}");
    let clock = update["clock_bytes"]["mean"].as_f64().expect("measured");
    assert!((8.0..=64.0).contains(&clock), "{report}");
    let values = update["values_per_key"]["mean"].as_f64().expect("measured");
    // Three clients: what stands beside each other was written at the same time.
    assert!((1.0..=3.0).contains(&values), "{report}");
    let table = std::fs::read_to_string(results.join("one/update_causality.csv"));
    assert!(table.is_ok_and(|table| table.lines().count() > 2), "{complained}");
}

#[test]
fn the_case_study_of_clocks_finds_dots_exact_and_short() {
    let scratch = Scratch::new("case-study");
    let (seconds, results) = (times(2, 30).to_string(), scratch.join("results"));
    let words = ["bench", "dvv", "--quick", "--seconds", &seconds, "-d", text(&results)];
    let done = output(proof::server::tool(&words));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let folder = std::fs::read_dir(&results).expect("made").flatten().next().expect("one run");
    let study = std::fs::read_to_string(folder.path().join("dvv.json")).expect("written");
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
