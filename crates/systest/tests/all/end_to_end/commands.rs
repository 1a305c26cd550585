//! Commands that no other test covers: bucket types, settings, the load tool within the binary.

use super::{http, output, resp, start_server, tool};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};
use systest::client::RespReply;
use systest::environment::{Root, Scratch, missing, path_str};
use systest::report::skipped;

#[test]
fn bucket_type_properties_apply_only_to_buckets_created_later() {
    let (_scratch, server) = start_server("types");
    tool(&server, &["type", "create", "events", "sync=interval", "value_bytes_max=10"]);
    tool(&server, &["bucket", "create", "events/web"]);
    tool(&server, &["put", "-b", "events/web", "a", "0123456789"]);
    let large = output(server.tool(&["put", "-b", "events/web", "a", "0123456789+"]));
    assert_eq!(large.status.code(), Some(2), "{}", String::from_utf8_lossy(&large.stderr));
    assert!(String::from_utf8_lossy(&large.stderr).contains("too_large"));
    tool(&server, &["type", "alter", "events", "value_bytes_max=20"]);
    tool(&server, &["bucket", "create", "events/app"]);
    tool(&server, &["put", "-b", "events/app", "a", "0123456789+"]);
    let unchanged_limit = output(server.tool(&["put", "-b", "events/web", "a", "0123456789+"]));
    assert_eq!(unchanged_limit.status.code(), Some(2), "a bucket made before keeps its properties");
    let listed = tool(&server, &["type", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let events = listed.as_array().into_iter().flatten().find(|kind| kind["name"] == "events");
    let limit = &events.expect("it is listed")["properties"]["value_bytes_max"];
    assert!(limit == 20 || limit == "20", "{limit}");
    let table = tool(&server, &["type", "list"]);
    let row = table.lines().find(|line| line.starts_with("events ")).unwrap_or(&table);
    assert!(row.contains("interval") && row.contains("20"), "{table}");
    let drop_result = output(server.tool(&["type", "drop", "events"]));
    assert!(!drop_result.status.success(), "a type with buckets was dropped");
    for name in ["events/web", "events/app"] {
        tool(&server, &["bucket", "drop", name, "--yes"]);
    }
    tool(&server, &["type", "drop", "events"]);
    assert!(!tool(&server, &["type", "list"]).contains("events"));
}

#[test]
fn bench_command_of_the_binary_loads_a_node() {
    let (scratch, server) = start_server("bench");
    let file = scratch.join("load.toml");
    let address = server.address;
    let load = format!(
        "driver = \"resp\"\nconcurrent = 4\nduration = \"2s\"\nmode = \"max\"\n\
         resp_address = \"{address}\"\nkey_generator = [\"uniform_int\", 1000]\n\
         value_generator = [\"fixed_bin\", 100]\noperations = [[\"put\", 1], [\"get\", 1]]\n"
    );
    std::fs::write(&file, load).expect("ours");
    let results = scratch.join("results");
    let args = ["bench", path_str(&file), "-d", path_str(&results), "-n", "one", "--json"];
    let result = output(systest::server::tool(&args));
    let stderr = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&result.stdout).expect("JSON and nothing else");
    assert!(report.to_string().contains("put"), "{report}");
    assert!(results.join("one/summary.csv").exists(), "{stderr}");
    let status = http(&server).request("GET", "/status", b"").expect("answers").json();
    assert!(status["requests"]["resp"].as_u64().is_some_and(|count| count > 10), "{status}");
    let missing_file = output(systest::server::tool(&["bench", "/nowhere/load.toml"]));
    let stderr = String::from_utf8_lossy(&missing_file.stderr);
    assert_eq!(missing_file.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("/nowhere/load.toml"), "{stderr}");
    let unknown_flag = output(systest::server::tool(&["bench", "--nope", "--json"]));
    let object: Value =
        serde_json::from_slice(&unknown_flag.stderr).expect("an object, and no more");
    assert_eq!((unknown_flag.status.code(), &object["kind"]), (Some(2), &Value::from("invalid")));
    assert!(object["text"].as_str().is_some_and(|text| text.contains("--nope")), "{object}");
    let codec = output(systest::server::tool(&["bench", "codec", "--seconds", "1", "--json"]));
    let codec: Value = serde_json::from_slice(&codec.stdout).expect("JSON");
    assert!(!codec.is_null());
}

#[test]
fn bench_quick_needs_no_file_and_describes_its_load() {
    let (scratch, server) = start_server("bench-quick");
    let results = scratch.join("results");
    let args = ["bench", "quick", "--seconds", "1", "--keys", "100", "-c", "4"];
    let mut command = systest::server::tool(&args);
    command.env("CREDENZA_URL", server.url()).args(["-d", path_str(&results)]);
    let result = output(command);
    let stdout = String::from_utf8_lossy(&result.stdout);
    assert!(result.status.success(), "{stdout}{}", String::from_utf8_lossy(&result.stderr));
    assert!(stdout.starts_with("load: 4 clients of credenza "), "{stdout}");
    assert!(stdout.contains(": get 75 %, put 25 %, values of 100 bytes"), "{stdout}");
    assert!(stdout.contains("\nverdict: ") && stdout.contains("none failed"), "{stdout}");
    let plot = std::fs::read_to_string(results.join("current/latencies.svg")).expect("drawn");
    assert!(plot.contains("get p99.9") && plot.contains("values of 100 bytes"));
    // All keys are written before the run, so that no read misses.
    assert_eq!(resp(&server).call_line("DBSIZE").expect("an answer"), RespReply::Number(100));
    let no_arguments = output(systest::server::tool(&["bench"]));
    let stderr = String::from_utf8_lossy(&no_arguments.stderr);
    assert_eq!(no_arguments.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("bench quick"), "{stderr}");
}

#[test]
fn bench_against_unreachable_server_exits_with_5_and_names_address() {
    for driver in ["resp", "http"] {
        let address = format!("{driver}_address=127.0.0.1:1");
        let driver = format!("driver={driver}");
        let args = ["bench", "--set", "operations=[[\"get\", 1]]", "--set", "duration=1s"];
        let mut command = systest::server::tool(&args);
        command.args(["--set", &driver, "--set", &address]);
        let result = output(command);
        let stderr = String::from_utf8_lossy(&result.stderr);
        assert_eq!(result.status.code(), Some(5), "{stderr}");
        assert!(stderr.contains("can't connect to 127.0.0.1:1"), "{stderr}");
        let setting = address.split('=').next().unwrap_or_default();
        assert!(stderr.contains(&format!("`{setting}`")), "{stderr}");
    }
}

/// A suite of one server that idles for a minute.
const IDLE_SUITE: &str = r#"
name = "idle"
repeat = 1
[load]
duration = "1s"
[server.a]
command = ["{program}", "serve", "--data", "{data}/node", "--listen", "127.0.0.1:{port}"]
driver = { driver = "resp", resp_address = "127.0.0.1:{port}" }
[[measure]]
name = "idle"
servers = ["a"]
clients = [1]
idle = "60s"
"#;

/// Returns true if a process exists and is not a zombie.
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[test]
fn killed_bench_suite_leaves_no_server_running() {
    if let Some(reason) = missing(Root::Spared, &["setpriv"]) {
        return skipped("a killed suite", &reason);
    }
    let scratch = Scratch::new("killed-suite");
    let (file, results) = (scratch.join("idle.toml"), scratch.join("results"));
    std::fs::write(&file, IDLE_SUITE).expect("ours");
    let mut suite =
        systest::server::tool(&["bench", "suite", path_str(&file), "-d", path_str(&results)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary is there");
    let is_ready = || {
        let logs = std::fs::read_dir(&results).into_iter().flatten().flatten();
        let mut logs = logs.map(|run| std::fs::read_to_string(run.path().join("a.log")));
        logs.any(|logs| logs.is_ok_and(|logs| logs.contains("ready on")))
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_ready() {
        assert!(Instant::now() < deadline, "the suite starts no server");
        std::thread::sleep(Duration::from_millis(20));
    }
    let server = systest::server::child_of(suite.id());
    assert!(server != suite.id() && is_running(server));
    suite.kill().expect("it runs");
    suite.wait().expect("it is ours");
    let deadline = Instant::now() + Duration::from_secs(20);
    while is_running(server) {
        assert!(Instant::now() < deadline, "process {server} outlives the suite that started it");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn settings_command_shows_each_value_with_its_source() {
    let scratch = Scratch::new("settings");
    let file = scratch.join("node.toml");
    std::fs::write(&file, "name = \"from-file\"\nthreads = 3\n").expect("ours");
    let mut command = systest::server::tool(&["settings", "--config", path_str(&file), "--json"]);
    command.env("CREDENZA_THREADS", "2").args(["--sync-interval-ms", "5s"]);
    let settings = output(command).stdout;
    let settings: Value = serde_json::from_slice(&settings).expect("JSON");
    assert_eq!(settings["name"]["value"], "from-file");
    assert_eq!(settings["name"]["from"], format!("{}:1", path_str(&file)));
    let (threads, interval) = (&settings["threads"], &settings["sync_interval_ms"]);
    assert_eq!((&threads["value"], &threads["from"]), (&"2".into(), &"CREDENZA_THREADS".into()));
    assert_eq!(
        (&interval["value"], &interval["from"]),
        (&"5s".into(), &"--sync-interval-ms".into())
    );
    assert_eq!(settings["data_dir"]["from"], "default");
}
