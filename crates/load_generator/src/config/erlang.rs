//! Erlang terms as Basho Bench's configs have them: `{key, value}.`, comments, nothing to run.

use super::items::{Item, TomlValue};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Deepest nesting of terms.
const DEPTH_MAX: usize = 32;

/// A term with its file and line.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    file: Arc<str>,
    line: usize,
    /// The term.
    pub term: Term,
}

/// A term.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// `max`, `'an atom'`.
    Atom(String),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// `"text"`, or `<<"bytes">>`.
    Text(String),
    /// `{..}`.
    Tuple(Vec<Located>),
    /// `[..]`.
    List(Vec<Located>),
}

impl Located {
    /// Returns the error `file:line: what`.
    pub fn error(&self, what: impl std::fmt::Display) -> String {
        format!("{}:{}: {what}", self.file, self.line)
    }

    /// Returns a setting with this value and the term's file and line.
    pub fn at(&self, value: TomlValue) -> Item {
        Item::new(self.file.clone(), self.line, value)
    }

    /// Converts the term to a setting: tuples become lists, atoms become texts.
    pub fn item(&self) -> Item {
        let list_of =
            |terms: &[Located]| TomlValue::List(terms.iter().map(Located::item).collect());
        self.at(match &self.term {
            Term::Atom(name) if name == "true" => TomlValue::Boolean(true),
            Term::Atom(name) if name == "false" => TomlValue::Boolean(false),
            Term::Atom(text) | Term::Text(text) => TomlValue::Text(text.clone()),
            Term::Integer(number) => TomlValue::Integer(*number),
            Term::Float(number) => TomlValue::Float(*number),
            Term::Tuple(terms) | Term::List(terms) => list_of(terms),
        })
    }

    /// Returns the atom's name. `None`: the term is not an atom.
    pub fn atom(&self) -> Option<&str> {
        match &self.term {
            Term::Atom(name) => Some(name),
            _ => None,
        }
    }
}

/// Returns true if a text is Erlang, not TOML: no line of TOML begins with a brace.
pub fn is_erlang(text: &str) -> bool {
    let lines = text.lines().map(str::trim_start);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('%'));
    lines.next().is_some_and(|line| line.starts_with('{'))
}

/// Reads `{key, value}.` after `{key, value}.`; of two with one key the later one counts.
pub fn read(file: &str, text: &str) -> Result<BTreeMap<String, Located>, String> {
    let mut reader = TermReader { file: file.into(), rest: text, line: 1 };
    let mut entries = BTreeMap::new();
    loop {
        reader.skip();
        if reader.rest.is_empty() {
            return Ok(entries);
        }
        let entry = reader.term(DEPTH_MAX)?;
        reader.expect(".")?;
        match &entry.term {
            Term::Tuple(pair) => match &pair[..] {
                [Located { term: Term::Atom(key), .. }, value] => {
                    entries.insert(key.clone(), value.clone());
                }
                _ => return Err(entry.error("wants {key, value}.")),
            },
            _ => return Err(entry.error("wants {key, value}.")),
        }
    }
}

struct TermReader<'a> {
    file: Arc<str>,
    rest: &'a str,
    line: usize,
}

impl TermReader<'_> {
    fn error(&self, what: impl std::fmt::Display) -> String {
        format!("{}:{}: {what}", self.file, self.line)
    }

    fn consume(&mut self, bytes: usize) -> String {
        let (eaten, rest) = self.rest.split_at(bytes);
        self.line += eaten.matches('\n').count();
        self.rest = rest;
        eaten.to_string()
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            let white = self.rest.len() - self.rest.trim_start().len();
            self.consume(white);
            if !self.rest.starts_with('%') {
                return;
            }
            let comment = self.rest.find('\n').unwrap_or(self.rest.len());
            self.consume(comment);
        }
    }

    fn accept(&mut self, mark: &str) -> bool {
        self.skip();
        let found = self.rest.starts_with(mark);
        if found {
            self.consume(mark.len());
        }
        found
    }

    fn expect(&mut self, mark: &str) -> Result<(), String> {
        if self.accept(mark) {
            return Ok(());
        }
        let found: String = self.rest.chars().take(12).collect();
        Err(self.error(format!("wants `{mark}`, not {found:?}")))
    }

    fn term(&mut self, depth: usize) -> Result<Located, String> {
        self.skip();
        if depth == 0 {
            return Err(self.error("too many terms inside each other"));
        }
        let (file, line) = (self.file.clone(), self.line);
        let term = if self.accept("{") {
            Term::Tuple(self.list("}", depth)?)
        } else if self.accept("[") {
            Term::List(self.list("]", depth)?)
        } else if self.accept("<<") {
            let text = if self.accept("\"") { self.quoted('"')? } else { String::new() };
            self.expect(">>")?;
            Term::Text(text)
        } else if self.accept("\"") {
            Term::Text(self.quoted('"')?)
        } else if self.accept("'") {
            Term::Atom(self.quoted('\'')?)
        } else {
            self.atom_or_number()?
        };
        Ok(Located { file, line, term })
    }

    fn list(&mut self, end: &str, depth: usize) -> Result<Vec<Located>, String> {
        let mut terms = Vec::new();
        if self.accept(end) {
            return Ok(terms);
        }
        loop {
            terms.push(self.term(depth - 1)?);
            if !self.accept(",") {
                self.expect(end)?;
                return Ok(terms);
            }
        }
    }

    fn quoted(&mut self, end: char) -> Result<String, String> {
        let mut text = String::new();
        let mut letters = self.rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => text.push(match letters.next().map(|(_, letter)| letter) {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some(escaped @ ('\\' | '"' | '\'')) => escaped,
                    other => return Err(self.error(format!("wants no `\\` before {other:?}"))),
                }),
                letter if letter == end => {
                    self.consume(at + letter.len_utf8());
                    return Ok(text);
                }
                letter => text.push(letter),
            }
        }
        Err(self.error(format!("wants a {end} at the end of a text")))
    }

    /// Parses an atom or a number.
    fn atom_or_number(&mut self) -> Result<Term, String> {
        let is_word_char = |letter: char| letter.is_alphanumeric() || "_@+-#".contains(letter);
        let mut end = 0;
        for (at, letter) in self.rest.char_indices() {
            let after = self.rest[at + letter.len_utf8()..].chars().next();
            let digits =
                self.rest[..at].chars().all(|letter| letter.is_ascii_digit() || letter == '-');
            let point =
                letter == '.' && at > 0 && digits && after.is_some_and(|c| c.is_ascii_digit());
            if !is_word_char(letter) && !point {
                break;
            }
            end = at + letter.len_utf8();
        }
        let found: String = self.rest.chars().take(12).collect();
        let error = self.error(format!("wants a term, not {found:?}"));
        let text = self.consume(end);
        let first = text.chars().next();
        if first.is_some_and(|letter| letter.is_ascii_lowercase()) {
            return Ok(Term::Atom(text));
        }
        if let Some((radix, digits)) = text.split_once('#') {
            let radix = radix.parse().ok().filter(|radix| (2..=36).contains(radix));
            let number = radix.and_then(|radix| i64::from_str_radix(digits, radix).ok());
            return number.map(Term::Integer).ok_or(error);
        }
        match (text.parse(), text.parse()) {
            (Ok(number), _) => Ok(Term::Integer(number)),
            (_, Ok(number)) if text.contains('.') => Ok(Term::Float(number)),
            _ => Err(error),
        }
    }
}
