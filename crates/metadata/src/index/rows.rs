//! Rows of declared indexes: their keys and their bytes.
//!
//! ```text
//! n/index                      -> the next index's number, for all buckets
//! x/<type>/<bucket>/<index>    -> version (1), state (1), what the state has, the bucket's number
//!                                 in the group that it moves to where the index is complete there,
//!                                 definition
//! ```

use crate::rows::{ROW_VERSION, RowResult, bad_row, check_version};
use base::codec::{Malformed, Reader, Writer};
use base::index::{BuildProgress, IndexDescription, IndexSpec, IndexState};
use base::limits::{INDEX_CAUSE_BYTES_MAX, PEERS_MAX};
use base::{BucketId, BucketName, Key, NodeId, Result, Value};
use bytes::Bytes;
use indexes::IndexDefinition;
use std::collections::BTreeMap;

/// Prefix of the indexes.
pub(crate) const INDEXES: &[u8] = b"x/";
/// Key of the next index's number.
pub(crate) const NEXT_INDEX: &[u8] = b"n/index";
/// Longest definition: all its parts at their limits.
const DEFINITION_BYTES_MAX: usize = 2 * 1024;

const BUILDING: u8 = 0;
const READY: u8 = 1;
const FAILED: u8 = 2;
const DROPPING: u8 = 3;

/// Declared index, as the directory keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryIndex {
    /// Definition of the index.
    pub definition: IndexDefinition,
    /// State of the index.
    pub state: DirectoryState,
    /// Number of the bucket in the group to which it moves, if the index is complete there. No
    /// other move has this number, so it needs no reset.
    pub complete_at: Option<BucketId>,
}

/// State of a declared index in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryState {
    /// Building: entries of older records are being added.
    Building {
        /// Progress in the group of a consistent bucket.
        progress: BuildProgress,
        /// Progress at the nodes that hold rows of an available bucket.
        nodes: BTreeMap<NodeId, NodeProgress>,
    },
    /// Ready for queries.
    Ready,
    /// Building it failed, for this reason.
    Failed(String),
    /// Dropping: the group of a consistent bucket removes its entries.
    Dropping,
}

/// Progress of one node in building an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeProgress {
    /// Progress in the rows that it holds.
    pub progress: BuildProgress,
    /// True if every row that the node holds has its entries, and every write maintains them.
    pub is_complete: bool,
}

impl DirectoryState {
    /// Returns the state at the beginning.
    pub fn begin() -> DirectoryState {
        DirectoryState::Building { progress: BuildProgress::default(), nodes: BTreeMap::new() }
    }
}

impl DirectoryIndex {
    /// Returns the description for clients.
    pub fn describe(&self) -> IndexDescription {
        let IndexDefinition { number, name, path, value_type, format, is_unique, is_strict } =
            &self.definition;
        let spec = IndexSpec {
            name: name.to_string(),
            path: path.to_string(),
            value_type: value_type.name().into(),
            format: format.name().into(),
            is_unique: *is_unique,
            is_strict: *is_strict,
        };
        let state = match &self.state {
            DirectoryState::Building { progress, nodes } => {
                let of_nodes = nodes.values().map(|node| node.progress);
                IndexState::Building(of_nodes.fold(*progress, BuildProgress::plus))
            }
            DirectoryState::Ready => IndexState::Ready,
            DirectoryState::Failed(cause) => IndexState::Failed(cause.clone()),
            DirectoryState::Dropping => IndexState::Dropping,
        };
        IndexDescription { number: number.0, spec, state }
    }

    /// Returns true if writes maintain the entries of the index.
    pub fn is_in_force(&self) -> bool {
        match self.state {
            DirectoryState::Building { .. } | DirectoryState::Ready => true,
            DirectoryState::Failed(_) | DirectoryState::Dropping => false,
        }
    }
}

/// Returns the prefix of the keys of a bucket's indexes.
pub(crate) fn bucket_prefix(bucket: &BucketName) -> Key {
    Bytes::from(format!("x/{bucket}/"))
}

/// Returns the key of an index.
pub(crate) fn index_key(bucket: &BucketName, index: &str) -> Key {
    Bytes::from(format!("x/{bucket}/{index}"))
}

/// Returns the bucket and the name in the key of an index.
pub(crate) fn index_of(key: &[u8]) -> Option<(BucketName, &str)> {
    let text = std::str::from_utf8(key.strip_prefix(INDEXES)?).ok()?;
    let (bucket, index) = text.rsplit_once('/')?;
    Some((BucketName::from_full(bucket).ok()?, index))
}

