//! Data directory: its small files with any content, of which some have valid checksums.

use crate::input::InputReader;
use crate::scratch;
use base::codec::checksum;
use base::{
    ClusterDescription, ClusterId, ClusterSecret, FeatureLevel, GroupId, MemberDescription,
    Membership, NodeId, Part, Placement,
};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use store::{DataDir, StoreError};
use tempfile::TempDir;

/// Most files that an input changes.
const FILES_MAX: usize = 6;

/// Opens a copy of a directory with changed files, and reads all of it.
pub fn run(input: &[u8]) {
    static SOUND: OnceLock<TempDir> = OnceLock::new();
    let folder = SOUND.get_or_init(make).path();
    let (path, mut input) = (folder.join("changed"), InputReader::new(input));
    scratch::copy(&folder.join("sound"), &path);
    for name in ["log", "store", "crash"] {
        fs::create_dir_all(path.join(name)).expect("a folder");
    }
    for _ in 0..FILES_MAX {
        if input.is_empty() {
            break;
        }
        change(&path, &mut input);
    }
    let opened = DataDir::open(&path);
    let Some(dir) = expect_known(opened) else { return };
    let members = expect_known(dir.members()).flatten();
    let _ = expect_known(dir.highest_group());
    let _ = (expect_known(dir.secret()), expect_known(dir.outdated_reason()));
    let _ = (expect_known(dir.damage_record()), expect_known(dir.incarnations()));
    let number = expect_known(dir.increment_incarnation());
    if let Some(number) = number {
        let known = expect_known(dir.begin_incarnation(number));
        assert!(known.is_none_or(|known| known.iter().any(|id| id.number == number)));
        assert!(expect_known(dir.increment_incarnation()).is_none_or(|next| next > number));
    }
    if let Some(members) = members {
        dir.write_members(&members).expect("memory takes it");
        let again = dir.members().expect("it was written").expect("it was written");
        assert_eq!((again.cluster, again.members), (members.cluster, members.members));
    }
}

/// Returns the value; `None` for an error that names the damage.
fn expect_known<T>(outcome: Result<T, StoreError>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(
            StoreError::Corrupt { .. }
            | StoreError::Version { .. }
            | StoreError::Level { .. }
            | StoreError::Io { .. }
            | StoreError::Locked { .. },
        ) => None,
        Err(other) => panic!("{other}"),
    }
}

fn make() -> TempDir {
    let folder = scratch::folder();
    let dir = DataDir::open(&folder.path().join("sound")).expect("a new directory");
    let member = |node: u64| MemberDescription {
        node: NodeId(node),
        name: format!("n{node}"),
        peer: format!("127.0.0.1:{node}"),
        client: String::new(),
        incarnation: node,
        membership: Membership::Member,
    };
    let placement = Placement {
        group: GroupId(1),
        members: vec![(NodeId(1), Part::Voter), (NodeId(2), Part::Witness)],
        replicas: 3,
        founders: vec![NodeId(1)],
        quorum: None,
    };
    let description = ClusterDescription {
        cluster: ClusterId(dir.cluster),
        founder: NodeId(1),
        lease_ms: 600,
        changes: 3,
        level: FeatureLevel::FIRST,
        members: vec![member(1), member(2)],
        groups: vec![placement],
    };
    dir.write_members(&description).expect("memory takes it");
    let secret = ClusterSecret::new([7; ClusterSecret::BYTES]);
    dir.write_secret(&secret, true).expect("memory takes it");
    let number = dir.increment_incarnation().expect("memory takes it");
    dir.begin_incarnation(number).expect("memory takes it");
    dir.mark_outdated("a newer life").expect("memory takes it");
    drop(dir);
    DataDir::record_damage(&folder.path().join("sound"), "a bad block").expect("it takes it");
    folder
}

/// Changes one of the files; most keep a valid last line.
fn change(path: &Path, input: &mut InputReader<'_>) {
    let files = scratch::files(path);
    let Some(file) = files.get(input.below(files.len())) else { return };
    let file = path.join(file);
    let mut bytes = fs::read(&file).expect("it is there");
    let is_sealed = input.below(4) > 0;
    let at = usize::from(input.u8()) * 4 % bytes.len().max(1);
    match input.below(6) {
        0 => bytes = input.block().to_vec(),
        1 => bytes.truncate(at),
        2 => drop(bytes.splice(at.min(bytes.len()).., input.block().iter().copied())),
        3 => {
            let _ = fs::remove_file(&file);
            return;
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = input.u8();
            }
        }
    }
    if is_sealed {
        seal(&mut bytes);
    }
    fs::write(&file, bytes).expect("memory takes it");
}

/// Replaces the last line by a valid checksum of those before.
fn seal(bytes: &mut Vec<u8>) {
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let front = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    bytes.truncate(front);
    let sum = format!("checksum {:016x}\n", checksum(bytes, 0));
    bytes.extend_from_slice(sum.as_bytes());
}
