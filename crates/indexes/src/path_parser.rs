//! Parser of paths: one pass over the text, whose errors name the byte at which it stopped.

use crate::limits::{PATH_BYTES_MAX, PATH_FROM_END_MAX, PATH_SEGMENTS_MAX};
use crate::path::{JsonPath, Selector, Slice, is_name_char, is_name_first};
use base::{Error, Reason, Result};

/// Largest index: RFC 9535 allows the integers that JSON exchanges exactly (I-JSON).
const INDEX_MAX: u64 = (1 << 53) - 1;

impl JsonPath {
    /// Parses a path. Errors: `malformed` with the position; `not_supported` with the position for
    /// parts of JSONPath that indexes do not have; `too_large` above [`PATH_BYTES_MAX`],
    /// [`PATH_SEGMENTS_MAX`] or [`PATH_FROM_END_MAX`].
    pub fn parse(text: &str) -> Result<JsonPath> {
        check_length(text.len())?;
        let mut parser = PathParser { text, at: 0 };
        if !parser.skip('$') {
            return Err(parser.malformed("a path begins with `$`"));
        }
        let mut selectors = Vec::new();
        while let Some(selector) = parser.segment()? {
            if selectors.len() == PATH_SEGMENTS_MAX {
                let text = format!("a path has at most {PATH_SEGMENTS_MAX} segments");
                return Err(Error::new(Reason::TooLarge, text));
            }
            selectors.push(selector);
        }
        let path = JsonPath::new(selectors);
        // Escapes may make the one form that is kept longer than the text.
        check_length(path.to_string().len())?;
        Ok(path)
    }
}

fn check_length(length: usize) -> Result<()> {
    if length <= PATH_BYTES_MAX {
        return Ok(());
    }
    let text = format!("the path has {length} bytes, at most {PATH_BYTES_MAX} are allowed");
    Err(Error::new(Reason::TooLarge, text))
}

struct PathParser<'a> {
    text: &'a str,
    at: usize,
}

