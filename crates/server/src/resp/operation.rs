//! Mapping from a call to its kind of operation, for the counters.

use crate::counters::OperationKind;
use base::{AvailableCall, Call, Read, Update};

/// Returns the kind of operation that a call is counted as.
pub fn operation(call: &Call) -> OperationKind {
    match call {
        Call::Read(Read::Get(_), _) => OperationKind::Get,
        Call::Read(Read::Range(_) | Read::Index(_) | Read::Feed(_), _) => OperationKind::Range,
        Call::Read(Read::KeyCount, _) => OperationKind::Count,
        Call::Read(..) => OperationKind::MultiGet,
        Call::Update(Update::Set { .. } | Update::SetIf { .. } | Update::SetTagged(_)) => {
            OperationKind::Put
        }
        Call::Update(Update::Delete { .. } | Update::DeletePrefix { .. }) => OperationKind::Delete,
        Call::Update(Update::Sequence { .. }) => OperationKind::Sequence,
        Call::Update(_) => OperationKind::Update,
        Call::Directory(_) => OperationKind::Directory,
        Call::Session(_) => OperationKind::Session,
        Call::Available(AvailableCall::Fetch { .. } | AvailableCall::FetchType { .. }) => {
            OperationKind::Get
        }
        Call::Available(AvailableCall::Change(_)) => OperationKind::Update,
        Call::Available(AvailableCall::Owners { .. }) => OperationKind::Other,
        Call::Available(AvailableCall::Store(_)) => OperationKind::Put,
        Call::Available(AvailableCall::Remove { .. }) => OperationKind::Delete,
        Call::Available(AvailableCall::Keys { .. } | AvailableCall::Buckets { .. }) => {
            OperationKind::Range
        }
    }
}
