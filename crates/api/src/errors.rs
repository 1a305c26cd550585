//! Errors as they are answered.

use crate::blob::Blob;
use base::{Error, Kind, Reason};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Body of an answer that is an error.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorReply {
    /// The error.
    pub error: ErrorDetail,
}

/// An error.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorDetail {
    /// Reason, from a closed list.
    #[schemars(schema_with = "reasons")]
    pub reason: String,
    /// Action that the error asks of the caller.
    #[serde(default)]
    #[schemars(schema_with = "kinds")]
    pub kind: String,
    /// The rest, in words; for some reasons the key that it is about.
    pub detail: Blob,
}

impl ErrorDetail {
    /// Returns the error; none if its reason is unknown here.
    pub fn error(&self) -> Option<Error> {
        let reason = Reason::ALL.into_iter().find(|reason| reason.word() == self.reason)?;
        Some(Error { reason, detail: self.detail.0.clone() })
    }
}

fn reasons(_: &mut SchemaGenerator) -> Schema {
    let words: Vec<_> = Reason::ALL.iter().map(|reason| reason.word()).collect();
    json_schema!({ "enum": words })
}

fn kinds(_: &mut SchemaGenerator) -> Schema {
    let kinds = [
        Kind::Invalid,
        Kind::Denied,
        Kind::Conflict,
        Kind::Unavailable,
        Kind::Unknown,
        Kind::Corrupt,
    ];
    json_schema!({ "enum": kinds.map(Kind::word) })
}
