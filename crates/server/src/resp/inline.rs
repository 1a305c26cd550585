//! Inline requests, as people type them: arguments between blanks, with quotes around those that
//! contain blanks.

use super::frame::{ArgSpan, FrameFault};

/// Finds the arguments of a line. If it has quotes, the spans refer to the returned bytes, else to
/// the line.
pub fn parse_args(line: &[u8], spans: &mut Vec<ArgSpan>) -> Result<Option<Vec<u8>>, FrameFault> {
    if !line.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
        split(line, spans);
        return Ok(None);
    }
    let mut scratch = Vec::with_capacity(line.len());
    unquote(line, &mut scratch, spans)?;
    Ok(Some(scratch))
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Splits a line without quotes at blanks.
fn split(line: &[u8], spans: &mut Vec<ArgSpan>) {
    let mut at = 0;
    while at < line.len() {
        if is_blank(line[at]) {
            at += 1;
            continue;
        }
        let start = at;
        at += line[at..].iter().position(|&byte| is_blank(byte)).unwrap_or(line.len() - at);
        spans.push(ArgSpan::new(start, at));
    }
}

/// Splits a line with quotes as a shell does: `"a\x00\n"` with escapes, `'a'` with `\'` only.
fn unquote(line: &[u8], scratch: &mut Vec<u8>, spans: &mut Vec<ArgSpan>) -> Result<(), FrameFault> {
    let mut at = 0;
    loop {
        at += line[at..].iter().take_while(|&&byte| is_blank(byte)).count();
        if at == line.len() {
            return Ok(());
        }
        let start = scratch.len();
        while at < line.len() && !is_blank(line[at]) {
            match line[at] {
                quote @ (b'"' | b'\'') => {
                    at = quoted(line, at + 1, quote, scratch)?;
                    if line.get(at).is_some_and(|&byte| !is_blank(byte)) {
                        return Err(FrameFault::Quotes);
                    }
                }
                plain => {
                    scratch.push(plain);
                    at += 1;
                }
            }
        }
        spans.push(ArgSpan::new(start, scratch.len()));
    }
}

/// Appends the text inside quotes. Returns the position behind the closing quote.
fn quoted(line: &[u8], from: usize, quote: u8, scratch: &mut Vec<u8>) -> Result<usize, FrameFault> {
    let mut at = from;
    loop {
        match (line.get(at), line.get(at + 1)) {
            (None, _) => return Err(FrameFault::Quotes),
            (Some(&byte), _) if byte == quote => return Ok(at + 1),
            (Some(b'\\'), Some(b'x')) if quote == b'"' => {
                let digits = line.get(at + 2..at + 4).and_then(hexadecimal);
                scratch.push(digits.unwrap_or(b'x'));
                at += if digits.is_some() { 4 } else { 2 };
            }
            (Some(b'\\'), Some(&escaped)) if quote == b'"' => {
                scratch.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => other,
                });
                at += 2;
            }
            (Some(b'\\'), Some(b'\'')) if quote == b'\'' => {
                scratch.push(b'\'');
                at += 2;
            }
            (Some(&plain), _) => {
                scratch.push(plain);
                at += 1;
            }
        }
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(digits[0])? * 16 + digit(digits[1])?) as u8)
}
