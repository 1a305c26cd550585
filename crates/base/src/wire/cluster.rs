//! Codec of calls about members and placement, and of the cluster's description.

use super::WireResult;
use super::fields::{FieldReader, FieldWriter};
use crate::cluster::{
    ClusterCall, ClusterDescription, MemberDescription, Membership, Part, Placement,
};
use crate::codec::Malformed;
use crate::limits::{
    GROUP_MEMBERS_MAX, GROUPS_MAX, JOIN_TOKEN_USES_MAX, NAME_BYTES_MAX, PEER_ADDRESS_BYTES_MAX,
    PEERS_MAX,
};
use crate::{ClusterId, ClusterSecret, FeatureLevel, GroupId, JoinTokenTerms, NodeId, TokenDigest};

/// Number of the call that wraps another.
const WITH_TOKEN: u8 = 9;

pub(super) fn put_call<W: FieldWriter>(call: &ClusterCall, out: &mut W) {
    match call {
        ClusterCall::Describe => out.put_u8(0),
        // The form of the first level has none: its masters read no other.
        ClusterCall::AddMember { member, part, lease_ms, level } => {
            let is_first = *level == FeatureLevel::FIRST;
            put_member(member, out.u8(if is_first { 1 } else { 14 }));
            out.u8(part_number(*part)).u64(*lease_ms);
            if !is_first {
                put_level(*level, out);
            }
        }
        ClusterCall::UpdateMember { node, name, peer, client } => {
            out.u8(2).u64(node.0).bytes(name.as_bytes());
            out.bytes(peer.as_bytes()).bytes(client.as_bytes());
        }
        ClusterCall::RemoveMember { name } => {
            out.u8(3).bytes(name.as_bytes());
        }
        ClusterCall::ReplaceMember { name, by } => {
            out.u8(4).bytes(name.as_bytes()).bool(by.is_some());
            if let Some(by) = by {
                out.bytes(by.as_bytes());
            }
        }
        ClusterCall::SetPart { name, part, group } => {
            out.u8(5).bytes(name.as_bytes()).bool(part.is_some());
            if let Some(part) = part {
                out.u8(part_number(*part));
            }
            out.bool(group.is_some());
            if let Some(group) = group {
                out.u32(group.0);
            }
        }
        ClusterCall::PlaceGroup { group, members } => {
            out.u8(6).u32(group.0).list(members, |(name, part), out| {
                out.bytes(name.as_bytes()).u8(part_number(*part));
            });
        }
        ClusterCall::CreateGroup { replicas, members } => {
            out.u8(7).bool(replicas.is_some());
            if let Some(replicas) = replicas {
                out.u32(*replicas);
            }
            out.list(members, |name, out| {
                out.bytes(name.as_bytes());
            });
        }
        ClusterCall::DropGroup { group } => {
            out.u8(8).u32(group.0);
        }
        ClusterCall::WithToken { digest, call } => {
            out.u8(WITH_TOKEN).bytes(&digest.0);
            put_call(call, out);
        }
        ClusterCall::AddToken { digest, terms } => put_new_token(digest, terms, out),
        ClusterCall::RevokeTokens => out.put_u8(11),
        ClusterCall::MakeSecret => out.put_u8(13),
        ClusterCall::RaiseLevel { level } => put_level(*level, out.u8(15)),
        ClusterCall::SetQuorum { group, quorum } => {
            out.u8(12).u32(group.0).u8(quorum.unwrap_or(0));
        }
    }
}

/// Appends the creation of a token. The first level knows those for any number of nodes alone.
fn put_new_token<W: FieldWriter>(digest: &TokenDigest, terms: &JoinTokenTerms, out: &mut W) {
    let JoinTokenTerms { lifetime_ms, uses } = *terms;
    out.u8(if uses.is_some() { 16 } else { 10 }).bytes(&digest.0).optional_u64(lifetime_ms);
    if let Some(uses) = uses {
        out.u32(uses);
    }
}

pub(super) fn take_call(from: &mut FieldReader<'_>) -> WireResult<ClusterCall> {
    let kind = from.u8("kind of cluster call")?;
    if kind != WITH_TOKEN {
        return take_unwrapped(kind, from);
    }
    let (digest, kind) = (take_digest(from)?, from.u8("kind of cluster call")?);
    // A call is wrapped at most once: recursion must not depend on the bytes.
    if kind == WITH_TOKEN {
        return Err(Malformed("kind of cluster call"));
    }
    Ok(ClusterCall::WithToken { digest, call: Box::new(take_unwrapped(kind, from)?) })
}

