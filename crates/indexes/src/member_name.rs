//! Names of members: visitors that read a name of an object, and skip what is none.

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use std::fmt;

/// Reader of a member's name, whose value says what becomes of it.
pub(crate) trait MemberNameReader: Sized {
    /// Result of a name.
    type Output: Default;

    /// Takes a name. Whatever else is read in its place gives the default.
    fn name(self, name: &str) -> Self::Output;
}

/// Comparison with a wanted name, without a copy.
pub(crate) struct NameMatch<'a>(pub(crate) &'a str);

impl MemberNameReader for NameMatch<'_> {
    type Output = bool;

    fn name(self, name: &str) -> bool {
        name == self.0
    }
}

/// Copy of a name.
pub(crate) struct NameText;

impl MemberNameReader for NameText {
    type Output = Option<String>;

    fn name(self, name: &str) -> Option<String> {
        Some(name.into())
    }
}

/// Seed of serde for a [`MemberNameReader`].
pub(crate) struct NameSeed<N>(pub(crate) N);

impl<'de, N: MemberNameReader> DeserializeSeed<'de> for NameSeed<N> {
    type Value = N::Output;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<N::Output, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, N: MemberNameReader> Visitor<'de> for NameSeed<N> {
    type Value = N::Output;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<N::Output, E> {
        Ok(self.0.name(name))
    }

    fn visit_bytes<E: Error>(self, _: &[u8]) -> Result<N::Output, E> {
        Ok(N::Output::default())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<N::Output, E> {
        Ok(N::Output::default())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<N::Output, E> {
        Ok(N::Output::default())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<N::Output, E> {
        Ok(N::Output::default())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<N::Output, E> {
        Ok(N::Output::default())
    }

    fn visit_unit<E: Error>(self) -> Result<N::Output, E> {
        Ok(N::Output::default())
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<N::Output, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| N::Output::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<N::Output, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(N::Output::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<N::Output, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(N::Output::default())
    }
}