/// Returns the bytes of a row.
pub(crate) fn write_index(index: &DirectoryIndex) -> Value {
    let mut bytes = vec![ROW_VERSION];
    match &index.state {
        DirectoryState::Building { progress, nodes } => {
            bytes.put_u8(BUILDING);
            put_progress(*progress, &mut bytes);
            bytes.put_u32(nodes.len() as u32);
            for (node, NodeProgress { progress, is_complete }) in nodes {
                bytes.put_u64(node.0);
                put_progress(*progress, &mut bytes);
                bytes.put_u8((*is_complete).into());
            }
        }
        DirectoryState::Ready => bytes.put_u8(READY),
        DirectoryState::Failed(cause) => {
            bytes.put_u8(FAILED);
            bytes.put_string(cause.as_bytes());
        }
        DirectoryState::Dropping => bytes.put_u8(DROPPING),
    }
    bytes.put_u8(index.complete_at.is_some().into());
    if let Some(bucket) = index.complete_at {
        bytes.put_u32(bucket.0);
    }
    bytes.put_string(&index.definition.encode());
    bytes.into()
}

/// Decodes a row.
pub(crate) fn read_index(key: &[u8], value: &[u8]) -> Result<DirectoryIndex> {
    let read = || {
        let mut reader = Reader::new(value);
        check_version(&mut reader, "index")?;
        let state = take_state(&mut reader)?;
        let complete_at = match take_bool(&mut reader)? {
            true => Some(BucketId(reader.u32("index")?)),
            false => None,
        };
        let definition = reader.string(DEFINITION_BYTES_MAX, "index")?;
        let definition = IndexDefinition::decode(definition)?;
        reader.end("index")?;
        let (_, name) = index_of(key).ok_or(Malformed("index's name"))?;
        if definition.name.as_str() != name {
            return Err(Malformed("index's name"));
        }
        Ok(DirectoryIndex { definition, state, complete_at })
    };
    read().map_err(bad_row)
}

fn take_state(reader: &mut Reader<'_>) -> RowResult<DirectoryState> {
    Ok(match reader.u8("state of an index")? {
        BUILDING => {
            let progress = take_progress(reader)?;
            let count = reader.u32("nodes of an index")? as usize;
            if count > PEERS_MAX {
                return Err(Malformed("nodes of an index"));
            }
            let mut nodes = BTreeMap::new();
            for _ in 0..count {
                let node = NodeId(reader.u64("node of an index")?);
                let progress = take_progress(reader)?;
                let entry = NodeProgress { progress, is_complete: take_bool(reader)? };
                if nodes.last_key_value().is_some_and(|(last, _)| *last >= node) {
                    return Err(Malformed("nodes of an index"));
                }
                nodes.insert(node, entry);
            }
            DirectoryState::Building { progress, nodes }
        }
        READY => DirectoryState::Ready,
        FAILED => {
            let cause = reader.string(INDEX_CAUSE_BYTES_MAX, "cause")?;
            let cause = std::str::from_utf8(cause).map_err(|_| Malformed("cause"))?;
            DirectoryState::Failed(cause.into())
        }
        DROPPING => DirectoryState::Dropping,
        _ => return Err(Malformed("state of an index")),
    })
}

fn put_progress(progress: BuildProgress, bytes: &mut Vec<u8>) {
    bytes.put_u64(progress.done);
    bytes.put_u64(progress.total);
}

fn take_progress(reader: &mut Reader<'_>) -> RowResult<BuildProgress> {
    Ok(BuildProgress { done: reader.u64("progress")?, total: reader.u64("progress")? })
}

fn take_bool(reader: &mut Reader<'_>) -> RowResult<bool> {
    match reader.u8("yes or no")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("yes or no")),
    }
}

/// Returns the bytes of the next number.
pub(crate) fn write_next(next: u32) -> Value {
    Bytes::copy_from_slice(&next.to_le_bytes())
}

