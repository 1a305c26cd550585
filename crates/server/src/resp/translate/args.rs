//! Parsing of a command's arguments: keys, values, numbers, options, each within its limit.

use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Args;
use base::limits::{KEY_BYTES_MAX, KEYS_PER_READ_MAX, VALUE_BYTES_MAX};
use base::{Key, Value};

impl Args<'_> {
    /// Returns an argument as a key.
    #[inline]
    pub fn key(&self, at: usize) -> Result<Key, RespRefusal> {
        let key = self.get_bytes(at);
        if key.len() > KEY_BYTES_MAX {
            return Err(RespRefusal::from_text(format!(
                "ERR a key has at most {KEY_BYTES_MAX} bytes"
            )));
        }
        Ok(key)
    }

    /// Returns an argument as a value.
    #[inline]
    pub fn value(&self, at: usize) -> Result<Value, RespRefusal> {
        let value = self.get_bytes(at);
        if value.len() > VALUE_BYTES_MAX {
            return Err(too_large_value());
        }
        Ok(value)
    }

    /// Returns every `step`-th argument from `from` on as a key.
    pub fn keys(&self, from: usize, step: usize) -> Result<Vec<Key>, RespRefusal> {
        let count = self.len().saturating_sub(from).div_ceil(step);
        if count > KEYS_PER_READ_MAX {
            let text = format!("ERR a command has at most {KEYS_PER_READ_MAX} keys");
            return Err(RespRefusal::from_text(text));
        }
        (from..self.len()).step_by(step).map(|at| self.key(at)).collect()
    }

    /// Parses a 64-bit number.
    pub fn integer(&self, at: usize) -> Result<i64, RespRefusal> {
        base::codec::decimal(self.get(at)).ok_or(errors::NOT_AN_INTEGER)
    }

    /// Parses a number that must not be negative.
    pub fn natural(&self, at: usize) -> Result<u64, RespRefusal> {
        self.integer(at)?.try_into().map_err(|_| errors::NOT_AN_INTEGER)
    }

    /// Parses a finite floating point number.
    pub fn float(&self, at: usize) -> Result<f64, RespRefusal> {
        let text = std::str::from_utf8(self.get(at)).map_err(|_| errors::NOT_A_FLOAT)?;
        let number: f64 = text.parse().map_err(|_| errors::NOT_A_FLOAT)?;
        match number {
            number if number.is_nan() => Err(errors::NOT_A_FLOAT),
            number if number.is_infinite() => {
                Err(RespRefusal::new("ERR increment would produce NaN or Infinity"))
            }
            number => Ok(number),
        }
    }

    /// Returns an argument that must be UTF-8.
    pub fn text(&self, at: usize) -> Result<&str, RespRefusal> {
        std::str::from_utf8(self.get(at)).map_err(|_| errors::SYNTAX)
    }

    /// Returns true if an argument is this option, ignoring case.
    pub fn is(&self, at: usize, option: &str) -> bool {
        self.get(at).eq_ignore_ascii_case(option.as_bytes())
    }

    /// Returns an argument in upper case, to match options against. Empty if it is longer than
    /// any option or not ASCII.
    #[inline]
    pub fn upper(&self, at: usize) -> UpperArg {
        let arg = self.get(at);
        let mut upper = UpperArg { bytes: [0; OPTION_BYTES_MAX], length: 0 };
        if arg.len() <= OPTION_BYTES_MAX && arg.is_ascii() {
            upper.bytes[..arg.len()].copy_from_slice(arg);
            upper.bytes.make_ascii_uppercase();
            upper.length = arg.len();
        }
        upper
    }
}

/// No option is longer.
const OPTION_BYTES_MAX: usize = 24;

/// Short argument in upper case, without heap memory.
#[derive(Clone, Copy, Debug)]
pub struct UpperArg {
    bytes: [u8; OPTION_BYTES_MAX],
    length: usize,
}

impl UpperArg {
    /// Returns the argument as text.
    #[inline]
    pub fn as_str(&self) -> &str {
        // Only ASCII bytes were stored.
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

/// Returns the refusal of a value over the limit: Redis' text, the limit, and the remedy.
pub fn too_large_value() -> RespRefusal {
    RespRefusal::from_text(format!(
        "ERR string exceeds maximum allowed size ({VALUE_BYTES_MAX} bytes): store it in parts"
    ))
}
