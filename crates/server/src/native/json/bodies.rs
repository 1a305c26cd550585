//! Parsing of request bodies, from JSON into the types of `base`.

use super::keys::{KeysSeed, TOO_MANY_KEYS};
use super::scan;
use super::steps::{self, StepSeed, StepsSeed, TOO_MANY_STEPS};
use crate::native::errors::malformed;
use api::{Blob, Integer};
use base::limits::CHANGES_MAX;
use base::properties::Changes;
use base::{BucketPlace, DirectoryCall, Error, GroupId, Key, Read, Reason, Update};
use serde::Deserialize;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor,
};
use std::cell::Cell;
use std::fmt;

/// Parses an update.
pub fn update(json: &[u8]) -> Result<Update, Error> {
    let (count, keys) = (Cell::new(0), Cell::new(0));
    let fields = read(json, StepSeed { count: &count, keys: &keys, depth: 0 })?;
    fields.into_update().map_err(|text| Error::new(Reason::Malformed, text))
}

/// Parses a read.
pub fn read_operation(json: &[u8]) -> Result<Read, Error> {
    let (count, keys) = (Cell::new(0), Cell::new(0));
    let fields = read(json, StepSeed { count: &count, keys: &keys, depth: 0 })?;
    fields.into_read().map_err(|text| Error::new(Reason::Malformed, text))
}

/// Parses a sequence: a list of steps, or an object with `steps` and `mode`.
pub fn sequence(json: &[u8]) -> Result<Update, Error> {
    let (count, keys) = (Cell::new(0), Cell::new(0));
    read(json, SequenceSeed(StepSeed { count: &count, keys: &keys, depth: 0 }))
}

/// Parses a `multi_get`: an object with `keys` and `require_all`.
pub fn multi_get(json: &[u8]) -> Result<Read, Error> {
    let (keys, require_all) = read(json, MultiGetSeed)?;
    Ok(if require_all { Read::MultiGetAll(keys) } else { Read::MultiGet(keys) })
}

struct MultiGetSeed;

impl<'de> DeserializeSeed<'de> for MultiGetSeed {
    type Value = (Vec<Key>, bool);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MultiGetSeed {
    type Value = (Vec<Key>, bool);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `keys` and `require_all`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let count = Cell::new(0);
        let (mut keys, mut require_all) = (None, None);
        while let Some(name) = map.next_key::<Box<str>>()? {
            match &*name {
                "keys" if keys.is_none() => keys = Some(map.next_value_seed(KeysSeed(&count))?),
                "require_all" if require_all.is_none() => require_all = Some(map.next_value()?),
                _ => {
                    let text = "a multi_get takes only `keys` and `require_all`, each once";
                    return Err(de::Error::custom(text));
                }
            }
        }
        let keys = keys.ok_or_else(|| de::Error::custom("a multi_get needs `keys`"))?;
        Ok((keys, require_all.unwrap_or(false)))
    }
}

/// Parses a prefix.
pub fn prefix(json: &[u8]) -> Result<Key, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Prefix {
        prefix: Blob,
    }
    read_plain::<Prefix>(json).map(|body| body.prefix.0)
}

/// Parses the target of a checkpoint.
pub fn target(json: &[u8]) -> Result<String, Error> {
    read_plain::<api::CheckpointTarget>(json).map(|body| body.target)
}

/// Parses an object of names and texts, in order: properties, log levels. An empty body is an empty
/// object.
pub fn changes(json: &[u8]) -> Result<Changes, Error> {
    if json.is_empty() {
        return Ok(Changes::new());
    }
    read_plain::<ChangesBody>(json).map(|body| body.0)
}

/// Parses a new bucket: its properties, and its place, which is a `group`, a number of `replicas`,
/// or neither.
pub fn new_bucket(json: &[u8]) -> Result<DirectoryCall, Error> {
    let (mut properties, mut place) = (Changes::new(), None);
    for (name, text) in changes(json)? {
        let number = || {
            let wrong = || malformed("`group` and `replicas` must be integers");
            text.parse::<u32>().map_err(|_| wrong())
        };
        let location = match name.as_str() {
            "group" => BucketPlace::Group(GroupId(number()?)),
            "replicas" => BucketPlace::Replicas(number()?),
            _ => {
                properties.push((name, text));
                continue;
            }
        };
        if place.replace(location).is_some() {
            return Err(malformed("`group` and `replicas` exclude each other: give one of them"));
        }
    }
    Ok(match place {
        None => DirectoryCall::CreateBucket(properties),
        Some(place) => DirectoryCall::PlaceBucket { changes: properties, place },
    })
}

/// Parses the target of a bucket's move.
pub fn move_to(json: &[u8]) -> Result<DirectoryCall, Error> {
    let group = read_plain::<api::MoveRequest>(json)?.group.0;
    let group = u32::try_from(group).map_err(|_| malformed("a group must be a number"))?;
    Ok(DirectoryCall::MoveBucket { group: GroupId(group) })
}

