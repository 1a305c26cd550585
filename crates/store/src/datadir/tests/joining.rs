//! A directory joins one cluster despite any interruption, and its list of members is complete or
//! reported as damaged.

use super::super::{joiner, members};
use super::*;
use base::{
    ClusterDescription, ClusterId, FeatureLevel, GroupId, MemberDescription, Membership, NodeId,
    Part, Placement,
};

fn description() -> ClusterDescription {
    let member = |node: u64, name: &str, membership| MemberDescription {
        node: NodeId(node),
        name: name.into(),
        peer: if node == 1 { String::new() } else { format!("127.0.0.1:{node}") },
        client: "[::1]:7711".into(),
        incarnation: node.wrapping_mul(7),
        membership,
    };
    ClusterDescription {
        cluster: ClusterId(0xC),
        founder: NodeId(1),
        lease_ms: 600,
        changes: 3,
        level: FeatureLevel::FIRST,
        members: vec![
            member(1, "n1", Membership::Member),
            member(2, "n2", Membership::Leaving),
            member(u64::MAX, "n3", Membership::Replaceable),
        ],
        groups: Vec::new(),
    }
}

fn joiner(path: &Path) -> Joiner {
    match DataDir::open_or_join(path).expect("opens") {
        Opening::Joining(joiner) => joiner,
        Opening::Open(_) => panic!("it has not joined"),
    }
}

#[test]
fn directory_joins_under_one_id_and_is_then_a_member() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    let first = joiner(&path);
    let node = first.node;
    assert!(node != 0);
    assert!(matches!(DataDir::open_or_join(&path), Err(StoreError::Locked { .. })));
    drop(first);
    let refused = DataDir::open(&path).expect_err("it would begin a cluster of its own");
    assert!(refused.to_string().contains("--join"), "{refused}");
    let reopened = joiner(&path);
    assert_eq!(reopened.node, node, "cut short, it joins under the same id");
    let data = reopened.join(&description(), None).expect("joins");
    assert!(data.is_fresh);
    assert_eq!((data.cluster, data.node), (0xC, node));
    assert_eq!(data.members().expect("whole"), Some(description()));
    drop(data);
    for _ in 0..2 {
        let Opening::Open(data) = DataDir::open_or_join(&path).expect("opens") else {
            panic!("it has joined");
        };
        assert_eq!((data.cluster, data.node, data.is_fresh), (0xC, node, false));
    }
    let copy = DataDir::open(&path).expect("opens").copy_identity_to(&parent.path().join("copy"));
    let copy = copy.expect("copies");
    assert_eq!(copy.members().expect("whole"), Some(description()));
    std::fs::remove_file(copy.path.join("MEMBERS")).expect("there");
    let lost = copy.members().expect_err("a node that joined is none that founds");
    assert!(lost.to_string().contains("replace the node"), "{lost}");
}

#[test]
fn member_list_keeps_created_groups_with_their_founders() {
    const KEPT: &str = "member ffffffffffffffff 18446744073709551609 replaceable n3 \
        127.0.0.1:18446744073709551615 [::1]:7711\n\
        group 2 3 0000000000000001,000000000000000b 0000000000000001=voter \
        000000000000000c=learner\n\
        group 7 1 0000000000000001\n\
        group 9 33554437 0000000000000001\nchecksum ";
    let parent = tempfile::tempdir().expect("a directory");
    let data = DataDir::open(&parent.path().join("data")).expect("makes");
    let nodes = |ids: &[u64]| ids.iter().map(|id| NodeId(*id)).collect();
    let created = |group, replicas, founders: &[u64]| Placement {
        group: GroupId(group),
        replicas,
        founders: nodes(founders),
        members: Vec::new(),
        quorum: None,
    };
    let members = vec![(NodeId(1), Part::Voter), (NodeId(12), Part::Learner)];
    let two = Placement { members: members.clone(), ..created(2, 3, &[1, 11]) };
    // Quorum of two in five replicas: 2 << 24 | 5.
    let quorum = Placement { quorum: Some(2), ..created(9, 5, &[1]) };
    let created = vec![two, created(7, 1, &[1]), quorum];
    let plain = Placement { group: GroupId(1), members, ..Placement::default() };
    let all = [vec![plain], created.clone()].concat();
    data.write_members(&ClusterDescription { groups: all, ..description() }).expect("writes");
    let read = data.members().expect("whole").expect("there");
    assert_eq!(read, ClusterDescription { groups: created, ..description() });
    let text = std::fs::read_to_string(data.path.join("MEMBERS")).expect("text");
    assert!(text.contains(KEPT), "{text}");
}

