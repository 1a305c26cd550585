//! What a request is, roughly, for the counters.

use crate::counters::Operation;
use base::{AvailableCall, Call, Read, Update};

/// As what a call is counted.
pub fn operation(call: &Call) -> Operation {
    match call {
        Call::Read(Read::Get(_), _) => Operation::Get,
        Call::Read(Read::Range(_), _) => Operation::Range,
        Call::Read(Read::KeyCount, _) => Operation::Count,
        Call::Read(..) => Operation::MultiGet,
        Call::Update(Update::Set { .. } | Update::SetIf { .. }) => Operation::Put,
        Call::Update(Update::Delete { .. } | Update::DeletePrefix { .. }) => Operation::Delete,
        Call::Update(Update::Sequence { .. }) => Operation::Sequence,
        Call::Update(_) => Operation::Update,
        Call::Directory(_) => Operation::Directory,
        Call::Session(_) => Operation::Session,
        Call::Available(AvailableCall::Fetch { .. } | AvailableCall::FetchType { .. }) => {
            Operation::Get
        }
        Call::Available(AvailableCall::Change(_)) => Operation::Update,
        Call::Available(AvailableCall::Owners { .. }) => Operation::Other,
        Call::Available(AvailableCall::Store(_)) => Operation::Put,
        Call::Available(AvailableCall::Remove { .. }) => Operation::Delete,
        Call::Available(AvailableCall::Keys { .. } | AvailableCall::Buckets { .. }) => {
            Operation::Range
        }
    }
}
