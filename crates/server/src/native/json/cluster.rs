//! Parsing of requests about members and placement.

use super::bodies::read_plain;
use crate::native::errors::malformed;
use api::Integer;
use base::{
    ClusterCall, Error, FeatureLevel, GroupId, MemberDescription, Membership, NodeId, Part,
};

fn parse_id(text: &str) -> Result<NodeId, Error> {
    let id = Some(text).filter(|text| text.len() == 16);
    let id = id.and_then(|text| u64::from_str_radix(text, 16).ok()).filter(|id| *id != 0);
    id.map(NodeId).ok_or_else(|| malformed("a node id must be 16 hexadecimal digits, not all 0"))
}

/// Parses a joining node.
pub fn add_member(json: &[u8]) -> Result<ClusterCall, Error> {
    let body = read_plain::<api::NewMember>(json)?;
    let api::NewMember { node, name, peer, client, part, lease_ms, level } = body;
    let level = level.map_or(Ok(FeatureLevel::FIRST), feature_level)?;
    let part = part.map_or(Ok(Part::Voter), |name| Part::parse(&name))?;
    let node = parse_id(&node)?;
    let (incarnation, membership) = (0, Membership::Member);
    let member = MemberDescription { node, name, peer, client, incarnation, membership };
    Ok(ClusterCall::AddMember { member, part, lease_ms: lease_ms.0, level })
}

fn feature_level(Integer(level): Integer) -> Result<FeatureLevel, Error> {
    let level = u16::try_from(level).ok().filter(|level| *level >= FeatureLevel::FIRST.0);
    let level = level.map(FeatureLevel);
    level.ok_or_else(|| malformed("`level` must be a feature level: 1 to 65535"))
}

/// Parses the feature level to bring into force.
pub fn raise_level(json: &[u8]) -> Result<ClusterCall, Error> {
    let api::LevelChange { level } = read_plain(json)?;
    Ok(ClusterCall::RaiseLevel { level: feature_level(level)? })
}

/// Parses a member's new name and addresses.
pub fn update_member(json: &[u8]) -> Result<ClusterCall, Error> {
    let api::MemberUpdate { node, name, peer, client } = read_plain(json)?;
    Ok(ClusterCall::UpdateMember { node: parse_id(&node)?, name, peer, client })
}

/// Parses a member's replacement. An empty body means the next new node with the member's name.
pub fn replace_member(json: &[u8], name: String) -> Result<ClusterCall, Error> {
    let body = if json.is_empty() { api::Replacement::default() } else { read_plain(json)? };
    Ok(ClusterCall::ReplaceMember { name, by: body.by })
}

/// Parses a member's part in a group, or in all groups.
pub fn set_part(json: &[u8], name: String) -> Result<ClusterCall, Error> {
    let api::PartChange { part, group } = read_plain(json)?;
    let group = group.map(|group| u32::try_from(group.0)).transpose();
    let group = group.map_err(|_| malformed("a group number must be below 2^32"))?;
    let part = if part == "none" { None } else { Some(Part::parse(&part)?) };
    Ok(ClusterCall::SetPart { name, part, group: group.map(GroupId) })
}

/// Parses the desired members of a group.
pub fn place_group(json: &[u8], group: GroupId) -> Result<ClusterCall, Error> {
    let desired = read_plain::<api::DesiredMembers>(json)?.members.into_iter();
    let members = desired.map(|member| Ok((member.name, Part::parse(&member.part)?)));
    Ok(ClusterCall::PlaceGroup { group, members: members.collect::<Result<_, Error>>()? })
}

/// Parses the number of voters of a group that must save a log entry; null means a majority.
pub fn set_quorum(json: &[u8], group: GroupId) -> Result<ClusterCall, Error> {
    let quorum = match read_plain::<api::DesiredQuorum>(json)?.quorum {
        None => None,
        Some(Integer(quorum @ 1..=255)) => Some(quorum as u8),
        Some(_) => return Err(malformed("`quorum` must be a number of voters, or null")),
    };
    Ok(ClusterCall::SetQuorum { group, quorum })
}

/// Parses a new group. An empty body means the default number of members.
pub fn create_group(json: &[u8]) -> Result<ClusterCall, Error> {
    let body = if json.is_empty() { api::NewGroup::default() } else { read_plain(json)? };
    let replicas = body.replicas.map(|replicas| u32::try_from(replicas.0)).transpose();
    let replicas = replicas.map_err(|_| malformed("`replicas` must be below 2^32"))?;
    Ok(ClusterCall::CreateGroup { replicas, members: body.members.unwrap_or_default() })
}

/// Parses the name of the next master.
pub fn transfer(json: &[u8]) -> Result<String, Error> {
    read_plain::<api::MasterTransfer>(json).map(|body| body.to)
}
