//! Schemas of the OpenAPI document, made from the structs.
//!
//! Promises: a field of an answer is required unless it may be absent, and an answer has no field
//! that the schema lacks. Schemas of requests list the required fields.
//! Never: describes steps and their outcomes; the front-end does.

use crate::*;
use base::limits::PEER_ADDRESS_BYTES_MAX;
use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Id of a node or a cluster; 0 is no id.
pub const ID_PATTERN: &str = "^(?!0{16}$)[0-9a-f]{16}$";
/// A bucket's full name.
pub const BUCKET_PATTERN: &str =
    "^[a-z0-9][a-z0-9_-]{0,62}/[A-Za-z0-9_~%-][A-Za-z0-9._~%-]{0,254}$";
/// Standard base64 with padding, in its one form.
pub const BASE64_PATTERN: &str =
    "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";
/// Name of a member.
pub const MEMBER_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$";
/// A checkpoint's name.
pub const CHECKPOINT_PATTERN: &str = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$";
/// A context in answers: URL-safe base64 without padding.
pub const CONTEXT_PATTERN: &str =
    "^([A-Za-z0-9_-]{4})*([A-Za-z0-9_-][AQgw]|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048])?$";
/// The tag of a value.
pub(crate) const VTAG_PATTERN: &str = "^[0-9A-Za-z]{22}$";
/// A host, and a port from 1 to 65535.
const ADDRESS_PATTERN: &str = "^[!-~]+:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|\
                               65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$";

/// Returns all schemas by name, including those that others refer to.
pub fn all() -> Map<String, Value> {
    let mut answers = generator(SchemaSettings::draft2020_12().for_serialize(), finish_answer);
    let mut requests = generator(SchemaSettings::draft2020_12().for_deserialize(), finish);
    /// Adds schemas of these types.
    macro_rules! add {
        ($generator:ident: $($kind:ty),* $(,)?) => {
            $($generator.subschema_for::<$kind>();)*
        };
    }
    add!(answers: ErrorReply, ClusterStatus, NodeStatus, Members, JoinReply, GroupPlacement);
    add!(answers: ComparisonPass, JoinTokenReply, Ring, RingPlan, RingTransfers, Buckets);
    add!(answers: BucketReply, Types, Checkpoint, Checkpoints, EmptyPrefixProgress, RowsReply);
    add!(answers: AccessState, AccessDecision, Administrator, ApiTokenReply);
    add!(answers: PageReply, KeyCount, KeyPage, BucketMove, SiblingsReply, StoredReply);
    add!(answers: ReloadReply);
    add!(answers: IndexReply, Indexes, IndexPageReply);
    add!(answers: FeedPageReply, FeedTokenReply);
    add!(answers: SlowRequests, HotKeys);
    add!(requests: AccessSwitch, AccessQuestion, NewUser, UserChange, NewPassword);
    add!(requests: NewApiToken, RoleGrants, UserQuota);
    add!(requests: NewMember, MemberUpdate, Replacement, PartChange, DesiredMembers);
    add!(requests: LevelChange);
    add!(requests: NewIndex);
    add!(requests: DesiredQuorum, NewGroup, NewToken, MasterTransfer, RingChange, RingEpoch);
    add!(requests: BucketProperties, NewBucket, MoveRequest, CheckpointTarget, EmptyPrefix);
    let mut all = answers.take_definitions(true);
    // A type used in both directions gets the schema of requests, which requires fewer fields.
    all.extend(requests.take_definitions(true));
    all
}

fn generator(settings: SchemaSettings, finish: fn(&mut Schema)) -> SchemaGenerator {
    let settings = settings.with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    settings.with_transform(finish).into_generator()
}