impl PathParser<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// Skips the character if it is the next one.
    fn skip(&mut self, character: char) -> bool {
        let is_next = self.peek() == Some(character);
        if is_next {
            self.at += character.len_utf8();
        }
        is_next
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|blank| matches!(blank, ' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
    }

    fn malformed(&self, expected: &str) -> Error {
        let text = format!("the path can't be read at byte {}: {expected}", self.at);
        Error::new(Reason::Malformed, text)
    }

    fn not_supported(&self, remedy: &str) -> Error {
        let text = format!("the path can't be indexed at byte {}: {remedy}", self.at);
        Error::new(Reason::NotSupported, text)
    }

    /// Reads a segment. `None`: the path ends.
    fn segment(&mut self) -> Result<Option<Selector>> {
        if self.at == self.text.len() {
            return Ok(None);
        }
        self.skip_blanks();
        if self.skip('[') {
            return self.bracket().map(Some);
        }
        if !self.skip('.') {
            return Err(self.malformed("a segment begins with `.` or `[`"));
        }
        match self.peek() {
            Some('.') => {
                Err(self.not_supported("`..` is unbounded; name each level, or use `[*]`"))
            }
            Some('*') => {
                self.at += 1;
                Ok(Some(Selector::Wildcard))
            }
            Some(first) if is_name_first(first) => {
                let rest = &self.text[self.at..];
                let end = rest.find(|each| !is_name_char(each)).unwrap_or(rest.len());
                self.at += end;
                Ok(Some(Selector::Name(rest[..end].into())))
            }
            _ => Err(self.malformed("behind `.` stands a name or `*`; quote others as `['name']`")),
        }
    }

    /// Reads a selector in brackets, behind the opening one.
    fn bracket(&mut self) -> Result<Selector> {
        self.skip_blanks();
        let selector = match self.peek() {
            Some('*') => {
                self.at += 1;
                Selector::Wildcard
            }
            Some(quote @ ('\'' | '"')) => {
                self.at += 1;
                Selector::Name(self.quoted(quote)?)
            }
            Some('0'..='9' | '-' | ':') => self.index_or_slice()?,
            Some('?') => return Err(self.not_supported("filters are not supported")),
            _ => {
                let expected = "in brackets stands a quoted name, an index, a slice or `*`";
                return Err(self.malformed(expected));
            }
        };
        self.skip_blanks();
        if self.peek() == Some(',') {
            return Err(self.not_supported("a segment has one selector; define an index for each"));
        }
        if !self.skip(']') {
            return Err(self.malformed("`]` is missing"));
        }
        Ok(selector)
    }

    fn index_or_slice(&mut self) -> Result<Selector> {
        let begin = self.at;
        let start = if self.peek() == Some(':') { None } else { Some(self.integer()?) };
        self.skip_blanks();
        if !self.skip(':') {
            return match start {
                Some((true, distance)) if distance > PATH_FROM_END_MAX => {
                    let text = format!("an index from the end is at most {PATH_FROM_END_MAX}");
                    Err(Error::new(Reason::TooLarge, text))
                }
                Some((true, distance)) => Ok(Selector::FromEnd(distance)),
                Some((false, index)) => Ok(Selector::Index(index)),
                None => Err(self.malformed("`:` is missing")),
            };
        }
        let end = self.slice_bound()?;
        let step = if self.skip(':') { self.slice_bound()? } else { None };
        let numbers = [start, end, step];
        if numbers.into_iter().flatten().any(|(is_negative, _)| is_negative)
            || step == Some((false, 0))
        {
            self.at = begin;
            return Err(self.not_supported("a slice counts from 0 upwards, by steps from 1"));
        }
        let start = start.map_or(0, |(_, start)| start);
        let step = step.map_or(1, |(_, step)| step);
        Ok(Selector::Slice(Slice { start, end: end.map(|(_, end)| end), step }))
    }

    /// Reads a bound or step of a slice, if there is one, and the blanks around it.
    fn slice_bound(&mut self) -> Result<Option<(bool, u64)>> {
        self.skip_blanks();
        let bound = match self.peek() {
            Some('0'..='9' | '-') => Some(self.integer()?),
            _ => None,
        };
        self.skip_blanks();
        Ok(bound)
    }

    /// Reads an integer: whether it is negative, and its amount.
    fn integer(&mut self) -> Result<(bool, u64)> {
        let is_negative = self.skip('-');
        let rest = &self.text[self.at..];
        let end = rest.find(|each: char| !each.is_ascii_digit()).unwrap_or(rest.len());
        let digits = &rest[..end];
        let has_leading_zero = digits.starts_with('0') && (digits.len() > 1 || is_negative);
        let number = digits.parse().ok().filter(|number| *number <= INDEX_MAX);
        match number {
            Some(number) if !has_leading_zero => {
                self.at += end;
                Ok((is_negative, number))
            }
            _ => Err(self.malformed("an index is an integer without leading zeros, below 2^53")),
        }
    }

    /// Reads a name up to its closing quote.
    fn quoted(&mut self, quote: char) -> Result<String> {
        let mut name = String::new();
        loop {
            match self.peek() {
                Some(end) if end == quote => {
                    self.at += 1;
                    return Ok(name);
                }
                Some('\\') => {
                    self.at += 1;
                    name.push(self.escape(quote)?);
                }
                Some(character) if character >= ' ' => {
                    self.at += character.len_utf8();
                    name.push(character);
                }
                Some(_) => return Err(self.malformed("control characters are escaped in names")),
                None => return Err(self.malformed("the closing quote is missing")),
            }
        }
    }

    /// Reads an escape behind its backslash.
    fn escape(&mut self, quote: char) -> Result<char> {
        let character = match self.peek() {
            Some('b') => '\u{8}',
            Some('t') => '\t',
            Some('n') => '\n',
            Some('f') => '\u{c}',
            Some('r') => '\r',
            Some(same @ ('/' | '\\')) => same,
            Some(same) if same == quote => same,
            Some('u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.malformed("this escape does not exist")),
        };
        // The letter of an escape is one byte, as is each character that stands for itself.
        self.at += 1;
        Ok(character)
    }

    /// Reads four digits behind `\u`, or a pair of surrogates.
    fn unicode_escape(&mut self) -> Result<char> {
        let begin = self.at;
        let mut units = vec![self.code_unit()?];
        if (0xD800..0xDC00).contains(&units[0]) && self.skip('\\') && self.skip('u') {
            units.push(self.code_unit()?);
        }
        match char::decode_utf16(units).collect::<std::result::Result<String, _>>() {
            Ok(text) => Ok(text.chars().next().unwrap_or_default()),
            Err(_) => {
                self.at = begin;
                Err(self.malformed("`\\u` names half of a surrogate pair"))
            }
        }
    }

    fn code_unit(&mut self) -> Result<u16> {
        let mut unit = 0;
        for _ in 0..4 {
            match self.peek().and_then(|digit| digit.to_digit(16)) {
                Some(digit) => unit = unit << 4 | digit as u16,
                None => return Err(self.malformed("behind `\\u` stand four hexadecimal digits")),
            }
            self.at += 1;
        }
        Ok(unit)
    }
}