#[test]
fn founding_node_has_no_member_list_until_it_is_written() {
    let parent = tempfile::tempdir().expect("a directory");
    let data = DataDir::open(&parent.path().join("data")).expect("makes");
    assert_eq!(data.members().expect("none"), None);
    data.write_members(&description()).expect("writes");
    let fewer = ClusterDescription { members: Vec::new(), ..description() };
    data.write_members(&fewer).expect("replaces");
    assert_eq!(data.members().expect("whole"), Some(fewer));
    let mut bad = description();
    bad.members[0].name = "two words".into();
    assert!(data.write_members(&bad).is_err(), "it could not be read again");
    drop(data);
    let reopened = DataDir::open_or_join(&parent.path().join("data")).expect("opens");
    assert!(matches!(reopened, Opening::Open(_)), "whoever has a cluster joins no other");
}

#[test]
fn member_list_version_1_matches_golden_text_and_damage_is_detected() {
    const KEPT: &str = "credenza members 1\ncluster 000000000000000c\nfounder 0000000000000001\n\
        lease_ms 600\nchanges 3\nmember 0000000000000001 7 member n1 - [::1]:7711\n\
        member 0000000000000002 14 leaving n2 127.0.0.1:2 [::1]:7711\n";
    let parent = tempfile::tempdir().expect("a directory");
    let data = DataDir::open(&parent.path().join("data")).expect("makes");
    let mut two = description();
    two.members.pop();
    data.write_members(&two).expect("writes");
    let file = data.path.join("MEMBERS");
    let good = std::fs::read_to_string(&file).expect("text");
    let (front, sum) = good.rsplit_once("checksum ").expect("has one");
    assert_eq!((front, sum), (KEPT, "e33da01980ef2cc7\n"), "the format's kept example");
    assert_eq!(mode(&file), 0o600);
    for at in 0..good.len() {
        let mut bytes = good.clone().into_bytes();
        bytes[at] ^= 1;
        std::fs::write(&file, &bytes).expect("writes");
        let refused = data.members().expect_err("damaged");
        assert!(matches!(&refused, StoreError::Corrupt { file, .. } if file.ends_with("MEMBERS")));
        std::fs::write(&file, &good.as_bytes()[..at]).expect("writes");
        assert!(data.members().is_err(), "cut at {at}");
    }
}

/// Joins with a power cut after each call. Returns the number of states tried.
fn cut_power_while_joining(honesty: Honesty) -> Result<usize, String> {
    let path = Path::new("d");
    let to_text = |error: StoreError| error.to_string();
    let mut states = 0;
    for calls in 0.. {
        let disk = MemoryDisk::new(honesty);
        disk.power_off_after(calls);
        let join = |disk: &MemoryDisk| -> Result<u64, StoreError> {
            let node = joiner::begin(disk, path)?;
            members::write(disk, path, &description())?;
            Identity::new(0xC, node).write(disk, path)?;
            Ok(node)
        };
        let joined = join(&disk);
        for state in crash_states(&disk, 1000, &mut |_| unreachable!("few enough to try all")) {
            states += 1;
            let node = joiner::read(&state, path).map_err(to_text)?;
            match Identity::read(&state, path).map_err(to_text)? {
                Some(identity) => {
                    if Some(identity.node) != node {
                        return Err(format!("{identity:?} beside {node:?} after call {calls}"));
                    }
                    if members::read(&state, path).map_err(to_text)? != Some(description()) {
                        return Err(format!("an identity and no list after call {calls}"));
                    }
                }
                None if joined.is_ok() => return Err(format!("lost after call {calls}")),
                None => {
                    let retried = join(&state).map_err(to_text)?;
                    assert!(node.is_none_or(|node| node == retried), "under the same id");
                }
            }
        }
        if joined.is_ok() {
            break;
        }
    }
    Ok(states)
}

#[test]
fn power_cut_while_joining_leaves_a_member_or_a_retryable_joiner() {
    let states = cut_power_while_joining(Honesty::Honest).expect("sound");
    assert!(states > 30, "{states}");
    cut_power_while_joining(Honesty::Lying).expect_err("the judge sees what was lost");
}

fn joined_directory(path: &Path) -> DataDir {
    let data = joiner(path).join(&description(), None).expect("joins");
    data.increment_incarnation().expect("begins");
    std::fs::write(data.log().join("segment"), b"damaged").expect("a file");
    std::fs::write(data.store().join("table"), b"rows").expect("a file");
    data
}

