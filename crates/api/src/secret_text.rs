//! Secret in JSON: a password, a token or a key, as a text that is wiped when it is dropped.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// Text of a secret. It is a string in JSON; `Debug` hides it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretText(Zeroizing<String>);

impl ZeroizeOnDrop for SecretText {}

impl SecretText {
    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl From<Zeroizing<String>> for SecretText {
    fn from(text: Zeroizing<String>) -> SecretText {
        SecretText(text)
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> SecretText {
        SecretText(Zeroizing::new(text))
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> SecretText {
        SecretText(Zeroizing::new(text.into()))
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SecretText, D::Error> {
        String::deserialize(deserializer).map(SecretText::from)
    }
}

impl JsonSchema for SecretText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ApiTokenReply, JoinTokenReply, NewPassword};

    fn must_be_wiped<T: ZeroizeOnDrop>() {}

    #[test]
    fn secrets_in_json_are_wiped_hidden_by_debug_and_equal_to_strings() {
        must_be_wiped::<SecretText>();
        let token = ApiTokenReply { token: "s3cret".into() };
        let json = serde_json::to_string(&token).expect("JSON");
        assert_eq!(json, r#"{"token":"s3cret"}"#);
        let read: NewPassword = serde_json::from_str(r#"{"password":"s3cret"}"#).expect("one");
        assert_eq!(read.password.as_ref().map(SecretText::text), Some("s3cret"));
        let none: NewPassword = serde_json::from_str(r#"{"password":null}"#).expect("none");
        assert_eq!(none.password, None);
        let shown =
            format!("{:?}", JoinTokenReply { token: "s3cret".into(), ..Default::default() });
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(serde_json::from_str::<ApiTokenReply>(r#"{"token":7}"#).is_err());
    }
}
