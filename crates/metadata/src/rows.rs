//! Rows of the directory: their keys and their bytes.
//!
//! ```text
//! t/<type>               -> properties            the template of a type
//! b/<type>/<name>        -> id, group, properties; on its way: the group and id it moves to
//! n/bucket, n/group      -> the next bucket's number, the next group's
//! d/<number>             -> group                 dropped, its space not yet given back
//! n/cluster              -> founder, lease, number of changes of what follows
//! n/secret               -> the cluster's secret (`secret.rs`)
//! n/level                -> the feature level, and the highest one of each member (`levels.rs`)
//! m/<node, 16 digits>    -> name, addresses, incarnation, whether it stays
//! a/<type>/<name>        -> properties            of an available bucket, where not its type's
//! r                      -> the ring, as `logic::ring` writes it
//! r/plan, r/heirs        -> planned changes of it, and those that replaced members owe
//! l/<node, 16 digits>    -> last admitted incarnation of a member (`incarnations.rs`)
//! j/<digest, 64 digits>  -> a join token that lets nodes in
//! n/access, u/, p/, k/   -> users, roles and tokens (`access/rows.rs`)
//! n/index, x/            -> declared indexes (`index/rows.rs`)
//! g/<group u32 BE>       -> who is wanted in it; form 2: how many voters, and with whom it began
//! ```

use base::codec::{Malformed, Reader, Writer};
use base::limits::{GROUP_MEMBERS_MAX, NAME_BYTES_MAX, PEER_ADDRESS_BYTES_MAX};
use base::properties::{CONSISTENCY, Changes, PROMISE};
use base::request::Expiry;
use base::{
    BucketDescription, BucketId, BucketName, Error, GroupId, Key, MemberDescription, Membership,
    MoveDestination, NodeId, Part, Placement, Properties, Reason, Result, TokenDigest, Update,
    Value,
};
use bytes::Bytes;

pub(crate) const BUCKETS: &[u8] = b"b/";
pub(crate) const TYPES: &[u8] = b"t/";
pub(crate) const DROPPED: &[u8] = b"d/";
pub(crate) const MEMBERS: &[u8] = b"m/";
pub(crate) const GROUPS: &[u8] = b"g/";
/// Key of the next bucket's number.
pub const NEXT_BUCKET: &[u8] = b"n/bucket";
pub(crate) const NEXT_GROUP: &[u8] = b"n/group";
/// Key of the row of the cluster.
pub const CLUSTER: &[u8] = b"n/cluster";
/// Key of the cluster's secret.
pub const SECRET: &[u8] = b"n/secret";
/// Key of the feature level.
pub const LEVEL: &[u8] = b"n/level";
pub(crate) const CUSTOM: &[u8] = b"a/";
/// Key of the ring.
pub const RING: &[u8] = b"r";
/// Prefix of the last admitted incarnations of members.
pub(crate) const INCARNATIONS: &[u8] = b"l/";
/// Prefix of the join tokens.
pub(crate) const TOKENS: &[u8] = b"j/";
/// Key of the planned changes of the ring.
pub(crate) const RING_PLAN: &[u8] = b"r/plan";
/// Key of the pending replacements on the ring.
pub(crate) const RING_REPLACEMENTS: &[u8] = b"r/heirs";

/// Version of the rows of members, groups and the cluster. A newer one is refused with an error.
pub(super) const ROW_VERSION: u8 = 1;
/// Version of the rows of groups that have founders of their own.
const ROW_VERSION_WITH_FOUNDERS: u8 = 2;

/// Row of the cluster: data that all changes of members and placement share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterRow {
    /// Node that founded the cluster.
    pub founder: NodeId,
    /// Lease of masters, in milliseconds.
    pub lease_ms: u64,
    /// Number of changes so far. A change asserts it, so that no other change comes between.
    pub changes: u64,
}

pub(crate) fn assert(key: &Key, expected: Option<Value>) -> Update {
    Update::Assert { key: key.clone(), expected }
}

