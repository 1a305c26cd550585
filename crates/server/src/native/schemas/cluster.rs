//! Schemas of members and placement.

use super::{MEMBER_PATTERN, maybe, object, reference};
use base::limits::{
    GROUP_MEMBERS_MAX, GROUP_VOTERS_MAX, JOIN_TOKEN_MS_DEFAULT, JOIN_TOKEN_MS_MAX,
    PEER_ADDRESS_BYTES_MAX,
};
use serde_json::{Map, Value, json};

/// Node 0 is no node.
const ID_PATTERN: &str = "^(?!0{16}$)[0-9a-f]{16}$";

/// A host, and a port from 1 to 65535.
const ADDRESS_PATTERN: &str = "^[!-~]+:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|\
                               65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$";

/// All of them.
pub fn all(schemas: &mut Map<String, Value>) {
    asked(schemas);
    known(schemas);
    seen(schemas);
}

fn list(of: Value) -> Value {
    json!({ "type": "array", "items": of })
}

/// A node's or a cluster's id.
pub fn id() -> Value {
    json!({ "type": "string", "pattern": ID_PATTERN })
}

fn count() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn group() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
}

fn any_part() -> Value {
    json!({ "enum": ["voter", "witness", "learner"] })
}

/// What operators and joining nodes say.
fn asked(schemas: &mut Map<String, Value>) {
    let name = json!({ "type": "string", "pattern": MEMBER_PATTERN });
    let address = json!({
        "type": "string", "pattern": ADDRESS_PATTERN, "maxLength": PEER_ADDRESS_BYTES_MAX,
    });
    let mut insert = |name: &str, schema: Value| schemas.insert(name.into(), schema);
    insert("Part", json!({ "enum": ["voter", "learner", "witness"] }));
    let lease = json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX });
    let mut joining = object(json!({
        "node": id(), "name": name, "peer": address, "client": address, "lease_ms": lease,
    }));
    joining["properties"]["part"] = reference("Part");
    insert("NewMember", joining);
    let changed = json!({ "node": id(), "name": name, "peer": address, "client": address });
    insert("ChangedMember", object(changed));
    let by = json!({ "type": ["string", "null"], "pattern": MEMBER_PATTERN });
    insert(
        "Replacement",
        json!({ "type": "object", "properties": { "by": by }, "additionalProperties": false }),
    );
    let mut any_group = group();
    any_group["type"] = json!(["integer", "null"]);
    insert(
        "SetPart",
        json!({
            "type": "object", "required": ["part"], "additionalProperties": false,
            "properties": {
                "part": { "enum": ["voter", "learner", "witness", "none"] }, "group": any_group,
            },
        }),
    );
    let mut wanted = list(object(json!({ "name": name, "part": reference("Part") })));
    wanted["maxItems"] = GROUP_MEMBERS_MAX.into();
    insert("DesiredMembers", object(json!({ "members": wanted })));
    insert("DesiredQuorum", object(json!({ "quorum": quorum() })));
    let mut names = list(name.clone());
    let most = GROUP_VOTERS_MAX;
    names["maxItems"] = most.into();
    names["uniqueItems"] = true.into();
    names["type"] = json!(["array", "null"]);
    let replicas = json!({ "type": ["integer", "null"], "minimum": 1, "maximum": most });
    insert(
        "NewGroup",
        json!({
            "type": "object", "additionalProperties": false,
            "properties": { "replicas": replicas, "members": names },
            "not": {
                "required": ["replicas", "members"],
                "properties": {
                    "replicas": { "type": "integer" },
                    "members": { "type": "array", "minItems": 1 },
                },
            },
        }),
    );
    insert("NewToken", new_token());
    insert("Transfer", object(json!({ "to": name })));
}

fn new_token() -> Value {
    let lifetime = json!({
        "type": ["integer", "null"], "minimum": 1, "maximum": JOIN_TOKEN_MS_MAX,
        "default": JOIN_TOKEN_MS_DEFAULT,
    });
    let standing = json!({ "type": ["boolean", "null"], "default": false });
    json!({
        "type": "object", "additionalProperties": false,
        "properties": { "lifetime_ms": lifetime, "standing": standing },
        "not": {
            "required": ["lifetime_ms", "standing"],
            "properties": {
                "lifetime_ms": { "type": "integer" }, "standing": { "const": true },
            },
        },
    })
}

