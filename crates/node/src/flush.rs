//! One round of maintenance: the store is made durable, and the log is truncated as far as nobody
//! needs it, in steps.
//!
//! The order is what makes truncation safe: first note how far the log may be needed, then seal the
//! store's tables, then make them durable, then copy to the log's head what lives only there, and
//! only then let whole segments go. The housekeeper takes one step after another; a simulation lets
//! the log writer and the drivers run between any two of them.
//!
//! Promises: no record is let go of whose value the store does not hold durably, or that its group
//! has not processed.
//! Never: waits, but for [`Flush::wait`]; runs beside another round (see `Inner::flushing`).

use base::{LogIndex, Result};
use dynamo::shelf::Shelf;
use replication::group::Group;
use runtime::keeper::{Keeper, store_error};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use store::{Position, Trees};

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushStep {
    /// Something was done, and the next step may be taken at once.
    Went,
    /// A group's driver has a turn first.
    Waits,
    /// The log writer was told how much of the log may go; the round is over.
    Ended,
}

/// The next step.
#[derive(Clone, Copy, Debug)]
enum FlushPhase {
    FlushEarlier,
    Note,
    Seal,
    Flush,
    AskCopies,
    AwaitCopies,
    Collapse,
    End,
}

/// See the head of this file.
pub(crate) struct Flush {
    trees: Arc<dyn Trees>,
    keeper: Arc<Keeper>,
    groups: Vec<Arc<Group>>,
    /// None: there are no vnodes.
    shelf: Option<Arc<Shelf>>,
    /// So many bytes of log are kept for members that lag.
    spare_bytes: u64,
    phase: FlushPhase,
    /// Where the log ended when the round began.
    end: Position,
    /// From here on it is needed.
    keep_from: Position,
    /// What each group had applied before the tables were sealed.
    applied: Vec<LogIndex>,
    copies: VecDeque<Receiver<()>>,
}

impl Flush {
    pub(crate) fn new(
        trees: Arc<dyn Trees>,
        keeper: Arc<Keeper>,
        groups: Vec<Arc<Group>>,
        shelf: Option<Arc<Shelf>>,
        spare_bytes: u64,
    ) -> Flush {
        Flush {
            trees,
            keeper,
            groups,
            shelf,
            spare_bytes,
            phase: FlushPhase::FlushEarlier,
            end: Position(0),
            keep_from: Position(0),
            applied: Vec::new(),
            copies: VecDeque::new(),
        }
    }

    /// Does what comes next.
    pub(crate) fn step(&mut self) -> Result<FlushStep> {
        self.phase = match self.phase {
            // What an earlier round sealed and could not write, for lack of space: no more is
            // sealed before, since writers, deletes among them, wait when two tables are.
            FlushPhase::FlushEarlier => {
                self.trees.flush().map_err(store_error)?;
                FlushPhase::Note
            }
            FlushPhase::Note => {
                self.note();
                FlushPhase::Seal
            }
            FlushPhase::Seal => {
                self.trees.rotate().map_err(store_error)?;
                FlushPhase::Flush
            }
            FlushPhase::Flush => {
                self.trees.flush().map_err(store_error)?;
                FlushPhase::AskCopies
            }
            FlushPhase::AskCopies => {
                for (group, applied) in self.groups.iter().zip(&self.applied) {
                    group.applied.set_flushed(*applied);
                    self.copies.extend(group.copy_to_head()?);
                }
                FlushPhase::AwaitCopies
            }
            FlushPhase::AwaitCopies => match self.copies.front().map(Receiver::try_recv) {
                Some(Err(TryRecvError::Empty)) => return Ok(FlushStep::Waits),
                // A driver that has ended drops its side; then the node is stopping or has failed.
                Some(Ok(()) | Err(TryRecvError::Disconnected)) => {
                    self.copies.pop_front();
                    FlushPhase::AwaitCopies
                }
                None => FlushPhase::Collapse,
            },
            FlushPhase::Collapse => {
                self.keeper.collapse(self.keep_from);
                tracing::debug!(
                    target: "store", log_needed_from = self.keep_from.0, "flushed"
                );
                FlushPhase::End
            }
            FlushPhase::End => return Ok(FlushStep::Ended),
        };
        Ok(FlushStep::Went)
    }

    /// How far the log may be needed. Where it ends is looked at first: whatever is written after
    /// that is kept.
    fn note(&mut self) {
        self.end = self.keeper.end();
        self.keep_from = Position(self.end.0.saturating_sub(self.spare_bytes));
        let groups = self.groups.iter().filter_map(|group| group.log_needed_from());
        let shelf = self.shelf.iter().filter_map(|shelf| shelf.log_needed_from());
        self.keep_from = groups.chain(shelf).fold(self.keep_from, Position::min);
        self.applied = self.groups.iter().map(|group| group.applied.index()).collect();
    }

    /// Waits for the driver that a step waits for.
    pub(crate) fn wait(&mut self) {
        if let Some(copy) = self.copies.pop_front() {
            let _ = copy.recv(); // See above.
        }
    }

    /// Where the log ended when the round began: everything applied by then is durable.
    pub(crate) fn end(&self) -> Position {
        self.end
    }
}
