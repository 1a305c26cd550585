//! Members and placement in JSON. A node's id is text of 16 hexadecimal digits: as a number it
//! would be larger than what many readers of JSON keep exact.

use super::blob::Whole;
use super::bodies::read_plain;
use super::write::{list_onto, number_onto, text_onto};
use crate::native::errors::malformed;
use base::{
    Body, ClusterCall, ClusterDescription, ClusterSecret, Error, GroupId, MemberDescription,
    Membership, NodeId, Part, Placement, RingDescription,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// An id as it is shown.
pub fn id_text(id: u64) -> String {
    format!("{id:016x}")
}

fn read_id(text: &str) -> Result<NodeId, Error> {
    let id = Some(text).filter(|text| text.len() == 16);
    let id = id.and_then(|text| u64::from_str_radix(text, 16).ok()).filter(|id| *id != 0);
    id.map(NodeId).ok_or_else(|| malformed("a node's id is 16 hexadecimal digits, not all 0"))
}

/// The ring that an answer tells.
pub fn ring(json: &Value) -> Option<RingDescription> {
    let owners = json["owners"].as_array()?.iter();
    let owners = owners.map(|owner| read_id(owner.as_str()?).ok());
    Some(RingDescription { epoch: json["epoch"].as_u64()?, owners: owners.collect::<Option<_>>()? })
}

/// What the directory knows as fields, without braces around.
pub fn described_onto(out: &mut Vec<u8>, known: &ClusterDescription) {
    out.extend_from_slice(b"\"cluster\":");
    text_onto(out, &id_text(known.cluster.0));
    out.extend_from_slice(b",\"founder\":");
    text_onto(out, &id_text(known.founder.0));
    out.extend_from_slice(b",\"lease_ms\":");
    number_onto(out, known.lease_ms);
    out.extend_from_slice(b",\"changes\":");
    number_onto(out, known.changes);
    out.extend_from_slice(b",\"members\":");
    list_onto(out, &known.members, member_onto);
    out.extend_from_slice(b",\"groups\":");
    list_onto(out, &known.groups, placement_onto);
}

/// The same for a node that joins, which is told the cluster's secret.
pub fn joined_onto(out: &mut Vec<u8>, known: &ClusterDescription, secret: &ClusterSecret) {
    described_onto(out, known);
    out.extend_from_slice(b",\"secret\":");
    text_onto(out, &secret.to_hex());
}

fn member_onto(out: &mut Vec<u8>, member: &MemberDescription) {
    let MemberDescription { node, name, peer, client, incarnation, membership } = member;
    out.extend_from_slice(b"{\"node\":");
    text_onto(out, &id_text(node.0));
    for (field, text) in [("name", name.as_str()), ("peer", peer), ("client", client)] {
        out.extend_from_slice(format!(",\"{field}\":").as_bytes());
        text_onto(out, text);
    }
    out.extend_from_slice(b",\"incarnation\":");
    number_onto(out, incarnation);
    out.extend_from_slice(b",\"membership\":");
    text_onto(out, membership.word());
    out.push(b'}');
}

fn placement_onto(out: &mut Vec<u8>, placement: &Placement) {
    out.extend_from_slice(b"{\"group\":");
    number_onto(out, placement.group);
    out.extend_from_slice(b",\"members\":");
    list_onto(out, &placement.members, |out, (node, part)| {
        out.extend_from_slice(b"{\"node\":");
        text_onto(out, &id_text(node.0));
        out.extend_from_slice(b",\"part\":");
        text_onto(out, part.word());
        out.push(b'}');
    });
    out.extend_from_slice(b",\"replicas\":");
    number_onto(out, placement.replicas);
    out.extend_from_slice(b",\"founders\":");
    list_onto(out, &placement.founders, |out, node| text_onto(out, &id_text(node.0)));
    out.extend_from_slice(b",\"quorum\":");
    match placement.quorum {
        Some(quorum) => number_onto(out, quorum),
        None => out.extend_from_slice(b"null"),
    }
    out.push(b'}');
}

/// A group as fields, without braces around.
pub fn group_onto(out: &mut Vec<u8>, placement: &Placement) {
    let mut object = Vec::new();
    placement_onto(&mut object, placement);
    out.extend_from_slice(&object[1..object.len() - 1]);
}

/// A node that joins.
pub fn add_member(json: &[u8]) -> Result<ClusterCall, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NewMember {
        node: String,
        name: String,
        peer: String,
        client: String,
        part: Option<String>,
        lease_ms: Whole,
    }
    let body = read_plain::<NewMember>(json)?;
    let NewMember { node, name, peer, client, part, lease_ms } = body;
    let part = part.map_or(Ok(Part::Voter), |word| Part::parse(&word))?;
    let node = read_id(&node)?;
    let (incarnation, membership) = (0, Membership::Member);
    let member = MemberDescription { node, name, peer, client, incarnation, membership };
    Ok(ClusterCall::AddMember { member, part, lease_ms: lease_ms.0 })
}