/// Returns the step that writes a row.
pub fn set(key: Key, value: Value) -> Update {
    Update::Set { key, value, expiry: Expiry::Never }
}

pub(crate) fn mark_dropped(bucket: BucketId, group: GroupId) -> Update {
    set(dropped_key(bucket), Bytes::copy_from_slice(&group.0.to_le_bytes()))
}

pub(crate) fn dropped_key(bucket: BucketId) -> Key {
    Bytes::from([DROPPED, &bucket.0.to_be_bytes()].concat())
}

/// Returns the key of a bucket's row.
pub fn bucket_key(name: &BucketName) -> Key {
    Bytes::from(format!("b/{name}"))
}

/// Returns the key of a type's row.
pub fn type_key(kind: &str) -> Key {
    Bytes::from(format!("t/{kind}"))
}

pub(crate) fn custom_key(name: &BucketName) -> Key {
    Bytes::from(format!("a/{name}"))
}

/// Returns the type of a row's key.
pub(crate) fn type_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.strip_prefix(TYPES)?).ok()
}

/// Returns the available bucket of a row's key.
pub(crate) fn custom_of(key: &[u8]) -> Option<BucketName> {
    BucketName::from_full(std::str::from_utf8(key.strip_prefix(CUSTOM)?).ok()?).ok()
}

/// Decodes the properties of a row.
pub(crate) fn properties_of(value: &[u8]) -> Result<Properties> {
    read_properties(&mut Reader::new(value)).map_err(bad_row)
}

/// Returns the key of a member's row.
pub fn member_key(node: NodeId) -> Key {
    Bytes::from(format!("m/{:016x}", node.0))
}

/// Returns the key of a group's row.
pub fn group_key(group: GroupId) -> Key {
    Bytes::from([GROUPS, &group.0.to_be_bytes()].concat())
}

/// Returns the bucket of a row's key.
pub(crate) fn bucket_name(key: &[u8]) -> Option<BucketName> {
    let full = std::str::from_utf8(key.strip_prefix(BUCKETS)?).ok()?;
    BucketName::parse(full).ok()
}

/// Returns the member of a row's key.
pub(crate) fn member_of(key: &[u8]) -> Option<NodeId> {
    let digits = std::str::from_utf8(key.strip_prefix(MEMBERS)?).ok()?;
    u64::from_str_radix(digits, 16).ok().map(NodeId)
}

pub(crate) fn token_key(digest: &TokenDigest) -> Key {
    let digits: String = digest.0.iter().map(|byte| format!("{byte:02x}")).collect();
    Bytes::from(format!("j/{digits}"))
}

/// Returns the join token of a row's key.
pub(crate) fn token_of(key: &[u8]) -> Option<TokenDigest> {
    let digits = std::str::from_utf8(key.strip_prefix(TOKENS)?).ok()?;
    let mut digest = [0; TokenDigest::BYTES];
    if digits.len() != 2 * digest.len() || !digits.is_ascii() {
        return None;
    }
    for (byte, at) in digest.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    Some(TokenDigest(digest))
}

/// Returns the group of a row's key.
pub(crate) fn group_of(key: &[u8]) -> Option<GroupId> {
    let number = key.strip_prefix(GROUPS)?.try_into().ok()?;
    Some(GroupId(u32::from_be_bytes(number)))
}

/// Returns the bytes of properties. They are the same in every version: `consistency` has its first
/// spelling, `promise`, in them.
pub fn write_properties(properties: &Properties) -> Value {
    let mut bytes = Vec::new();
    let texts = properties.stored_texts();
    bytes.put_u32(texts.len() as u32);
    for (name, text) in texts {
        let stored = if name == CONSISTENCY { PROMISE } else { name };
        bytes.put_string(stored.as_bytes());
        bytes.put_string(text.as_bytes());
    }
    Bytes::from(bytes)
}

pub(crate) type RowResult<T> = std::result::Result<T, Malformed>;

