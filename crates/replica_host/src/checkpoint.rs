//! A copy of the whole node while it works.

use crate::data_dir::OpenDataDir;
use crate::flush::StoreFlusher;
use crate::groups::Groups;
use base::error::shutting_down;
use base::{Error, NodeId, Reason, Result};
use metadata::catalog::Catalog;
use runtime::FileTasks;
use runtime::log_writer::store_error;
use std::path::Path;
use std::sync::Arc;
use store::failpoint::{Point, reach};
use store::{FileDisk, Log, LogSettings, Owner, Record, RecordKind, StagingFolder};

/// Writer of checkpoints.
pub struct Checkpointer {
    /// Id of this node.
    pub node: NodeId,
    /// Size of a segment of the copy's log.
    pub segment_bytes: u64,
    /// Groups with a replica here.
    pub groups: Arc<Groups>,
    /// The applied directory.
    pub catalog: Arc<Catalog>,
    /// Runner of flush rounds.
    pub flusher: Arc<StoreFlusher>,
    /// The data directory.
    pub data: Arc<OpenDataDir>,
    /// Tasks that write files.
    pub file_tasks: Arc<FileTasks>,
}

impl Checkpointer {
    /// See `Node::checkpoint`.
    ///
    /// Flushes the store and links its tables, and writes the state that exists only in the log
    /// into a new log beside them. Both happen with flushes excluded, so that the copy is the state
    /// of one moment.
    pub fn checkpoint(&self, target: &Path) -> Result<()> {
        let _task = self.file_tasks.begin()?;
        if target.exists() {
            let text = format!("{} exists: name a directory that does not", target.display());
            return Err(Error::new(Reason::AlreadyExists, text));
        }
        if self.catalog.cluster().is_witness(self.node) {
            let text = "this node is a witness and has no rows: take the checkpoint at another \
                        member";
            return Err(Error::new(Reason::NotSupported, text));
        }
        let _guard = self.flusher.exclude();
        // Read before the tables are flushed: promised ballots only rise and decided entries stay
        // decided, so these values fit any later state.
        let consensus: Vec<_> = self
            .groups
            .all()
            .into_iter()
            .map(|group| {
                let state = group.state();
                (group.id, state.replica.promised(), state.replica.accepted_ballot())
            })
            .collect();
        self.flusher.flush_tables()?;
        let data = self.data.get();
        let data = data.as_ref().ok_or_else(shutting_down)?;
        let unfinished = StagingFolder::begin(target).map_err(store_error)?;
        let copy = data.copy_identity_to(unfinished.path()).map_err(store_error)?;
        self.flusher.trees.checkpoint(&copy.store()).map_err(store_error)?;
        // Otherwise the copy would have the rows of the new group, but not its promised ballot.
        if self.groups.all().len() != consensus.len() {
            let text = "a group was created during the checkpoint: take it again";
            return Err(Error::new(Reason::Changed, text));
        }
        let disk = Arc::new(FileDisk::open(&copy.log()).map_err(store_error)?);
        let settings = LogSettings {
            segment_bytes: self.segment_bytes,
            log_id: self.node.0,
            ..LogSettings::default()
        };
        let (mut log, records) = Log::open(disk, settings).map_err(store_error)?;
        records.finish().map_err(store_error)?;
        for (group, promised, _accepted) in consensus {
            log.append(&Record {
                kind: RecordKind::Promise,
                owner: Owner { group: group.0, generation: 0 },
                configuration: 0,
                ballot: (promised.round, promised.node.0),
                index: 0,
                decided: 0,
                payload: &[],
            })
            .map_err(store_error)?;
        }
        log.close().map_err(store_error)?;
        drop(copy);
        unfinished.finish().map_err(store_error)?;
        reach(Point::CheckpointNamed);
        Ok(())
    }
}
