//! Parsing of a command's words: keys, values, numbers, options. Each is checked against its limit.

use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Words;
use base::limits::{KEY_BYTES_MAX, KEYS_PER_READ_MAX, VALUE_BYTES_MAX};
use base::{Key, Value};

impl Words<'_> {
    /// Returns a word as a key.
    #[inline]
    pub fn key(&self, at: usize) -> Result<Key, RespRefusal> {
        let key = self.keep(at);
        if key.len() > KEY_BYTES_MAX {
            return Err(RespRefusal::made(format!("ERR a key has at most {KEY_BYTES_MAX} bytes")));
        }
        Ok(key)
    }

    /// Returns a word as a value.
    #[inline]
    pub fn value(&self, at: usize) -> Result<Value, RespRefusal> {
        let value = self.keep(at);
        if value.len() > VALUE_BYTES_MAX {
            return Err(too_large_value());
        }
        Ok(value)
    }

    /// Returns every `step`-th word from `from` on as a key.
    pub fn keys(&self, from: usize, step: usize) -> Result<Vec<Key>, RespRefusal> {
        let count = self.len().saturating_sub(from).div_ceil(step);
        if count > KEYS_PER_READ_MAX {
            let text = format!("ERR a command has at most {KEYS_PER_READ_MAX} keys");
            return Err(RespRefusal::made(text));
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

    /// Returns a word that must be UTF-8.
    pub fn text(&self, at: usize) -> Result<&str, RespRefusal> {
        std::str::from_utf8(self.get(at)).map_err(|_| errors::SYNTAX)
    }

    /// Returns true if a word is this option, ignoring case.
    pub fn is(&self, at: usize, option: &str) -> bool {
        self.get(at).eq_ignore_ascii_case(option.as_bytes())
    }

    /// Returns a word in upper case, to match options against. Empty if the word is longer than any
    /// option or not ASCII.
    #[inline]
    pub fn upper(&self, at: usize) -> Upper {
        let word = self.get(at);
        let mut upper = Upper { bytes: [0; OPTION_BYTES_MAX], length: 0 };
        if word.len() <= OPTION_BYTES_MAX && word.is_ascii() {
            upper.bytes[..word.len()].copy_from_slice(word);
            upper.bytes.make_ascii_uppercase();
            upper.length = word.len();
        }
        upper
    }
}

/// No option is longer.
const OPTION_BYTES_MAX: usize = 24;

/// Short word in upper case, without heap memory.
#[derive(Clone, Copy, Debug)]
pub struct Upper {
    bytes: [u8; OPTION_BYTES_MAX],
    length: usize,
}

impl Upper {
    /// Returns the word as text.
    #[inline]
    pub fn as_str(&self) -> &str {
        // Only ASCII bytes were stored.
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

/// Returns the refusal of a value over the limit: Redis' words, the limit, and the remedy.
pub fn too_large_value() -> RespRefusal {
    RespRefusal::made(format!(
        "ERR string exceeds maximum allowed size ({VALUE_BYTES_MAX} bytes): store it in parts"
    ))
}