/// Decodes properties. Rows of older versions lack the newer ones, which get their defaults.
pub(crate) fn read_properties(reader: &mut Reader) -> RowResult<Properties> {
    let count = reader.u32("properties")?;
    let mut changes = Changes::new();
    for _ in 0..count {
        let mut text = |field| {
            let bytes = reader.string(1024, field)?;
            Ok(String::from_utf8_lossy(bytes).into_owned())
        };
        changes.push((text("property name")?, text("property")?));
    }
    Properties::default().with(&changes).map_err(|_| Malformed("properties"))
}

/// Returns the bytes of a bucket's row.
pub fn write_bucket(bucket: &BucketDescription) -> Value {
    let mut bytes = Vec::new();
    bytes.put_u32(bucket.id.0);
    bytes.put_u32(bucket.group.0);
    bytes.extend_from_slice(&write_properties(&bucket.properties));
    if let Some(moving) = bucket.moving {
        bytes.put_u32(moving.group.0);
        bytes.put_u32(moving.id.0);
    }
    Bytes::from(bytes)
}

pub(crate) fn read_bucket(key: &[u8], value: Option<&Value>) -> Result<BucketDescription> {
    let read = || {
        let mut reader = Reader::new(value.ok_or(Malformed("bucket"))?);
        Ok(BucketDescription {
            name: bucket_name(key).ok_or(Malformed("bucket name"))?,
            id: BucketId(reader.u32("bucket id")?),
            group: GroupId(reader.u32("bucket group")?),
            properties: read_properties(&mut reader)?,
            moving: read_moving(&mut reader)?,
        })
    };
    read().map_err(bad_row)
}

/// Decodes the move of a bucket. `None`: the row has none.
fn read_moving(reader: &mut Reader) -> RowResult<Option<MoveDestination>> {
    if reader.rest().is_empty() {
        return Ok(None);
    }
    let group = GroupId(reader.u32("group a bucket moves to")?);
    let id = BucketId(reader.u32("bucket's next id")?);
    if reader.rest().is_empty() {
        Ok(Some(MoveDestination { group, id }))
    } else {
        Err(Malformed("bucket"))
    }
}

/// Returns the bytes of the row of the cluster.
pub fn write_cluster(row: &ClusterRow) -> Value {
    let mut bytes = vec![ROW_VERSION];
    for number in [row.founder.0, row.lease_ms, row.changes] {
        bytes.put_u64(number);
    }
    Bytes::from(bytes)
}

pub(crate) fn read_cluster(value: &[u8]) -> Result<ClusterRow> {
    let read = || {
        let mut reader = Reader::new(value);
        check_version(&mut reader, "cluster")?;
        let row = ClusterRow {
            founder: NodeId(reader.u64("founder")?),
            lease_ms: reader.u64("lease")?,
            changes: reader.u64("changes")?,
        };
        reader.end("cluster").map(|()| row)
    };
    read().map_err(bad_row)
}

/// Returns the bytes of a member's row.
pub fn write_member(member: &MemberDescription) -> Value {
    let mut bytes = vec![ROW_VERSION];
    for text in [&member.name, &member.peer, &member.client] {
        bytes.put_string(text.as_bytes());
    }
    bytes.put_u64(member.incarnation);
    bytes.put_u8(match member.membership {
        Membership::Member => 0,
        Membership::Leaving => 1,
        Membership::Replaceable => 2,
    });
    Bytes::from(bytes)
}

pub(crate) fn read_member(key: &[u8], value: &[u8]) -> Result<MemberDescription> {
    let read = || {
        let mut reader = Reader::new(value);
        check_version(&mut reader, "member")?;
        let mut text = |max, field| {
            let text = std::str::from_utf8(reader.string(max, field)?);
            text.map(String::from).map_err(|_| Malformed(field))
        };
        let member = MemberDescription {
            node: member_of(key).ok_or(Malformed("member's id"))?,
            name: text(NAME_BYTES_MAX, "member's name")?,
            peer: text(PEER_ADDRESS_BYTES_MAX, "member's address")?,
            client: text(PEER_ADDRESS_BYTES_MAX, "member's address")?,
            incarnation: reader.u64("member's incarnation")?,
            membership: match reader.u8("membership of a member")? {
                0 => Membership::Member,
                1 => Membership::Leaving,
                2 => Membership::Replaceable,
                _ => return Err(Malformed("membership of a member")),
            },
        };
        reader.end("member").map(|()| member)
    };
    read().map_err(bad_row)
}

