//! Encodings of keys and values on the command line and on the terminal.

use crate::output;
use base::limits::VALUE_BYTES_MAX;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use program::{Failure, Outcome};
use std::io::{IsTerminal, Read};

/// Encoding of keys and values on the command line and in the output.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Encoding {
    /// Keys and values are written and shown in hexadecimal
    #[arg(long, conflicts_with = "base64")]
    hex: bool,
    /// Keys and values are written and shown in base64
    #[arg(long)]
    base64: bool,
}

impl Encoding {
    /// Decodes a text into bytes.
    pub fn bytes(self, text: &str) -> Outcome<Bytes> {
        if self.hex {
            let invalid = || Failure::invalid(format!("`{text}` is not hexadecimal (--hex)"));
            return from_hex(text).map(Bytes::from).ok_or_else(invalid);
        }
        if self.base64 {
            let decoded = STANDARD.decode(text);
            let invalid = |_| Failure::invalid(format!("`{text}` is not base64 (--base64)"));
            return decoded.map(Bytes::from).map_err(invalid);
        }
        Ok(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// Returns the flags of this encoding, each with a blank before it.
    pub fn flags(self) -> &'static str {
        match (self.hex, self.base64) {
            (true, _) => " --hex",
            (_, true) => " --base64",
            _ => "",
        }
    }

    /// Decodes a value. `-` reads all of standard input, without decoding.
    pub fn value(self, text: &str) -> Outcome<Bytes> {
        if text != "-" {
            return self.bytes(text);
        }
        let mut value = Vec::new();
        let mut input = std::io::stdin().lock().take(VALUE_BYTES_MAX as u64 + 1);
        input
            .read_to_end(&mut value)
            .map_err(|error| Failure::invalid(format!("standard input can't be read: {error}")))?;
        if value.len() > VALUE_BYTES_MAX {
            let message = format!(
                "standard input is longer than a value may be ({VALUE_BYTES_MAX} bytes; a bucket's \
                 `value_bytes_max` may be less): store it in parts"
            );
            return Err(Failure::invalid(message));
        }
        Ok(value.into())
    }

    /// Returns bytes as a text of one line.
    pub fn show(self, bytes: &[u8]) -> String {
        if self.hex {
            to_hex(bytes)
        } else if self.base64 {
            STANDARD.encode(bytes)
        } else {
            base::codec::printable(bytes)
        }
    }

    /// Prints a value: decoded bytes to a file or pipe, with a newline on a terminal.
    pub fn print(self, value: &[u8]) -> Outcome {
        if self.hex || self.base64 {
            return output::text(&format!("{}\n", self.show(value)));
        }
        output::bytes(value)?;
        if std::io::stdout().is_terminal() { output::text("\n") } else { Ok(()) }
    }
}

/// Quotes a word so that a shell takes it literally.
pub fn shell_word(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,@%+=".contains(&byte);
    match !word.is_empty() && !word.starts_with('-') && word.bytes().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_word_is_quoted_only_if_empty_or_special() {
        assert_eq!(shell_word("user:1"), "user:1");
        assert_eq!(shell_word("two words"), "'two words'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!((shell_word(""), shell_word("$x")), ("''".into(), "'$x'".into()));
    }

    #[test]
    fn encoded_bytes_round_trip_and_malformed_text_is_refused() {
        let bytes = b"\x00\xffa b";
        for encoding in
            [Encoding { hex: true, base64: false }, Encoding { hex: false, base64: true }]
        {
            assert_eq!(&encoding.bytes(&encoding.show(bytes)).expect("ours")[..], bytes);
            assert!(encoding.bytes("é").is_err());
        }
        assert!(Encoding { hex: true, base64: false }.bytes("abc").is_err());
        assert_eq!(&Encoding::default().bytes("é").expect("text")[..], "é".as_bytes());
    }
}
