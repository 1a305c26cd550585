//! A published config of Basho Bench, against the front-end of Riak's HTTP interface.

use super::{output, start_server};
use serde_json::Value;
use systest::environment::path_str;

const PUBLISHED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../load_generator/published/httpraw.config");

#[test]
fn published_basho_bench_config_loads_a_node() {
    let (scratch, server) = start_server("published-load");
    let results = scratch.join("results");
    let addresses = format!("riak_addresses=[\"{}\"]", server.address);
    let keys = "key_generator=[\"int_to_str\", [\"uniform_int\", 20]]";
    let args = ["bench", PUBLISHED, "-d", path_str(&results), "-n", "one", "--json"];
    let mut command = systest::server::tool(&args);
    command.args(["--set", &addresses, "--set", "duration=5s", "--set", keys]);
    command.args(["--set", "report_interval=500ms", "--set", "think_time=5ms"]);
    let result = output(command);
    let stderr = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&result.stdout).expect("JSON and nothing else");
    let update = &report["operations"]["update"];
    assert_eq!(report["failed"], 0, "{report}");
    // Every key soon exists, so nearly every get finds a row, its context and its values.
    let (ok, found) = (update["ok"].as_u64(), update["values_per_key"]["count"].as_u64());
    assert!(ok > Some(60) && found > ok.map(|ok| ok / 2), "{report}");
    let clock = update["clock_bytes"]["mean"].as_f64().expect("measured");
    assert!((8.0..=64.0).contains(&clock), "{report}");
    let values = update["values_per_key"]["mean"].as_f64().expect("measured");
    // Three clients: siblings were written at the same time.
    assert!((1.0..=3.0).contains(&values), "{report}");
    let table = std::fs::read_to_string(results.join("one/update_causality.csv"));
    assert!(table.is_ok_and(|table| table.lines().count() > 2), "{stderr}");
}
