//! Paths of declared indexes: JSONPath (RFC 9535) without filters.
//!
//! A path is `$` and segments: `.name`, `['name']`, `[n]`, `[-n]`, `[start:end:step]`, `[*]`, `.*`.
//! Each has one selector. Filters, lists of selectors and descendant segments (`..`) are refused: a
//! path visits each node of a value at most once.

use std::fmt;

/// Selector of a segment: the children of a node that it selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// The member of an object with this name.
    Name(String),
    /// The element of an array, counted from 0.
    Index(u64),
    /// The element of an array, counted from its end: 1 is the last one.
    FromEnd(u64),
    /// Elements of an array.
    Slice(Slice),
    /// All members of an object, or all elements of an array.
    Wildcard,
}

/// Elements of an array in a distance from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Index of the first element.
    pub start: u64,
    /// Index behind the last element. `None`: the end of the array.
    pub end: Option<u64>,
    /// Distance of two elements, at least 1.
    pub step: u64,
}

impl Slice {
    /// Returns true if the element with this index is selected.
    pub fn contains(&self, index: u64) -> bool {
        let is_before_end = self.end.is_none_or(|end| index < end);
        index >= self.start && is_before_end && (index - self.start).is_multiple_of(self.step)
    }
}

/// Path into a value. It displays as the text that [`JsonPath::parse`] reads, in one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath {
    selectors: Vec<Selector>,
}

impl JsonPath {
    /// Builds a path from selectors that the parser has checked.
    pub(crate) fn new(selectors: Vec<Selector>) -> JsonPath {
        JsonPath { selectors }
    }

    /// Returns the selectors, one for each segment.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// Returns true if the path selects at most one node of any value.
    pub fn is_singular(&self) -> bool {
        let is_one = |selector: &Selector| {
            matches!(selector, Selector::Name(_) | Selector::Index(_) | Selector::FromEnd(_))
        };
        self.selectors.iter().all(is_one)
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$")?;
        for selector in &self.selectors {
            match selector {
                Selector::Name(name) if is_shorthand(name) => write!(f, ".{name}")?,
                Selector::Name(name) => write_quoted(name, f)?,
                Selector::Index(index) => write!(f, "[{index}]")?,
                Selector::FromEnd(distance) => write!(f, "[-{distance}]")?,
                Selector::Slice(Slice { start, end, step }) => {
                    write!(f, "[{start}:")?;
                    if let Some(end) = end {
                        write!(f, "{end}")?;
                    }
                    if *step != 1 {
                        write!(f, ":{step}")?;
                    }
                    f.write_str("]")?;
                }
                Selector::Wildcard => f.write_str("[*]")?,
            }
        }
        Ok(())
    }
}

/// Returns true for a character with which the name behind a dot may begin.
pub(crate) fn is_name_first(character: char) -> bool {
    character.is_ascii_alphabetic() || character == '_' || !character.is_ascii()
}

/// Returns true for a character that the name behind a dot may contain.
pub(crate) fn is_name_char(character: char) -> bool {
    is_name_first(character) || character.is_ascii_digit()
}

fn is_shorthand(name: &str) -> bool {
    name.starts_with(is_name_first) && name.chars().all(is_name_char)
}

/// Writes a name as the normalized paths of RFC 9535 (section 2.7) do.
fn write_quoted(name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("['")?;
    for character in name.chars() {
        match character {
            '\'' => f.write_str("\\'")?,
            '\\' => f.write_str("\\\\")?,
            '\u{8}' => f.write_str("\\b")?,
            '\t' => f.write_str("\\t")?,
            '\n' => f.write_str("\\n")?,
            '\u{c}' => f.write_str("\\f")?,
            '\r' => f.write_str("\\r")?,
            control if control < ' ' => write!(f, "\\u{:04x}", u32::from(control))?,
            other => write!(f, "{other}")?,
        }
    }
    f.write_str("']")
}