/// A member whose name or addresses are others now.
pub fn update_member(json: &[u8]) -> Result<ClusterCall, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ChangedMember {
        node: String,
        name: String,
        peer: String,
        client: String,
    }
    let ChangedMember { node, name, peer, client } = read_plain::<ChangedMember>(json)?;
    Ok(ClusterCall::UpdateMember { node: read_id(&node)?, name, peer, client })
}

/// Who takes a member's place; an empty body: the next fresh node of its name.
pub fn replace_member(json: &[u8], name: String) -> Result<ClusterCall, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Replacement {
        by: Option<String>,
    }
    let empty = Replacement { by: None };
    let body = if json.is_empty() { empty } else { read_plain::<Replacement>(json)? };
    Ok(ClusterCall::ReplaceMember { name, by: body.by })
}

/// A member's part in a group, or in all.
pub fn set_part(json: &[u8], name: String) -> Result<ClusterCall, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct SetPart {
        part: String,
        group: Option<Whole>,
    }
    let SetPart { part, group } = read_plain::<SetPart>(json)?;
    let group = group.map(|group| u32::try_from(group.0)).transpose();
    let group = group.map_err(|_| malformed("a group's number is below 2^32"))?;
    let part = if part == "none" { None } else { Some(Part::parse(&part)?) };
    Ok(ClusterCall::SetPart { name, part, group: group.map(GroupId) })
}

/// Who is wanted in a group.
pub fn place_group(json: &[u8], group: GroupId) -> Result<ClusterCall, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        members: Vec<Placed>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Placed {
        name: String,
        part: String,
    }
    let wanted = read_plain::<Wanted>(json)?.members.into_iter();
    let members = wanted.map(|placed| Ok((placed.name, Part::parse(&placed.part)?)));
    Ok(ClusterCall::PlaceGroup { group, members: members.collect::<Result<_, Error>>()? })
}

/// How many voters of a group save a value; null: a majority.
pub fn set_quorum(json: &[u8], group: GroupId) -> Result<ClusterCall, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        // Null is said, not left out.
        #[serde(deserialize_with = "Option::deserialize")]
        quorum: Option<Whole>,
    }
    let quorum = match read_plain::<Wanted>(json)?.quorum {
        None => None,
        Some(Whole(quorum @ 1..=255)) => Some(quorum as u8),
        Some(_) => return Err(malformed("`quorum` is a number of voters, or null")),
    };
    Ok(ClusterCall::SetQuorum { group, quorum })
}

/// A group that is to be made; an empty body: with as many members as is usual.
pub fn create_group(json: &[u8]) -> Result<ClusterCall, Error> {
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NewGroup {
        replicas: Option<Whole>,
        members: Option<Vec<String>>,
    }
    let body = if json.is_empty() { NewGroup::default() } else { read_plain(json)? };
    let replicas = body.replicas.map(|replicas| u32::try_from(replicas.0)).transpose();
    let replicas = replicas.map_err(|_| malformed("`replicas` is below 2^32"))?;
    Ok(ClusterCall::CreateGroup { replicas, members: body.members.unwrap_or_default() })
}

/// Who is to be master.
pub fn transfer(json: &[u8]) -> Result<String, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Transfer {
        to: String,
    }
    read_plain::<Transfer>(json).map(|body| body.to)
}

/// From JSON back to what a node that joins is told; a cluster of a version before has no secret.
pub fn joined(json: &Value) -> Option<Body> {
    let known = Box::new(described(json)?);
    Some(match &json["secret"] {
        Value::Null => Body::Cluster(known),
        secret => Body::Joined(known, ClusterSecret::from_hex(secret.as_str()?).ok()?),
    })
}

