//! Last known members of the cluster: enough to find the others after a start, before the directory
//! is applied. Also the founders of each group, and the witnesses.
//!
//! Promises: there whole or not at all; damage is named.
//! Never: says who belongs to a group now; that stands in the log.

use super::atomic_file::{AtomicFile, id};
use crate::StoreError;
use crate::disk::Disk;
use base::{
    ClusterDescription, ClusterId, GroupId, MemberDescription, Membership, NodeId, Part, Placement,
};
use std::fmt::Write;
use std::io;
use std::path::Path;

pub(super) const FILE: AtomicFile = AtomicFile {
    name: "MEMBERS",
    beside: "MEMBERS.new",
    head: "credenza members 1",
    bytes_max: 16 << 20,
};
/// In front of the highest number that any group had.
const MADE: &str = "made ";
/// No group that every cluster begins with has a higher number.
const DEFAULT_GROUP: u32 = 1;
/// Stands where an address is not known.
const NONE: &str = "-";

/// The list; none: this node never had one. Of groups only those stand in it that were made, with
/// their founders: the others began with the cluster's.
pub(super) fn read(disk: &dyn Disk, path: &Path) -> Result<Option<ClusterDescription>, StoreError> {
    let Some(lines) = FILE.read(disk, path)? else { return Ok(None) };
    let parsed = parse(&lines);
    parsed.map(Some).ok_or_else(|| FILE.damaged(path, "a line of it can't be read"))
}

/// Puts this list in the place of the one before, durably.
pub(super) fn write(
    disk: &dyn Disk,
    path: &Path,
    known: &ClusterDescription,
) -> Result<(), StoreError> {
    let mut text = text(known).ok_or_else(|| {
        let why = "a member's name or address holds a blank";
        let what = format!("can't write {}", path.join(FILE.name).display());
        StoreError::io(what, io::Error::new(io::ErrorKind::InvalidInput, why))
    })?;
    // A number that was given once is known for good, also when the group that had it is gone.
    let highest = |groups: &mut dyn Iterator<Item = &Placement>| {
        groups.map(|placement| placement.group.0).max().unwrap_or(0)
    };
    let made = highest(&mut known.groups.iter()).max(made_upto(disk, path)?.0);
    if made > highest(&mut told(known)) && made > DEFAULT_GROUP {
        let _ = writeln!(text, "{MADE}{made}");
    }
    FILE.replace(disk, path, &text)
}

/// Returns the highest group number that this list ever knew. 0: none.
pub(super) fn made_upto(disk: &dyn Disk, path: &Path) -> Result<GroupId, StoreError> {
    let lines = FILE.read(disk, path)?.unwrap_or_default();
    let made = lines.last().and_then(|line| line.strip_prefix(MADE)?.parse().ok());
    let made =
        made.map_or_else(|| parse(&lines)?.groups.iter().map(|known| known.group.0).max(), Some);
    Ok(GroupId(made.unwrap_or(0)))
}

/// Returns the error of a node that joined and lost its list: it must not found a cluster of its
/// own.
pub(super) fn lost(path: &Path) -> StoreError {
    let what = "it is missing, though this node joined a cluster: replace the node";
    FILE.damaged(path, what)
}

fn text(known: &ClusterDescription) -> Option<String> {
    let ClusterDescription { cluster, founder, lease_ms, changes, members, .. } = known;
    let mut text = String::new();
    let _ = write!(text, "cluster {:016x}\nfounder {:016x}\n", cluster.0, founder.0);
    let _ = write!(text, "lease_ms {lease_ms}\nchanges {changes}\n");
    for MemberDescription { node, name, peer, client, incarnation, membership } in members {
        let blank = |text: &String| text.contains(|c: char| c.is_whitespace());
        if name.is_empty() || [name, peer, client].into_iter().any(blank) {
            return None;
        }
        let shown = |address: &str| if address.is_empty() { NONE.into() } else { address.into() };
        let (peer, client): (String, String) = (shown(peer), shown(client));
        let (node, membership) = (node.0, membership.word());
        let _ =
            writeln!(text, "member {node:016x} {incarnation} {membership} {name} {peer} {client}");
    }
    for placement in told(known) {
        let Placement { group, members, founders, .. } = placement;
        let counts = placement.counts();
        let founders: Vec<_> = founders.iter().map(|node| format!("{:016x}", node.0)).collect();
        let founders = if founders.is_empty() { NONE.into() } else { founders.join(",") };
        let _ = write!(text, "group {group} {counts} {founders}");
        for (node, part) in members {
            let _ = write!(text, " {:016x}={}", node.0, part.word());
        }
        text.push('\n');
    }
    Some(text)
}

/// The groups of which something stands in the list.
fn told(known: &ClusterDescription) -> impl Iterator<Item = &Placement> {
    let is_told =
        |one: &&Placement| one.witnesses() > 0 || !one.founders.is_empty() || one.quorum.is_some();
    known.groups.iter().filter(is_told)
}

fn parse(lines: &[String]) -> Option<ClusterDescription> {
    let [cluster, founder, lease_ms, changes, rest @ ..] = lines else { return None };
    let of_members = rest.iter().take_while(|line| line.starts_with("member ")).count();
    let (members, groups) = rest.split_at(of_members);
    let groups = match groups.split_last() {
        Some((last, groups)) if last.starts_with(MADE) => groups,
        _ => groups,
    };
    let field = |line: &str, name: &str| {
        line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')).map(String::from)
    };
    Some(ClusterDescription {
        cluster: ClusterId(id(&field(cluster, "cluster")?)?),
        founder: NodeId(id(&field(founder, "founder")?)?),
        lease_ms: field(lease_ms, "lease_ms")?.parse().ok()?,
        changes: field(changes, "changes")?.parse().ok()?,
        members: members.iter().map(|line| member(line)).collect::<Option<_>>()?,
        groups: groups.iter().map(|line| placement(line)).collect::<Option<_>>()?,
    })
}

fn member(line: &str) -> Option<MemberDescription> {
    let words: Vec<_> = line.split(' ').collect();
    let ["member", node, incarnation, membership, name, peer, client] = words[..] else {
        return None;
    };
    let address = |text: &str| if text == NONE { String::new() } else { text.into() };
    let all = [Membership::Member, Membership::Leaving, Membership::Replaceable];
    Some(MemberDescription {
        node: NodeId(id(node)?),
        name: name.into(),
        peer: address(peer),
        client: address(client),
        incarnation: incarnation.parse().ok()?,
        membership: all.into_iter().find(|known| known.word() == membership)?,
    })
}

fn placement(line: &str) -> Option<Placement> {
    let mut words = line.strip_prefix("group ")?.split(' ');
    let (group, counts) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let founders = words.next().map(|founders| if founders == NONE { "" } else { founders })?;
    let founders = founders.split(',').filter(|founders| !founders.is_empty());
    let founders = founders.map(|node| id(node).map(NodeId)).collect::<Option<_>>()?;
    let member = |word: &str| {
        let (node, part) = word.split_once('=')?;
        Some((NodeId(id(node)?), Part::parse(part).ok()?))
    };
    let members = words.map(member).collect::<Option<_>>()?;
    let placement = Placement { group: GroupId(group), members, founders, ..Placement::default() };
    Some(placement.with_counts(counts))
}
