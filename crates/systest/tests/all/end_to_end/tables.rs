//! CSV files, and the records that an import rejects: their file, and their second import.

use super::{fails, fresh, tool};
use std::fs;
use systest::rigs::text;

#[test]
fn a_csv_file_is_loaded_by_the_names_of_its_columns() {
    let (scratch, server) = fresh("csv");
    let file = scratch.join("people.csv");
    let rows = "id,name,city\n1,Ada,London\n2,\"Grace \"\"G\"\"\",Arlington\n";
    fs::write(&file, rows).expect("ours");
    let said = fails(&server, &["import", text(&file)], 2);
    assert!(said.contains("no column `key`") && said.contains("--key-column"), "{said}");
    let words = ["import", text(&file), "--key-column", "id"];
    tool(&server, &[&words[..], &["--value-column", "name"]].concat());
    assert_eq!(tool(&server, &["get", "2"]), "Grace \"G\"");
    tool(&server, &[&words[..], &["--value-json"]].concat());
    let row = r#"{"id":"1","name":"Ada","city":"London"}"#;
    assert_eq!(tool(&server, &["get", "1"]), row);
    fs::write(&file, "key;value\na;1\n").expect("ours");
    tool(&server, &["import", text(&file), "--delimiter", ";"]);
    assert_eq!(tool(&server, &["get", "a"]), "1");
    let out = scratch.join("out.csv");
    let names = ["--key-column", "id", "--value-column", "text", "--delimiter", "tab"];
    tool(&server, &[&["export", text(&out), "--prefix", "a"][..], &names].concat());
    assert_eq!(fs::read_to_string(&out).expect("written"), "id\ttext\na\t1\n");
}

#[test]
fn rejected_records_are_repaired_and_imported_again() {
    let (scratch, server) = fresh("rejects");
    tool(&server, &["bucket", "create", "narrow", "value_bytes_max=3"]);
    let (file, bad) = (scratch.join("rows.csv"), scratch.join("bad.csv"));
    let reasons = scratch.join("bad.csv.reasons");
    let rows = "note,value,key\n-,1,a\n-,1234,b\n-,2\n-,3,\n\"x\ny\",\"12\n34\",c\n-,5,d";
    fs::write(&file, rows).expect("ours");
    let import = |file, bad| ["import", "-b", "narrow", text(file), "--rejects", text(bad)];
    let said = fails(&server, &import(&file, &bad), 2);
    assert!(said.contains("4 records were left out") && said.contains("bad.csv.reasons"), "{said}");
    assert_eq!(said.lines().count(), 1, "what stands in the file is not said as well: {said}");
    let rejected = fs::read_to_string(&bad).expect("written");
    let (head, rest) = rejected.split_once('\n').expect("lines");
    assert_eq!(head, "note,value,key");
    for record in ["-,1234,b\n", "-,2\n", "-,3,\n", "\"x\ny\",\"12\n34\",c\n"] {
        assert!(rest.contains(record), "{record}: {rejected}");
    }
    let why = fs::read_to_string(&reasons).expect("written");
    let expected = [(3, "too_large"), (4, "2 fields"), (5, "the key is empty"), (6, "too_large")];
    for (line, word) in expected {
        let reason = why.lines().find(|reason| reason.starts_with(&format!("{line}\t")));
        assert!(reason.is_some_and(|reason| reason.contains(word)), "line {line}: {why}");
    }
    // The nth reason is that of the nth record.
    let first = why.lines().position(|reason| reason.starts_with("4\t")).expect("it is there");
    let second = why.lines().position(|reason| reason.starts_with("5\t")).expect("it is there");
    assert_eq!(first < second, rest.find("-,2\n") < rest.find("-,3,\n"));
    assert_eq!(tool(&server, &["range", "-b", "narrow"]), "a\t1\nd\t5\n");
    let said = fails(&server, &import(&file, &bad), 2);
    assert!(said.contains("exists"), "{said}");

    let repaired = rejected.replace("1234", "2").replace("-,2\n", "-,2,e\n");
    let repaired = repaired.replace("-,3,\n", "-,3,f\n").replace("\"12\n34\"", "4");
    fs::write(&bad, repaired).expect("ours");
    tool(&server, &import(&bad, &scratch.join("worse.csv")));
    assert!(!scratch.join("worse.csv").exists(), "nothing was rejected");
    let all = "a\t1\nb\t2\nc\t4\nd\t5\ne\t2\nf\t3\n";
    assert_eq!(tool(&server, &["range", "-b", "narrow"]), all);
}

#[test]
fn as_many_wrong_records_as_are_allowed_are_no_failure() {
    let (scratch, server) = fresh("max-errors");
    let file = scratch.join("rows.tsv");
    fs::write(&file, "a\t1\nno tab\n\t2\nb\t3\n").expect("ours");
    let import = |words: &[&'static str]| [&["import", text(&file)], words].concat();
    let said = fails(&server, &import(&["--max-errors", "1"]), 2);
    assert!(said.contains("2 records were left out"), "{said}");
    tool(&server, &import(&["--max-errors", "2"]));
    tool(&server, &import(&["--max-errors", "1", "--allow-empty-key"]));
    let said = fails(&server, &import(&["--errors", "stop", "--max-errors", "2"]), 2);
    assert!(said.contains("--errors stop"), "{said}");
    let file = scratch.join("rows.jsonl");
    fs::write(&file, "{\"key\": \"a\", \"value\":\n").expect("ours");
    let said = fails(&server, &["import", text(&file)], 2);
    assert!(said.contains("line 1:") && said.matches("line").count() == 1, "{said}");
}