/// From JSON back to what the directory knows.
pub fn described(json: &Value) -> Option<ClusterDescription> {
    let id = |json: &Value| u64::from_str_radix(json.as_str()?, 16).ok();
    let text = |json: &Value| json.as_str().map(String::from);
    let all = [Membership::Member, Membership::Leaving, Membership::Replaceable];
    let member = |json: &Value| {
        Some(MemberDescription {
            node: NodeId(id(&json["node"])?),
            name: text(&json["name"])?,
            peer: text(&json["peer"])?,
            client: text(&json["client"])?,
            incarnation: json["incarnation"].as_u64()?,
            membership: all.into_iter().find(|one| json["membership"] == one.word())?,
        })
    };
    Some(ClusterDescription {
        cluster: base::ClusterId(id(&json["cluster"])?),
        founder: NodeId(id(&json["founder"])?),
        lease_ms: json["lease_ms"].as_u64()?,
        changes: json["changes"].as_u64()?,
        members: json["members"].as_array()?.iter().map(member).collect::<Option<_>>()?,
        groups: json["groups"].as_array()?.iter().map(placement).collect::<Option<_>>()?,
    })
}

/// From JSON back to who is wanted in a group. A node of an older version says nothing of what it
/// began with.
pub fn placement(json: &Value) -> Option<Placement> {
    let id = |json: &Value| u64::from_str_radix(json.as_str()?, 16).ok().map(NodeId);
    let placed =
        |json: &Value| Some((id(&json["node"])?, Part::parse(json["part"].as_str()?).ok()?));
    let founders = json["founders"].as_array().into_iter().flatten();
    Some(Placement {
        group: GroupId(u32::try_from(json["group"].as_u64()?).ok()?),
        members: json["members"].as_array()?.iter().map(placed).collect::<Option<_>>()?,
        replicas: u32::try_from(json["replicas"].as_u64().unwrap_or_default()).ok()?,
        founders: founders.map(id).collect::<Option<_>>()?,
        quorum: json["quorum"].as_u64().and_then(|quorum| u8::try_from(quorum).ok()),
    })
}

/// The cluster as a node sees it.
pub fn seen(status: &node::ClusterStatus) -> Value {
    json!({
        "cluster": id_text(status.cluster.0),
        "founder": id_text(status.founder.0),
        "lease_ms": status.lease_ms,
        "changes": status.changes,
        "name": status.name,
        "members": status.members.iter().map(member).collect::<Vec<_>>(),
        "groups": status.groups.iter().map(place).collect::<Vec<_>>(),
    })
}

/// A member with this node's connection.
pub fn member(status: &node::MemberStatus) -> Value {
    let MemberDescription { node, name, peer, client, incarnation, membership } = &status.member;
    json!({
        "node": id_text(node.0),
        "name": name,
        "peer": peer,
        "client": client,
        "incarnation": incarnation,
        "membership": membership.word(),
        "connected": status.connected,
        "last_heard_ms_ago": status.last_heard_ms_ago,
        "unreachable_ms": status.unreachable_ms,
        "rtt_us": status.rtt_us,
        "connection_error": status.connection_error,
        "health": status.health,
        "hints": status.hints,
    })
}

/// Members of a group.
pub fn parts(members: &[node::PartStatus]) -> Vec<Value> {
    let one = |member: &node::PartStatus| {
        json!({
            "node": id_text(member.node.0),
            "name": member.name,
            "part": member.part.word(),
            "match_index": member.match_index.map(|index| index.0),
        })
    };
    members.iter().map(one).collect()
}

fn place(place: &node::PlaceStatus) -> Value {
    json!({
        "group": place.group.0,
        "local": place.local,
        "master": place.master,
        "desired": parts(&place.desired),
        "members": parts(&place.members),
        "quorum": (place.quorums.0 > 0).then_some(place.quorums.0),
        "quorum_elects": (place.quorums.1 > 0).then_some(place.quorums.1),
        "plan": place.plan,
        "waits_for": place.waits_for,
        "expect_progress_possible": place.expect_progress_possible,
        "comparison": place.comparison.as_ref().map(comparison),
    })
}

/// Whether a group's replicas hold the same.
pub fn comparison(found: &node::ComparisonStatus) -> Value {
    let compared = |(name, rows): &(String, u64)| json!({ "name": name, "rows": rows });
    let difference = |difference: &node::DifferenceStatus| {
        json!({
            "bucket": difference.bucket,
            "from": difference.from,
            "upto": difference.upto,
            "agreeing": difference.agreeing,
            "text": difference.text,
        })
    };
    json!({
        "running": found.running,
        "passes": found.passes,
        "error": found.error,
        "ended_ms_ago": found.ended_ms_ago,
        "rows": found.rows,
        "bytes": found.bytes,
        "replicas": found.replicas.iter().map(compared).collect::<Vec<_>>(),
        "differences": found.differences.iter().map(difference).collect::<Vec<_>>(),
    })
}
