//! Cost of a request: what it takes of its user's quota before it is evaluated.

use base::{Call, DirectoryCall, Read, Request, Update};

/// Cost of a request, known from the request alone. The bytes of its answer come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Operations: a step of a sequence and a key of a read of several keys is one each.
    pub operations: u64,
    /// Bytes, as nodes send the request to each other.
    pub bytes: u64,
}

impl Cost {
    /// Returns the cost of a request. `None`: it is an act on the cluster, which counts against no
    /// quota.
    pub fn of(request: &Request) -> Option<Cost> {
        let operations = match &request.call {
            Call::Directory(
                DirectoryCall::Cluster(_) | DirectoryCall::Ring(_) | DirectoryCall::Access(_),
            ) => return None,
            Call::Read(read, _) => operations_of_read(read),
            Call::Update(update) => operations_of_update(update),
            Call::Directory(_) | Call::Session(_) | Call::Available(_) => 1,
        };
        Some(Cost { operations, bytes: request.wire_bytes() as u64 })
    }
}

fn operations_of_read(read: &Read) -> u64 {
    match read {
        Read::Exists(keys)
        | Read::MultiGet(keys)
        | Read::MultiGetAll(keys)
        | Read::KeyVersions(keys) => keys.len().max(1) as u64,
        _ => 1,
    }
}

fn operations_of_update(update: &Update) -> u64 {
    match update {
        Update::Sequence { steps, .. } => {
            steps.iter().map(operations_of_update).sum::<u64>().max(1)
        }
        Update::Read(read) => operations_of_read(read),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::request::SequenceMode;
    use base::{AccessCall, BucketName, ClusterCall, Key, ReadLevel, SessionCall};

    fn cost(call: Call) -> Option<Cost> {
        Cost::of(&Request { bucket: BucketName::default(), call, retry: None })
    }

    #[test]
    fn steps_and_keys_cost_an_operation_each_and_acts_on_the_cluster_none() {
        let operations = |call| cost(call).map(|cost| cost.operations);
        let keys = |count| vec![Key::from("k"); count];
        let read = |read| Call::Read(read, ReadLevel::Consistent);
        let sequence = |steps| Update::Sequence { steps, mode: SequenceMode::EachAlone };
        let inner = sequence(vec![Update::Nop, Update::Read(Read::MultiGet(keys(5)))]);
        let nested = sequence(vec![Update::Nop, inner, sequence(Vec::new())]);
        assert_eq!(operations(read(Read::Get(Key::from("k")))), Some(1));
        assert_eq!(operations(read(Read::Exists(keys(3)))), Some(3));
        assert_eq!(operations(read(Read::MultiGetAll(Vec::new()))), Some(1));
        assert_eq!(operations(Call::Update(nested)), Some(1 + (1 + 5) + 1));
        assert_eq!(operations(Call::Session(SessionCall::Open)), Some(1));
        assert_eq!(operations(Call::Directory(DirectoryCall::ListTypes)), Some(1));
        let acts = [
            DirectoryCall::Access(AccessCall::Switch { on: false }),
            DirectoryCall::Cluster(ClusterCall::Describe),
            DirectoryCall::Ring(base::RingCall::Describe),
        ];
        assert!(acts.into_iter().all(|call| operations(Call::Directory(call)).is_none()));
        let bytes = |length| {
            let value = vec![0; length].into();
            let expiry = base::request::Expiry::Default;
            cost(Call::Update(Update::Set { key: Key::from("k"), value, expiry }))
        };
        let bytes = [1_000, 0].map(|length| bytes(length).expect("a cost").bytes);
        assert_eq!(bytes[0] - bytes[1], 1_000);
    }
}
