//! Codec of calls about members and placement, and of the cluster's description.

use super::WireResult;
use super::fields::{Fields, Source};
use crate::cluster::{
    ClusterCall, ClusterDescription, MemberDescription, Membership, Part, Placement,
};
use crate::codec::Malformed;
use crate::limits::{
    GROUP_MEMBERS_MAX, GROUPS_MAX, NAME_BYTES_MAX, PEER_ADDRESS_BYTES_MAX, PEERS_MAX,
};
use crate::{ClusterId, ClusterSecret, GroupId, NodeId, TokenDigest};

/// Number of a call that carries another.
const SHOWN: u8 = 9;

pub(super) fn put_call<W: Fields>(call: &ClusterCall, out: &mut W) {
    match call {
        ClusterCall::Describe => out.put_u8(0),
        ClusterCall::AddMember { member, part, lease_ms } => {
            put_member(member, out.byte(1));
            out.byte(part_number(*part)).word(*lease_ms);
        }
        ClusterCall::UpdateMember { node, name, peer, client } => {
            out.byte(2).word(node.0).bytes(name.as_bytes());
            out.bytes(peer.as_bytes()).bytes(client.as_bytes());
        }
        ClusterCall::RemoveMember { name } => {
            out.byte(3).bytes(name.as_bytes());
        }
        ClusterCall::ReplaceMember { name, by } => {
            out.byte(4).bytes(name.as_bytes()).yes(by.is_some());
            if let Some(by) = by {
                out.bytes(by.as_bytes());
            }
        }
        ClusterCall::SetPart { name, part, group } => {
            out.byte(5).bytes(name.as_bytes()).yes(part.is_some());
            if let Some(part) = part {
                out.byte(part_number(*part));
            }
            out.yes(group.is_some());
            if let Some(group) = group {
                out.half(group.0);
            }
        }
        ClusterCall::PlaceGroup { group, members } => {
            out.byte(6).half(group.0).list(members, |(name, part), out| {
                out.bytes(name.as_bytes()).byte(part_number(*part));
            });
        }
        ClusterCall::CreateGroup { replicas, members } => {
            out.byte(7).yes(replicas.is_some());
            if let Some(replicas) = replicas {
                out.half(*replicas);
            }
            out.list(members, |name, out| {
                out.bytes(name.as_bytes());
            });
        }
        ClusterCall::DropGroup { group } => {
            out.byte(8).half(group.0);
        }
        ClusterCall::Shown { digest, call } => {
            out.byte(SHOWN).bytes(&digest.0);
            put_call(call, out);
        }
        ClusterCall::AddToken { digest, lifetime_ms } => {
            out.byte(10).bytes(&digest.0).maybe_word(*lifetime_ms);
        }
        ClusterCall::RevokeTokens => out.put_u8(11),
        ClusterCall::MakeSecret => out.put_u8(13),
        ClusterCall::SetQuorum { group, quorum } => {
            out.byte(12).half(group.0).byte(quorum.unwrap_or(0));
        }
    }
}

pub(super) fn take_call(from: &mut Source<'_>) -> WireResult<ClusterCall> {
    let which = from.byte("which cluster call")?;
    if which != SHOWN {
        return take_other(which, from);
    }
    let (digest, which) = (take_digest(from)?, from.byte("which cluster call")?);
    // One token is enough, and calls must not nest at will.
    if which == SHOWN {
        return Err(Malformed("which cluster call"));
    }
    Ok(ClusterCall::Shown { digest, call: Box::new(take_other(which, from)?) })
}

fn take_other(which: u8, from: &mut Source<'_>) -> WireResult<ClusterCall> {
    Ok(match which {
        0 => ClusterCall::Describe,
        1 => ClusterCall::AddMember {
            member: take_member(from)?,
            part: take_part(from)?,
            lease_ms: from.word("lease")?,
        },
        2 => ClusterCall::UpdateMember {
            node: NodeId(from.word("node")?),
            name: take_name(from)?,
            peer: take_address(from)?,
            client: take_address(from)?,
        },
        3 => ClusterCall::RemoveMember { name: take_name(from)? },
        4 => ClusterCall::ReplaceMember {
            name: take_name(from)?,
            by: from.maybe("another or none", take_name)?,
        },
        5 => ClusterCall::SetPart {
            name: take_name(from)?,
            part: from.maybe("part or none", take_part)?,
            group: from.maybe("group or none", |from| from.half("group").map(GroupId))?,
        },
        6 => ClusterCall::PlaceGroup {
            group: GroupId(from.half("group")?),
            members: from.list((GROUP_MEMBERS_MAX, 5), "how many members", |from| {
                Ok((take_name(from)?, take_part(from)?))
            })?,
        },
        7 => ClusterCall::CreateGroup {
            replicas: from.maybe("replicas or none", |from| from.half("replicas"))?,
            members: from.list((GROUP_MEMBERS_MAX, 4), "how many members", take_name)?,
        },
        8 => ClusterCall::DropGroup { group: GroupId(from.half("group")?) },
        10 => ClusterCall::AddToken {
            digest: take_digest(from)?,
            lifetime_ms: from.maybe("lifetime or none", |from| from.word("lifetime"))?,
        },
        11 => ClusterCall::RevokeTokens,
        13 => ClusterCall::MakeSecret,
        12 => ClusterCall::SetQuorum {
            group: GroupId(from.half("group")?),
            quorum: Some(from.byte("quorum")?).filter(|quorum| *quorum > 0),
        },
        _ => return Err(Malformed("which cluster call")),
    })
}

fn take_digest(from: &mut Source<'_>) -> WireResult<TokenDigest> {
    let digest = from.bytes(TokenDigest::BYTES, "digest")?;
    digest[..].try_into().map(TokenDigest).map_err(|_| Malformed("digest"))
}

