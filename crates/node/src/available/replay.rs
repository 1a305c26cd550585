//! The vnodes' part of recovery: their records are applied again, behind the store's mark.

use super::batch::{Mark, apply};
use base::{Error, Reason, Result};
use store::{Kind, OwnedRecord, Trees};

/// What the log says of the vnodes.
pub(crate) struct Replaying {
    mark: Mark,
}

impl Replaying {
    pub(crate) fn new(trees: &dyn Trees) -> Result<Replaying> {
        Ok(Replaying { mark: Mark::of(trees)? })
    }

    /// A record of theirs.
    pub(crate) fn show(&mut self, record: &OwnedRecord, trees: &dyn Trees) -> Result<()> {
        if record.kind != Kind::Vnode {
            let text = "the log holds a record of a kind this version does not write";
            return Err(Error::new(Reason::NotSupported, text));
        }
        if record.index <= self.mark.applied {
            return Ok(());
        }
        if record.index != self.mark.applied + 1 {
            let text = format!(
                "the log lacks the vnodes' record {}: what follows is {}; restore from a copy or \
                 a peer",
                self.mark.applied + 1,
                record.index
            );
            return Err(Error::new(Reason::Damaged, text));
        }
        apply(trees, record.index, &record.payload)?;
        self.mark = Mark { applied: record.index, ended: 0 };
        Ok(())
    }

    /// How far they are.
    pub(crate) fn finish(self) -> Mark {
        self.mark
    }
}
