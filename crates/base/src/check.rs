//! Checks of requests against the limits: one place for all front-ends, before anything is
//! evaluated or logged.

use crate::error::too_large;
use crate::limits::{
    KEY_BYTES_MAX, KEYS_PER_READ_MAX, SEQUENCE_DEPTH_MAX, SEQUENCE_STEPS_MAX, TTL_MS_MAX,
    UPDATE_BYTES_MAX, VALUES_BYTES_MAX,
};
use crate::request::Expiry;
use crate::{Error, Properties, Read, Reason, Result, Update};

/// Checks an update against the limits of all requests and those of its bucket. Errors:
/// `too_large`, or others that name the limit.
pub fn update(update: &Update, properties: &Properties) -> Result<()> {
    // Fast path: a single `Set` costs three comparisons.
    if let Update::Set { key, value, expiry } = update {
        check_key(key, properties)?;
        check_value(value, properties)?;
        return check_expiry(*expiry);
    }
    let mut check = UpdateCheck { properties, steps: 0, bytes: 0 };
    check.update(update, 0)
}

/// Checks a read against the limits. A key above the limit is refused, not looked up.
pub fn read(read: &Read, properties: &Properties) -> Result<()> {
    let check_keys = |keys: &[crate::Key]| {
        if keys.len() > KEYS_PER_READ_MAX {
            return Err(too_large(
                "keys in one read",
                keys.len(),
                "keys_per_read_max",
                KEYS_PER_READ_MAX,
            ));
        }
        keys.iter().try_for_each(|key| check_key(key, properties))
    };
    match read {
        Read::Get(key) | Read::AssertExists(key) | Read::Assert { key, .. } => {
            check_key(key, properties)
        }
        Read::Exists(keys)
        | Read::MultiGet(keys)
        | Read::MultiGetAll(keys)
        | Read::KeyVersions(keys) => check_keys(keys),
        Read::Range(range) => {
            for bound in [&range.low, &range.high] {
                if let crate::Bound::Included(key) | crate::Bound::Excluded(key) = bound
                    && key.len() > KEY_BYTES_MAX
                {
                    return Err(too_large(
                        "bytes in a bound",
                        key.len(),
                        "key_bytes_max",
                        KEY_BYTES_MAX,
                    ));
                }
            }
            Ok(())
        }
        Read::KeyCount => Ok(()),
        Read::Index(query) => query.check(),
        Read::Feed(query) => query.check(),
    }
}

/// Checks that the values found so far fit into one answer. Errors: `too_large`.
pub fn values(bytes: usize) -> Result<()> {
    if bytes <= VALUES_BYTES_MAX {
        return Ok(());
    }
    Err(too_large("bytes of values in one read", bytes, "values_bytes_max", VALUES_BYTES_MAX))
}

/// Check of one update: counts the steps and bytes of all its sequences.
struct UpdateCheck<'a> {
    properties: &'a Properties,
    steps: usize,
    bytes: usize,
}

impl UpdateCheck<'_> {
    fn key(&mut self, key: &[u8]) -> Result<()> {
        self.bytes += key.len();
        check_key(key, self.properties)
    }

    fn value(&mut self, value: &[u8]) -> Result<()> {
        self.bytes += value.len();
        check_value(value, self.properties)
    }

    /// Counts and checks a key with its values.
    fn entry(&mut self, key: &[u8], values: [Option<&crate::Value>; 2]) -> Result<()> {
        self.key(key)?;
        values.into_iter().flatten().try_for_each(|value| self.value(value))
    }

    fn update(&mut self, update: &Update, depth: usize) -> Result<()> {
        match update {
            Update::Set { key, value, expiry } | Update::SetIf { key, value, expiry, .. } => {
                self.entry(key, [Some(value), None])?;
                check_expiry(*expiry)?;
            }
            Update::SetTagged(set) => {
                self.entry(&set.key, [Some(&set.value), None])?;
                check_expiry(set.expiry)?;
                set.tags.check()?;
                self.bytes += set.tags.bytes();
            }
            Update::Expire { key, expiry, .. } => {
                self.key(key)?;
                check_expiry(*expiry)?;
            }
            Update::Delete { key, .. }
            | Update::AssertExists { key }
            | Update::AssertVersion { key, .. }
            | Update::AssertAbsentSince { key, .. }
            | Update::Add { key, .. }
            | Update::AddFloat { key, .. } => self.key(key)?,
            Update::TestAndSet { key, expected, wanted } => {
                self.entry(key, [expected.as_ref(), wanted.as_ref()])?;
            }
            Update::Replace { key, wanted } => self.entry(key, [wanted.as_ref(), None])?,
            Update::Assert { key, expected } => self.entry(key, [expected.as_ref(), None])?,
            Update::Confirm { key, value }
            | Update::Append { key, value }
            | Update::SetRange { key, value, .. } => self.entry(key, [Some(value), None])?,
            Update::Rename { from, to, .. } | Update::Copy { from, to, .. } => {
                self.key(from)?;
                self.key(to)?;
            }
            Update::AssertRange { prefix, keys } => {
                self.key(prefix)?;
                keys.iter().try_for_each(|key| self.key(key))?;
            }
            Update::DeletePrefix { prefix } => self.key(prefix)?,
            Update::Read(step) => read(step, self.properties)?,
            Update::Nop => {}
            Update::Sequence { steps, .. } => self.sequence(steps, depth)?,
        }
        if self.bytes > UPDATE_BYTES_MAX {
            return Err(too_large(
                "bytes in one update",
                self.bytes,
                "update_bytes_max",
                UPDATE_BYTES_MAX,
            ));
        }
        Ok(())
    }

    fn sequence(&mut self, steps: &[Update], depth: usize) -> Result<()> {
        if depth >= SEQUENCE_DEPTH_MAX {
            return Err(too_large(
                "levels of sequences",
                depth + 1,
                "sequence_depth_max",
                SEQUENCE_DEPTH_MAX,
            ));
        }
        self.steps += steps.len();
        if self.steps > SEQUENCE_STEPS_MAX {
            return Err(too_large(
                "steps in a sequence",
                self.steps,
                "sequence_steps_max",
                SEQUENCE_STEPS_MAX,
            ));
        }
        steps.iter().try_for_each(|step| self.update(step, depth + 1))
    }
}

fn check_key(key: &[u8], properties: &Properties) -> Result<()> {
    if key.len() <= properties.key_bytes_max {
        return Ok(());
    }
    Err(too_large("bytes in a key", key.len(), "key_bytes_max", properties.key_bytes_max))
}

fn check_value(value: &[u8], properties: &Properties) -> Result<()> {
    if value.len() <= properties.value_bytes_max {
        return Ok(());
    }
    Err(too_large("bytes in a value", value.len(), "value_bytes_max", properties.value_bytes_max))
}

fn check_expiry(expiry: Expiry) -> Result<()> {
    match expiry {
        Expiry::After(ms) if ms > TTL_MS_MAX => Err(Error::new(
            Reason::TooLarge,
            format!("the time to live of {ms} ms exceeds {TTL_MS_MAX} (ttl_ms_max)"),
        )),
        _ => Ok(()),
    }
}
