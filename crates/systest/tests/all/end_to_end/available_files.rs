//! Import and export of available buckets: any bytes, siblings, exports and imports cut short.

use super::{http, must_fail, output, start_server, tool};
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};
use systest::client::encode_key;
use systest::environment::path_str;
use systest::server::Server;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn put_sibling(server: &Server, bucket: &str, key: &[u8], value: &[u8]) {
    let path = format!("/v1/buckets/{bucket}/siblings/{}", encode_key(key));
    let stored = http(server).request("PUT", &path, value).expect("answers");
    assert_eq!(stored.status, 200, "{}", stored.text());
}

fn read_rows(server: &Server, bucket: &str, keys: impl Iterator<Item = Vec<u8>>) -> Rows {
    let mut connection = http(server);
    let read = |key: Vec<u8>| {
        let path = format!("/v1/buckets/{bucket}/keys/{}", encode_key(&key));
        let answer = connection.request("GET", &path, b"").expect("answers");
        (answer.status == 200).then_some((key, answer.body))
    };
    keys.filter_map(read).collect()
}

#[test]
fn available_rows_round_trip_through_every_export_format() {
    let (scratch, server) = start_server("available-files");
    let all_bytes: Vec<u8> = (0..=255).collect();
    let mut rows = Rows::from([(all_bytes.clone(), all_bytes), (b"empty".to_vec(), Vec::new())]);
    for n in 0..1_200 {
        rows.insert(format!("key{n:04}\t").into_bytes(), format!("line\n{n}").into_bytes());
    }
    let mut connection = http(&server);
    for (key, value) in &rows {
        let path = format!("/v1/buckets/available/from/keys/{}", encode_key(key));
        assert_eq!(connection.request("PUT", &path, value).expect("answers").status, 204);
    }
    for format in ["tsv", "jsonl", "csv", "raw"] {
        let file = scratch.join(&format!("rows.{format}"));
        tool(&server, &["export", "-b", "available/from", path_str(&file)]);
        // Into a bucket of either consistency.
        for target in ["available/to", "default/to"] {
            let target = format!("{target}-{format}");
            if target.starts_with("default") {
                tool(&server, &["bucket", "create", &target]);
            }
            tool(&server, &["import", "-b", &target, path_str(&file)]);
            assert!(read_rows(&server, &target, rows.keys().cloned()) == rows, "{target}");
        }
    }
    let prefix = ["export", "-b", "available/from", "--prefix", "key000"];
    assert_eq!(tool(&server, &prefix).lines().count(), 10);
}

#[test]
fn export_omits_no_sibling_silently() {
    let (scratch, server) = start_server("available-siblings");
    for (key, value) in [("a", "1"), ("b", "old"), ("b", "new"), ("c", "3")] {
        put_sibling(&server, "available/fruit", key.as_bytes(), value.as_bytes());
        // Siblings are ordered by the times of their writes.
        std::thread::sleep(Duration::from_millis(5));
    }
    let file = scratch.join("fruit.tsv");
    let export = ["export", "-b", "available/fruit", path_str(&file)];
    let stderr = must_fail(&server, &export, 4);
    assert!(
        stderr.contains("the key b has siblings") && stderr.contains("--siblings each"),
        "{stderr}"
    );
    assert!(!file.exists(), "the export stopped before its first page was whole");
    let stderr = must_fail(&server, &[&export[..], &["--siblings", "skip"]].concat(), 4);
    assert!(stderr.contains("the key b has siblings: left out"), "{stderr}");
    assert_eq!(std::fs::read_to_string(&file).expect("written"), "a\t1\nc\t3\n");
    std::fs::remove_file(&file).expect("ours");
    tool(&server, &[&export[..], &["--siblings", "each"]].concat());
    let full_export = std::fs::read_to_string(&file).expect("written");
    assert_eq!(full_export, "a\t1\nb\told\nb\tnew\nc\t3\n");
    tool(&server, &["import", "-b", "available/copy", path_str(&file)]);
    assert_eq!(tool(&server, &["get", "b", "-b", "available/copy"]), "new");
    // Wherever it is cut, also between two values of one key: no value is missing or duplicated.
    for length in 0..=full_export.len() {
        std::fs::write(&file, &full_export[..length]).expect("ours");
        tool(&server, &[&export[..], &["--siblings", "each", "--resume"]].concat());
        assert_eq!(
            std::fs::read_to_string(&file).expect("written"),
            full_export,
            "cut at {length}"
        );
    }
}

#[test]
fn killed_import_into_available_bucket_resumes() {
    let (scratch, server) = start_server("available-resume");
    let (file, resume) = (scratch.join("rows.tsv"), scratch.join("resume"));
    let rows: Rows = (0..60_000)
        .map(|n| (format!("key{n:07}").into_bytes(), format!("value {n}").into_bytes()))
        .collect();
    let tsv_line = |(key, value): (&Vec<u8>, &Vec<u8>)| [key, &b"\t"[..], value, b"\n"].concat();
    std::fs::write(&file, rows.iter().flat_map(tsv_line).collect::<Vec<u8>>()).expect("ours");
    let args = [
        "import",
        "-b",
        "available/to",
        path_str(&file),
        "--resume",
        path_str(&resume),
        "--batch",
        "10",
    ];
    let mut import = server.tool(&args).stdout(Stdio::null()).spawn().expect("it starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !resume.exists() {
        assert!(Instant::now() < deadline, "it remembers nothing");
        assert!(matches!(import.try_wait(), Ok(None)), "it ended before it could be killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    import.kill().expect("ours");
    import.wait().expect("ours");
    tool(&server, &["delete", "key0000000", "-b", "available/to"]);
    let summary_text = tool(&server, &[&args[..], &["--json"]].concat());
    let summary: serde_json::Value = serde_json::from_str(&summary_text).expect("JSON");
    let loaded = summary["records"].as_u64().expect("a number");
    assert!(0 < loaded && loaded < 60_000, "{summary_text}");
    let exported = scratch.join("all.tsv");
    tool(&server, &["export", "-b", "available/to", path_str(&exported)]);
    let mut expected = rows;
    // Rows loaded before are not loaded again: a row that was deleted since stays deleted.
    expected.remove(&b"key0000000"[..]);
    let expected = expected.iter().flat_map(tsv_line).collect::<Vec<u8>>();
    assert!(std::fs::read(&exported).expect("written") == expected, "rows are missing or too many");
}

#[test]
fn import_into_unsuitable_bucket_is_refused_before_reading_records() {
    let (scratch, server) = start_server("no-records");
    let file = scratch.join("rows.tsv");
    std::fs::write(&file, "no tab\na\t1\n").expect("ours");
    tool(&server, &["type", "create", "tallies", "consistency=available", "datatype=counter"]);
    for (bucket, expected) in
        [("cellar", "no_such_bucket"), ("tallies/web", "credenza datatype get")]
    {
        for errors in ["stop", "skip"] {
            let args = ["import", "-b", bucket, path_str(&file), "--errors", errors];
            let result = output(server.tool(&args));
            let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
            assert_eq!(result.status.code(), Some(2), "{stderr}");
            assert!(stderr.contains(expected) && !stderr.contains("line"), "{stderr}");
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
        }
        let stderr = must_fail(&server, &["export", "-b", bucket], 2);
        assert!(stderr.contains(expected), "{stderr}");
    }
}
