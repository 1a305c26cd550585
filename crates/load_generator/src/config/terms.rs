//! Readers of single settings: durations, modes, operations.

use super::items::{Item, TomlValue};
use super::mixes;
use super::run::{Mode, Operation, Weighted};
use std::time::Duration;

/// Reads a duration: a text with a unit (`250ms`, `10s`, `5m`, `1h`), or a number in the key's unit
/// in Basho Bench, `unit_s` seconds.
pub fn duration_of(item: &Item, unit_s: f64) -> Result<Duration, String> {
    let seconds = match &item.value {
        TomlValue::Integer(number) => *number as f64 * unit_s,
        TomlValue::Float(number) => *number * unit_s,
        TomlValue::Text(text) => {
            let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
            let unit = match text[digits.len()..].as_ref() {
                "us" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => f64::NAN,
            };
            digits.trim().parse().unwrap_or(f64::NAN) * unit
        }
        _ => f64::NAN,
    };
    if (0.0..1e9).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(item.error("wants a time such as \"250ms\", \"10s\", \"5m\" or \"1h\""))
}

/// Reads a duration. `None`: `infinity`.
pub(super) fn duration_or_infinite(item: &Item) -> Result<Option<Duration>, String> {
    match &item.value {
        TomlValue::Text(text) if text == "infinity" => Ok(None),
        _ => duration_of(item, 60.0).map(Some),
    }
}

/// Reads a mode: `"max"`, `["rate", total]`, `["rate_per_worker", each]`.
pub(super) fn mode_of(item: &Item, concurrent: usize) -> Result<Mode, String> {
    let expected = "wants \"max\", [\"rate\", operations a second in all] or [\"rate_per_worker\", \
                 operations a second of each client]";
    if matches!(&item.value, TomlValue::Text(text) if text == "max") {
        return Ok(Mode::Max);
    }
    let Ok([name, rate]) = item.list() else { return Err(item.error(expected)) };
    match (name.text(), &rate.value) {
        (Ok("rate"), TomlValue::Text(text)) if text == "max" => Ok(Mode::Max),
        (Ok("rate"), _) => Ok(Mode::Rate(rate.positive()?)),
        (Ok("rate_per_worker"), _) => Ok(Mode::Rate(rate.positive()? * concurrent as f64)),
        _ => Err(item.error(expected)),
    }
}

/// Reads operations: `[["get", 4], ["put", 4], ["label", "update", 1]]`, or the name of a mix.
pub(super) fn operations_of(item: &Item) -> Result<Vec<Weighted>, String> {
    if let Ok(name) = item.text() {
        return mixes::named(name).ok_or_else(|| {
            item.error(format!("wants a list, or a mix: one of {}", mixes::NAMES.join(", ")))
        });
    }
    let mut operations: Vec<Weighted> = Vec::new();
    for entry in item.list()? {
        let error = || entry.error("wants [operation, weight] or [label, operation, weight]");
        let (label, name, weight) = match entry.list().map_err(|_| error())? {
            [name, weight] => (name, name, weight),
            [label, name, weight] => (label, name, weight),
            _ => return Err(error()),
        };
        let operation =
            Operation::ALL.into_iter().find(|candidate| Ok(candidate.name()) == name.text());
        let operation = operation.ok_or_else(|| {
            let names: Vec<_> = Operation::ALL.iter().map(|candidate| candidate.name()).collect();
            name.error(format!("wants an operation: one of {}", names.join(", ")))
        })?;
        let weight = weight.integer(0, u64::from(u32::MAX))?;
        let label = label.text()?.to_string();
        if label.is_empty() || operations.iter().any(|other| other.label == label) {
            return Err(entry.error(format!("wants a label of its own, not {label:?} again")));
        }
        operations.push(Weighted { label, operation, weight });
    }
    operations.retain(|operation| operation.weight > 0);
    if operations.is_empty() {
        return Err(item.error("wants at least one operation with a weight above 0"));
    }
    Ok(operations)
}
