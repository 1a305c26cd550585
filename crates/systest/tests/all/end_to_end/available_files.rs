//! Import and export of available buckets: any bytes, siblings, exports and imports cut short.

use super::{fails, fresh, http, output, tool};
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};
use systest::client::encoded;
use systest::rigs::text;
use systest::server::Server;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn store(server: &Server, bucket: &str, key: &[u8], value: &[u8]) {
    let path = format!("/v1/buckets/{bucket}/siblings/{}", encoded(key));
    let stored = http(server).ask("PUT", &path, value).expect("answers");
    assert_eq!(stored.status, 200, "{}", stored.text());
}

fn rows_of(server: &Server, bucket: &str, keys: impl Iterator<Item = Vec<u8>>) -> Rows {
    let mut connection = http(server);
    let read = |key: Vec<u8>| {
        let path = format!("/v1/buckets/{bucket}/keys/{}", encoded(&key));
        let answer = connection.ask("GET", &path, b"").expect("answers");
        (answer.status == 200).then_some((key, answer.body))
    };
    keys.filter_map(read).collect()
}

#[test]
fn rows_of_an_available_bucket_travel_through_every_format() {
    let (scratch, server) = fresh("available-files");
    let all_bytes: Vec<u8> = (0..=255).collect();
    let mut rows = Rows::from([(all_bytes.clone(), all_bytes), (b"empty".to_vec(), Vec::new())]);
    for n in 0..1_200 {
        rows.insert(format!("key{n:04}\t").into_bytes(), format!("line\n{n}").into_bytes());
    }
    let mut connection = http(&server);
    for (key, value) in &rows {
        let path = format!("/v1/buckets/available/from/keys/{}", encoded(key));
        assert_eq!(connection.ask("PUT", &path, value).expect("answers").status, 204);
    }
    for format in ["tsv", "jsonl", "csv", "raw"] {
        let file = scratch.join(&format!("rows.{format}"));
        tool(&server, &["export", "-b", "available/from", text(&file)]);
        // Into a bucket of either consistency.
        for to in ["available/to", "default/to"] {
            let to = format!("{to}-{format}");
            if to.starts_with("default") {
                tool(&server, &["bucket", "create", &to]);
            }
            tool(&server, &["import", "-b", &to, text(&file)]);
            assert!(rows_of(&server, &to, rows.keys().cloned()) == rows, "{to}");
        }
    }
    let prefix = ["export", "-b", "available/from", "--prefix", "key000"];
    assert_eq!(tool(&server, &prefix).lines().count(), 10);
}

#[test]
fn an_export_leaves_no_sibling_out_silently() {
    let (scratch, server) = fresh("available-siblings");
    for (key, value) in [("a", "1"), ("b", "old"), ("b", "new"), ("c", "3")] {
        store(&server, "available/fruit", key.as_bytes(), value.as_bytes());
        // Siblings are ordered by the times of their writes.
        std::thread::sleep(Duration::from_millis(5));
    }
    let file = scratch.join("fruit.tsv");
    let export = ["export", "-b", "available/fruit", text(&file)];
    let said = fails(&server, &export, 4);
    assert!(said.contains("the key b has siblings") && said.contains("--siblings each"), "{said}");
    assert!(!file.exists(), "the export stopped before its first page was whole");
    let said = fails(&server, &[&export[..], &["--siblings", "skip"]].concat(), 4);
    assert!(said.contains("the key b has siblings: left out"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).expect("written"), "a\t1\nc\t3\n");
    std::fs::remove_file(&file).expect("ours");
    tool(&server, &[&export[..], &["--siblings", "each"]].concat());
    let whole = std::fs::read_to_string(&file).expect("written");
    assert_eq!(whole, "a\t1\nb\told\nb\tnew\nc\t3\n");
    tool(&server, &["import", "-b", "available/copy", text(&file)]);
    assert_eq!(tool(&server, &["get", "b", "-b", "available/copy"]), "new");
    // Wherever it is cut, also between two values of one key: no value is missing or duplicated.
    for cut in 0..=whole.len() {
        std::fs::write(&file, &whole[..cut]).expect("ours");
        tool(&server, &[&export[..], &["--siblings", "each", "--resume"]].concat());
        assert_eq!(std::fs::read_to_string(&file).expect("written"), whole, "cut at {cut}");
    }
}

#[test]
fn an_import_into_an_available_bucket_goes_on_after_a_kill() {
    let (scratch, server) = fresh("available-resume");
    let (file, resume) = (scratch.join("rows.tsv"), scratch.join("resume"));
    let rows: Rows = (0..60_000)
        .map(|n| (format!("key{n:07}").into_bytes(), format!("value {n}").into_bytes()))
        .collect();
    let line = |(key, value): (&Vec<u8>, &Vec<u8>)| [key, &b"\t"[..], value, b"\n"].concat();
    std::fs::write(&file, rows.iter().flat_map(line).collect::<Vec<u8>>()).expect("ours");
    let words =
        ["import", "-b", "available/to", text(&file), "--resume", text(&resume), "--batch", "10"];
    let mut import = server.tool(&words).stdout(Stdio::null()).spawn().expect("it starts");
    let until = Instant::now() + Duration::from_secs(60);
    while !resume.exists() {
        assert!(Instant::now() < until, "it remembers nothing");
        assert!(matches!(import.try_wait(), Ok(None)), "it ended before it could be killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    import.kill().expect("ours");
    import.wait().expect("ours");
    tool(&server, &["delete", "key0000000", "-b", "available/to"]);
    let said = tool(&server, &[&words[..], &["--json"]].concat());
    let summary: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let loaded = summary["records"].as_u64().expect("a number");
    assert!(0 < loaded && loaded < 60_000, "{said}");
    let all = scratch.join("all.tsv");
    tool(&server, &["export", "-b", "available/to", text(&all)]);
    let mut expected = rows;
    // Rows loaded before are not loaded again: a row that was deleted since stays deleted.
    expected.remove(&b"key0000000"[..]);
    let expected = expected.iter().flat_map(line).collect::<Vec<u8>>();
    assert!(std::fs::read(&all).expect("written") == expected, "rows are missing or too many");
}

#[test]
fn a_bucket_that_takes_no_records_is_named_before_any_line_is_read() {
    let (scratch, server) = fresh("no-records");
    let file = scratch.join("rows.tsv");
    std::fs::write(&file, "no tab\na\t1\n").expect("ours");
    tool(&server, &["type", "create", "tallies", "consistency=available", "datatype=counter"]);
    for (bucket, word) in [("cellar", "no_such_bucket"), ("tallies/web", "credenza datatype get")] {
        for errors in ["stop", "skip"] {
            let words = ["import", "-b", bucket, text(&file), "--errors", errors];
            let done = output(server.tool(&words));
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert_eq!(done.status.code(), Some(2), "{said}");
            assert!(said.contains(word) && !said.contains("line"), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
        let said = fails(&server, &["export", "-b", bucket], 2);
        assert!(said.contains(word), "{said}");
    }
}
