//! TOML as a tree in which every value knows its file and line.

use base::nearest;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value with its file and line.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    file: Arc<str>,
    line: usize,
    /// The value.
    pub value: TomlValue,
}

/// A TOML value; dates are not supported.
#[derive(Clone, Debug, PartialEq)]
pub enum TomlValue {
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// True or false.
    Boolean(bool),
    /// An array.
    List(Vec<Item>),
    /// A table.
    Table(BTreeMap<String, Item>),
}

/// Keys of a table that have not been read yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Items {
    items: BTreeMap<String, Item>,
    /// Keys that were looked up, which are the known ones.
    looked_up: BTreeSet<String>,
}

impl Item {
    /// Returns a value with its file and line.
    pub fn new(file: Arc<str>, line: usize, value: TomlValue) -> Item {
        Item { file, line, value }
    }

    /// Returns another value with the same file and line.
    pub fn with_value(&self, value: TomlValue) -> Item {
        Item::new(self.file.clone(), self.line, value)
    }

    /// Returns the error `file:line: what`.
    pub fn error(&self, what: impl std::fmt::Display) -> String {
        format!("{}:{}: {what}", self.file, self.line)
    }

    /// Returns the text. Fails if the value is not one.
    pub fn text(&self) -> Result<&str, String> {
        match &self.value {
            TomlValue::Text(text) => Ok(text),
            other => Err(self.error(format!("wants a text, not {}", other.kind()))),
        }
    }

    /// Returns the boolean. Fails if the value is not one.
    pub fn boolean(&self) -> Result<bool, String> {
        match self.value {
            TomlValue::Boolean(value) => Ok(value),
            ref other => Err(self.error(format!("wants true or false, not {}", other.kind()))),
        }
    }

    /// Returns the whole number. Fails if the value is none from `min` to `max`.
    pub fn integer(&self, min: u64, max: u64) -> Result<u64, String> {
        let expected = || format!("wants a whole number from {min} to {max}");
        match self.value {
            TomlValue::Integer(number) => u64::try_from(number)
                .ok()
                .filter(|number| (min..=max).contains(number))
                .ok_or_else(|| self.error(format!("{}, not {number}", expected()))),
            ref other => Err(self.error(format!("{}, not {}", expected(), other.kind()))),
        }
    }

    /// Returns the number. Fails if the value is none above zero.
    pub fn positive(&self) -> Result<f64, String> {
        let number = match self.value {
            TomlValue::Integer(number) => number as f64,
            TomlValue::Float(number) => number,
            ref other => {
                return Err(self.error(format!("wants a number, not {}", other.kind())));
            }
        };
        if number > 0.0 && number.is_finite() {
            return Ok(number);
        }
        Err(self.error(format!("wants a number above 0, not {number}")))
    }

    /// Returns the elements. Fails if the value is not an array.
    pub fn list(&self) -> Result<&[Item], String> {
        match &self.value {
            TomlValue::List(list) => Ok(list),
            other => Err(self.error(format!("wants a list, not {}", other.kind()))),
        }
    }

    /// Returns the elements. Fails if the value is not an array of texts.
    pub fn texts(&self) -> Result<Vec<String>, String> {
        self.list()?.iter().map(|item| item.text().map(str::to_string)).collect()
    }

    /// Returns the table's keys. Fails if the value is not a table.
    pub fn table(&self) -> Result<Items, String> {
        match &self.value {
            TomlValue::Table(items) => Ok(Items { items: items.clone(), ..Items::default() }),
            other => Err(self.error(format!("wants a table, not {}", other.kind()))),
        }
    }
}

impl TomlValue {
    fn each_value(&mut self, change: &mut dyn FnMut(&mut TomlValue)) {
        match self {
            TomlValue::List(list) => list.iter_mut().for_each(|item| item.value.each_value(change)),
            TomlValue::Table(table) => {
                table.values_mut().for_each(|item| item.value.each_value(change));
            }
            value => change(value),
        }
    }

    fn kind(&self) -> String {
        match self {
            TomlValue::Integer(number) => number.to_string(),
            TomlValue::Float(number) => number.to_string(),
            TomlValue::Text(text) => format!("{text:?}"),
            TomlValue::Boolean(value) => value.to_string(),
            TomlValue::List(_) => "a list".into(),
            TomlValue::Table(_) => "a table".into(),
        }
    }
}