pub fn read_plain<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    // serde would accept a list of the fields' values in place of an object.
    if json.trim_ascii_start().first() == Some(&b'[') {
        return Err(Error::new(Reason::Malformed, "the body must be an object, not a list"));
    }
    read(json, std::marker::PhantomData::<T>)
}

/// Parses one JSON text. Fails if bytes follow it.
fn read<'de, S: DeserializeSeed<'de>>(json: &'de [u8], seed: S) -> Result<S::Value, Error> {
    if !scan::is_shallow(json) {
        let text = format!("the JSON is nested deeper than {} levels", scan::DEPTH_MAX);
        return Err(Error::new(Reason::Malformed, text));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    // `is_shallow` has checked the depth; the limit of serde_json is lower than that of sequences.
    deserializer.disable_recursion_limit();
    let value = seed.deserialize(&mut deserializer).map_err(|error| json_error(&error))?;
    deserializer.end().map_err(|error| json_error(&error))?;
    Ok(value)
}

fn json_error(error: &serde_json::Error) -> Error {
    use serde_json::error::Category;
    // A type error contains the value that was found, and errors must not reveal values.
    let words = match error.classify() {
        Category::Data => {
            let text = error.to_string();
            for limit in [TOO_MANY_STEPS, TOO_MANY_KEYS] {
                if text.starts_with(limit) {
                    return Error::new(Reason::TooLarge, limit);
                }
            }
            without_values(&text)
        }
        Category::Syntax | Category::Eof | Category::Io => error.to_string(),
    };
    Error::new(Reason::Malformed, format!("the body is not the expected JSON: {words}"))
}

/// Removes a client's bytes from an error text such as `invalid type: string "secret", expected a
/// number at ..`.
fn without_values(text: &str) -> String {
    for kind in ["invalid type", "invalid value", "unknown field", "unknown variant"] {
        if text.starts_with(kind) {
            let rest = text.rfind(", expected").map_or("", |start| &text[start..]);
            return format!("{kind}{rest}");
        }
    }
    text.to_string()
}

struct SequenceSeed<'a>(StepSeed<'a>);

impl<'de> DeserializeSeed<'de> for SequenceSeed<'_> {
    type Value = Update;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Update, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for SequenceSeed<'_> {
    type Value = Update;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of steps, or an object with `steps` and `mode`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Update, A::Error> {
        let steps = StepsSeed(self.0).visit_seq(list)?;
        Ok(Update::Sequence { steps, mode: base::request::SequenceMode::AllOrNothing })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Update, A::Error> {
        let (mut steps, mut mode) = (None, None);
        while let Some(name) = map.next_key::<Box<str>>()? {
            match &*name {
                "steps" if steps.is_none() => steps = Some(map.next_value_seed(StepsSeed(self.0))?),
                "mode" if mode.is_none() => {
                    let name = map.next_value::<Box<str>>()?;
                    mode = Some(steps::parse_mode(Some(&name)).map_err(de::Error::custom)?);
                }
                _ => {
                    return Err(de::Error::custom(
                        "a sequence takes only `steps` and `mode`, each once",
                    ));
                }
            }
        }
        let steps = steps.ok_or_else(|| de::Error::custom("a sequence needs `steps`"))?;
        Ok(Update::Sequence {
            steps,
            mode: mode.unwrap_or(base::request::SequenceMode::AllOrNothing),
        })
    }
}

/// Object of names and texts, integers or booleans. Each name occurs once.
struct ChangesBody(Changes);

impl<'de> Deserialize<'de> for ChangesBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ChangesBody, D::Error> {
        deserializer.deserialize_map(ChangesVisitor)
    }
}

struct ChangesVisitor;

impl<'de> Visitor<'de> for ChangesVisitor {
    type Value = ChangesBody;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ChangesBody, A::Error> {
        let mut changes = Changes::new();
        while let Some(name) = map.next_key::<String>()? {
            if changes.len() >= CHANGES_MAX || changes.iter().any(|(earlier, _)| *earlier == name) {
                return Err(de::Error::custom(
                    "a name is repeated, or there are more than 64 names",
                ));
            }
            let text = map.next_value::<Text>()?.0;
            changes.push((name, text));
        }
        Ok(ChangesBody(changes))
    }
}

struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        struct TextVisitor;
        impl Visitor<'_> for TextVisitor {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a whole number, true or false")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.into()))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
            fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Text, E> {
                Ok(Text(flag.to_string()))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Text, E> {
                let whole = Integer::from_float(number);
                let whole = whole.ok_or_else(|| E::custom("a number is not an integer"))?;
                Ok(Text(whole.0.to_string()))
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}
