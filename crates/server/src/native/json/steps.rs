//! Parser of steps: a JSON object becomes an update or a read while it is parsed.
//!
//! All operations share one set of field names; the table of operations lists the fields that each
//! one requires and allows.

use super::fields::StepField;
use super::keys::KeysSeed;
use super::operations::{self, AllowedIn, JsonOperation, OperationName};
use crate::native::ranges::{self, Bounds};
use api::{Blob, Integer};
use base::limits::{SEQUENCE_DEPTH_MAX, SEQUENCE_STEPS_MAX, TTL_MS_MAX};
use base::request::{ExpireWhen, Expiry, OnMissing, SequenceMode, When};
use base::{Key, Read, Update, Value, Version};
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::cell::Cell;
use std::fmt;

/// Fields of one step that were parsed so far.
#[derive(Default)]
pub struct StepFields {
    seen: u32,
    operation: Option<&'static JsonOperation>,
    key: Option<Key>,
    value: Option<Value>,
    ttl: Expiry,
    when: Option<EnumName>,
    version: Option<u64>,
    missing: Option<EnumName>,
    expected: Option<Value>,
    wanted: Option<Value>,
    keys: Vec<Key>,
    delta: Option<serde_json::Number>,
    offset: usize,
    only_when: Option<EnumName>,
    steps: Vec<Update>,
    mode: Option<EnumName>,
    require_all: bool,
    bounds: Bounds,
}

/// Name out of a short list that depends on the operation.
type EnumName = Box<str>;

/// Parser of one step. It counts the steps, keys and levels of the whole body.
#[derive(Clone, Copy)]
pub struct StepSeed<'a> {
    /// Number of steps parsed so far.
    pub count: &'a Cell<usize>,
    /// Number of keys in lists parsed so far.
    pub keys: &'a Cell<usize>,
    /// Number of sequences around this step.
    pub depth: usize,
}

impl<'de> DeserializeSeed<'de> for StepSeed<'_> {
    type Value = StepFields;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<StepFields, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for StepSeed<'_> {
    type Value = StepFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a step: an object with `op` and the operation's fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StepFields, A::Error> {
        let mut fields = StepFields::default();
        while let Some(field) = map.next_key::<StepField>()? {
            if fields.seen & field.bit() != 0 {
                return Err(de::Error::custom(format_args!("`{}` is repeated", field.name())));
            }
            fields.seen |= field.bit();
            fields.read_field(field, self, &mut map)?;
        }
        fields.check().map_err(de::Error::custom)?;
        Ok(fields)
    }
}