fn take_unwrapped(kind: u8, from: &mut FieldReader<'_>) -> WireResult<ClusterCall> {
    Ok(match kind {
        0 => ClusterCall::Describe,
        1 | 14 => ClusterCall::AddMember {
            member: take_member(from)?,
            part: take_part(from)?,
            lease_ms: from.u64("lease")?,
            level: if kind == 1 { FeatureLevel::FIRST } else { take_level(from)? },
        },
        2 => ClusterCall::UpdateMember {
            node: NodeId(from.u64("node")?),
            name: take_name(from)?,
            peer: take_address(from)?,
            client: take_address(from)?,
        },
        3 => ClusterCall::RemoveMember { name: take_name(from)? },
        4 => ClusterCall::ReplaceMember {
            name: take_name(from)?,
            by: from.optional("another or none", take_name)?,
        },
        5 => ClusterCall::SetPart {
            name: take_name(from)?,
            part: from.optional("part or none", take_part)?,
            group: from.optional("group or none", |from| from.u32("group").map(GroupId))?,
        },
        6 => ClusterCall::PlaceGroup {
            group: GroupId(from.u32("group")?),
            members: from.list((GROUP_MEMBERS_MAX, 5), "number of members", |from| {
                Ok((take_name(from)?, take_part(from)?))
            })?,
        },
        7 => ClusterCall::CreateGroup {
            replicas: from.optional("replicas or none", |from| from.u32("replicas"))?,
            members: from.list((GROUP_MEMBERS_MAX, 4), "number of members", take_name)?,
        },
        8 => ClusterCall::DropGroup { group: GroupId(from.u32("group")?) },
        10 | 16 => ClusterCall::AddToken {
            digest: take_digest(from)?,
            terms: JoinTokenTerms {
                lifetime_ms: from.optional("lifetime or none", |from| from.u64("lifetime"))?,
                uses: if kind == 16 { Some(take_uses(from)?) } else { None },
            },
        },
        11 => ClusterCall::RevokeTokens,
        13 => ClusterCall::MakeSecret,
        15 => ClusterCall::RaiseLevel { level: take_level(from)? },
        12 => ClusterCall::SetQuorum {
            group: GroupId(from.u32("group")?),
            quorum: Some(from.u8("quorum")?).filter(|quorum| *quorum > 0),
        },
        _ => return Err(Malformed("kind of cluster call")),
    })
}

fn take_digest(from: &mut FieldReader<'_>) -> WireResult<TokenDigest> {
    let digest = from.bytes(TokenDigest::BYTES, "digest")?;
    digest[..].try_into().map(TokenDigest).map_err(|_| Malformed("digest"))
}

fn take_uses(from: &mut FieldReader<'_>) -> WireResult<u32> {
    let uses = from.u32("uses of a token")?;
    match uses {
        1..=JOIN_TOKEN_USES_MAX => Ok(uses),
        _ => Err(Malformed("uses of a token")),
    }
}

fn put_level<W: FieldWriter>(level: FeatureLevel, out: &mut W) {
    out.u32(level.0.into());
}

fn take_level(from: &mut FieldReader<'_>) -> WireResult<FeatureLevel> {
    let level = from.u32("feature level")?;
    u16::try_from(level).map(FeatureLevel).map_err(|_| Malformed("feature level"))
}

/// Appends a description, without its level.
pub(super) fn put<W: FieldWriter>(description: &ClusterDescription, out: &mut W) {
    let ClusterDescription { cluster, founder, lease_ms, changes, members, groups, .. } =
        description;
    out.u64(cluster.0).u64(founder.0).u64(*lease_ms).u64(*changes);
    out.list(members, put_member).list(groups, put_group_members);
}

fn put_group_members<W: FieldWriter>(placement: &Placement, out: &mut W) {
    out.u32(placement.group.0).list(&placement.members, |(node, part), out| {
        out.u64(node.0).u8(part_number(*part));
    });
}

/// Returns true if the format of version 1 can express the description's groups: the only initial
/// voter of each was the cluster's founder, and each accepts every node that joins.
pub(super) fn fits_version_1(description: &ClusterDescription) -> bool {
    description.groups.iter().all(|group| group.replicas == 0 && group.founders.is_empty())
}

/// Appends a description with its level, which is not the first.
pub(super) fn put_with_level<W: FieldWriter>(description: &ClusterDescription, out: &mut W) {
    put_level(description.level, out);
    put_plain_or_full(description, out);
}

pub(super) fn take_with_level(from: &mut FieldReader<'_>) -> WireResult<ClusterDescription> {
    let level = take_level(from)?;
    if level == FeatureLevel::FIRST {
        return Err(Malformed("feature level"));
    }
    Ok(ClusterDescription { level, ..take_plain_or_full(from)? })
}

fn put_plain_or_full<W: FieldWriter>(description: &ClusterDescription, out: &mut W) {
    out.bool(fits_version_1(description));
    match fits_version_1(description) {
        true => put(description, out),
        false => put_full(description, out),
    }
}

fn take_plain_or_full(from: &mut FieldReader<'_>) -> WireResult<ClusterDescription> {
    match from.bool("plain")? {
        true => take(from),
        false => take_full(from),
    }
}

/// Appends the description with the groups' target sizes and initial voters.
pub(super) fn put_full<W: FieldWriter>(description: &ClusterDescription, out: &mut W) {
    put(description, out);
    description.groups.iter().for_each(|placement| put_founding(placement, out));
}

pub(super) fn take_full(from: &mut FieldReader<'_>) -> WireResult<ClusterDescription> {
    let mut description = take(from)?;
    for placement in &mut description.groups {
        take_founding(placement, from)?;
    }
    if fits_version_1(&description) {
        return Err(Malformed("founders of groups"));
    }
    Ok(description)
}