/// Returns the bytes of a group's row.
pub fn write_group(placement: &Placement) -> Value {
    let Placement { members, founders, .. } = placement;
    let is_plain = placement.packed_counts() == 0 && founders.is_empty();
    let mut bytes = vec![if is_plain { ROW_VERSION } else { ROW_VERSION_WITH_FOUNDERS }];
    bytes.put_u32(members.len() as u32);
    for (node, part) in members {
        bytes.put_u64(node.0);
        bytes.put_u8(match part {
            Part::Voter => 0,
            Part::Witness => 1,
            Part::Learner => 2,
        });
    }
    if !is_plain {
        bytes.put_u32(placement.packed_counts());
        bytes.put_u32(founders.len() as u32);
        founders.iter().for_each(|node| bytes.put_u64(node.0));
    }
    Bytes::from(bytes)
}

pub(crate) fn read_group(key: &[u8], value: &[u8]) -> Result<Placement> {
    let read = || {
        let mut reader = Reader::new(value);
        let check_version = reader.u8("group")?;
        let group = group_of(key).ok_or(Malformed("group's number"))?;
        let count = members_count(&mut reader)?;
        let mut members = Vec::with_capacity(count);
        for _ in 0..count {
            let node = NodeId(reader.u64("group's member")?);
            let part = match reader.u8("member's part")? {
                0 => Part::Voter,
                1 => Part::Witness,
                2 => Part::Learner,
                _ => return Err(Malformed("member's part")),
            };
            members.push((node, part));
        }
        let (mut counts, mut founders) = (0, Vec::new());
        match check_version {
            ROW_VERSION => {}
            ROW_VERSION_WITH_FOUNDERS => {
                counts = reader.u32("group's replicas")?;
                for _ in 0..members_count(&mut reader)? {
                    founders.push(NodeId(reader.u64("group's founder")?));
                }
            }
            _ => return Err(Malformed("group")),
        }
        let placement = Placement { group, members, founders, ..Placement::default() };
        reader.end("group").map(|()| placement.with_packed_counts(counts))
    };
    read().map_err(bad_row)
}

fn members_count(reader: &mut Reader) -> RowResult<usize> {
    let count = reader.u32("group's members")? as usize;
    if count > GROUP_MEMBERS_MAX { Err(Malformed("group's members")) } else { Ok(count) }
}

pub(crate) fn write_next_group(next: u32) -> Value {
    Bytes::copy_from_slice(&next.to_le_bytes())
}

pub(crate) fn read_next_group(value: &[u8]) -> Result<u32> {
    Reader::new(value).u32("next group").map_err(bad_row)
}

pub(super) fn check_version(reader: &mut Reader, field: &'static str) -> RowResult<()> {
    if reader.u8(field)? == ROW_VERSION { Ok(()) } else { Err(Malformed(field)) }
}

pub(crate) fn bad_row(error: Malformed) -> Error {
    let text = format!(
        "the directory's {} can't be decoded: a newer version wrote it, or it is damaged (run \
         `credenza verify`)",
        error.0
    );
    Error::new(Reason::Corrupt, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consistency_is_written_as_promise_and_read_under_both_names() {
        let available = Properties::available();
        let row = write_properties(&available);
        let contains = |name: &str| row.windows(name.len()).any(|bytes| bytes == name.as_bytes());
        assert!(contains("promise") && !contains("consistency"), "{row:?}");
        assert_eq!(properties_of(&row), Ok(available.clone()));
        let mut renamed = 1_u32.to_le_bytes().to_vec();
        renamed.put_string(CONSISTENCY.as_bytes());
        renamed.put_string(b"available");
        assert_eq!(properties_of(&renamed), Ok(available));
    }
}
