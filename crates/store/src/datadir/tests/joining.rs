//! A directory joins one cluster, whatever cuts it short, and its list of members is whole or named
//! as damaged.

use super::super::{joiner, members};
use super::*;
use base::{
    ClusterDescription, ClusterId, GroupId, MemberDescription, Membership, NodeId, Part, Placement,
};

fn known() -> ClusterDescription {
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
fn a_directory_joins_under_one_id_and_is_then_a_member() {
    let above = tempfile::tempdir().expect("a directory");
    let path = above.path().join("data");
    let first = joiner(&path);
    let node = first.node;
    assert!(node != 0);
    assert!(matches!(DataDir::open_or_join(&path), Err(StoreError::Locked { .. })));
    drop(first);
    let refused = DataDir::open(&path).expect_err("it would begin a cluster of its own");
    assert!(refused.to_string().contains("--join"), "{refused}");
    let again = joiner(&path);
    assert_eq!(again.node, node, "cut short, it joins under the same id");
    let data = again.join(&known(), None).expect("joins");
    assert!(data.fresh);
    assert_eq!((data.cluster, data.node), (0xC, node));
    assert_eq!(data.members().expect("whole"), Some(known()));
    drop(data);
    for _ in 0..2 {
        let Opening::Open(data) = DataDir::open_or_join(&path).expect("opens") else {
            panic!("it has joined");
        };
        assert_eq!((data.cluster, data.node, data.fresh), (0xC, node, false));
    }
    let copy = DataDir::open(&path).expect("opens").twin(&above.path().join("copy"));
    let copy = copy.expect("copies");
    assert_eq!(copy.members().expect("whole"), Some(known()));
    std::fs::remove_file(copy.path.join("MEMBERS")).expect("there");
    let lost = copy.members().expect_err("a node that joined is none that founds");
    assert!(lost.to_string().contains("replace the node"), "{lost}");
}

#[test]
fn groups_that_were_made_stand_in_the_list_with_whom_they_began() {
    const KEPT: &str = "member ffffffffffffffff 18446744073709551609 replaceable n3 \
        127.0.0.1:18446744073709551615 [::1]:7711\n\
        group 2 3 0000000000000001,000000000000000b 0000000000000001=voter \
        000000000000000c=learner\n\
        group 7 1 0000000000000001\n\
        group 9 33554437 0000000000000001\nchecksum ";
    let above = tempfile::tempdir().expect("a directory");
    let data = DataDir::open(&above.path().join("data")).expect("makes");
    let nodes = |ids: &[u64]| ids.iter().map(|id| NodeId(*id)).collect();
    let made = |group, replicas, founders: &[u64]| Placement {
        group: GroupId(group),
        replicas,
        founders: nodes(founders),
        members: Vec::new(),
        quorum: None,
    };
    let members = vec![(NodeId(1), Part::Voter), (NodeId(12), Part::Learner)];
    let two = Placement { members: members.clone(), ..made(2, 3, &[1, 11]) };
    // Two of five save a value: 2 << 24 | 5.
    let quorum = Placement { quorum: Some(2), ..made(9, 5, &[1]) };
    let made = vec![two, made(7, 1, &[1]), quorum];
    let plain = Placement { group: GroupId(1), members, ..Placement::default() };
    let all = [vec![plain], made.clone()].concat();
    data.write_members(&ClusterDescription { groups: all, ..known() }).expect("writes");
    let read = data.members().expect("whole").expect("there");
    assert_eq!(read, ClusterDescription { groups: made, ..known() });
    let text = std::fs::read_to_string(data.path.join("MEMBERS")).expect("text");
    assert!(text.contains(KEPT), "{text}");
}

#[test]
fn a_founder_has_no_list_until_it_is_given_one() {
    let above = tempfile::tempdir().expect("a directory");
    let data = DataDir::open(&above.path().join("data")).expect("makes");
    assert_eq!(data.members().expect("none"), None);
    data.write_members(&known()).expect("writes");
    let fewer = ClusterDescription { members: Vec::new(), ..known() };
    data.write_members(&fewer).expect("replaces");
    assert_eq!(data.members().expect("whole"), Some(fewer));
    let mut bad = known();
    bad.members[0].name = "two words".into();
    assert!(data.write_members(&bad).is_err(), "it could not be read again");
    drop(data);
    let again = DataDir::open_or_join(&above.path().join("data")).expect("opens");
    assert!(matches!(again, Opening::Open(_)), "whoever has a cluster joins no other");
}

#[test]
fn the_kept_list_of_version_1_is_written_and_read_and_damage_is_named() {
    const KEPT: &str = "credenza members 1\ncluster 000000000000000c\nfounder 0000000000000001\n\
        lease_ms 600\nchanges 3\nmember 0000000000000001 7 member n1 - [::1]:7711\n\
        member 0000000000000002 14 leaving n2 127.0.0.1:2 [::1]:7711\n";
    let above = tempfile::tempdir().expect("a directory");
    let data = DataDir::open(&above.path().join("data")).expect("makes");
    let mut two = known();
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

/// Joins with power going after each call; gives how many states were tried.
fn cut_while_joining(honesty: Honesty) -> Result<usize, String> {
    let path = Path::new("d");
    let words = |error: StoreError| error.to_string();
    let mut states = 0;
    for calls in 0.. {
        let disk = MemoryDisk::new(honesty);
        disk.power_off_after(calls);
        let join = |disk: &MemoryDisk| -> Result<u64, StoreError> {
            let node = joiner::begin(disk, path)?;
            members::write(disk, path, &known())?;
            Identity::of(0xC, node).write(disk, path)?;
            Ok(node)
        };
        let joined = join(&disk);
        for state in crash_states(&disk, 1000, &mut |_| unreachable!("few enough to try all")) {
            states += 1;
            let node = joiner::read(&state, path).map_err(words)?;
            match Identity::read(&state, path).map_err(words)? {
                Some(identity) => {
                    if Some(identity.node) != node {
                        return Err(format!("{identity:?} beside {node:?} after call {calls}"));
                    }
                    if members::read(&state, path).map_err(words)? != Some(known()) {
                        return Err(format!("an identity and no list after call {calls}"));
                    }
                }
                None if joined.is_ok() => return Err(format!("lost after call {calls}")),
                None => {
                    let again = join(&state).map_err(words)?;
                    assert!(node.is_none_or(|node| node == again), "under the same id");
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
fn a_power_cut_leaves_a_member_or_a_directory_that_can_join_again() {
    let states = cut_while_joining(Honesty::Honest).expect("sound");
    assert!(states > 30, "{states}");
    cut_while_joining(Honesty::Lying).expect_err("the judge sees what was lost");
}

fn incarnation_id(path: &Path) -> DataDir {
    let data = joiner(path).join(&known(), None).expect("joins");
    data.begin_life().expect("begins");
    std::fs::write(data.log().join("segment"), b"damaged").expect("a file");
    std::fs::write(data.store().join("table"), b"rows").expect("a file");
    data
}

#[test]
fn damaged_data_are_set_aside_and_the_directory_joins_under_another_id() {
    let above = tempfile::tempdir().expect("a directory");
    let path = above.path().join("data");
    let data = incarnation_id(&path);
    let before = data.node;
    assert_eq!(DataDir::rejoins(&path).expect("read"), None, "nothing is under way");
    let members = ["127.0.0.1:7711".to_string(), "[::1]:7712".to_string()];
    let rejoin = data.set_aside(&members, false).expect("moved");
    assert_eq!(rejoin.aside, path.join(format!("damaged-{before:016x}")));
    assert_eq!(rejoin.members, members);
    for kept in ["log/segment", "store/table", "IDENTITY", "MEMBERS", "JOINER", "INCARNATION"] {
        assert!(rejoin.aside.join(kept).exists(), "{kept}");
        assert!(!path.join(kept).exists(), "{kept}");
    }
    // Cut short here, as often as one likes, it goes on.
    for _ in 0..2 {
        assert_eq!(DataDir::rejoins(&path).expect("read"), Some(rejoin.clone()));
    }
    let again = joiner(&path);
    assert!(again.node != before, "the old id may have promised something");
    let node = again.node;
    drop(again);
    assert_eq!(DataDir::rejoins(&path).expect("read"), Some(rejoin.clone()), "not joined yet");
    let data = joiner(&path).join(&known(), None).expect("joins");
    assert_eq!(data.node, node);
    drop(data);
    assert_eq!(DataDir::rejoins(&path).expect("read"), None, "it has joined");
    let data = DataDir::open(&path).expect("opens");
    assert_eq!(data.node, node, "the new node is not set aside by what the old one left");
    data.check_log().expect("it has not lived");
    assert!(rejoin.aside.join("log/segment").exists(), "nothing was deleted");
}

#[test]
fn setting_aside_that_was_cut_short_between_two_moves_goes_on() {
    let above = tempfile::tempdir().expect("a directory");
    let path = above.path().join("data");
    let data = incarnation_id(&path);
    let (before, members) = (data.node, vec!["127.0.0.1:7711".to_string()]);
    // What is left when the power goes after the first of the moves.
    let aside = data.set_aside(&members, false).expect("moved").aside;
    for name in ["IDENTITY", "MEMBERS", "store", "INCARNATION"] {
        std::fs::rename(aside.join(name), path.join(name)).expect("moved back");
    }
    let text = format!("moving damaged-{before:016x}\nmember 127.0.0.1:7711\n");
    let disk = FileDisk::open(&path).expect("opens");
    let file = super::super::quarantine::FILE;
    file.replace(&disk, &path, &text).expect("written");
    let rejoin = DataDir::rejoins(&path).expect("goes on").expect("it is under way");
    assert_eq!((&rejoin.aside, &rejoin.members), (&aside, &members));
    assert!(!path.join("IDENTITY").exists() && aside.join("store/table").exists());
    assert!(joiner(&path).node != before);
    file.replace(&disk, &path, "moving ../elsewhere\n").expect("written");
    assert!(matches!(DataDir::rejoins(&path), Err(StoreError::Corrupt { .. })));
}

#[test]
fn damage_found_while_the_node_ran_is_told_to_its_next_life() {
    let above = tempfile::tempdir().expect("a directory");
    let path = above.path().join("data");
    drop(incarnation_id(&path));
    let noted = || DataDir::open(&path).expect("opens").noted_damage().expect("read");
    assert_eq!(noted(), None);
    DataDir::note_damage(&path, "table 7 is damaged at byte 9:\nits checksum").expect("written");
    assert_eq!(noted(), Some("table 7 is damaged at byte 9: its checksum".into()));
    let data = DataDir::open(&path).expect("opens");
    assert!(data.set_aside(&[], true).expect("moved").witness, "it comes back as what it was");
    assert!(DataDir::rejoins(&path).expect("read").is_some_and(|rejoin| rejoin.witness));
    let data = joiner(&path).join(&known(), None).expect("joins");
    assert_eq!(data.noted_damage().expect("read"), None, "the new node has none");
}

#[test]
fn a_list_says_who_is_a_witness() {
    let above = tempfile::tempdir().expect("a directory");
    let path = above.path().join("data");
    let mut told = known();
    let node = joiner(&path).node;
    let members = vec![(NodeId(1), Part::Voter), (NodeId(node), Part::Witness)];
    told.groups = vec![Placement { members, ..Placement::default() }];
    let data = joiner(&path).join(&told, None).expect("joins");
    let read = data.members().expect("read").expect("it is there");
    assert_eq!(read.groups, told.groups, "without founders");
    assert!(read.is_witness(NodeId(node)) && !read.is_witness(NodeId(1)));
}
