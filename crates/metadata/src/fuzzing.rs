//! Fuzzing: what must hold of the directory's rows, whatever their bytes are. Only the crate `fuzz`
//! builds this.

use super::access::rows as access_rows;
use super::catalog::Catalog;
use super::index::rows as index_rows;
use super::rows::{
    self, BUCKETS, CLUSTER, CUSTOM, GROUPS, INCARNATIONS, MEMBERS, RING, SECRET, TYPES,
};
use super::token_uses::TokenUses;
use super::{incarnations, levels, read_ring, replacements, secret, staged};
use base::{ClusterDescription, Version};
use bytes::Bytes;
use replica_state::layout::StoredRow;
use replication::group::Observer;

/// Beginnings of the keys of all rows.
pub const PREFIXES: &[&[u8]] = &[
    BUCKETS,
    TYPES,
    MEMBERS,
    GROUPS,
    CLUSTER,
    SECRET,
    CUSTOM,
    RING,
    INCARNATIONS,
    rows::RING_PLAN,
    rows::RING_REPLACEMENTS,
    access_rows::ACCESS,
    access_rows::USERS,
    access_rows::ROLES,
    access_rows::API_TOKENS,
    access_rows::QUOTAS,
    b"",
    // Behind the others, so that kept inputs mean what they meant.
    index_rows::INDEXES,
    index_rows::NEXT_INDEX,
];

/// Applies rows in this order, as every member does with those of the log: a row that can't be read
/// changes nothing, and all that are read are written back as they were meant.
pub fn rows(rows: &[(Vec<u8>, Option<Vec<u8>>)]) {
    let catalog = Catalog::new(ClusterDescription::default());
    for (key, value) in rows {
        if let Some(value) = value {
            read_back(key, &Bytes::copy_from_slice(value));
        }
        let row = value.as_ref().map(|value| {
            let mut row = Vec::new();
            StoredRow::write_head(Version(1), None, &mut row);
            row.extend_from_slice(value);
            Bytes::from(row)
        });
        catalog.changed(key, row.as_ref());
    }
    let cluster = catalog.cluster();
    assert!(cluster.members.is_sorted_by(|one, next| one.node < next.node), "{cluster:?}");
    assert!(cluster.groups.is_sorted_by(|one, next| one.group < next.group), "{cluster:?}");
    let mut buckets = 0;
    catalog.for_each_bucket(|_| buckets += 1);
    assert_eq!(buckets, catalog.bucket_count());
    assert_eq!(catalog.counts().values().sum::<usize>(), buckets);
    for (bucket, indexes) in catalog.indexes.all() {
        for definition in indexes.definitions.iter() {
            let owner = catalog.indexes.bucket_of(definition.number);
            assert!(owner.is_some(), "{bucket}: {definition:?} is not found by its number");
        }
        assert!(indexes.definitions.is_empty() || indexes.version > 0);
    }
}

fn read_back(key: &[u8], value: &Bytes) {
    if let Ok(bucket) = rows::read_bucket(key, Some(value)) {
        let again = rows::write_bucket(&bucket);
        assert_eq!(rows::read_bucket(key, Some(&again)), Ok(bucket));
    }
    if let Ok(properties) = rows::properties_of(value) {
        assert_eq!(rows::properties_of(&rows::write_properties(&properties)), Ok(properties));
    }
    if let Ok(member) = rows::read_member(key, value) {
        assert_eq!(rows::write_member(&member), value, "a member's row has one form");
    }
    if let Ok(placement) = rows::read_group(key, value) {
        let again = rows::write_group(&placement);
        assert_eq!(rows::read_group(key, &again), Ok(placement));
    }
    if let Ok(cluster) = rows::read_cluster(value) {
        assert_eq!(rows::write_cluster(&cluster), value, "the cluster's row has one form");
    }
    if let Ok(ring) = read_ring(value) {
        assert_eq!(read_ring(&ring.encode()).map(|ring| ring.encode()), Ok(ring.encode()));
    }
    if let Ok(changes) = staged::read(value) {
        assert_eq!(staged::read(&staged::write(&changes)), Ok(changes));
    }
    if let Ok(row) = levels::read(value) {
        assert_eq!(levels::read(&levels::write(&row)), Ok(row));
    }
    if let Ok(user) = access_rows::read_user(value) {
        assert_eq!(access_rows::write_user(&user), value, "a user's row has one form");
    }
    if let Ok(grants) = access_rows::read_role(value) {
        let again = access_rows::write_role(&grants);
        assert_eq!(access_rows::read_role(&again), Ok(grants));
    }
    if let Ok(token) = access_rows::read_api_token(value) {
        assert_eq!(access_rows::write_api_token(&token), value, "a token's row has one form");
    }
    if let Ok(quota) = access_rows::read_quota(value) {
        assert_eq!(access_rows::write_quota(&quota), value, "a quota's row has one form");
    }
    if let Ok(index) = index_rows::read_index(key, value) {
        assert_eq!(index_rows::write_index(&index), value, "an index's row has one form");
    }
    if let Ok(uses) = TokenUses::read(value) {
        assert_eq!(TokenUses::read(&uses.write()), Ok(uses));
    }
    let _ = (replacements::read(value), incarnations::read(value), secret::read(value));
    let _ = (rows::token_of(key), rows::custom_of(key), rows::member_of(key));
}
