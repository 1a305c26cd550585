//! Tests of the catalog: it is a function of the applied rows.

use super::rows::{ClusterRow, member_key, write_cluster, write_member};
use super::*;
use base::{Membership, Version};

fn member(node: u64) -> MemberDescription {
    let (peer, client) = (format!("a:{node}"), String::new());
    let (node, name, membership) = (NodeId(node), format!("n{node}"), Membership::Member);
    MemberDescription { node, name, peer, client, incarnation: 0, membership }
}

fn apply_row(catalog: &Catalog, key: &[u8], value: Option<Value>) {
    let row = value.map(|value| {
        let mut bytes = Vec::new();
        StoredRow::write_head(Version(1), None, &mut bytes);
        bytes.extend_from_slice(&value);
        Bytes::from(bytes)
    });
    catalog.changed(key, row.as_ref());
}

#[test]
fn catalog_keeps_described_members_until_its_log_catches_up() {
    let described = ClusterDescription {
        changes: 2,
        members: vec![member(1), member(2)],
        ..ClusterDescription::default()
    };
    let catalog = Catalog::new(described.clone());
    let set_changes = |changes| {
        let row = ClusterRow { founder: NodeId(1), lease_ms: 600, changes };
        apply_row(&catalog, CLUSTER, Some(write_cluster(&row)));
    };
    let names = || -> Vec<_> {
        catalog.cluster().members.iter().map(|member| member.name.clone()).collect()
    };
    // The node's log begins when the founder was alone.
    apply_row(&catalog, &member_key(NodeId(1)), Some(write_member(&member(1))));
    set_changes(0);
    assert_eq!(names(), ["n1", "n2"], "what it was told is newer");
    apply_row(&catalog, &member_key(NodeId(3)), Some(write_member(&member(3))));
    set_changes(1);
    assert_eq!(names(), ["n1", "n2"]);
    apply_row(&catalog, &member_key(NodeId(2)), Some(write_member(&member(2))));
    set_changes(2);
    assert_eq!(names(), ["n1", "n2", "n3"], "from here on it sees for itself");
    apply_row(&catalog, &member_key(NodeId(3)), None);
    assert_eq!(names(), ["n1", "n2"]);
    apply_row(&catalog, b"m/no digits", Some(Value::from_static(b"no row")));
    assert_eq!(names(), ["n1", "n2"], "a row that can't be read changes nothing");
}

#[test]
fn catalog_lists_a_counted_bucket_in_each_group_that_keeps_rows_of_it() {
    let catalog = Catalog::new(ClusterDescription::default());
    let name = BucketName::parse("fruit").expect("a name");
    let describe = |counted, moving| BucketDescription {
        name: name.clone(),
        id: BucketId(3),
        group: GroupId(1),
        properties: Properties { counted, ..Properties::default() },
        moving,
    };
    let apply = |bucket: &BucketDescription| {
        let row = rows::write_bucket(bucket);
        let is_marked = row.windows(7).any(|bytes| bytes == b"counted");
        assert_eq!(is_marked, bucket.properties.counted, "an earlier program reads the others");
        apply_row(&catalog, &rows::bucket_key(&name), Some(row));
        catalog.watch_counted().borrow().iter().copied().collect::<Vec<_>>()
    };
    let moving = Some(base::MoveDestination { group: GroupId(2), id: BucketId(4) });
    let (here, there) = ((GroupId(1), BucketId(3)), (GroupId(2), BucketId(4)));
    assert!(apply(&describe(false, None)).is_empty());
    assert_eq!(apply(&describe(true, None)), [here]);
    assert_eq!(apply(&describe(true, moving)), [here, there]);
    assert!(apply(&describe(false, moving)).is_empty());
    apply(&describe(true, None));
    apply_row(&catalog, &rows::bucket_key(&name), None);
    assert!(catalog.watch_counted().borrow().is_empty(), "it was dropped");
}