/// Appends the answer to a node that joins: the secret, then the description in its full format.
pub(super) fn put_joined<W: FieldWriter>(
    description: &ClusterDescription,
    secret: &ClusterSecret,
    out: &mut W,
) {
    put_plain_or_full(description, out.bytes(secret.bytes()));
}

pub(super) fn take_joined(
    from: &mut FieldReader<'_>,
) -> WireResult<(ClusterDescription, ClusterSecret)> {
    let secret = take_secret(from)?;
    Ok((take_plain_or_full(from)?, secret))
}

/// Appends the same answer in a cluster whose level is not the first.
pub(super) fn put_joined_with_level<W: FieldWriter>(
    description: &ClusterDescription,
    secret: &ClusterSecret,
    out: &mut W,
) {
    put_with_level(description, out.bytes(secret.bytes()));
}

pub(super) fn take_joined_with_level(
    from: &mut FieldReader<'_>,
) -> WireResult<(ClusterDescription, ClusterSecret)> {
    let secret = take_secret(from)?;
    Ok((take_with_level(from)?, secret))
}

fn take_secret(from: &mut FieldReader<'_>) -> WireResult<ClusterSecret> {
    let secret = from.bytes(ClusterSecret::BYTES, "secret")?;
    secret[..].try_into().map(ClusterSecret::new).map_err(|_| Malformed("secret"))
}

/// Appends one group.
pub(super) fn put_placement<W: FieldWriter>(placement: &Placement, out: &mut W) {
    put_group_members(placement, out);
    put_founding(placement, out);
}

pub(super) fn take_placement(from: &mut FieldReader<'_>) -> WireResult<Placement> {
    let mut placement = take_group_members(from)?;
    take_founding(&mut placement, from)?;
    Ok(placement)
}

/// Appends a group's target size and initial voters.
fn put_founding<W: FieldWriter>(placement: &Placement, out: &mut W) {
    out.u32(placement.replicas).list(&placement.founders, |node, out| {
        out.u64(node.0);
    });
}

fn take_founding(placement: &mut Placement, from: &mut FieldReader<'_>) -> WireResult<()> {
    placement.replicas = from.u32("replicas")?;
    placement.founders = from
        .list((GROUP_MEMBERS_MAX, 8), "number of founders", |from| from.u64("node").map(NodeId))?;
    Ok(())
}

pub(super) fn take(from: &mut FieldReader<'_>) -> WireResult<ClusterDescription> {
    Ok(ClusterDescription {
        cluster: ClusterId(from.u64("cluster")?),
        founder: NodeId(from.u64("founder")?),
        lease_ms: from.u64("lease")?,
        changes: from.u64("changes")?,
        level: FeatureLevel::FIRST,
        members: from.list((PEERS_MAX, 29), "number of members", take_member)?,
        groups: from.list((GROUPS_MAX, 8), "number of groups", take_group_members)?,
    })
}

fn take_group_members(from: &mut FieldReader<'_>) -> WireResult<Placement> {
    let group = GroupId(from.u32("group")?);
    let members = from.list((GROUP_MEMBERS_MAX, 9), "number of members", |from| {
        Ok((NodeId(from.u64("node")?), take_part(from)?))
    })?;
    Ok(Placement { group, members, ..Placement::default() })
}

fn put_member<W: FieldWriter>(member: &MemberDescription, out: &mut W) {
    let MemberDescription { node, name, peer, client, incarnation, membership } = member;
    out.u64(node.0).bytes(name.as_bytes()).bytes(peer.as_bytes()).bytes(client.as_bytes());
    out.u64(*incarnation).u8(match membership {
        Membership::Member => 0,
        Membership::Leaving => 1,
        Membership::Replaceable => 2,
    });
}

fn take_member(from: &mut FieldReader<'_>) -> WireResult<MemberDescription> {
    Ok(MemberDescription {
        node: NodeId(from.u64("node")?),
        name: take_name(from)?,
        peer: take_address(from)?,
        client: take_address(from)?,
        incarnation: from.u64("incarnation")?,
        membership: match from.u8("membership of a member")? {
            0 => Membership::Member,
            1 => Membership::Leaving,
            2 => Membership::Replaceable,
            _ => return Err(Malformed("membership of a member")),
        },
    })
}

fn take_name(from: &mut FieldReader<'_>) -> WireResult<String> {
    from.text(NAME_BYTES_MAX, "member's name").map(String::from)
}

fn take_address(from: &mut FieldReader<'_>) -> WireResult<String> {
    from.text(PEER_ADDRESS_BYTES_MAX, "address").map(String::from)
}

fn part_number(part: Part) -> u8 {
    match part {
        Part::Voter => 0,
        Part::Witness => 1,
        Part::Learner => 2,
    }
}

fn take_part(from: &mut FieldReader<'_>) -> WireResult<Part> {
    Ok(match from.u8("part")? {
        0 => Part::Voter,
        1 => Part::Witness,
        2 => Part::Learner,
        _ => return Err(Malformed("part")),
    })
}