fn member() -> Value {
    let told = json!({ "type": "string" });
    json!({
        "node": id(), "name": told, "peer": told, "client": told, "incarnation": count(),
        "membership": { "enum": ["member", "leaving", "replaceable"] },
    })
}

/// How many voters save a value; null: a majority.
fn quorum() -> Value {
    json!({ "type": ["integer", "null"], "minimum": 1, "maximum": 255 })
}

/// What the directory knows.
fn known(schemas: &mut Map<String, Value>) {
    let placed = object(json!({ "node": id(), "part": any_part() }));
    let placement = object(json!({
        "group": group(), "members": list(placed), "replicas": count(), "founders": list(id()),
        "quorum": quorum(),
    }));
    schemas.insert("Group".into(), placement.clone());
    let lifetime = json!({ "type": ["integer", "null"], "minimum": 1 });
    let token = json!({ "token": { "type": "string" }, "lifetime_ms": lifetime, "cluster": id() });
    schemas.insert("JoinToken".into(), object(token));
    schemas.insert("Ring".into(), object(json!({ "epoch": count(), "owners": list(id()) })));
    let members = object(json!({
        "cluster": id(), "founder": id(), "lease_ms": count(), "changes": count(),
        "members": list(object(member())), "groups": list(placement),
    }));
    // Of a cluster that was founded by an older version and given none, it is left out.
    let mut joined = members.clone();
    joined["properties"]["secret"] = json!({
        "type": "string", "pattern": "^[0-9a-f]{64}$",
        "description": "What the members sign their greetings to each other with.",
    });
    schemas.insert("Members".into(), members);
    schemas.insert("Joined".into(), joined);
}

/// Whether a group's replicas hold the same.
fn comparison(schemas: &mut Map<String, Value>) {
    let maybe_count = json!({ "type": ["integer", "null"], "minimum": 0 });
    let (text, maybe_text) = (json!({ "type": "string" }), json!({ "type": ["string", "null"] }));
    let difference = object(json!({
        "bucket": maybe_text, "from": text, "upto": text, "agreeing": list(list(text.clone())),
        "text": text,
    }));
    let comparison = object(json!({
        "running": { "type": "boolean" }, "passes": count(), "error": maybe_text,
        "ended_ms_ago": maybe_count, "rows": count(), "bytes": count(),
        "replicas": list(object(json!({ "name": text, "rows": count() }))),
        "differences": list(difference),
    }));
    schemas.insert("Comparison".into(), comparison);
    schemas.insert("Pass".into(), object(json!({ "pass": count() })));
}

/// What a node sees.
fn seen(schemas: &mut Map<String, Value>) {
    let maybe_count = json!({ "type": ["integer", "null"], "minimum": 0 });
    let (text, maybe_text) = (json!({ "type": "string" }), json!({ "type": ["string", "null"] }));
    let flag = json!({ "type": "boolean" });
    let of_group =
        json!({ "node": id(), "name": text, "part": any_part(), "match_index": maybe_count });
    schemas.insert("GroupMember".into(), object(of_group));
    let mut connected = member();
    connected["connected"] = flag.clone();
    connected["last_heard_ms_ago"] = maybe_count.clone();
    connected["unreachable_ms"] = maybe_count.clone();
    connected["rtt_us"] = count();
    connected["connection_error"] = maybe_text.clone();
    connected["health"] = json!({ "type": "string", "enum": ["up", "suspect", "down"] });
    connected["hints"] = count();
    schemas.insert("MemberStatus".into(), object(connected));
    let members = list(reference("GroupMember"));
    let place = object(json!({
        "group": group(), "local": flag, "master": maybe_text, "desired": members,
        "members": members, "plan": list(text.clone()), "waits_for": list(text.clone()),
        "expect_progress_possible": flag, "comparison": maybe(reference("Comparison")),
        "quorum": maybe_count, "quorum_elects": maybe_count,
    }));
    comparison(schemas);
    let cluster = object(json!({
        "cluster": id(), "founder": id(), "lease_ms": count(), "changes": count(), "name": text,
        "members": list(reference("MemberStatus")), "groups": list(place),
        "warnings": list(text),
    }));
    schemas.insert("Cluster".into(), cluster);
}
