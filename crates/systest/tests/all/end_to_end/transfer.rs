//! Import and export: any bytes, any error in a line, any place of interruption.

use super::{http, output, put, resp, start_server, tool};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use systest::client::{RespReply, encode_command};
use systest::environment::path_str;
use systest::server::Server;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns all rows of a bucket, from an export in the raw format.
fn read_rows(server: &Server, bucket: &str) -> Rows {
    let file = server.setup.data.with_file_name(format!("{bucket}-look.raw"));
    tool(server, &["export", "-b", bucket, path_str(&file)]);
    let bytes = std::fs::read(&file).expect("it was written");
    std::fs::remove_file(&file).expect("ours");
    let mut rest = bytes.strip_prefix(b"credraw1").expect("the head of the format");
    let mut rows = Rows::new();
    while !rest.is_empty() {
        let length_at = |at: usize| {
            let bytes: [u8; 4] = rest[at..at + 4].try_into().expect("four bytes");
            u32::from_le_bytes(bytes) as usize
        };
        let (key, value) = (length_at(0), length_at(4));
        rows.insert(rest[8..8 + key].to_vec(), rest[8 + key..8 + key + value].to_vec());
        rest = &rest[8 + key + value..];
    }
    rows
}

#[test]
fn arbitrary_bytes_round_trip_through_every_export_format() {
    let (scratch, server) = start_server("any-bytes");
    let rounds = std::cell::Cell::new(0);
    let rows = btree_map(vec(any::<u8>(), 1..40), vec(any::<u8>(), 0..200), 1..60);
    let config = Config { failure_persistence: None, ..Config::with_cases(8) };
    let outcome = TestRunner::new(config).run(&rows, |rows| {
        rounds.set(rounds.get() + 1);
        let round = rounds.get();
        let source = format!("from{round}");
        tool(&server, &["bucket", "create", &source]);
        let mut redis = resp(&server);
        let chosen = redis.call_line(&format!("CREDENZA.BUCKET {source}")).expect("answers");
        assert_eq!(chosen, RespReply::Simple("OK".into()));
        for (key, value) in &rows {
            redis.send(&encode_command(&[b"SET", key, value])).expect("it listens");
            assert_eq!(redis.receive().expect("answers"), RespReply::Simple("OK".into()));
        }
        prop_assert_eq!(&read_rows(&server, &source), &rows);
        for format in ["tsv", "jsonl", "csv", "raw"] {
            let file = scratch.join(&format!("{round}.{format}"));
            tool(&server, &["export", "-b", &source, path_str(&file)]);
            let target = format!("{format}{round}");
            tool(&server, &["bucket", "create", &target]);
            tool(&server, &["import", "-b", &target, path_str(&file)]);
            prop_assert_eq!(&read_rows(&server, &target), &rows, "through {}", format);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn invalid_import_lines_are_numbered_and_stop_or_are_skipped() {
    let (scratch, server) = start_server("wrong-lines");
    let file = scratch.join("rows.tsv");
    std::fs::write(&file, "a\t1\nb\t2\nno tab here\nc\t3\nd\\q\t4\ne\t5\n").expect("ours");
    let stopped = output(server.tool(&["import", path_str(&file)]));
    let stderr = String::from_utf8_lossy(&stopped.stderr).into_owned();
    assert_eq!(stopped.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("line 3") && stderr.contains("--errors skip"), "{stderr}");
    assert_eq!(read_rows(&server, "default").len(), 2, "what stands before it is loaded");
    let result = output(server.tool(&["import", path_str(&file), "--errors", "skip", "--json"]));
    let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
    assert_eq!(result.status.code(), Some(2), "records were left out: {stderr}");
    assert!(stderr.contains("line 3") && stderr.contains("line 5"), "{stderr}");
    assert!(
        stderr.contains("2 records were left out") && stderr.contains("--max-errors 2"),
        "{stderr}"
    );
    let summary: serde_json::Value = serde_json::from_slice(&result.stdout).expect("JSON");
    assert_eq!((&summary["records"], &summary["skipped"]), (&4.into(), &2.into()));
    assert_eq!(read_rows(&server, "default").len(), 4);
    tool(&server, &["bucket", "create", "narrow", "value_bytes_max=3"]);
    std::fs::write(&file, "a\t123\nb\t1234\nc\t1\n").expect("ours");
    let refused = output(server.tool(&["import", "-b", "narrow", path_str(&file)]));
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(stderr.contains("line 2") && stderr.contains("too_large"), "{stderr}");
}

#[test]
fn duplicate_key_in_import_keeps_the_last_value() {
    let (scratch, server) = start_server("twice");
    let file = scratch.join("rows.tsv");
    let lines: String = (0..40_000).map(|n| format!("key{}\t{n}\n", n % 7)).collect();
    std::fs::write(&file, lines).expect("ours");
    tool(&server, &["import", path_str(&file), "--batch", "50"]);
    for key in 0..7u32 {
        let last = (0..40_000u32).rev().find(|n| n % 7 == key).expect("each stands there");
        let found = resp(&server).call_line(&format!("GET key{key}")).expect("answers");
        assert_eq!(found, RespReply::Bulk(Some(last.to_string().into_bytes())), "key{key}");
    }
}

fn write_rows_file(file: &Path, rows: usize) -> Rows {
    let rows: Rows = (0..rows)
        .map(|n| (format!("key{n:07}").into_bytes(), format!("value {n}").into_bytes()))
        .collect();
    let mut lines = Vec::new();
    for (key, value) in &rows {
        lines.extend_from_slice(&[key, &b"\t"[..], value, b"\n"].concat());
    }
    std::fs::write(file, lines).expect("ours");
    rows
}

#[test]
fn killed_import_resumes_after_the_acknowledged_rows() {
    let (scratch, server) = start_server("resume");
    let (file, resume) = (scratch.join("rows.tsv"), scratch.join("resume"));
    let rows = write_rows_file(&file, 200_000);
    let args = ["import", path_str(&file), "--resume", path_str(&resume), "--batch", "20"];
    let mut import = server.tool(&args).stdout(Stdio::null()).spawn().expect("it starts");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !resume.exists() {
        assert!(Instant::now() < deadline, "it remembers nothing");
        assert!(matches!(import.try_wait(), Ok(None)), "it ended before it could be killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    import.kill().expect("ours");
    import.wait().expect("ours");
    // Rows loaded before are not loaded again: a row that was deleted since stays deleted.
    tool(&server, &["delete", "key0000000"]);
    let summary_text = tool(&server, &[&args[..], &["--json"]].concat());
    let summary: serde_json::Value = serde_json::from_str(&summary_text).expect("JSON");
    let loaded = summary["records"].as_u64().expect("a number");
    assert!(0 < loaded && loaded < 200_000, "{summary_text}");
    let mut expected = rows;
    expected.remove(&b"key0000000"[..]);
    assert!(read_rows(&server, "default") == expected, "rows are missing or too many");
    let other = scratch.join("other.tsv");
    std::fs::write(&other, "a\tb\n").expect("ours");
    let foreign = output(server.tool(&["import", path_str(&other), "--resume", path_str(&resume)]));
    assert_eq!(foreign.status.code(), Some(2), "another import's file was taken");
}

#[test]
fn export_never_overwrites_a_file_and_help_states_consistency() {
    let (scratch, server) = start_server("export");
    put(&mut http(&server), b"a", b"1");
    let file = scratch.join("rows.tsv");
    tool(&server, &["export", path_str(&file)]);
    let second_result = output(server.tool(&["export", path_str(&file)]));
    assert_eq!(second_result.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&second_result.stderr).into_owned();
    assert!(stderr.contains("exists"), "{stderr}");
    let help = output(systest::server::tool(&["export", "--help"]));
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.contains("snapshot") || help.contains("consistent"), "{help}");
}

#[test]
fn truncated_export_resumes_to_the_same_bytes() {
    let (scratch, server) = start_server("export-resume");
    let mut http = http(&server);
    for n in 0..40 {
        let value = format!("line\none\ttab {}", "x".repeat(n * 3));
        put(&mut http, format!("row {n}\n").as_bytes(), value.as_bytes());
    }
    for format in ["tsv", "jsonl", "csv", "raw"] {
        let full_export = scratch.join(&format!("whole.{format}"));
        tool(&server, &["export", path_str(&full_export)]);
        let full_export = std::fs::read(&full_export).expect("it was written");
        let partial = scratch.join(&format!("part.{format}"));
        let cuts = [
            0,
            1,
            7,
            8,
            9,
            20,
            full_export.len() / 3,
            full_export.len() / 2,
            full_export.len() - 1,
        ];
        for length in cuts.into_iter().chain([full_export.len()]) {
            std::fs::write(&partial, &full_export[..length]).expect("ours to write");
            tool(&server, &["export", "--resume", path_str(&partial)]);
            let resumed = std::fs::read(&partial).expect("it was written");
            assert!(resumed == full_export, "{format} cut at {length} of {}", full_export.len());
        }
        std::fs::remove_file(&partial).expect("ours");
        tool(&server, &["export", "--resume", path_str(&partial)]);
        assert!(
            std::fs::read(&partial).expect("it was made") == full_export,
            "{format} from nothing"
        );
    }
    let other = scratch.join("other.tsv");
    std::fs::write(&other, "no tab in here\nnor here\n").expect("ours to write");
    let refused = output(server.tool(&["export", "--resume", path_str(&other)]));
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let content = std::fs::read(&other).expect("it is there");
    assert_eq!(content, b"no tab in here\nnor here\n", "a file that is none of ours is left alone");
}
