//! Key of a call, for what is told of requests: the only one, or the first of several.

use base::{AvailableCall, Call, Key, Read, Update};

/// Returns the key that a call is about. `None`: it is about a range, or about no key.
pub fn call_key(call: &Call) -> Option<&Key> {
    match call {
        Call::Read(read, _) => read_key(read),
        Call::Update(update) => update_key(update),
        Call::Available(call) => available_key(call),
        Call::Directory(_) | Call::Session(_) => None,
    }
}

fn read_key(read: &Read) -> Option<&Key> {
    match read {
        Read::Get(key) | Read::AssertExists(key) | Read::Assert { key, .. } => Some(key),
        Read::Exists(keys)
        | Read::MultiGet(keys)
        | Read::MultiGetAll(keys)
        | Read::KeyVersions(keys) => keys.first(),
        Read::Range(_) | Read::KeyCount | Read::Index(_) | Read::Feed(_) => None,
    }
}

fn update_key(update: &Update) -> Option<&Key> {
    match update {
        Update::Set { key, .. }
        | Update::SetIf { key, .. }
        | Update::Delete { key, .. }
        | Update::TestAndSet { key, .. }
        | Update::Replace { key, .. }
        | Update::Confirm { key, .. }
        | Update::Assert { key, .. }
        | Update::AssertExists { key }
        | Update::AssertVersion { key, .. }
        | Update::AssertAbsentSince { key, .. }
        | Update::Add { key, .. }
        | Update::AddFloat { key, .. }
        | Update::Append { key, .. }
        | Update::SetRange { key, .. }
        | Update::Rename { from: key, .. }
        | Update::Copy { from: key, .. }
        | Update::Expire { key, .. } => Some(key),
        Update::SetTagged(set) => Some(&set.key),
        Update::Read(read) => read_key(read),
        Update::Sequence { steps, .. } => steps.first().and_then(update_key),
        Update::AssertRange { .. } | Update::DeletePrefix { .. } | Update::Nop => None,
    }
}

fn available_key(call: &AvailableCall) -> Option<&Key> {
    match call {
        AvailableCall::Fetch { key, .. }
        | AvailableCall::Remove { key, .. }
        | AvailableCall::FetchType { key, .. }
        | AvailableCall::Owners { key } => Some(key),
        AvailableCall::Store(store) => Some(&store.key),
        AvailableCall::Change(_) | AvailableCall::Keys { .. } | AvailableCall::Buckets { .. } => {
            None
        }
    }
}
