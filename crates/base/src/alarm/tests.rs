//! Tests of the table of alarms, and of the page that shows it.

use super::*;
use std::collections::BTreeSet;
use std::path::Path;

const INTRODUCTION: &str = "\
# Alarms

<!-- Made from `crates/base/src/alarm.rs`; `UPDATE_DOCS=1 cargo test -p base alarm` writes it. -->

An alarm is a state that an operator should know of. Each has a code that never changes, a subject,
the time since which it holds, and a remedy. A node shows its alarms, the gravest first:

| where | form |
|---|---|
| `credenza status`, `credenza cluster status` | a line each, with the remedy and the code |
| `GET /status`, `GET /v1/cluster` | `alarms`: objects with `code`, `severity`, `subject`, \
`since_ms`, `text` and `remedy` |
| `GET /metrics` | `credenza_alarm{code=\"...\",subject=\"...\"}` is 1 while the alarm holds, and \
absent otherwise |
| `INFO` of Redis' protocol | `alarms` is their number, each `alarm` one of them (section \
`Credenza`, for operators) |

An alarm ends by itself when its cause ends. Every node reports what it sees: ask each of them.
`critical`: requests fail, or data are in danger; `warning`: the node serves, but tolerates less
than it should; `notice`: a state that may be intended. At most 100 alarms of one code are shown.

In the table `{subject}` and `{detail}` stand for what an alarm is about.
[Troubleshooting](trouble.md) has symptoms that are no alarms.

| code | severity | subject | text | remedy |
|---|---|---|---|---|
";

fn page() -> String {
    let row = |row: &AlarmRow| {
        let AlarmRow { name, severity, subject, text, remedy, .. } = row;
        format!("| `{name}` | {} | {subject} | {text} | {remedy} |\n", severity.name())
    };
    format!("{INTRODUCTION}{}", ALARMS.iter().map(row).collect::<String>())
}

#[test]
fn alarms_page_equals_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/run/alarms.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, page()).expect("the docs can be written");
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        current == page(),
        "docs/run/alarms.md is stale: UPDATE_DOCS=1 cargo test -p base alarm"
    );
}

#[test]
fn codes_are_unique_names_and_rows_are_complete() {
    let names: BTreeSet<_> = ALARMS.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), ALARMS.len());
    for (at, row) in ALARMS.iter().enumerate() {
        assert_eq!(row.code as usize, at);
        assert!(row.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        assert!(!row.remedy.is_empty() && !row.remedy.contains("{detail}"), "{}", row.name);
        assert!(!row.text.contains('|') && !row.remedy.contains('|'), "{}", row.name);
    }
}

#[test]
fn alarm_text_and_remedy_name_subject_and_detail() {
    let alarm = Alarm::new(AlarmCode::HintsOld, "n2", "3 h", 7);
    assert_eq!(alarm.text, "writes for n2 have been waiting here for 3 h");
    assert_eq!(alarm.remedy, "start n2, or if its disk is lost, run `credenza cluster replace n2`");
    assert_eq!((alarm.subject.as_str(), alarm.since_ms), ("n2", 7));
    assert_eq!(alarm.code.severity(), Severity::Warning);
}
