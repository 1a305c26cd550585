//! Readers of single settings: durations, modes, operations, generators.

use super::items::{Item, Value};
use super::run::{Mode, Operation, Weighted};
use crate::generators::{KeyGenerator, Numbers, Shape, ValueGenerator};
use std::time::Duration;

const COUNT_MAX: u64 = 1 << 53;
const BYTES_MAX: u64 = base::limits::VALUE_BYTES_MAX as u64;

/// A span of time: a text with a unit (`250ms`, `10s`, `5m`, `1h`), or a number of the unit the key
/// has in Basho Bench, `unit_s` seconds long.
pub fn duration_of(item: &Item, unit_s: f64) -> Result<Duration, String> {
    let seconds = match &item.value {
        Value::Integer(number) => *number as f64 * unit_s,
        Value::Float(number) => *number * unit_s,
        Value::Text(text) => {
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

/// A span of time, or none for `infinity`.
pub(super) fn end_of(item: &Item) -> Result<Option<Duration>, String> {
    match &item.value {
        Value::Text(text) if text == "infinity" => Ok(None),
        _ => duration_of(item, 60.0).map(Some),
    }
}

/// `"max"`, `["rate", total]`, `["rate_per_worker", each]`.
pub(super) fn mode_of(item: &Item, concurrent: usize) -> Result<Mode, String> {
    let wants = "wants \"max\", [\"rate\", operations a second in all] or [\"rate_per_worker\", \
                 operations a second of each client]";
    if matches!(&item.value, Value::Text(text) if text == "max") {
        return Ok(Mode::Max);
    }
    let Ok([name, rate]) = item.list() else { return Err(item.error(wants)) };
    match (name.text(), &rate.value) {
        (Ok("rate"), Value::Text(text)) if text == "max" => Ok(Mode::Max),
        (Ok("rate"), _) => Ok(Mode::Rate(rate.positive()?)),
        (Ok("rate_per_worker"), _) => Ok(Mode::Rate(rate.positive()? * concurrent as f64)),
        _ => Err(item.error(wants)),
    }
}

/// `[["get", 4], ["put", 4], ["label", "update", 1]]`.
pub(super) fn operations_of(item: &Item) -> Result<Vec<Weighted>, String> {
    let mut operations: Vec<Weighted> = Vec::new();
    for entry in item.list()? {
        let wants = || entry.error("wants [operation, weight] or [label, operation, weight]");
        let (label, name, weight) = match entry.list().map_err(|_| wants())? {
            [name, weight] => (name, name, weight),
            [label, name, weight] => (label, name, weight),
            _ => return Err(wants()),
        };
        let operation = Operation::ALL.into_iter().find(|one| Ok(one.name()) == name.text());
        let operation = operation.ok_or_else(|| {
            let names: Vec<_> = Operation::ALL.iter().map(|one| one.name()).collect();
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

/// A key generator with its wrapper, if any.
pub(super) fn keys_of(item: &Item) -> Result<KeyGenerator, String> {
    let list = item.list()?;
    let name = list.first().map(Item::text).transpose()?;
    let integer_bytes = |bits: &Item| match bits.integer(8, 64)? {
        bits if bits % 8 == 0 => Ok(bits as usize / 8),
        _ => Err(bits.error("wants a number of bits that 8 divides")),
    };
    let (shape, inner) = match (name, list) {
        (Some("int_to_str"), [_, inner]) => (Shape::Decimal, inner),
        (Some("int_to_bin_bigendian"), [_, inner]) => (Shape::BigEndian { bytes: 4 }, inner),
        (Some("int_to_bin_bigendian"), [_, bits, inner]) => {
            (Shape::BigEndian { bytes: integer_bytes(bits)? }, inner)
        }
        (Some("int_to_bin_littleendian"), [_, inner]) => (Shape::LittleEndian { bytes: 4 }, inner),
        (Some("int_to_bin_littleendian"), [_, bits, inner]) => {
            (Shape::LittleEndian { bytes: integer_bytes(bits)? }, inner)
        }
        (Some("fixed_width"), [_, width, prefix, inner]) => {
            let width = width.integer(1, base::limits::KEY_BYTES_MAX as u64)? as usize;
            (Shape::FixedWidth { width, prefix: prefix.text()?.to_string() }, inner)
        }
        _ => (Shape::Decimal, item),
    };
    let numbers = numbers_of(inner)?;
    check_width(item, &shape, &numbers)?;
    Ok(KeyGenerator { numbers, shape })
}

fn check_width(item: &Item, shape: &Shape, numbers: &Numbers) -> Result<(), String> {
    let largest = match *numbers {
        Numbers::Uniform { start, count } | Numbers::Partitioned { start, count } => start + count,
        Numbers::Sequential { count } | Numbers::TruncatedPareto { count } => count,
        Numbers::Pareto { .. } => COUNT_MAX,
    };
    match shape {
        Shape::FixedWidth { width, prefix } => {
            let needs = prefix.len() + largest.to_string().len();
            if needs > *width {
                return Err(item.error(format!(
                    "wants a width of at least {needs}: prefix and largest number do not fit"
                )));
            }
        }
        Shape::BigEndian { bytes } | Shape::LittleEndian { bytes }
            if *bytes < 8
                && largest >> (8 * bytes) != 0
                && !matches!(numbers, Numbers::Pareto { .. }) =>
        {
            return Err(item.error("wants more bits: the largest number does not fit"));
        }
        _ => {}
    }
    Ok(())
}

fn numbers_of(item: &Item) -> Result<Numbers, String> {
    let wants = || {
        item.error(
            "wants a key generator: [\"uniform_int\", n], [\"uniform_int\", start, n], \
             [\"sequential_int\", n], [\"partitioned_sequential_int\", n] (or start, n), \
             [\"pareto_int\", n], [\"truncated_pareto_int\", n], alone or inside \
             [\"int_to_str\", ..], [\"int_to_bin_bigendian\", ..], \
             [\"fixed_width\", bytes, prefix, ..]",
        )
    };
    let list = item.list().map_err(|_| wants())?;
    let name = list.first().ok_or_else(wants)?.text().map_err(|_| wants())?;
    let (start, count) = match &list[1..] {
        // Basho Bench's uniform_int counts from 1 when no start is named, the others from 0.
        [count] => (u64::from(name == "uniform_int"), count.integer(1, COUNT_MAX)?),
        [start, count] => (start.integer(0, COUNT_MAX)?, count.integer(1, COUNT_MAX)?),
        _ => return Err(wants()),
    };
    match (name, list.len()) {
        ("uniform_int", _) => Ok(Numbers::Uniform { start, count }),
        ("partitioned_sequential_int", _) => Ok(Numbers::Partitioned { start, count }),
        ("sequential_int", 2) => Ok(Numbers::Sequential { count }),
        ("pareto_int", 2) => Ok(Numbers::Pareto { count }),
        ("truncated_pareto_int", 2) => Ok(Numbers::TruncatedPareto { count }),
        _ => Err(wants()),
    }
}

/// A value generator.
pub(super) fn values_of(item: &Item) -> Result<ValueGenerator, String> {
    let wants = || {
        item.error(
            "wants a value generator: [\"fixed_bin\", bytes], [\"exponential_bin\", min, mean] or \
             [\"uniform_bin\", min, max]",
        )
    };
    let list = item.list().map_err(|_| wants())?;
    let name = list.first().ok_or_else(wants)?.text().map_err(|_| wants())?;
    let bytes = |item: &Item, min| item.integer(min, BYTES_MAX).map(|bytes| bytes as usize);
    match (name, &list[1..]) {
        ("fixed_bin", [size]) => Ok(ValueGenerator::Fixed { bytes: bytes(size, 0)? }),
        ("exponential_bin", [min, mean]) => {
            Ok(ValueGenerator::Exponential { min: bytes(min, 0)?, mean: bytes(mean, 1)? })
        }
        ("uniform_bin", [min, max]) => {
            let min = bytes(min, 0)?;
            Ok(ValueGenerator::Uniform { min, max: bytes(max, min as u64)? })
        }
        _ => Err(wants()),
    }
}
