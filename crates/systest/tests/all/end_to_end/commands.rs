//! Commands that no other test covers: bucket types, settings, the load tool within the binary.

use super::{fresh, http, output, resp, tool};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};
use systest::client::RespReply;
use systest::report::skipped;
use systest::rigs::{Root, Scratch, missing, text};

#[test]
fn a_type_gives_its_properties_to_buckets_made_later() {
    let (_scratch, server) = fresh("types");
    tool(&server, &["type", "create", "events", "sync=interval", "value_bytes_max=10"]);
    tool(&server, &["bucket", "create", "events/web"]);
    tool(&server, &["put", "-b", "events/web", "a", "0123456789"]);
    let large = output(server.tool(&["put", "-b", "events/web", "a", "0123456789+"]));
    assert_eq!(large.status.code(), Some(2), "{}", String::from_utf8_lossy(&large.stderr));
    assert!(String::from_utf8_lossy(&large.stderr).contains("too_large"));
    tool(&server, &["type", "alter", "events", "value_bytes_max=20"]);
    tool(&server, &["bucket", "create", "events/app"]);
    tool(&server, &["put", "-b", "events/app", "a", "0123456789+"]);
    let kept = output(server.tool(&["put", "-b", "events/web", "a", "0123456789+"]));
    assert_eq!(kept.status.code(), Some(2), "a bucket made before keeps its properties");
    let listed = tool(&server, &["type", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let events = listed.as_array().into_iter().flatten().find(|kind| kind["name"] == "events");
    let limit = &events.expect("it is listed")["properties"]["value_bytes_max"];
    assert!(limit == 20 || limit == "20", "{limit}");
    let table = tool(&server, &["type", "list"]);
    let row = table.lines().find(|line| line.starts_with("events ")).unwrap_or(&table);
    assert!(row.contains("interval") && row.contains("20"), "{table}");
    let used = output(server.tool(&["type", "drop", "events"]));
    assert!(!used.status.success(), "a type with buckets was dropped");
    for name in ["events/web", "events/app"] {
        tool(&server, &["bucket", "drop", name, "--yes"]);
    }
    tool(&server, &["type", "drop", "events"]);
    assert!(!tool(&server, &["type", "list"]).contains("events"));
}

#[test]
fn the_load_tool_is_part_of_the_binary_and_loads_a_node() {
    let (scratch, server) = fresh("bench");
    let file = scratch.join("load.toml");
    let address = server.address;
    let load = format!(
        "driver = \"resp\"\nconcurrent = 4\nduration = \"2s\"\nmode = \"max\"\n\
         resp_address = \"{address}\"\nkey_generator = [\"uniform_int\", 1000]\n\
         value_generator = [\"fixed_bin\", 100]\noperations = [[\"put\", 1], [\"get\", 1]]\n"
    );
    std::fs::write(&file, load).expect("ours");
    let results = scratch.join("results");
    let words = ["bench", text(&file), "-d", text(&results), "-n", "one", "--json"];
    let done = output(systest::server::tool(&words));
    let complained = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{complained}");
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON and nothing else");
    assert!(report.to_string().contains("put"), "{report}");
    assert!(results.join("one/summary.csv").exists(), "{complained}");
    let status = http(&server).ask("GET", "/status", b"").expect("answers").json();
    assert!(status["requests"]["resp"].as_u64().is_some_and(|count| count > 10), "{status}");
    let wrong = output(systest::server::tool(&["bench", "/nowhere/load.toml"]));
    let complained = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(2), "{complained}");
    assert!(complained.contains("/nowhere/load.toml"), "{complained}");
    let unread = output(systest::server::tool(&["bench", "--nope", "--json"]));
    let object: Value = serde_json::from_slice(&unread.stderr).expect("an object, and no more");
    assert_eq!((unread.status.code(), &object["kind"]), (Some(2), &Value::from("invalid")));
    assert!(object["text"].as_str().is_some_and(|text| text.contains("--nope")), "{object}");
    let codec = output(systest::server::tool(&["bench", "codec", "--seconds", "1", "--json"]));
    let codec: Value = serde_json::from_slice(&codec.stdout).expect("JSON");
    assert!(!codec.is_null());
}

#[test]
fn a_quick_load_needs_no_file_and_says_what_it_does() {
    let (scratch, server) = fresh("bench-quick");
    let results = scratch.join("results");
    let words = ["bench", "quick", "--seconds", "1", "--keys", "100", "-c", "4"];
    let mut command = systest::server::tool(&words);
    command.env("CREDENZA_URL", server.url()).args(["-d", text(&results)]);
    let done = output(command);
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    assert!(said.starts_with("load: 4 clients of credenza "), "{said}");
    assert!(said.contains(": get 75 %, put 25 %, values of 100 bytes"), "{said}");
    assert!(said.contains("\nverdict: ") && said.contains("none failed"), "{said}");
    let plot = std::fs::read_to_string(results.join("current/latencies.svg")).expect("drawn");
    assert!(plot.contains("get p99.9") && plot.contains("values of 100 bytes"));
    // All keys are written before the run, so that no read misses.
    assert_eq!(resp(&server).say("DBSIZE").expect("an answer"), RespReply::Number(100));
    let nothing = output(systest::server::tool(&["bench"]));
    let complained = String::from_utf8_lossy(&nothing.stderr);
    assert_eq!(nothing.status.code(), Some(2), "{complained}");
    assert!(complained.contains("bench quick"), "{complained}");
}

#[test]
fn a_server_that_is_not_there_is_no_mistake_of_the_load() {
    for driver in ["resp", "http"] {
        let address = format!("{driver}_address=127.0.0.1:1");
        let driver = format!("driver={driver}");
        let words = ["bench", "--set", "operations=[[\"get\", 1]]", "--set", "duration=1s"];
        let mut command = systest::server::tool(&words);
        command.args(["--set", &driver, "--set", &address]);
        let done = output(command);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(5), "{said}");
        assert!(said.contains("can't connect to 127.0.0.1:1"), "{said}");
        let setting = address.split('=').next().unwrap_or_default();
        assert!(said.contains(&format!("`{setting}`")), "{said}");
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
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[test]
fn a_killed_suite_leaves_no_server_behind() {
    if let Some(why) = missing(Root::Spared, &["setpriv"]) {
        return skipped("a killed suite", &why);
    }
    let scratch = Scratch::new("killed-suite");
    let (file, results) = (scratch.join("idle.toml"), scratch.join("results"));
    std::fs::write(&file, IDLE_SUITE).expect("ours");
    let mut suite = systest::server::tool(&["bench", "suite", text(&file), "-d", text(&results)])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary is there");
    let is_ready = || {
        let logs = std::fs::read_dir(&results).into_iter().flatten().flatten();
        let mut said = logs.map(|run| std::fs::read_to_string(run.path().join("a.log")));
        said.any(|said| said.is_ok_and(|said| said.contains("ready on")))
    };
    let until = Instant::now() + Duration::from_secs(60);
    while !is_ready() {
        assert!(Instant::now() < until, "the suite starts no server");
        std::thread::sleep(Duration::from_millis(20));
    }
    let server = systest::server::child_of(suite.id());
    assert!(server != suite.id() && lives(server));
    suite.kill().expect("it runs");
    suite.wait().expect("it is ours");
    let until = Instant::now() + Duration::from_secs(20);
    while lives(server) {
        assert!(Instant::now() < until, "process {server} outlives the suite that started it");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn settings_in_force_and_where_they_came_from_are_shown() {
    let scratch = Scratch::new("settings");
    let file = scratch.join("node.toml");
    std::fs::write(&file, "name = \"from-file\"\nthreads = 3\n").expect("ours");
    let mut command = systest::server::tool(&["settings", "--config", text(&file), "--json"]);
    command.env("CREDENZA_THREADS", "2").args(["--sync-interval-ms", "5s"]);
    let said = output(command).stdout;
    let said: Value = serde_json::from_slice(&said).expect("JSON");
    assert_eq!(said["name"]["value"], "from-file");
    assert_eq!(said["name"]["from"], format!("{}:1", text(&file)));
    let (threads, interval) = (&said["threads"], &said["sync_interval_ms"]);
    assert_eq!((&threads["value"], &threads["from"]), (&"2".into(), &"CREDENZA_THREADS".into()));
    assert_eq!(
        (&interval["value"], &interval["from"]),
        (&"5s".into(), &"--sync-interval-ms".into())
    );
    assert_eq!(said["data_dir"]["from"], "default");
}