impl StepFields {
    fn read_field<'de, A: MapAccess<'de>>(
        &mut self,
        field: StepField,
        seed: StepSeed<'_>,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let blob = |map: &mut A| map.next_value::<Blob>().map(|blob| Some(blob.0));
        let optional_blob =
            |map: &mut A| map.next_value::<Option<Blob>>().map(|blob| blob.map(|blob| blob.0));
        let enum_name = |map: &mut A| map.next_value::<EnumName>().map(Some);
        match field {
            StepField::Op => {
                let name = map.next_value::<EnumName>()?;
                let found = operations::find(&name);
                let unknown = || {
                    let names = operations::names().join(", ");
                    de::Error::custom(format!(
                        "unknown operation in `op`; the operations are {names}"
                    ))
                };
                self.operation = Some(found.ok_or_else(unknown)?);
            }
            StepField::Key => self.key = blob(map)?,
            StepField::Value => self.value = blob(map)?,
            StepField::Ttl => self.ttl = map.next_value::<Ttl>()?.0,
            StepField::When => self.when = enum_name(map)?,
            StepField::Version => {
                self.version = map.next_value::<Option<Integer>>()?.map(|version| version.0);
            }
            StepField::Missing => self.missing = enum_name(map)?,
            StepField::Expected => self.expected = optional_blob(map)?,
            StepField::Wanted => self.wanted = optional_blob(map)?,
            StepField::Prefix => self.bounds.prefix = blob(map)?,
            StepField::Keys => self.keys = map.next_value_seed(KeysSeed(seed.keys))?,
            StepField::Delta => self.delta = Some(map.next_value()?),
            StepField::Offset => self.offset = map.next_value::<Integer>()?.size(),
            StepField::From => self.bounds.from = blob(map)?,
            StepField::To => self.bounds.to = blob(map)?,
            StepField::OnlyWhen => self.only_when = enum_name(map)?,
            StepField::Steps => self.steps = map.next_value_seed(StepsSeed(seed))?,
            StepField::Mode => self.mode = enum_name(map)?,
            StepField::RequireAll => self.require_all = map.next_value()?,
            StepField::FromExclusive => self.bounds.from_exclusive = map.next_value()?,
            StepField::ToInclusive => self.bounds.to_inclusive = map.next_value()?,
            StepField::Reverse => self.bounds.reverse = map.next_value()?,
            StepField::Limit => self.bounds.limit = Some(map.next_value::<Integer>()?.size()),
            StepField::After => self.bounds.after = blob(map)?,
            StepField::Want => {
                let name = map.next_value::<EnumName>()?;
                self.bounds.want =
                    ranges::parse_want(&name).map_err(|e| de::Error::custom(e.text()))?;
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let Some(operation) = self.operation else { return Err("a step needs `op`".into()) };
        let mut allowed = StepField::Op.bit();
        for field in operation.required {
            if self.seen & field.bit() == 0 {
                return Err(format!("`{}` needs `{}`", operation.op, field.name()));
            }
            allowed |= field.bit();
        }
        for field in operation.optional {
            allowed |= field.bit();
        }
        for (field, name) in StepField::ALL {
            if self.seen & field.bit() & !allowed != 0 {
                return Err(format!("`{}` does not take `{name}`", operation.op));
            }
        }
        Ok(())
    }

    /// Converts the operation into an update.
    pub fn into_update(mut self) -> Result<Update, String> {
        let operation = self.operation.ok_or("a step needs `op`")?;
        if operation.allowed_in == AllowedIn::Reads {
            return Err(format!("`{}` is not allowed among updates", operation.op));
        }
        let key = self.key.take().unwrap_or_default();
        let value = self.value.take().unwrap_or_default();
        let expiry = self.ttl;
        Ok(match operation.name {
            OperationName::Set => Update::Set { key, value, expiry },
            OperationName::SetIf => Update::SetIf { key, value, expiry, when: self.when()? },
            OperationName::SetIfVersion => {
                let version =
                    self.version.ok_or("`version` must be a number for this operation")?;
                Update::SetIf { key, value, expiry, when: When::Unchanged(Version(version)) }
            }
            OperationName::Delete => Update::Delete { key, missing: self.missing()? },
            OperationName::TestAndSet => {
                Update::TestAndSet { key, expected: self.expected, wanted: self.wanted }
            }
            OperationName::Replace => Update::Replace { key, wanted: self.wanted },
            OperationName::Confirm => Update::Confirm { key, value },
            OperationName::Assert => Update::Assert { key, expected: self.expected },
            OperationName::AssertExists => Update::AssertExists { key },
            OperationName::AssertRange => {
                Update::AssertRange { prefix: self.prefix(), keys: self.keys }
            }
            OperationName::AssertVersion => {
                Update::AssertVersion { key, version: self.version.map(Version) }
            }
            OperationName::DeletePrefix => Update::DeletePrefix { prefix: self.prefix() },
            OperationName::Add => Update::Add { key, delta: self.delta()? },
            OperationName::AddFloat => Update::AddFloat { key, delta: self.delta_float()? },
            OperationName::Append => Update::Append { key, value },
            OperationName::SetRange => Update::SetRange { key, offset: self.offset, value },
            OperationName::Rename => {
                let when = self.when_target()?;
                Update::Rename { from: self.from(), to: self.to(), when }
            }
            OperationName::Copy => {
                let when = self.when_target()?;
                Update::Copy { from: self.from(), to: self.to(), when }
            }
            OperationName::Expire => Update::Expire { key, expiry, when: self.only_when()? },
            OperationName::Nop => Update::Nop,
            OperationName::Sequence => {
                let mode = parse_mode(self.mode.as_deref())?;
                Update::Sequence { steps: self.steps, mode }
            }
            OperationName::Get
            | OperationName::Exists
            | OperationName::MultiGet
            | OperationName::Range
            | OperationName::KeyCount => {
                self.key = Some(key);
                Update::Read(self.into_read()?)
            }
        })
    }

    /// Converts the operation into a read.
    pub fn into_read(mut self) -> Result<Read, String> {
        let operation = self.operation.ok_or("a step needs `op`")?;
        let key = self.key.take().unwrap_or_default();
        Ok(match operation.name {
            OperationName::Get => Read::Get(key),
            OperationName::Exists => Read::Exists(self.keys),
            OperationName::MultiGet if self.require_all => Read::MultiGetAll(self.keys),
            OperationName::MultiGet => Read::MultiGet(self.keys),
            OperationName::Range => {
                Read::Range(self.bounds.into_range().map_err(|error| error.text())?)
            }
            OperationName::KeyCount => Read::KeyCount,
            OperationName::Assert => Read::Assert { key, expected: self.expected },
            OperationName::AssertExists => Read::AssertExists(key),
            _ => return Err(format!("`{}` is not a read", operation.op)),
        })
    }

    fn prefix(&mut self) -> Key {
        self.bounds.prefix.take().unwrap_or_default()
    }

    fn from(&mut self) -> Key {
        self.bounds.from.take().unwrap_or_default()
    }

    fn to(&mut self) -> Key {
        self.bounds.to.take().unwrap_or_default()
    }

    fn when(&self) -> Result<When, String> {
        match self.when.as_deref() {
            Some("always") => Ok(When::Always),
            Some("absent") => Ok(When::Absent),
            Some("present") => Ok(When::Present),
            _ => Err("`when` must be always, absent or present".into()),
        }
    }

    fn when_target(&self) -> Result<When, String> {
        match self.when.as_deref() {
            None | Some("always") => Ok(When::Always),
            Some("absent") => Ok(When::Absent),
            Some(_) => Err("`when` must be always or absent for this operation".into()),
        }
    }

    fn only_when(&self) -> Result<ExpireWhen, String> {
        match self.only_when.as_deref() {
            None | Some("always") => Ok(ExpireWhen::Always),
            Some("has_none") => Ok(ExpireWhen::HasNone),
            Some("has_one") => Ok(ExpireWhen::HasOne),
            Some("later") => Ok(ExpireWhen::Later),
            Some("sooner") => Ok(ExpireWhen::Sooner),
            Some("has_later") => Ok(ExpireWhen::HasLater),
            Some(_) => {
                Err("`only_when`: always, has_none, has_one, later, sooner or has_later".into())
            }
        }
    }

    fn missing(&self) -> Result<OnMissing, String> {
        match self.missing.as_deref() {
            None | Some("skipped") => Ok(OnMissing::Skip),
            Some("fails") => Ok(OnMissing::Fail),
            Some(_) => Err("`missing` must be skipped or fails".into()),
        }
    }

    fn delta(&self) -> Result<i64, String> {
        let whole = |number: &serde_json::Number| {
            let float = number.as_f64().filter(|_| number.is_f64())?;
            let whole = Integer::from_float(float.abs())?.0 as i64;
            Some(if float < 0.0 { -whole } else { whole })
        };
        let number = self.delta.as_ref().and_then(|n| n.as_i64().or_else(|| whole(n)));
        number.ok_or_else(|| "`delta` must be a 64-bit integer".into())
    }

    fn delta_float(&self) -> Result<f64, String> {
        let number = self.delta.as_ref().and_then(serde_json::Number::as_f64);
        number.filter(|number| number.is_finite()).ok_or_else(|| "`delta` must be a number".into())
    }
}

/// Parses the name of a sequence's mode: the effect of a failing step on the sequence.
pub fn parse_mode(name: Option<&str>) -> Result<SequenceMode, String> {
    match name {
        None | Some("all_or_nothing") => Ok(SequenceMode::AllOrNothing),
        Some("synced") => Ok(SequenceMode::Synced),
        Some("each_alone") => Ok(SequenceMode::EachAlone),
        Some("batch") => Ok(SequenceMode::Batch),
        Some(_) => Err("`mode` must be all_or_nothing, synced, each_alone or batch".into()),
    }
}

/// Parser of a list of steps.
pub struct StepsSeed<'a>(pub StepSeed<'a>);

impl<'de> DeserializeSeed<'de> for StepsSeed<'_> {
    type Value = Vec<Update>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Update>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for StepsSeed<'_> {
    type Value = Vec<Update>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of steps")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Update>, A::Error> {
        let StepsSeed(StepSeed { count, keys, depth }) = self;
        if depth >= SEQUENCE_DEPTH_MAX {
            return Err(de::Error::custom("sequences are nested deeper than 64 levels"));
        }
        let seed = StepSeed { count, keys, depth: depth + 1 };
        let mut steps = Vec::new();
        while let Some(step) = list.next_element_seed(seed)? {
            count.set(count.get() + 1);
            if count.get() > SEQUENCE_STEPS_MAX {
                return Err(de::Error::custom(TOO_MANY_STEPS));
            }
            steps.push(step.into_update().map_err(de::Error::custom)?);
        }
        Ok(steps)
    }
}

