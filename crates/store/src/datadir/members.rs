//! Last known members of the cluster: enough to find the other members after a start, before the
//! cluster directory is applied. Also the founders of each group, and the witnesses.
//!
//! Promises: replaced atomically; damage is reported.
//! Never: states the current members of a group; the log has them.

use super::atomic_file::{AtomicFile, parse_id};
use crate::StoreError;
use crate::disk::Disk;
use base::{
    ClusterDescription, ClusterId, FeatureLevel, GroupId, MemberDescription, Membership, NodeId,
    Part, Placement,
};
use std::fmt::Write;
use std::io;
use std::path::Path;

pub(super) const FILE: AtomicFile = AtomicFile {
    name: "MEMBERS",
    temporary: "MEMBERS.new",
    header: "credenza members 1",
    bytes_max: 16 << 20,
};
/// Prefix of the line with the highest group number ever used.
const MADE: &str = "made ";
/// Highest number of the groups with which every cluster begins.
const DEFAULT_GROUP: u32 = 1;
/// Placeholder for an unknown address.
const NONE: &str = "-";

/// Reads the list. `None`: this node never had one. Of the groups it lists only those that were
/// created later, with their founders: all others began with the cluster's founder.
pub(super) fn read(disk: &dyn Disk, path: &Path) -> Result<Option<ClusterDescription>, StoreError> {
    let Some(lines) = FILE.read(disk, path)? else { return Ok(None) };
    let parsed = parse(&lines);
    parsed.map(Some).ok_or_else(|| FILE.damaged(path, "a line of it can't be read"))
}

/// Replaces the list, durably.
pub(super) fn write(
    disk: &dyn Disk,
    path: &Path,
    description: &ClusterDescription,
) -> Result<(), StoreError> {
    let mut text = encode(description).ok_or_else(|| {
        let reason = "a member's name or address holds a blank";
        let operation = format!("can't write {}", path.join(FILE.name).display());
        StoreError::io(operation, io::Error::new(io::ErrorKind::InvalidInput, reason))
    })?;
    // A group number is never used again, so the highest one stays on record when its group is
    // removed.
    let highest = |groups: &mut dyn Iterator<Item = &Placement>| {
        groups.map(|placement| placement.group.0).max().unwrap_or(0)
    };
    let made = highest(&mut description.groups.iter()).max(highest_group(disk, path)?.0);
    if made > highest(&mut listed_groups(description)) && made > DEFAULT_GROUP {
        let _ = writeln!(text, "{MADE}{made}");
    }
    FILE.replace(disk, path, &text)
}

/// Returns the highest group number that this list ever held. 0: none.
pub(super) fn highest_group(disk: &dyn Disk, path: &Path) -> Result<GroupId, StoreError> {
    let lines = FILE.read(disk, path)?.unwrap_or_default();
    let made = lines.last().and_then(|line| line.strip_prefix(MADE)?.parse().ok());
    let made =
        made.map_or_else(|| parse(&lines)?.groups.iter().map(|known| known.group.0).max(), Some);
    Ok(GroupId(made.unwrap_or(0)))
}

/// Returns the error for a node that joined and lost its list: it must not found a cluster of its
/// own.
pub(super) fn missing_list(path: &Path) -> StoreError {
    let description = "it is missing, though this node joined a cluster: replace the node";
    FILE.damaged(path, description)
}

