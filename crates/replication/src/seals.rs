//! Buckets that left this group, or are about to: from the *seal* on, nothing is said or done about
//! them here.
//!
//! A seal is a row of the group's own bookkeeping (bucket 0), written by a value like any other, so
//! every replica and every later master knows of it. Whoever evaluates honours it from the moment
//! it is laid out, since what comes later stands behind it in the log; whoever reads looks once
//! more when the rows are read, since a bucket lives elsewhere only when its seal is applied here.
//!
//! ```text
//! s | bucket u32 BE -> form u8 (1) | group time u64 | version u64    the bucket is sealed
//! i | bucket u32 BE -> form u8 (1) | see ../transfer/intake.rs       rows of a bucket come in
//! ```

use super::group::{Group, Observer, State};
use super::layout::{self, StoredRow};
use super::view::View;
use crate::bucket::Bucket;
use base::codec::{Malformed, Reader};
use base::error::damaged;
use base::{BucketId, Error, GroupId, Reason, Result, Value};
use bytes::Bytes;
use runtime::keeper::store_error;
use runtime::mutants::{Flaw, flawed};
use runtime::submit::Ticket;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Chunk, Trees};

/// A group's own bookkeeping.
pub const OWN: BucketId = BucketId(0);
const SEALED: u8 = b's';
const INTAKE: u8 = b'i';
const FORM: u8 = 1;

/// What the applied rows of a group say of buckets that leave it or come.
#[derive(Default)]
pub struct Seals {
    /// Some bucket is sealed: most groups, most of the time, have none, and look no further.
    any: AtomicBool,
    noted: Mutex<Noted>,
}

/// By their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// Buckets whose rows are sealed for a copy.
    pub sealed: BTreeSet<BucketId>,
    /// Buckets that are being copied in.
    pub intakes: BTreeSet<BucketId>,
}

/// What a seal says for those who come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The group's time in it: what expired by then was never seen later.
    pub time: u64,
    /// No row of the bucket has a version as high.
    pub version: u64,
}

/// The key of a seal's row.
pub fn seal_key(bucket: BucketId) -> Bytes {
    own_key(SEALED, bucket)
}

/// The key of the row that says how far an intake is.
pub fn intake_key(bucket: BucketId) -> Bytes {
    own_key(INTAKE, bucket)
}

fn own_key(kind: u8, bucket: BucketId) -> Bytes {
    let mut key = vec![kind];
    key.extend_from_slice(&bucket.0.to_be_bytes());
    Bytes::from(key)
}

impl Seal {
    /// Encodes it for the store.
    pub fn write(self) -> Vec<u8> {
        let mut bytes = vec![FORM];
        bytes.extend_from_slice(&self.time.to_le_bytes());
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes
    }

    /// Decodes what the store holds.
    pub fn read(bytes: &Value) -> std::result::Result<Seal, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("seal")? != FORM {
            return Err(Malformed("seal"));
        }
        Ok(Seal { time: reader.u64("seal")?, version: reader.u64("seal")? })
    }
}

impl Seals {
    /// What the rows of a group say.
    pub fn load(group: GroupId, trees: &dyn Trees) -> Result<Seals> {
        let seals = Seals::default();
        let mut prefix = Vec::new();
        layout::row_key(group, OWN, &[], &mut prefix);
        let all =
            Chunk::read(&*trees.snapshot(), &prefix, None, usize::MAX).map_err(store_error)?;
        for (key, row) in &all.rows {
            seals.changed(&key[prefix.len()..], Some(row));
        }
        Ok(seals)
    }

    /// Returns true if nothing may be said of this bucket any more.
    #[inline]
    pub fn hold(&self, bucket: BucketId) -> bool {
        self.any.load(Ordering::Acquire) && self.noted().sealed.contains(&bucket)
    }

    /// All that is noted.
    pub fn all(&self) -> Noted {
        self.noted().clone()
    }

    fn noted(&self) -> std::sync::MutexGuard<'_, Noted> {
        self.noted.lock().expect("no one panics while holding it")
    }
}

