//! Readers of key and value generators.

use super::items::Item;
use crate::generators::{
    DOCUMENTS_MAX, Digest, Format, KeyGenerator, KeyShape, Lines, Numbers, ValueGenerator,
};
use std::path::PathBuf;

const COUNT_MAX: u64 = 1 << 53;
const BYTES_MAX: u64 = base::limits::VALUE_BYTES_MAX as u64;
const KEY_MAX: u64 = base::limits::KEY_BYTES_MAX as u64;
/// Largest size of a file of keys, bytes.
const LINES_BYTES_MAX: u64 = 1 << 28;
/// Deepest nesting of generators.
const DEPTH_MAX: usize = 16;

/// Reads a key generator with all generators nested in it.
pub fn keys_of(item: &Item) -> Result<KeyGenerator, String> {
    let keys = nested(item, DEPTH_MAX)?;
    match keys.bytes_max() {
        length if length as u64 <= KEY_MAX => Ok(keys),
        length => Err(item.error(format!("wants keys of at most {KEY_MAX} bytes, not {length}"))),
    }
}

fn nested(item: &Item, depth: usize) -> Result<KeyGenerator, String> {
    if depth == 0 {
        return Err(item.error("wants fewer generators inside each other"));
    }
    if item.text() == Ok("uuid_v4") {
        return Ok(KeyGenerator::Uuid);
    }
    let error = || item.error(EXPECTED);
    let list = item.list().map_err(|_| error())?;
    let (name, name_arguments, rest) = split_name(list).ok_or_else(error)?;
    let nested_generator = |item: &Item| nested(item, depth - 1);
    Ok(match (name, name_arguments, rest) {
        ("uuid_v4", [], []) => KeyGenerator::Uuid,
        ("constant", [], [text]) => KeyGenerator::Constant(text.text()?.as_bytes().into()),
        // Texts are bytes here, so Basho Bench's conversions between them do nothing.
        ("str_to_bin" | "bin_to_str", [], [inner_item]) => nested_generator(inner_item)?,
        ("int_to_str", [], [inner_item]) => number_keys(item, KeyShape::Decimal, inner_item)?,
        ("int_to_bin_bigendian" | "int_to_bin_littleendian", name_arguments, rest) => {
            let (bits, inner_item) = match (name_arguments, rest) {
                ([], [inner_item]) => (None, inner_item),
                ([bits], [inner_item]) | ([], [bits, inner_item]) => (Some(bits), inner_item),
                _ => return Err(error()),
            };
            let bytes = bits.map_or(Ok(4), bytes_of)?;
            let is_big_endian = name == "int_to_bin_bigendian";
            let shape = if is_big_endian {
                KeyShape::BigEndian { bytes }
            } else {
                KeyShape::LittleEndian { bytes }
            };
            number_keys(item, shape, inner_item)?
        }
        ("int_to_bin", ..) => {
            let text = "`int_to_bin` was taken back by Basho Bench, because its bytes do not say \
                         their order; wants int_to_bin_bigendian or int_to_bin_littleendian";
            return Err(item.error(text));
        }
        ("fixed_width", [], [width, prefix, inner_item]) => {
            let width = width.integer(1, KEY_MAX)? as usize;
            let prefix = prefix.text()?.to_string();
            number_keys(item, KeyShape::FixedWidth { width, prefix }, inner_item)?
        }
        ("to_str" | "to_binstr", [], [format, inner_item]) => {
            let parsed = Format::read(format.text()?);
            let parsed = parsed.ok_or_else(|| {
                format.error("wants a text with one of ~w, ~p, ~B, ~b, as \"key-~8..0B\"")
            })?;
            number_keys(item, KeyShape::Formatted(parsed), inner_item)?
        }
        ("base64", [], [inner_item]) => {
            KeyGenerator::Base64(Box::new(nested_generator(inner_item)?))
        }
        ("crypto_hash", [digest], [inner_item]) | ("crypto_hash", [], [digest, inner_item]) => {
            let parsed = match digest.text()? {
                "md5" => Digest::Md5,
                "sha" => Digest::Sha1,
                _ => return Err(digest.error("wants the digest md5 or sha")),
            };
            KeyGenerator::Digest(parsed, Box::new(nested_generator(inner_item)?))
        }
        ("concat_binary", [], [first, second]) => {
            KeyGenerator::Joined(Box::new([nested_generator(first)?, nested_generator(second)?]))
        }
        ("file_line_bin", [], [path]) => lines_of(path, true)?,
        ("file_line_bin", [], [path, repeat]) => lines_of(path, repeat.text()? == "repeat")?,
        ("valgen", [], [value]) => KeyGenerator::Value(values_of(value)?),
        ("function", ..) => return Err(item.error(FUNCTION)),
        _ => KeyGenerator::Number { numbers: numbers_of(item)?, shape: KeyShape::Decimal },
    })
}

const EXPECTED: &str = "wants a key generator: [\"uniform_int\", n], [\"uniform_int\", start, n], \
     [\"sequential_int\", n], [\"partitioned_sequential_int\", n] (or start, n), \
     [\"pareto_int\", n], [\"truncated_pareto_int\", n], \"uuid_v4\", [\"constant\", text], \
     [\"file_line_bin\", path], alone or inside [\"int_to_str\", ..], \
     [\"int_to_bin_bigendian\", ..], [\"fixed_width\", bytes, prefix, ..], \
     [\"to_str\", \"key-~8..0B\", ..], [\"base64\", ..], [[\"crypto_hash\", \"md5\"], ..], \
     [\"concat_binary\", .., ..]";
const FUNCTION: &str = "wants a generator of its own: functions of Erlang modules can't be called \
                        here";