impl Items {
    /// Reads TOML. `file` is its name in errors.
    pub fn parse(file: &str, text: &str) -> Result<Items, String> {
        let file: Arc<str> = file.into();
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            format!("{file}:{line}: {}", error.message())
        })?;
        Ok(Items { items: parse_table(&file, text, table.into_inner())?, ..Items::default() })
    }

    /// Replaces keys by those of `later` with the same name; tables as a whole.
    pub fn merge(&mut self, later: Items) {
        self.items.extend(later.items);
    }

    /// Returns true if a key holds this text.
    pub fn has_text(&self, key: &str, text: &str) -> bool {
        self.items.get(key).is_some_and(|item| item.text() == Ok(text))
    }

    /// Sets a key.
    pub fn set(&mut self, key: &str, item: Item) {
        self.items.insert(key.into(), item);
    }

    /// Removes a key and returns its value. `None`: absent.
    pub fn take(&mut self, key: &str) -> Option<Item> {
        self.looked_up.insert(key.into());
        self.items.remove(key)
    }

    /// Removes a key and reads it; `default` if it is absent. Errors name the key.
    pub fn read<T>(
        &mut self,
        key: &str,
        default: T,
        read: impl FnOnce(&Item) -> Result<T, String>,
    ) -> Result<T, String> {
        match self.take(key) {
            Some(item) => read(&item).map_err(|error| with_key(key, error)),
            None => Ok(default),
        }
    }

    /// Removes a key that must be present and reads it; `whose` names its owner in the error if it
    /// is absent.
    pub fn need<T>(
        &mut self,
        whose: &str,
        key: &str,
        read: impl FnOnce(&Item) -> Result<T, String>,
    ) -> Result<T, String> {
        let item = self.take(key).ok_or_else(|| format!("{whose} needs the key `{key}`"))?;
        read(&item).map_err(|error| with_key(key, error))
    }

    /// Calls `change` for every value that is no list and no table, at all depths.
    pub fn each_value(&mut self, change: &mut dyn FnMut(&mut TomlValue)) {
        self.items.values_mut().for_each(|item| item.value.each_value(change));
    }

    /// Calls `change` for every text, at all depths.
    pub fn each_text(&mut self, change: &mut dyn FnMut(&mut String)) {
        self.each_value(&mut |value| {
            if let TomlValue::Text(text) = value {
                change(text);
            }
        });
    }

    /// Returns the remaining keys.
    pub fn rest(self) -> BTreeMap<String, Item> {
        self.items
    }

    /// Returns an error for the first key that was not read; it suggests the known key that is
    /// nearest in spelling.
    pub fn finish(&self) -> Result<(), String> {
        let Some((key, item)) = self.items.iter().next() else { return Ok(()) };
        let meant = nearest(key, self.looked_up.iter().map(String::as_str));
        let meant = meant.map_or(String::new(), |meant| format!(", is `{meant}` meant?"));
        Err(item.error(format!("there is no key `{key}` here{meant}")))
    }

    /// Returns the table as TOML again, without passwords.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (key, item) in self.items.iter().filter(|(key, _)| !key.ends_with("_password")) {
            text.push_str(&format!("{} = {}\n", key_text(key), toml_text(&item.value)));
        }
        text
    }
}

// "file:3: wants ..." becomes "file:3: `key` wants ...".
fn with_key(key: &str, error: String) -> String {
    match error.find(": wants ") {
        Some(at) => format!("{}: `{key}`{}", &error[..at], &error[at + 1..]),
        None => error,
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

fn parse_table(
    file: &Arc<str>,
    text: &str,
    table: DeTable<'_>,
) -> Result<BTreeMap<String, Item>, String> {
    let entries = table.into_iter();
    entries
        .map(|(key, value)| Ok((key.into_inner().into(), parse_item(file, text, value)?)))
        .collect()
}

fn parse_item(file: &Arc<str>, text: &str, value: Spanned<DeValue<'_>>) -> Result<Item, String> {
    let line = line_of(text, value.span().start);
    let invalid = |what: String| format!("{file}:{line}: {what}");
    let value = match value.into_inner() {
        DeValue::String(text) => TomlValue::Text(text.into()),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            TomlValue::Integer(parsed.map_err(|error| invalid(error.to_string()))?)
        }
        DeValue::Float(number) => {
            TomlValue::Float(number.as_str().parse().map_err(|_| invalid("no number".into()))?)
        }
        DeValue::Boolean(yes) => TomlValue::Boolean(yes),
        DeValue::Datetime(_) => return Err(invalid("a date means nothing here".into())),
        DeValue::Array(list) => {
            let items = list.into_iter().map(|element| parse_item(file, text, element));
            TomlValue::List(items.collect::<Result<_, String>>()?)
        }
        DeValue::Table(table) => TomlValue::Table(parse_table(file, text, table)?),
    };
    Ok(Item { file: file.clone(), line, value })
}

/// Formats a value as TOML, on one line.
fn toml_text(value: &TomlValue) -> String {
    match value {
        TomlValue::Integer(number) => number.to_string(),
        TomlValue::Float(number) => format!("{number:?}"),
        TomlValue::Text(text) => toml::Value::String(text.clone()).to_string(),
        TomlValue::Boolean(value) => value.to_string(),
        TomlValue::List(list) => {
            let items: Vec<_> = list.iter().map(|item| toml_text(&item.value)).collect();
            format!("[{}]", items.join(", "))
        }
        TomlValue::Table(table) => {
            let entry = |(key, item): (&String, &Item)| {
                format!("{} = {}", key_text(key), toml_text(&item.value))
            };
            format!("{{ {} }}", table.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

fn key_text(key: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !key.is_empty() && key.bytes().all(is_plain) {
        return key.to_string();
    }
    toml::Value::String(key.into()).to_string()
}
