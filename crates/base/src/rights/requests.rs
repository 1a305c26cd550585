//! Needs of requests: reads, sessions, and calls of available buckets.

use super::need::{KeySet, Need, NeedVisitor};
use super::{directory, updates};
use crate::access::Verb;
use crate::range::RowContent;
use crate::{AvailableCall, BucketName, Call, Read, Request, Result, SessionCall};

impl Request {
    /// Passes each need of the request to `visit`. A request without needs asks for what everybody
    /// may know, or presents what allows it: a join token.
    pub fn needs(&self, visit: &mut NeedVisitor<'_>) -> Result<()> {
        let bucket = &self.bucket;
        match &self.call {
            Call::Read(read, _) => read_needs(bucket, read, visit),
            Call::Update(update) => updates::needs(bucket, update, visit),
            Call::Directory(call) => directory::needs(bucket, call, visit),
            // A session repeats updates: whoever may not write has no use for one.
            Call::Session(SessionCall::Open | SessionCall::Close(_)) => {
                visit(Need::Keys(Verb::Write, bucket, KeySet::Part))
            }
            Call::Available(call) => available_needs(bucket, call, visit),
        }
    }
}

/// Passes the needs of a read to `visit`.
pub(super) fn read_needs(
    bucket: &BucketName,
    read: &Read,
    visit: &mut NeedVisitor<'_>,
) -> Result<()> {
    match read {
        Read::Get(key) | Read::AssertExists(key) | Read::Assert { key, expected: _ } => {
            visit(Need::Keys(Verb::Read, bucket, KeySet::One(key)))
        }
        // Such a read of no key tells that the bucket exists.
        Read::Exists(keys)
        | Read::MultiGet(keys)
        | Read::MultiGetAll(keys)
        | Read::KeyVersions(keys)
            if keys.is_empty() =>
        {
            visit(Need::Keys(Verb::Read, bucket, KeySet::Part))
        }
        Read::Exists(keys)
        | Read::MultiGet(keys)
        | Read::MultiGetAll(keys)
        | Read::KeyVersions(keys) => {
            keys.iter().try_for_each(|key| visit(Need::Keys(Verb::Read, bucket, KeySet::One(key))))
        }
        Read::Range(range) => {
            let keys = KeySet::Between(&range.low, &range.high);
            visit(Need::Keys(Verb::List, bucket, keys))?;
            match range.want {
                RowContent::Keys => Ok(()),
                RowContent::Entries => visit(Need::Keys(Verb::Read, bucket, keys)),
            }
        }
        Read::KeyCount => visit(Need::Keys(Verb::List, bucket, KeySet::All)),
        // Which keys it lists depends on their values, and the rows that are found tell these.
        Read::Index(_) => {
            visit(Need::Keys(Verb::List, bucket, KeySet::All))?;
            visit(Need::Keys(Verb::Read, bucket, KeySet::All))
        }
        // As a range of all keys.
        Read::Feed(query) => {
            visit(Need::Keys(Verb::List, bucket, KeySet::All))?;
            match query.values {
                false => Ok(()),
                true => visit(Need::Keys(Verb::Read, bucket, KeySet::All)),
            }
        }
    }
}

fn available_needs(
    bucket: &BucketName,
    call: &AvailableCall,
    visit: &mut NeedVisitor<'_>,
) -> Result<()> {
    // The answer to a write holds the key's values if that is asked for.
    let mut write = |key: &[u8], return_body: bool| {
        visit(Need::Keys(Verb::Write, bucket, KeySet::One(key)))?;
        match return_body {
            true => visit(Need::Keys(Verb::Read, bucket, KeySet::One(key))),
            false => Ok(()),
        }
    };
    match call {
        AvailableCall::Store(store) => write(&store.key, store.options.return_body),
        AvailableCall::Remove { key, context: _, options } => write(key, options.return_body),
        AvailableCall::Change(change) => write(&change.key, change.options.return_body),
        AvailableCall::Fetch { key, options: _ }
        | AvailableCall::FetchType { key, options: _ }
        | AvailableCall::Owners { key } => visit(Need::Keys(Verb::Read, bucket, KeySet::One(key))),
        AvailableCall::Keys { after: _, rows_max: _ } => {
            visit(Need::Keys(Verb::List, bucket, KeySet::All))
        }
        AvailableCall::Buckets { after: _, rows_max: _ } => {
            visit(Need::Type(Verb::List, bucket.kind()))
        }
    }
}
