//! CSV files, and the records that an import rejects: their file, and their second import.

use super::{must_fail, start_server, tool};
use std::fs;
use systest::environment::path_str;

#[test]
fn csv_import_and_export_map_columns_by_name() {
    let (scratch, server) = start_server("csv");
    let file = scratch.join("people.csv");
    let rows = "id,name,city\n1,Ada,London\n2,\"Grace \"\"G\"\"\",Arlington\n";
    fs::write(&file, rows).expect("ours");
    let stderr = must_fail(&server, &["import", path_str(&file)], 2);
    assert!(stderr.contains("no column `key`") && stderr.contains("--key-column"), "{stderr}");
    let args = ["import", path_str(&file), "--key-column", "id"];
    tool(&server, &[&args[..], &["--value-column", "name"]].concat());
    assert_eq!(tool(&server, &["get", "2"]), "Grace \"G\"");
    tool(&server, &[&args[..], &["--value-json"]].concat());
    let row = r#"{"id":"1","name":"Ada","city":"London"}"#;
    assert_eq!(tool(&server, &["get", "1"]), row);
    fs::write(&file, "key;value\na;1\n").expect("ours");
    tool(&server, &["import", path_str(&file), "--delimiter", ";"]);
    assert_eq!(tool(&server, &["get", "a"]), "1");
    let out = scratch.join("out.csv");
    let column_args = ["--key-column", "id", "--value-column", "text", "--delimiter", "tab"];
    tool(&server, &[&["export", path_str(&out), "--prefix", "a"][..], &column_args].concat());
    assert_eq!(fs::read_to_string(&out).expect("written"), "id\ttext\na\t1\n");
}

#[test]
fn rejected_import_records_can_be_corrected_and_reimported() {
    let (scratch, server) = start_server("rejects");
    tool(&server, &["bucket", "create", "narrow", "value_bytes_max=3"]);
    let (file, rejects) = (scratch.join("rows.csv"), scratch.join("bad.csv"));
    let reasons = scratch.join("bad.csv.reasons");
    let rows = "note,value,key\n-,1,a\n-,1234,b\n-,2\n-,3,\n\"x\ny\",\"12\n34\",c\n-,5,d";
    fs::write(&file, rows).expect("ours");
    let import =
        |file, rejects| ["import", "-b", "narrow", path_str(file), "--rejects", path_str(rejects)];
    let stderr = must_fail(&server, &import(&file, &rejects), 2);
    assert!(
        stderr.contains("4 records were left out") && stderr.contains("bad.csv.reasons"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "what stands in the file is not said as well: {stderr}");
    let rejected = fs::read_to_string(&rejects).expect("written");
    let (header, rest) = rejected.split_once('\n').expect("lines");
    assert_eq!(header, "note,value,key");
    for record in ["-,1234,b\n", "-,2\n", "-,3,\n", "\"x\ny\",\"12\n34\",c\n"] {
        assert!(rest.contains(record), "{record}: {rejected}");
    }
    let reasons_text = fs::read_to_string(&reasons).expect("written");
    let expected = [(3, "too_large"), (4, "2 fields"), (5, "the key is empty"), (6, "too_large")];
    for (line, expected_text) in expected {
        let reason = reasons_text.lines().find(|reason| reason.starts_with(&format!("{line}\t")));
        assert!(
            reason.is_some_and(|reason| reason.contains(expected_text)),
            "line {line}: {reasons_text}"
        );
    }
    // The nth reason is that of the nth record.
    let first =
        reasons_text.lines().position(|reason| reason.starts_with("4\t")).expect("it is there");
    let second =
        reasons_text.lines().position(|reason| reason.starts_with("5\t")).expect("it is there");
    assert_eq!(first < second, rest.find("-,2\n") < rest.find("-,3,\n"));
    assert_eq!(tool(&server, &["range", "-b", "narrow"]), "a\t1\nd\t5\n");
    let stderr = must_fail(&server, &import(&file, &rejects), 2);
    assert!(stderr.contains("exists"), "{stderr}");

    let corrected = rejected.replace("1234", "2").replace("-,2\n", "-,2,e\n");
    let corrected = corrected.replace("-,3,\n", "-,3,f\n").replace("\"12\n34\"", "4");
    fs::write(&rejects, corrected).expect("ours");
    tool(&server, &import(&rejects, &scratch.join("worse.csv")));
    assert!(!scratch.join("worse.csv").exists(), "nothing was rejected");
    let expected_rows = "a\t1\nb\t2\nc\t4\nd\t5\ne\t2\nf\t3\n";
    assert_eq!(tool(&server, &["range", "-b", "narrow"]), expected_rows);
}

#[test]
fn import_succeeds_up_to_max_errors_rejected_records() {
    let (scratch, server) = start_server("max-errors");
    let file = scratch.join("rows.tsv");
    fs::write(&file, "a\t1\nno tab\n\t2\nb\t3\n").expect("ours");
    let import = |args: &[&'static str]| [&["import", path_str(&file)], args].concat();
    let stderr = must_fail(&server, &import(&["--max-errors", "1"]), 2);
    assert!(stderr.contains("2 records were left out"), "{stderr}");
    tool(&server, &import(&["--max-errors", "2"]));
    tool(&server, &import(&["--max-errors", "1", "--allow-empty-key"]));
    let stderr = must_fail(&server, &import(&["--errors", "stop", "--max-errors", "2"]), 2);
    assert!(stderr.contains("--errors stop"), "{stderr}");
    let file = scratch.join("rows.jsonl");
    fs::write(&file, "{\"key\": \"a\", \"value\":\n").expect("ours");
    let stderr = must_fail(&server, &["import", path_str(&file)], 2);
    assert!(stderr.contains("line 1:") && stderr.matches("line").count() == 1, "{stderr}");
}