#[test]
fn damaged_data_is_set_aside_and_directory_joins_under_another_id() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    let data = joined_directory(&path);
    let before = data.node;
    assert_eq!(DataDir::resume_set_aside(&path).expect("read"), None, "nothing is under way");
    let members = ["127.0.0.1:7711".to_string(), "[::1]:7712".to_string()];
    let rejoin = data.set_aside(&members, false).expect("moved");
    assert_eq!(rejoin.damaged_path, path.join(format!("damaged-{before:016x}")));
    assert_eq!(rejoin.members, members);
    for kept in ["log/segment", "store/table", "IDENTITY", "MEMBERS", "JOINER", "INCARNATION"] {
        assert!(rejoin.damaged_path.join(kept).exists(), "{kept}");
        assert!(!path.join(kept).exists(), "{kept}");
    }
    // Interrupted here, any number of times, it continues.
    for _ in 0..2 {
        assert_eq!(DataDir::resume_set_aside(&path).expect("read"), Some(rejoin.clone()));
    }
    let reopened = joiner(&path);
    assert!(reopened.node != before, "the old id may have promised something");
    let node = reopened.node;
    drop(reopened);
    assert_eq!(
        DataDir::resume_set_aside(&path).expect("read"),
        Some(rejoin.clone()),
        "not joined yet"
    );
    let data = joiner(&path).join(&description(), None).expect("joins");
    assert_eq!(data.node, node);
    drop(data);
    assert_eq!(DataDir::resume_set_aside(&path).expect("read"), None, "it has joined");
    let data = DataDir::open(&path).expect("opens");
    assert_eq!(data.node, node, "the new node is not set aside by what the old one left");
    data.check_log().expect("it has not lived");
    assert!(rejoin.damaged_path.join("log/segment").exists(), "nothing was deleted");
}

#[test]
fn interrupted_set_aside_resumes_at_the_next_start() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    let data = joined_directory(&path);
    let (before, members) = (data.node, vec!["127.0.0.1:7711".to_string()]);
    // The state that a power cut after the first move leaves.
    let damaged_path = data.set_aside(&members, false).expect("moved").damaged_path;
    for name in ["IDENTITY", "MEMBERS", "store", "INCARNATION"] {
        std::fs::rename(damaged_path.join(name), path.join(name)).expect("moved back");
    }
    let text = format!("moving damaged-{before:016x}\nmember 127.0.0.1:7711\n");
    let disk = FileDisk::open(&path).expect("opens");
    let file = super::super::quarantine::FILE;
    file.replace(&disk, &path, &text).expect("written");
    let rejoin = DataDir::resume_set_aside(&path).expect("goes on").expect("it is under way");
    assert_eq!((&rejoin.damaged_path, &rejoin.members), (&damaged_path, &members));
    assert!(!path.join("IDENTITY").exists() && damaged_path.join("store/table").exists());
    assert!(joiner(&path).node != before);
    file.replace(&disk, &path, "moving ../elsewhere\n").expect("written");
    assert!(matches!(DataDir::resume_set_aside(&path), Err(StoreError::Corrupt { .. })));
}

#[test]
fn damage_noted_at_runtime_is_reported_at_the_next_start() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    drop(joined_directory(&path));
    let noted = || DataDir::open(&path).expect("opens").damage_record().expect("read");
    assert_eq!(noted(), None);
    DataDir::record_damage(&path, "table 7 is damaged at byte 9:\nits checksum").expect("written");
    assert_eq!(noted(), Some("table 7 is damaged at byte 9: its checksum".into()));
    let data = DataDir::open(&path).expect("opens");
    assert!(data.set_aside(&[], true).expect("moved").is_witness, "it comes back as what it was");
    assert!(
        DataDir::resume_set_aside(&path).expect("read").is_some_and(|rejoin| rejoin.is_witness)
    );
    let data = joiner(&path).join(&description(), None).expect("joins");
    assert_eq!(data.damage_record().expect("read"), None, "the new node has none");
}

#[test]
fn member_list_records_which_member_is_a_witness() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    let mut expected = description();
    let node = joiner(&path).node;
    let members = vec![(NodeId(1), Part::Voter), (NodeId(node), Part::Witness)];
    expected.groups = vec![Placement { members, ..Placement::default() }];
    let data = joiner(&path).join(&expected, None).expect("joins");
    let read = data.members().expect("read").expect("it is there");
    assert_eq!(read.groups, expected.groups, "without founders");
    assert!(read.is_witness(NodeId(node)) && !read.is_witness(NodeId(1)));
}