/// Adds bounds that derived schemas lack, and writes unions as `oneOf` for client generators.
fn finish(schema: &mut Schema) {
    let format = schema.remove("format");
    if format.is_some_and(|format| format == "uint32") {
        schema.insert("maximum".into(), u32::MAX.into());
    }
    if schema.get("properties").is_some() {
        schema.insert("additionalProperties".into(), false.into());
    }
    if let Some(choices) = schema.remove("anyOf") {
        schema.insert("oneOf".into(), choices);
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    // A schema under `not` is no description of an object: it stays as it is.
    let negated = schema.remove("not");
    transform_subschemas(&mut (finish as fn(&mut Schema)), schema);
    if let Some(negated) = negated {
        schema.insert("not".into(), negated);
    }
}

/// Finishes the schema of an answer. An answer has every field, so defaults are removed.
fn finish_answer(schema: &mut Schema) {
    fn without_defaults(schema: &mut Schema) {
        schema.remove("default");
        transform_subschemas(&mut (without_defaults as fn(&mut Schema)), schema);
    }
    without_defaults(schema);
    finish(schema);
}

/// Returns the schema of a string with these values.
pub(crate) fn one_of(values: &[&str]) -> Schema {
    json_schema!({ "type": "string", "enum": values })
}

/// Defines types that stand for a string or number with a fixed schema.
macro_rules! text_schemas {
    ($($(#[$doc:meta])* $name:ident = $schema:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )*};
}

text_schemas! {
    /// A member's name.
    MemberName = json_schema!({ "type": "string", "pattern": MEMBER_PATTERN });
    /// Host and port.
    NodeAddress = json_schema!({
        "type": "string", "pattern": ADDRESS_PATTERN, "maxLength": PEER_ADDRESS_BYTES_MAX,
    });
    /// Name of a rack; empty: a rack of its own.
    RackName = json_schema!({ "anyOf": [
        { "type": "string", "pattern": MEMBER_PATTERN }, { "type": "string", "maxLength": 0 },
    ] });
    /// Token with the position at which the next call resumes.
    ContinueToken = json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9_-]*$" });
    /// Membership in the cluster.
    MembershipName = one_of(&["member", "leaving", "replaceable"]);
    /// Number of voters.
    VoterCount = json_schema!({ "type": "integer", "minimum": 1, "maximum": 255 });
    /// Number of a group that can have buckets; group 0 (the directory) can't.
    BucketGroup = json_schema!({ "type": "integer", "minimum": 1, "maximum": u32::MAX });
}

/// Part of a member in a group.
pub(crate) struct PartName;

impl JsonSchema for PartName {
    fn schema_name() -> Cow<'static, str> {
        "Part".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        one_of(&base::Part::ALL.map(base::Part::name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_fields_have_descriptions() {
        for (name, schema) in &all() {
            let described = |part: &Value| part["description"].is_string();
            for (field, of) in schema["properties"].as_object().into_iter().flatten() {
                assert!(described(of), "{name}.{field} is not described: {of}");
            }
        }
    }

    #[test]
    fn schemas_are_closed_and_list_required_fields() {
        let all = all();
        let required = |name: &str| all[name]["required"].as_array().cloned().unwrap_or_default();
        let cluster = all["Cluster"]["properties"].as_object().expect("fields");
        assert_eq!(required("Cluster").len(), cluster.len());
        assert_eq!(required("NewGroup"), Vec::<Value>::new());
        assert_eq!(required("SetPart"), ["part"]);
        assert_eq!(required("DesiredQuorum"), ["quorum"], "null is said, not left out");
        let quorum = &all["DesiredQuorum"]["properties"]["quorum"]["type"];
        assert_eq!(*quorum, serde_json::json!(["integer", "null"]));
        assert!(!required("BucketReply").contains(&"moves_to".into()));
        for (name, schema) in &all {
            let is_closed = schema["additionalProperties"] == false;
            assert!(is_closed || schema["properties"].is_null(), "{name}: {schema}");
        }
    }

    #[test]
    fn integer_schema_maximum_matches_rust_type() {
        let group = &all()["Move"]["properties"]["group"];
        assert_eq!((&group["minimum"], &group["maximum"]), (&1.into(), &u32::MAX.into()));
    }
}
