//! Enums of `base` in JSON: values are encoded as their names.

use base::{Membership, Part};
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;
use std::borrow::Cow;

/// Enum whose values have names.
pub trait NamedVariant: Copy + 'static {
    /// All values.
    const ALL: &'static [Self];
    /// Returns the name of a value.
    fn name(self) -> &'static str;
}

impl NamedVariant for Part {
    const ALL: &'static [Part] = &Part::ALL;
    fn name(self) -> &'static str {
        Part::name(self)
    }
}

impl NamedVariant for Membership {
    const ALL: &'static [Membership] =
        &[Membership::Member, Membership::Leaving, Membership::Replaceable];
    fn name(self) -> &'static str {
        Membership::name(self)
    }
}

/// Encodes a value as its name.
pub fn serialize<T: NamedVariant, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.name())
}

/// Decodes a value from its name.
pub fn deserialize<'de, T: NamedVariant, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let name = Cow::<str>::deserialize(deserializer)?;
    let variant = T::ALL.iter().copied().find(|value| value.name() == name);
    variant.ok_or_else(|| {
        let names: Vec<_> = T::ALL.iter().map(|value| value.name()).collect();
        D::Error::custom(format!("expected one of {}", names.join(", ")))
    })
}