pub(super) fn put<W: Fields>(described: &ClusterDescription, out: &mut W) {
    let ClusterDescription { cluster, founder, lease_ms, changes, members, groups } = described;
    out.word(cluster.0).word(founder.0).word(*lease_ms).word(*changes);
    out.list(members, put_member).list(groups, put_wanted);
}

fn put_wanted<W: Fields>(placement: &Placement, out: &mut W) {
    out.half(placement.group.0).list(&placement.members, |(node, part), out| {
        out.word(node.0).byte(part_number(*part));
    });
}

/// Returns true if the format of version 1 can express the description: its groups began with the
/// cluster's founder alone, and take every node that joins.
pub(super) fn is_plain(described: &ClusterDescription) -> bool {
    described.groups.iter().all(|group| group.replicas == 0 && group.founders.is_empty())
}

/// Appends the description with the groups' target sizes and initial voters.
pub(super) fn put_whole<W: Fields>(described: &ClusterDescription, out: &mut W) {
    put(described, out);
    described.groups.iter().for_each(|placement| put_begin(placement, out));
}

pub(super) fn take_whole(from: &mut Source<'_>) -> WireResult<ClusterDescription> {
    let mut described = take(from)?;
    for placement in &mut described.groups {
        take_begin(placement, from)?;
    }
    if is_plain(&described) {
        return Err(Malformed("what groups began with"));
    }
    Ok(described)
}

/// Appends the answer to a node that joins: the secret, then the description in its full format.
pub(super) fn put_joined<W: Fields>(
    described: &ClusterDescription,
    secret: &ClusterSecret,
    out: &mut W,
) {
    out.bytes(secret.bytes()).yes(is_plain(described));
    match is_plain(described) {
        true => put(described, out),
        false => put_whole(described, out),
    }
}

pub(super) fn take_joined(
    from: &mut Source<'_>,
) -> WireResult<(ClusterDescription, ClusterSecret)> {
    let secret = from.bytes(ClusterSecret::BYTES, "secret")?;
    let secret = secret[..].try_into().map_err(|_| Malformed("secret"))?;
    let described = match from.yes("plain")? {
        true => take(from)?,
        false => take_whole(from)?,
    };
    Ok((described, ClusterSecret::new(secret)))
}

/// Appends one group.
pub(super) fn put_placement<W: Fields>(placement: &Placement, out: &mut W) {
    put_wanted(placement, out);
    put_begin(placement, out);
}

pub(super) fn take_placement(from: &mut Source<'_>) -> WireResult<Placement> {
    let mut placement = take_wanted(from)?;
    take_begin(&mut placement, from)?;
    Ok(placement)
}

fn put_begin<W: Fields>(placement: &Placement, out: &mut W) {
    out.half(placement.replicas).list(&placement.founders, |node, out| {
        out.word(node.0);
    });
}

fn take_begin(placement: &mut Placement, from: &mut Source<'_>) -> WireResult<()> {
    placement.replicas = from.half("replicas")?;
    placement.founders = from
        .list((GROUP_MEMBERS_MAX, 8), "how many founders", |from| from.word("node").map(NodeId))?;
    Ok(())
}

pub(super) fn take(from: &mut Source<'_>) -> WireResult<ClusterDescription> {
    Ok(ClusterDescription {
        cluster: ClusterId(from.word("cluster")?),
        founder: NodeId(from.word("founder")?),
        lease_ms: from.word("lease")?,
        changes: from.word("changes")?,
        members: from.list((PEERS_MAX, 29), "how many members", take_member)?,
        groups: from.list((GROUPS_MAX, 8), "how many groups", take_wanted)?,
    })
}

fn take_wanted(from: &mut Source<'_>) -> WireResult<Placement> {
    let group = GroupId(from.half("group")?);
    let members = from.list((GROUP_MEMBERS_MAX, 9), "how many members", |from| {
        Ok((NodeId(from.word("node")?), take_part(from)?))
    })?;
    Ok(Placement { group, members, ..Placement::default() })
}

fn put_member<W: Fields>(member: &MemberDescription, out: &mut W) {
    let MemberDescription { node, name, peer, client, incarnation, membership } = member;
    out.word(node.0).bytes(name.as_bytes()).bytes(peer.as_bytes()).bytes(client.as_bytes());
    out.word(*incarnation).byte(match membership {
        Membership::Member => 0,
        Membership::Leaving => 1,
        Membership::Replaceable => 2,
    });
}

fn take_member(from: &mut Source<'_>) -> WireResult<MemberDescription> {
    Ok(MemberDescription {
        node: NodeId(from.word("node")?),
        name: take_name(from)?,
        peer: take_address(from)?,
        client: take_address(from)?,
        incarnation: from.word("incarnation")?,
        membership: match from.byte("whether it stays")? {
            0 => Membership::Member,
            1 => Membership::Leaving,
            2 => Membership::Replaceable,
            _ => return Err(Malformed("whether it stays")),
        },
    })
}

fn take_name(from: &mut Source<'_>) -> WireResult<String> {
    from.text(NAME_BYTES_MAX, "member's name").map(String::from)
}

fn take_address(from: &mut Source<'_>) -> WireResult<String> {
    from.text(PEER_ADDRESS_BYTES_MAX, "address").map(String::from)
}

fn part_number(part: Part) -> u8 {
    match part {
        Part::Voter => 0,
        Part::Witness => 1,
        Part::Learner => 2,
    }
}

fn take_part(from: &mut Source<'_>) -> WireResult<Part> {
    Ok(match from.byte("part")? {
        0 => Part::Voter,
        1 => Part::Witness,
        2 => Part::Learner,
        _ => return Err(Malformed("part")),
    })
}
