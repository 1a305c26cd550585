//! Classes of operations in the audit log: which of them it records.

use super::need::Need;
use crate::access::Verb;
use crate::{AvailableCall, BucketAudit, Call, ClusterCall, DirectoryCall, Request};

/// Class of an operation in the audit log, by the verbs that it needs. A later one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditClass {
    /// Reads of status, members and lists of buckets; work of members. Not recorded.
    View,
    /// Reads of keys. Recorded if the bucket's properties say so.
    Read,
    /// Changes of keys. Recorded if the bucket's properties say so.
    Write,
    /// Acts that need `own`, `operate` or `place`, and what a join token allows. Recorded.
    Act,
    /// Acts that need `secure`. Recorded before they are done.
    Secure,
}

impl AuditClass {
    fn of(need: &Need<'_>) -> AuditClass {
        match need.verb() {
            Some(Verb::Watch) | None => AuditClass::View,
            Some(Verb::Read | Verb::List | Verb::Call) => AuditClass::Read,
            Some(Verb::Write) => AuditClass::Write,
            Some(Verb::Own | Verb::Operate | Verb::Place) => AuditClass::Act,
            Some(Verb::Secure) => AuditClass::Secure,
        }
    }

    /// Returns true if an operation of this class is recorded in a bucket with this property.
    #[inline]
    pub fn is_recorded(self, audit: BucketAudit) -> bool {
        match self {
            AuditClass::View => false,
            AuditClass::Read => audit == BucketAudit::All,
            AuditClass::Write => audit != BucketAudit::Off,
            AuditClass::Act | AuditClass::Secure => true,
        }
    }
}

impl Request {
    /// Returns the class of the request.
    pub fn audit_class(&self) -> AuditClass {
        let mut class = AuditClass::View;
        // The visitor never fails.
        let _ = self.needs(&mut |need| {
            class = class.max(AuditClass::of(&need));
            Ok(())
        });
        match &self.call {
            Call::Directory(DirectoryCall::Cluster(ClusterCall::WithToken { .. })) => {
                AuditClass::Act
            }
            // Descriptions and lists of buckets.
            Call::Directory(_) if class < AuditClass::Act => AuditClass::View,
            Call::Available(AvailableCall::Buckets { .. }) => AuditClass::View,
            _ => class,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessCall;
    use crate::index::IndexCall;
    use crate::properties::{AUDIT, COUNTED, Changes};
    use crate::{BucketName, FeatureLevel, Key, Read, ReadLevel, SessionCall, TokenDigest, Update};

    fn request(call: Call) -> Request {
        Request { bucket: BucketName::from_full("logs/web").expect("a name"), call, retry: None }
    }

    fn directory(call: DirectoryCall) -> Request {
        request(Call::Directory(call))
    }

    #[test]
    fn requests_have_the_class_of_their_gravest_need() {
        let token = TokenDigest([1; TokenDigest::BYTES]);
        let describe = Box::new(ClusterCall::Describe);
        let with_token = ClusterCall::WithToken { digest: token, call: describe };
        let raise = ClusterCall::RaiseLevel { level: FeatureLevel::FIRST };
        let drop_index = IndexCall::Drop { name: "by-name".into() };
        let key = Key::from_static(b"k");
        let get = Read::Get(key.clone());
        let (after, rows_max) = (None, 1);
        let keys = AvailableCall::Keys { after: None, rows_max };
        let change = |name: &str| -> Changes { vec![(name.into(), "off".into())] };
        for (request, class) in [
            (directory(DirectoryCall::ListTypes), AuditClass::View),
            (directory(DirectoryCall::DescribeBucket), AuditClass::View),
            (directory(DirectoryCall::Cluster(ClusterCall::Describe)), AuditClass::View),
            (directory(DirectoryCall::DropBucket), AuditClass::Act),
            (directory(DirectoryCall::Index(IndexCall::List)), AuditClass::View),
            (directory(DirectoryCall::Index(drop_index)), AuditClass::Act),
            (request(Call::Read(Read::Index(Box::default()), ReadLevel::Dirty)), AuditClass::Read),
            (directory(DirectoryCall::DropType), AuditClass::Act),
            (directory(DirectoryCall::Cluster(raise)), AuditClass::Act),
            (directory(DirectoryCall::Cluster(with_token)), AuditClass::Act),
            (directory(DirectoryCall::Cluster(ClusterCall::RevokeTokens)), AuditClass::Secure),
            (directory(DirectoryCall::Access(AccessCall::Switch { on: true })), AuditClass::Secure),
            (directory(DirectoryCall::AlterBucket(change(COUNTED))), AuditClass::Act),
            (directory(DirectoryCall::AlterBucket(change(AUDIT))), AuditClass::Secure),
            (directory(DirectoryCall::CreateType(change(AUDIT))), AuditClass::Secure),
            (request(Call::Read(get.clone(), ReadLevel::Dirty)), AuditClass::Read),
            (request(Call::Read(Read::KeyCount, ReadLevel::Dirty)), AuditClass::Read),
            (request(Call::Update(Update::Read(get))), AuditClass::Read),
            (request(Call::Update(Update::Replace { key, wanted: None })), AuditClass::Write),
            (request(Call::Session(SessionCall::Open)), AuditClass::Write),
            (request(Call::Available(keys)), AuditClass::Read),
            (
                request(Call::Available(AvailableCall::Buckets { after, rows_max })),
                AuditClass::View,
            ),
        ] {
            assert_eq!(request.audit_class(), class, "{request:?}");
        }
    }

    #[test]
    fn bucket_records_nothing_writes_or_everything_and_acts_always() {
        use AuditClass::{Act, Read, Secure, View, Write};
        for (audit, recorded) in [
            (BucketAudit::Off, &[Act, Secure][..]),
            (BucketAudit::Writes, &[Write, Act, Secure]),
            (BucketAudit::All, &[Read, Write, Act, Secure]),
        ] {
            for class in [View, Read, Write, Act, Secure] {
                assert_eq!(class.is_recorded(audit), recorded.contains(&class), "{class:?}");
            }
        }
    }
}