/// Beginning of an error that is reported as `too_large` instead of `malformed`.
pub const TOO_MANY_STEPS: &str = "a sequence has more than 131072 steps";

/// Time to live: milliseconds, or `keep`, `never`, `default`.
struct Ttl(Expiry);

impl<'de> Deserialize<'de> for Ttl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ttl, D::Error> {
        struct TtlVisitor;
        impl Visitor<'_> for TtlVisitor {
            type Value = Ttl;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("milliseconds up to 2^53, or one of `keep`, `never`, `default`")
            }
            fn visit_f64<E: de::Error>(self, ms: f64) -> Result<Ttl, E> {
                let whole = Integer::from_float(ms);
                self.visit_u64(whole.ok_or_else(|| E::custom("a number is not an integer"))?.0)
            }
            fn visit_u64<E: de::Error>(self, ms: u64) -> Result<Ttl, E> {
                if ms > TTL_MS_MAX {
                    return Err(E::custom("a time to live is at most 2^53 milliseconds"));
                }
                Ok(Ttl(Expiry::After(ms)))
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Ttl, E> {
                parse_expiry_name(name).map(Ttl).ok_or_else(|| E::custom("unknown time to live"))
            }
        }
        deserializer.deserialize_any(TtlVisitor)
    }
}

/// Parses the name of an expiry.
pub fn parse_expiry_name(name: &str) -> Option<Expiry> {
    match name {
        "keep" => Some(Expiry::Keep),
        "never" => Some(Expiry::Never),
        "default" => Some(Expiry::Default),
        _ => None,
    }
}
