//! Pages made from the source: the page of limits.

use proof::tidy;
use std::fs;

const INTRODUCTION: &str = "\
# Limits

<!-- Made from `crates/base/src/limits.rs`; `UPDATE_DOCS=1 cargo test -p proof limits` writes it. -->

Every size, count and time that the whole house agrees on. All doors enforce the same ones, before
anything is allocated for a claimed size. A limit is never a crash: what is larger is answered with
`too_large` (or `too_many`, `overloaded`), and the answer names the limit. What a deployment may
choose for itself stands in [settings.md](settings.md); a bucket may choose smaller keys and values.

| limit | value | what it bounds |
|---|---|---|
";

/// The value of a constant: numbers, products, shifts.
fn value_of(expression: &str) -> Option<u64> {
    if let Some((base, shift)) = expression.split_once("<<") {
        return value_of(base)?.checked_shl(shift.trim().parse().ok()?);
    }
    let number = |word: &str| word.trim().replace('_', "").parse::<u64>().ok();
    expression.split('*').map(number).try_fold(1u64, |product, factor| product.checked_mul(factor?))
}

/// A number with thin groups of three, and in a larger unit when it is whole there.
fn shown(name: &str, value: u64) -> String {
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

/// The page, from the source's constants and their comments.
fn limits_page() -> (String, usize) {
    let path = tidy::root().join("crates/base/src/limits.rs");
    let source = fs::read_to_string(path).expect("the limits are there");
    let (mut page, mut about, mut rows) = (INTRODUCTION.to_string(), String::new(), 0);
    for line in source.lines() {
        if let Some(words) = line.strip_prefix("///") {
            about.push_str(words);
        } else if let Some(rest) = line.strip_prefix("pub const ") {
            let parts = rest.split_once(':').zip(rest.split_once("= "));
            let ((name, _), (_, value)) = parts.expect("`NAME: type = value;`");
            let value = value_of(value.trim_end_matches(';'));
            let value = value.unwrap_or_else(|| panic!("{name}: write it as numbers, * and <<"));
            let about = about.trim().replace("[`crate::", "[`").replace(['[', ']'], "");
            page.push_str(&format!("| `{name}` | {} | {about} |\n", shown(name, value)));
            rows += 1;
        }
        if !line.starts_with("///") {
            about.clear();
        }
    }
    (page, rows)
}

#[test]
fn the_page_of_limits_lists_every_limit() {
    let path = tidy::root().join("docs/run/limits.md");
    let (page, rows) = limits_page();
    assert!(rows > 20, "only {rows} limits found: has the source another form now?");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).expect("the docs can be written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/run/limits.md is stale: UPDATE_DOCS=1 cargo test -p proof limits");
}
