//! Recovery of vnodes: their records after the store's mark are applied again.

use base::{Error, Reason, Result};
use store::{OwnedRecord, RecordKind, Trees};
use vnode_rows::batch::{Mark, apply};

/// Replay of the vnodes' log records.
pub struct VnodeReplay {
    mark: Mark,
    /// True if a part of the log can't be read: it may have held a batch, and no later record rules
    /// that out.
    in_doubt: bool,
}

impl VnodeReplay {
    /// Begins after the last batch that the store already holds.
    pub fn new(trees: &dyn Trees) -> Result<VnodeReplay> {
        Ok(VnodeReplay { mark: Mark::read(trees)?, in_doubt: false })
    }

    /// Notes that a part of the log can't be read.
    pub fn mark_unreadable(&mut self) {
        self.in_doubt = true;
    }

    /// Replays a record. Without `must_apply` it is only counted. A record without a payload
    /// repeats the number of the last batch.
    pub fn replay(
        &mut self,
        record: &OwnedRecord,
        trees: &dyn Trees,
        must_apply: bool,
    ) -> Result<()> {
        if record.kind != RecordKind::Vnode {
            let text = "the log holds a record of a kind this version does not write";
            return Err(Error::new(Reason::NotSupported, text));
        }
        if record.index <= self.mark.applied {
            self.in_doubt = false;
            return Ok(());
        }
        if record.index != self.mark.applied + 1 || record.payload.is_empty() {
            return Err(missing_record(self.mark.applied + 1, record.index));
        }
        if must_apply {
            apply(trees, record.index, &record.payload)?;
        }
        self.mark = Mark { applied: record.index, clean_incarnation: 0 };
        self.in_doubt = false;
        Ok(())
    }

    /// Ends the replay and returns the mark. `Corrupt` if a batch may be missing.
    pub fn finish(self) -> Result<Mark> {
        if self.in_doubt {
            let text = "a batch of the vnodes may stand where the log can't be read";
            return Err(Error::new(Reason::Corrupt, text));
        }
        Ok(self.mark)
    }
}

fn missing_record(wanted: u64, found: u64) -> Error {
    let text = format!(
        "the log lacks the vnodes' record {wanted}: what follows is {found}; restore from a copy \
         or a peer"
    );
    Error::new(Reason::Corrupt, text)
}
