//! Error responses.

use crate::blob::Blob;
use base::{Error, Kind, Reason};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Body of an error response.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorReply {
    /// Description of the error.
    pub error: ErrorDetail,
}

/// Description of an error.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorDetail {
    /// Reason, one of a fixed list of codes.
    #[schemars(schema_with = "reasons")]
    pub reason: String,
    /// Class of the error; it tells the client what to do.
    #[serde(default)]
    #[schemars(schema_with = "kinds")]
    pub kind: String,
    /// Message in words; for some reasons the key that the error concerns.
    pub detail: Blob,
    /// Number of records that are in the index; only with `index_building`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Estimated number of records; only with `index_building`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl ErrorDetail {
    /// Returns the error. `None`: this version has no such reason.
    pub fn error(&self) -> Option<Error> {
        let reason = Reason::ALL.into_iter().find(|reason| reason.name() == self.reason)?;
        Some(Error { reason, detail: self.detail.0.clone() })
    }
}

fn reasons(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    json_schema!({ "enum": names })
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
    json_schema!({ "enum": kinds.map(Kind::name) })
}
