//! Pages generated from the source: the page of limits.

use super::limit_coverage::coverage_of;
use std::fs;
use systest::tidy;

const INTRODUCTION: &str = "\
# Limits

<!-- Made from the source; `UPDATE_DOCS=1 cargo test -p systest limits` writes it. -->

Every size, count and time that all crates agree on. All front-ends enforce the same ones, before
anything is allocated for a claimed size. A limit is never a crash: what is larger is answered with
`too_large` (or `too_many`, `overloaded`), and the answer names the limit. What a deployment may
choose for itself stands at the end and in [settings.md](settings.md); a bucket may choose smaller
keys and values (`key_bytes_max`, `value_bytes_max`).

How a refusal is told, before anything is written to the log:

| reason | HTTP | Redis | Arakoon |
|---|---|---|---|
| `too_large` | 413 (414 the request line, 431 the headers) | `-ERR ...` with the limit | 26 |
| `too_many` | 503 with `retry-after` | `-TOOMANY ...`; connections `-ERR max ...` | ff; fe |
| `overloaded` | 503 with `retry-after` | `-OVERLOADED ...` | ff |
| `quota` | 429 with `retry-after` | `-QUOTA ...` | ff |
| a time has passed | 408, then closed | closed | closed |

The last column names the tests that try a limit at its edge (one below where that could differ, at,
one above), or says why there is none. `cargo test --workspace NAME` runs one.

## Of the whole program

| limit | value | what it bounds | tried by |
|---|---|---|---|
";

/// Evaluates a constant's expression: numbers, products, shifts. `None`: anything else.
fn value_of(expression: &str) -> Option<u64> {
    if let Some((base, shift)) = expression.split_once("<<") {
        return value_of(base)?.checked_shl(shift.trim().parse().ok()?);
    }
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    expression.split('*').map(number).try_fold(1u64, |product, factor| product.checked_mul(factor?))
}

/// Formats a number with thin spaces between groups of three digits, and in a larger unit if it is
/// whole there.
fn format_value(name: &str, value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    let unit = if name.contains("BYTES") {
        [(1 << 20, "MiB"), (1 << 10, "KiB")]
            .into_iter()
            .find(|(unit, _)| value.is_multiple_of(*unit))
    } else if name.contains("_MS") {
        [(3_600_000, "h"), (1_000, "s")].into_iter().find(|(unit, _)| value.is_multiple_of(*unit))
    } else {
        None
    };
    let unit = unit.filter(|(unit, _)| value > *unit || *unit > 1_000);
    unit.map_or(text.clone(), |(unit, name)| format!("{text} ({} {name})", value / unit))
}

/// Limits of one front-end alone: their file, and their names.
const FRONT_END_LIMITS: [(&str, &[&str]); 10] = [
    ("crates/http_message/src/chunks.rs", &["SIZE_LINE_BYTES_MAX", "TRAILER_BYTES_MAX"]),
    ("crates/server/src/native/parameters.rs", &["BUCKETS_PER_PAGE_MAX"]),
    ("crates/server/src/feed_reader.rs", &["PAGE_WAIT_MS_MAX"]),
    ("crates/server/src/resp/frame.rs", &["INLINE_BYTES_MAX", "ARGS_MAX"]),
    ("crates/server/src/resp/cursors.rs", &["CURSORS_MAX", "CURSOR_BYTES_MAX"]),
    ("crates/server/src/resp/translate/transaction.rs", &["WATCHED_MAX"]),
    ("crates/server/src/resp/translate/strings.rs", &["MGET_KEYS_MAX"]),
    (
        "crates/server/src/resp/window.rs",
        &["WINDOW_REQUESTS_MAX", "WINDOW_BYTES_MAX", "WINDOW_REQUEST_BYTES_MAX"],
    ),
    ("crates/server/src/arakoon/frame.rs", &["CLUSTER_ID_BYTES_MAX"]),
    ("crates/server/src/arakoon/nursery.rs", &["ROUTING_DEPTH_MAX"]),
];

/// Settings that are limits.
const SETTINGS: [&str; 13] = [
    "connections_max",
    "connections_per_address_max",
    "http_idle_ms_max",
    "resp_idle_ms_max",
    "buffer_bytes_max",
    "memory_bytes_max",
    "log_bytes_max",
    "segment_bytes",
    "disk_reserve_bytes",
    "audit_files_max",
    "audit_file_bytes_max",
    "shutdown_timeout_ms",
    "open_files",
];

const FRONT_END_SECTION: &str = "
## Of one front-end

| limit | value | what it bounds | tried by |
|---|---|---|---|
";

const DEPLOYMENT_SECTION: &str = "
## Chosen by the deployment

| setting | default | what it does | tried by |
|---|---|---|---|
";

/// Returns the page, made from the source's constants with their comments, and the page of
/// settings.
fn limits_page() -> (String, usize) {
    let (global_rows, rows) = limits_of("crates/base/src/limits.rs", None);
    let mut page = format!("{INTRODUCTION}{global_rows}{FRONT_END_SECTION}");
    for (path, names) in FRONT_END_LIMITS {
        let (rows, found) = limits_of(path, Some(names));
        assert_eq!(found, names.len(), "{path} has other limits now than {names:?}");
        page.push_str(&rows);
    }
    page.push_str(DEPLOYMENT_SECTION);
    let settings = fs::read_to_string(tidy::root().join("docs/run/settings.md"));
    let settings = settings.expect("the page of settings is there");
    for name in SETTINGS {
        let row = settings.lines().find(|line| line.starts_with(&format!("| `{name}` ")));
        let row = row.unwrap_or_else(|| panic!("{name} is no setting"));
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let coverage = coverage_of(name);
        page.push_str(&format!("| `{name}` | {} | {} | {coverage} |\n", cells[4], cells[5]));
    }
    (page, rows)
}

/// Returns the rows of one file's limits, all or those named, and their number.
fn limits_of(path: &str, names: Option<&[&str]>) -> (String, usize) {
    let source = fs::read_to_string(tidy::root().join(path)).expect("the limits are there");
    let (mut page, mut doc_text, mut rows) = (String::new(), String::new(), 0);
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("///") {
            doc_text.push_str(text);
        } else if let Some(rest) = line.trim_start_matches("pub ").strip_prefix("const ") {
            let is_named =
                |name: &&str| rest.strip_prefix(name).is_some_and(|r| r.starts_with(':'));
            if names.is_some_and(|names| !names.iter().any(is_named)) {
                doc_text.clear();
                continue;
            }
            let parts = rest.split_once(':').zip(rest.split_once("= "));
            let ((name, _), (_, value)) = parts.expect("`NAME: type = value;`");
            let value = value_of(value.trim_end_matches(';'));
            let value = value.unwrap_or_else(|| panic!("{name}: write it as numbers, * and <<"));
            let doc_text = doc_text.trim().replace("[`crate::", "[`").replace(['[', ']'], "");
            let coverage = coverage_of(name);
            page.push_str(&format!(
                "| `{name}` | {} | {doc_text} | {coverage} |\n",
                format_value(name, value)
            ));
            rows += 1;
        }
        if !line.starts_with("///") {
            doc_text.clear();
        }
    }
    (page, rows)
}

#[test]
fn limits_page_matches_the_limits_in_the_source() {
    let path = tidy::root().join("docs/run/limits.md");
    let (page, rows) = limits_page();
    assert!(rows > 20, "only {rows} limits found: has the source another form now?");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).expect("the docs can be written");
    }
    let current = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        current == page,
        "docs/run/limits.md is stale: UPDATE_DOCS=1 cargo test -p systest limits"
    );
}