/// Decodes the next number. A cluster without the row never had an index.
pub(crate) fn read_next(value: Option<&Value>) -> Result<u32> {
    let Some(value) = value else { return Ok(1) };
    let mut reader = Reader::new(value);
    let next = reader.u32("next index").map_err(bad_row)?;
    reader.end("next index").map_err(bad_row).map(|()| next)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use indexes::{IndexName, IndexNumber, JsonPath, ValueFormat, ValueType};

    /// Returns a definition of integers.
    pub(crate) fn definition(number: u32, name: &str) -> IndexDefinition {
        IndexDefinition {
            number: IndexNumber(number),
            name: IndexName::parse(name).expect("a name"),
            path: JsonPath::parse("$.count").expect("a path"),
            value_type: ValueType::Int,
            format: ValueFormat::Json,
            is_unique: false,
            is_strict: false,
        }
    }

    fn bucket() -> BucketName {
        BucketName::from_full("logs/web").expect("a name")
    }

    fn examples() -> Vec<(Key, Value)> {
        let node = |done, is_complete| NodeProgress {
            progress: BuildProgress { done, total: 9 },
            is_complete,
        };
        let nodes = BTreeMap::from([(NodeId(1), node(7, false)), (NodeId(0x0203), node(9, true))]);
        let progress = BuildProgress { done: 0x0405, total: 0x0607_0809 };
        let at_nodes = DirectoryState::Building { progress: BuildProgress::default(), nodes };
        let in_group = DirectoryState::Building { progress, nodes: BTreeMap::new() };
        let states = [
            ("begun", DirectoryState::begin(), None),
            ("in-group", in_group, Some(BucketId(0x0A0B))),
            ("at-nodes", at_nodes, None),
            ("ready", DirectoryState::Ready, Some(BucketId(3))),
            ("failed", DirectoryState::Failed("two keys".into()), None),
            ("dropping", DirectoryState::Dropping, None),
        ];
        let row = |(number, (name, state, complete_at))| {
            let definition = definition(number, name);
            let index = DirectoryIndex { definition, state, complete_at };
            (index_key(&bucket(), name), write_index(&index))
        };
        let rows = (258..).zip(states).map(row);
        std::iter::once((Bytes::from_static(NEXT_INDEX), write_next(264))).chain(rows).collect()
    }

    #[test]
    fn index_rows_match_golden_file() {
        let mut text = String::new();
        for (key, value) in examples() {
            let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            text.push_str(&format!("{} {digits}\n", String::from_utf8_lossy(&key)));
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../systest/golden/indexes-v1.txt");
        if std::env::var("CREDENZA_KEEP").is_ok_and(|what| what == "golden")
            && !std::path::Path::new(path).exists()
        {
            std::fs::write(path, &text).expect("the kept bytes can be written");
        }
        let kept = std::fs::read_to_string(path).expect("the kept bytes are there");
        assert_eq!(text, kept, "{path}: what was once written is never changed");
    }

    #[test]
    fn index_rows_round_trip_and_their_prefixes_are_refused() {
        for (key, value) in examples().into_iter().skip(1) {
            let index = read_index(&key, &value).expect("it reads back");
            assert_eq!(write_index(&index), value);
            for end in 0..value.len() {
                assert!(read_index(&key, &value[..end]).is_err(), "{key:?} cut at {end}");
            }
            assert!(read_index(&key, &[&value[..], &[0]].concat()).is_err(), "{key:?}");
            let newer = [&[2][..], &value[1..]].concat();
            assert!(read_index(&key, &newer).is_err(), "{key:?} of a later version");
            let elsewhere = index_key(&bucket(), "another");
            assert!(read_index(&elsewhere, &value).is_err(), "the name stands in the key, too");
        }
        assert_eq!(read_next(None), Ok(1));
        assert_eq!(read_next(Some(&write_next(7))), Ok(7));
        assert!(read_next(Some(&Bytes::from_static(&[1, 0, 0]))).is_err());
        assert!(read_next(Some(&Bytes::from_static(&[1, 0, 0, 0, 0]))).is_err());
    }

    #[test]
    fn nodes_of_a_row_stand_in_order_once_each_and_are_bounded() {
        let (key, value) = examples().swap_remove(3);
        let first = 2 + 16 + 4;
        let node = 8 + 16 + 1;
        let mut same = value.to_vec();
        same.copy_within(first..first + 8, first + node);
        assert!(read_index(&key, &same).is_err(), "a node stands twice");
        let mut many = value.to_vec();
        many[first - 4..first].copy_from_slice(&(PEERS_MAX as u32 + 1).to_le_bytes());
        let error = read_index(&key, &many).expect_err("a count is checked first");
        assert!(error.text().contains("nodes of an index"), "{error}");
    }

    #[test]
    fn keys_name_bucket_and_index() {
        let key = index_key(&bucket(), "by-name");
        assert_eq!(index_of(&key), Some((bucket(), "by-name")));
        assert!(key.starts_with(&bucket_prefix(&bucket())));
        let longer = BucketName::from_full("logs/web2").expect("a name");
        assert!(!index_key(&longer, "a").starts_with(&bucket_prefix(&bucket())));
        for other in [&b"x/logs"[..], b"x/logs/web", b"x/A/b/c", b"b/logs/web/c", b"x/\xff/b/c"] {
            assert_eq!(index_of(other), None, "{other:?}");
        }
    }
}
