//! Import and export: any bytes, any error in a line, any place of interruption.

use super::{fresh, http, output, put, resp, tool};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use systest::client::{RespReply, command};
use systest::rigs::text;
use systest::server::Server;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns all rows of a bucket, from an export in the raw format.
fn rows_of(server: &Server, bucket: &str) -> Rows {
    let file = server.setup.data.with_file_name(format!("{bucket}-look.raw"));
    tool(server, &["export", "-b", bucket, text(&file)]);
    let bytes = std::fs::read(&file).expect("it was written");
    std::fs::remove_file(&file).expect("ours");
    let mut rest = bytes.strip_prefix(b"credraw1").expect("the head of the format");
    let mut rows = Rows::new();
    while !rest.is_empty() {
        let word = |at: usize| {
            let bytes: [u8; 4] = rest[at..at + 4].try_into().expect("four bytes");
            u32::from_le_bytes(bytes) as usize
        };
        let (key, value) = (word(0), word(4));
        rows.insert(rest[8..8 + key].to_vec(), rest[8 + key..8 + key + value].to_vec());
        rest = &rest[8 + key + value..];
    }
    rows
}

#[test]
fn any_bytes_travel_through_every_format_and_back() {
    let (scratch, server) = fresh("any-bytes");
    let rounds = std::cell::Cell::new(0);
    let rows = btree_map(vec(any::<u8>(), 1..40), vec(any::<u8>(), 0..200), 1..60);
    let config = Config { failure_persistence: None, ..Config::with_cases(8) };
    let outcome = TestRunner::new(config).run(&rows, |rows| {
        rounds.set(rounds.get() + 1);
        let round = rounds.get();
        let from = format!("from{round}");
        tool(&server, &["bucket", "create", &from]);
        let mut redis = resp(&server);
        let chosen = redis.say(&format!("CREDENZA.BUCKET {from}")).expect("answers");
        assert_eq!(chosen, RespReply::Simple("OK".into()));
        for (key, value) in &rows {
            redis.send(&command(&[b"SET", key, value])).expect("it listens");
            assert_eq!(redis.receive().expect("answers"), RespReply::Simple("OK".into()));
        }
        prop_assert_eq!(&rows_of(&server, &from), &rows);
        for format in ["tsv", "jsonl", "csv", "raw"] {
            let file = scratch.join(&format!("{round}.{format}"));
            tool(&server, &["export", "-b", &from, text(&file)]);
            let to = format!("{format}{round}");
            tool(&server, &["bucket", "create", &to]);
            tool(&server, &["import", "-b", &to, text(&file)]);
            prop_assert_eq!(&rows_of(&server, &to), &rows, "through {}", format);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn wrong_lines_are_named_by_their_number_and_stop_it_or_are_skipped() {
    let (scratch, server) = fresh("wrong-lines");
    let file = scratch.join("rows.tsv");
    std::fs::write(&file, "a\t1\nb\t2\nno tab here\nc\t3\nd\\q\t4\ne\t5\n").expect("ours");
    let stopped = output(server.tool(&["import", text(&file)]));
    let said = String::from_utf8_lossy(&stopped.stderr).into_owned();
    assert_eq!(stopped.status.code(), Some(2), "{said}");
    assert!(said.contains("line 3") && said.contains("--errors skip"), "{said}");
    assert_eq!(rows_of(&server, "default").len(), 2, "what stands before it is loaded");
    let done = output(server.tool(&["import", text(&file), "--errors", "skip", "--json"]));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(2), "records were left out: {said}");
    assert!(said.contains("line 3") && said.contains("line 5"), "{said}");
    assert!(said.contains("2 records were left out") && said.contains("--max-errors 2"), "{said}");
    let summary: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!((&summary["records"], &summary["skipped"]), (&4.into(), &2.into()));
    assert_eq!(rows_of(&server, "default").len(), 4);
    tool(&server, &["bucket", "create", "narrow", "value_bytes_max=3"]);
    std::fs::write(&file, "a\t123\nb\t1234\nc\t1\n").expect("ours");
    let refused = output(server.tool(&["import", "-b", "narrow", text(&file)]));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("line 2") && said.contains("too_large"), "{said}");
}

#[test]
fn a_key_that_stands_twice_has_the_later_value() {
    let (scratch, server) = fresh("twice");
    let file = scratch.join("rows.tsv");
    let lines: String = (0..40_000).map(|n| format!("key{}\t{n}\n", n % 7)).collect();
    std::fs::write(&file, lines).expect("ours");
    tool(&server, &["import", text(&file), "--batch", "50"]);
    for key in 0..7u32 {
        let last = (0..40_000u32).rev().find(|n| n % 7 == key).expect("each stands there");
        let found = resp(&server).say(&format!("GET key{key}")).expect("answers");
        assert_eq!(found, RespReply::Bulk(Some(last.to_string().into_bytes())), "key{key}");
    }
}

fn write_many(file: &Path, rows: usize) -> Rows {
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
fn an_import_that_was_killed_goes_on_where_it_was_acknowledged() {
    let (scratch, server) = fresh("resume");
    let (file, resume) = (scratch.join("rows.tsv"), scratch.join("resume"));
    let rows = write_many(&file, 200_000);
    let words = ["import", text(&file), "--resume", text(&resume), "--batch", "20"];
    let mut import = server.tool(&words).stdout(Stdio::null()).spawn().expect("it starts");
    let until = Instant::now() + Duration::from_secs(30);
    while !resume.exists() {
        assert!(Instant::now() < until, "it remembers nothing");
        assert!(matches!(import.try_wait(), Ok(None)), "it ended before it could be killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    import.kill().expect("ours");
    import.wait().expect("ours");
    // Rows loaded before are not loaded again: a row that was deleted since stays deleted.
    tool(&server, &["delete", "key0000000"]);
    let said = tool(&server, &[&words[..], &["--json"]].concat());
    let summary: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let loaded = summary["records"].as_u64().expect("a number");
    assert!(0 < loaded && loaded < 200_000, "{said}");
    let mut wanted = rows;
    wanted.remove(&b"key0000000"[..]);
    assert!(rows_of(&server, "default") == wanted, "rows are missing or too many");
    let other = scratch.join("other.tsv");
    std::fs::write(&other, "a\tb\n").expect("ours");
    let foreign = output(server.tool(&["import", text(&other), "--resume", text(&resume)]));
    assert_eq!(foreign.status.code(), Some(2), "another import's file was taken");
}

#[test]
fn an_export_states_what_it_is_and_never_overwrites() {
    let (scratch, server) = fresh("export");
    put(&mut http(&server), b"a", b"1");
    let file = scratch.join("rows.tsv");
    tool(&server, &["export", text(&file)]);
    let again = output(server.tool(&["export", text(&file)]));
    assert_eq!(again.status.code(), Some(2));
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.contains("exists"), "{said}");
    let help = output(systest::server::tool(&["export", "--help"]));
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.contains("snapshot") || help.contains("consistent"), "{help}");
}

#[test]
fn an_export_that_was_cut_anywhere_goes_on_to_the_same_bytes() {
    let (scratch, server) = fresh("export-resume");
    let mut http = http(&server);
    for n in 0..40 {
        let value = format!("line\none\ttab {}", "x".repeat(n * 3));
        put(&mut http, format!("row {n}\n").as_bytes(), value.as_bytes());
    }
    for format in ["tsv", "jsonl", "csv", "raw"] {
        let whole = scratch.join(&format!("whole.{format}"));
        tool(&server, &["export", text(&whole)]);
        let whole = std::fs::read(&whole).expect("it was written");
        let part = scratch.join(&format!("part.{format}"));
        let cuts = [0, 1, 7, 8, 9, 20, whole.len() / 3, whole.len() / 2, whole.len() - 1];
        for cut in cuts.into_iter().chain([whole.len()]) {
            std::fs::write(&part, &whole[..cut]).expect("ours to write");
            tool(&server, &["export", "--resume", text(&part)]);
            let found = std::fs::read(&part).expect("it was written");
            assert!(found == whole, "{format} cut at {cut} of {}", whole.len());
        }
        std::fs::remove_file(&part).expect("ours");
        tool(&server, &["export", "--resume", text(&part)]);
        assert!(std::fs::read(&part).expect("it was made") == whole, "{format} from nothing");
    }
    let other = scratch.join("other.tsv");
    std::fs::write(&other, "no tab in here\nnor here\n").expect("ours to write");
    let refused = output(server.tool(&["export", "--resume", text(&other)]));
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let left = std::fs::read(&other).expect("it is there");
    assert_eq!(left, b"no tab in here\nnor here\n", "a file that is none of ours is left alone");
}