fn encode(description: &ClusterDescription) -> Option<String> {
    let ClusterDescription { cluster, founder, lease_ms, changes, members, .. } = description;
    let mut text = String::new();
    let _ = write!(text, "cluster {:016x}\nfounder {:016x}\n", cluster.0, founder.0);
    let _ = write!(text, "lease_ms {lease_ms}\nchanges {changes}\n");
    for MemberDescription { node, name, peer, client, incarnation, membership } in members {
        if name.is_empty() || ![name, peer, client].into_iter().all(|text| is_field(text)) {
            return None;
        }
        let display = |address: &str| if address.is_empty() { NONE.into() } else { address.into() };
        let (peer, client): (String, String) = (display(peer), display(client));
        let (node, membership) = (node.0, membership.name());
        let _ =
            writeln!(text, "member {node:016x} {incarnation} {membership} {name} {peer} {client}");
    }
    for placement in listed_groups(description) {
        let Placement { group, members, founders, .. } = placement;
        let counts = placement.packed_counts();
        let founders: Vec<_> = founders.iter().map(|node| format!("{:016x}", node.0)).collect();
        let founders = if founders.is_empty() { NONE.into() } else { founders.join(",") };
        let _ = write!(text, "group {group} {counts} {founders}");
        for (node, part) in members {
            let _ = write!(text, " {:016x}={}", node.0, part.name());
        }
        text.push('\n');
    }
    Some(text)
}

/// Returns true if a name or an address can be written: blanks end fields and lines.
fn is_field(text: &str) -> bool {
    !text.contains(char::is_whitespace)
}

/// Returns the groups that have a line in the list.
fn listed_groups(description: &ClusterDescription) -> impl Iterator<Item = &Placement> {
    let is_listed =
        |one: &&Placement| one.witnesses() > 0 || !one.founders.is_empty() || one.quorum.is_some();
    description.groups.iter().filter(is_listed)
}

fn parse(lines: &[String]) -> Option<ClusterDescription> {
    let [cluster, founder, lease_ms, changes, rest @ ..] = lines else { return None };
    let member_count = rest.iter().take_while(|line| line.starts_with("member ")).count();
    let (members, groups) = rest.split_at(member_count);
    let groups = match groups.split_last() {
        Some((last, groups)) if last.starts_with(MADE) => groups,
        _ => groups,
    };
    let field = |line: &str, name: &str| {
        line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')).map(String::from)
    };
    Some(ClusterDescription {
        cluster: ClusterId(parse_id(&field(cluster, "cluster")?)?),
        founder: NodeId(parse_id(&field(founder, "founder")?)?),
        lease_ms: field(lease_ms, "lease_ms")?.parse().ok()?,
        changes: field(changes, "changes")?.parse().ok()?,
        level: FeatureLevel::FIRST, // The applied rows have it.
        members: members.iter().map(|line| parse_member(line)).collect::<Option<_>>()?,
        groups: groups.iter().map(|line| parse_placement(line)).collect::<Option<_>>()?,
    })
}

fn parse_member(line: &str) -> Option<MemberDescription> {
    let fields: Vec<_> = line.split(' ').collect();
    let ["member", node, incarnation, membership, name, peer, client] = fields[..] else {
        return None;
    };
    if name.is_empty() || ![name, peer, client].into_iter().all(is_field) {
        return None;
    }
    let address = |text: &str| if text == NONE { String::new() } else { text.into() };
    let all = [Membership::Member, Membership::Leaving, Membership::Replaceable];
    Some(MemberDescription {
        node: NodeId(parse_id(node)?),
        name: name.into(),
        peer: address(peer),
        client: address(client),
        incarnation: incarnation.parse().ok()?,
        membership: all.into_iter().find(|known| known.name() == membership)?,
    })
}

fn parse_placement(line: &str) -> Option<Placement> {
    let mut fields = line.strip_prefix("group ")?.split(' ');
    let (group, counts) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let founders = fields.next().map(|founders| if founders == NONE { "" } else { founders })?;
    let founders = founders.split(',').filter(|founders| !founders.is_empty());
    let founders = founders.map(|node| parse_id(node).map(NodeId)).collect::<Option<_>>()?;
    let member = |field: &str| {
        let (node, part) = field.split_once('=')?;
        Some((NodeId(parse_id(node)?), Part::parse(part).ok()?))
    };
    let members = fields.map(member).collect::<Option<_>>()?;
    let placement = Placement { group: GroupId(group), members, founders, ..Placement::default() };
    Some(placement.with_packed_counts(counts))
}