impl Observer for Seals {
    fn changed(&self, key: &[u8], row: Option<&Bytes>) {
        let Some((kind, number)) = key.split_first() else { return };
        let Ok(number) = <[u8; 4]>::try_from(number) else { return };
        let bucket = BucketId(u32::from_be_bytes(number));
        let mut noted = self.noted();
        let set = match *kind {
            SEALED => &mut noted.sealed,
            INTAKE => &mut noted.intakes,
            _ => return,
        };
        match row {
            Some(_) => set.insert(bucket),
            None => set.remove(&bucket),
        };
        let any = !noted.sealed.is_empty();
        self.any.store(any, Ordering::Release);
    }
}

impl State {
    /// Refuses an update of a bucket that does not live here any more, as it was looked up.
    #[inline]
    pub(super) fn serves(&self, bucket: &Bucket) -> Result<()> {
        if bucket.is_retired() {
            return Err(Error::new(Reason::Moved, "the bucket was changed meanwhile: repeat"));
        }
        let sealed_here = !self.sealed.is_empty() && self.sealed.contains(&bucket.id);
        if sealed_here && !flawed(Flaw::EvaluatesBehindSeals) {
            return Err(sealed());
        }
        Ok(())
    }
}

/// What a request is told that came where its bucket does not live any more.
pub fn sealed() -> Error {
    Error::new(Reason::Moved, "the bucket moves to another group: repeat")
}

impl Group {
    /// Refuses the answer to a read of a sealed bucket; to be asked *after* the rows were read.
    #[inline]
    pub fn check_seal(&self, bucket: &Bucket) -> Result<()> {
        let holds = self.seals.hold(bucket.id) && !flawed(Flaw::ReadsBehindSeals);
        if holds { Err(sealed()) } else { Ok(()) }
    }

    /// What the seal of a bucket says, if it is applied here.
    pub fn seal_of(&self, bucket: BucketId) -> Result<Option<Seal>> {
        let mut key = Vec::new();
        layout::row_key(self.id, OWN, &seal_key(bucket), &mut key);
        let row = self.shared.trees.get(&key).map_err(store_error)?;
        let Some(row) = row else { return Ok(None) };
        let value = StoredRow::read(&row).map_err(damaged)?.value;
        Seal::read(&value).map(Some).map_err(damaged)
    }

    /// Seals a bucket: behind everything that was taken before.
    pub fn seal(&self, bucket: BucketId) -> Result<Ticket> {
        let seal = |view: &mut View| {
            let seal = Seal { time: view.open.time, version: view.version().0 };
            view.put(OWN, &seal_key(bucket), None, &[&seal.write()])
        };
        let (ticket, ()) = self.write_own(0, seal, |state| {
            state.sealed.insert(bucket);
        })?;
        Ok(ticket.expect("a seal is a value"))
    }

    /// Takes a seal away, or any other row of the group's own, on grounds found in this time in
    /// office: another master may have found others since.
    pub fn forget_own(&self, key: &[u8], office: u64) -> Result<Option<Ticket>> {
        let forget = |view: &mut View| {
            if self.offices.load(Ordering::Acquire) != office {
                return Err(Error::new(Reason::Changed, "this node was not master all the time"));
            }
            if let Some(row) = view.row(OWN, key)? {
                view.remove(OWN, key, row.expires);
            }
            Ok(())
        };
        let unsealed = key.strip_prefix(&[SEALED]).and_then(|number| number.try_into().ok());
        let bucket = unsealed.map(|number| BucketId(u32::from_be_bytes(number)));
        let forgotten = self.write_own(0, forget, |state| {
            if let Some(bucket) = bucket {
                state.sealed.remove(&bucket);
            }
        });
        forgotten.map(|(ticket, ())| ticket)
    }

    /// Writes what no client asked for: all of it, or nothing. Versions go on from `version` at
    /// least. `then` is done with it, before anything else is evaluated.
    pub fn write_own<T>(
        &self,
        version: u64,
        write: impl FnOnce(&mut View) -> Result<T>,
        then: impl FnOnce(&mut State),
    ) -> Result<(Option<Ticket>, T)> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.admit(self)?;
        if version > state.next_version {
            state.close();
            state.next_version = state.next_version.max(version);
        }
        let (before, begun) = state.begin(self.id);
        let mut view = state.view(self);
        let savepoint = view.open.savepoint();
        let written = write(&mut view);
        if written.is_err() {
            view.open.undo(savepoint);
        }
        let written = written?;
        then(state);
        if state.changed(begun) {
            self.take(state, before, true);
        }
        Ok((state.ticket(self), written))
    }
}