/// Splits a list into its name, the arguments inside the name's list (`[["name", 64], ..]`), and
/// the other arguments.
fn split_name(list: &[Item]) -> Option<(&str, &[Item], &[Item])> {
    let (first, rest) = list.split_first()?;
    if let Ok(name) = first.text() {
        return Some((name, &[], rest));
    }
    let (name, arguments) = first.list().ok()?.split_first()?;
    Some((name.text().ok()?, arguments, rest))
}

fn bytes_of(bits: &Item) -> Result<usize, String> {
    match bits.integer(8, 64)? {
        bits if bits % 8 == 0 => Ok(bits as usize / 8),
        _ => Err(bits.error("wants a number of bits that 8 divides")),
    }
}

fn lines_of(path: &Item, repeats: bool) -> Result<KeyGenerator, String> {
    let file = PathBuf::from(path.text()?);
    let io_error = |error: std::io::Error| path.error(format!("wants a file: {error}"));
    let bytes = std::fs::metadata(&file).map_err(io_error)?.len();
    if !(1..=LINES_BYTES_MAX).contains(&bytes) {
        return Err(path.error(format!("wants a file of 1 to {LINES_BYTES_MAX} bytes")));
    }
    let text = std::fs::read(&file).map_err(io_error)?;
    Ok(KeyGenerator::Lines(Lines::new(file, &text, repeats)))
}

fn number_keys(item: &Item, shape: KeyShape, numbers_item: &Item) -> Result<KeyGenerator, String> {
    let numbers = numbers_of(numbers_item)?;
    check_width(item, &shape, &numbers)?;
    Ok(KeyGenerator::Number { numbers, shape })
}

fn check_width(item: &Item, shape: &KeyShape, numbers: &Numbers) -> Result<(), String> {
    let largest = match *numbers {
        Numbers::Uniform { start, count } | Numbers::Partitioned { start, count } => start + count,
        Numbers::Sequential { count } | Numbers::TruncatedPareto { count } => count,
        Numbers::Pareto { .. } => COUNT_MAX,
    };
    match shape {
        KeyShape::FixedWidth { width, prefix } => {
            let needs = prefix.len() + largest.to_string().len();
            if needs > *width {
                return Err(item.error(format!(
                    "wants a width of at least {needs}: prefix and largest number do not fit"
                )));
            }
        }
        KeyShape::Formatted(format) => {
            let needs = format.digits(largest);
            if format.digits_max().is_some_and(|digits_max| digits_max < needs) {
                return Err(item.error(format!(
                    "wants a width of at least {needs}: the largest number does not fit"
                )));
            }
        }
        KeyShape::BigEndian { bytes } | KeyShape::LittleEndian { bytes }
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
    let error = || item.error(EXPECTED);
    let list = item.list().map_err(|_| error())?;
    let name = list.first().ok_or_else(error)?.text().map_err(|_| error())?;
    let (start, count) = match &list[1..] {
        // Basho Bench's uniform_int counts from 1 when no start is named, the others from 0.
        [count] => (u64::from(name == "uniform_int"), count.integer(1, COUNT_MAX)?),
        [start, count] => (start.integer(0, COUNT_MAX)?, count.integer(1, COUNT_MAX)?),
        _ => return Err(error()),
    };
    match (name, list.len()) {
        ("uniform_int", _) => Ok(Numbers::Uniform { start, count }),
        ("partitioned_sequential_int", _) => Ok(Numbers::Partitioned { start, count }),
        ("sequential_int", 2) => Ok(Numbers::Sequential { count }),
        ("pareto_int", 2) => Ok(Numbers::Pareto { count }),
        ("truncated_pareto_int", 2) => Ok(Numbers::TruncatedPareto { count }),
        _ => Err(error()),
    }
}

/// Reads a value generator.
pub fn values_of(item: &Item) -> Result<ValueGenerator, String> {
    let error = || {
        item.error(
            "wants a value generator: [\"fixed_bin\", bytes], [\"fixed_bin\", bytes, byte], \
             [\"fixed_char\", bytes], [\"exponential_bin\", min, mean], \
             [\"uniform_bin\", min, max], [\"uniform_int\", max], [\"uniform_int\", min, max] \
             or [\"coupon\", documents]",
        )
    };
    let list = item.list().map_err(|_| error())?;
    let name = list.first().ok_or_else(error)?.text().map_err(|_| error())?;
    let bytes = |item: &Item, min| item.integer(min, BYTES_MAX).map(|bytes| bytes as usize);
    Ok(match (name, &list[1..]) {
        ("fixed_bin", [size]) => ValueGenerator::Fixed { bytes: bytes(size, 0)? },
        ("fixed_bin", [size, byte]) => {
            ValueGenerator::Repeated { bytes: bytes(size, 0)?, byte: byte.integer(0, 255)? as u8 }
        }
        ("fixed_char", [size]) => ValueGenerator::Characters { bytes: bytes(size, 0)? },
        ("exponential_bin", [min, mean]) => {
            ValueGenerator::Exponential { min: bytes(min, 0)?, mean: bytes(mean, 1)? }
        }
        ("uniform_bin", [min, max]) => {
            let min = bytes(min, 0)?;
            ValueGenerator::Uniform { min, max: bytes(max, min as u64)? }
        }
        ("uniform_int", [max]) => {
            ValueGenerator::Integer { min: 1, max: max.integer(1, COUNT_MAX)? }
        }
        ("uniform_int", [min, max]) => {
            let min = min.integer(0, COUNT_MAX)?;
            ValueGenerator::Integer { min, max: max.integer(min, COUNT_MAX)? }
        }
        ("coupon", [documents]) => {
            ValueGenerator::Coupon { documents: documents.integer(1, DOCUMENTS_MAX.into())? as u32 }
        }
        ("function", _) => return Err(item.error(FUNCTION)),
        _ => return Err(error()),
    })
}
