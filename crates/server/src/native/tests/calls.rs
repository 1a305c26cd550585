//! Tests that the front-end decodes what a client encodes.

use super::requests;
use super::steps::{append_read, append_update};
use crate::access_control::AccessControl;
use crate::connection::{Access, ListenerKind};
use crate::http::{Parsed, head};
use crate::native::json::{bodies, write};
use crate::native::route_needs::least_needs;
use crate::native::route_operations::operation_name;
use crate::native::target;
use crate::native::translate::{self, NativePlan};
use base::index::{IndexCall, IndexContent, IndexQuery, IndexSpec, TermSelection};
use base::range::Direction;
use base::request::{
    BucketPlace, Call, ExpireWhen, Expiry, OnMissing, SequenceMode, SessionCall, When,
};
use base::{
    Bound, BucketName, ClusterCall, DirectoryCall, FeatureLevel, GroupId, LogIndex,
    MemberDescription, Membership, NodeId, Part, Quorum, Range, Read, ReadLevel, Request,
    RowContent, SessionId, Update, Version,
};
use bytes::Bytes;
use proptest::prelude::*;

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from),
        "[a-z/.%+ \\u{e9}]{0,8}".prop_map(Bytes::from),
    ]
}

fn optional_bytes() -> impl Strategy<Value = Option<Bytes>> {
    proptest::option::of(bytes())
}

fn expiry() -> impl Strategy<Value = Expiry> {
    prop_oneof![
        Just(Expiry::Default),
        Just(Expiry::Keep),
        Just(Expiry::Never),
        (0..=base::limits::TTL_MS_MAX).prop_map(Expiry::After),
    ]
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        Just(When::Always),
        Just(When::Absent),
        Just(When::Present),
        any::<u64>().prop_map(|version| When::Unchanged(Version(version))),
    ]
}

fn when_target() -> impl Strategy<Value = When> {
    prop_oneof![Just(When::Always), Just(When::Absent)]
}

fn expire_when() -> impl Strategy<Value = ExpireWhen> {
    prop_oneof![
        Just(ExpireWhen::Always),
        Just(ExpireWhen::HasNone),
        Just(ExpireWhen::HasOne),
        Just(ExpireWhen::Later),
        Just(ExpireWhen::Sooner),
        Just(ExpireWhen::HasLater),
    ]
}

fn bound() -> impl Strategy<Value = Bound> {
    prop_oneof![
        Just(Bound::Open),
        bytes().prop_map(Bound::Included),
        bytes().prop_map(Bound::Excluded),
    ]
}

fn range() -> impl Strategy<Value = Range> {
    let rows_max = proptest::option::of(1..=base::limits::PAGE_ROWS_MAX);
    (bound(), bound(), any::<bool>(), rows_max, any::<bool>()).prop_map(
        |(low, high, descending, rows_max, keys)| Range {
            low,
            high,
            direction: if descending { Direction::Descending } else { Direction::Ascending },
            rows_max,
            bytes_max: None,
            want: if keys { RowContent::Keys } else { RowContent::Entries },
            ..Range::default()
        },
    )
}

/// Reads that may be steps of a sequence.
fn read() -> impl Strategy<Value = Read> {
    let keys = || proptest::collection::vec(bytes(), 0..4);
    prop_oneof![
        bytes().prop_map(Read::Get),
        keys().prop_map(Read::Exists),
        keys().prop_map(Read::MultiGet),
        keys().prop_map(Read::MultiGetAll),
        range().prop_map(Read::Range),
    ]
}

fn update() -> impl Strategy<Value = Update> {
    let key = bytes;
    let missing = prop_oneof![Just(OnMissing::Fail), Just(OnMissing::Skip)];
    let keys = proptest::collection::vec(bytes(), 0..4);
    let version = proptest::option::of(any::<u64>());
    let single = prop_oneof![
        (key(), bytes(), expiry()).prop_map(|(key, value, expiry)| Update::Set {
            key,
            value,
            expiry
        }),
        (key(), bytes(), expiry(), when()).prop_map(|(key, value, expiry, when)| Update::SetIf {
            key,
            value,
            expiry,
            when
        }),
        (key(), missing).prop_map(|(key, missing)| Update::Delete { key, missing }),
        (key(), optional_bytes(), optional_bytes())
            .prop_map(|(key, expected, wanted)| Update::TestAndSet { key, expected, wanted }),
        (key(), optional_bytes()).prop_map(|(key, wanted)| Update::Replace { key, wanted }),
        (key(), bytes()).prop_map(|(key, value)| Update::Confirm { key, value }),
        (key(), optional_bytes()).prop_map(|(key, expected)| Update::Assert { key, expected }),
        key().prop_map(|key| Update::AssertExists { key }),
        (key(), keys).prop_map(|(prefix, keys)| Update::AssertRange { prefix, keys }),
        (key(), version)
            .prop_map(|(key, v)| Update::AssertVersion { key, version: v.map(Version) }),
        key().prop_map(|prefix| Update::DeletePrefix { prefix }),
        (key(), any::<i64>()).prop_map(|(key, delta)| Update::Add { key, delta }),
        (key(), proptest::num::f64::NORMAL | proptest::num::f64::ZERO)
            .prop_map(|(key, delta)| Update::AddFloat { key, delta }),
        (key(), bytes()).prop_map(|(key, value)| Update::Append { key, value }),
        (key(), 0..=(i64::MAX as usize), bytes())
            .prop_map(|(key, offset, value)| Update::SetRange { key, offset, value }),
        (key(), key(), when_target()).prop_map(|(from, to, when)| Update::Rename {
            from,
            to,
            when
        }),
        (key(), key(), when_target()).prop_map(|(from, to, when)| Update::Copy { from, to, when }),
        (key(), expiry(), expire_when()).prop_map(|(key, expiry, when)| Update::Expire {
            key,
            expiry,
            when
        }),
        read().prop_map(Update::Read),
        Just(Update::Nop),
    ];
    let mode = || {
        prop_oneof![
            Just(SequenceMode::AllOrNothing),
            Just(SequenceMode::Synced),
            Just(SequenceMode::EachAlone),
            Just(SequenceMode::Batch)
        ]
    };
    single.prop_recursive(3, 12, 4, move |inner| {
        (proptest::collection::vec(inner, 0..4), mode())
            .prop_map(|(steps, mode)| Update::Sequence { steps, mode })
    })
}

fn places() -> impl Strategy<Value = BucketPlace> {
    prop_oneof![
        any::<u32>().prop_map(|group| BucketPlace::Group(GroupId(group))),
        any::<u32>().prop_map(BucketPlace::Replicas),
    ]
}

fn members() -> impl Strategy<Value = ClusterCall> {
    let name = || prop::sample::select(vec!["n1", "a.b-c_D"]).prop_map(String::from);
    let address = || Just("[::1]:7711".to_string());
    let part = || prop::sample::select(Part::ALL.to_vec());
    let node = || (1..=u64::MAX).prop_map(NodeId);
    let level = || (1..=u16::MAX).prop_map(FeatureLevel);
    let add = (node(), name(), address(), part(), 1..=10_000_u64, level()).prop_map(
        |(node, name, peer, part, lease_ms, level)| {
            let (client, incarnation, membership) = (peer.clone(), 0, Membership::Member);
            let member = MemberDescription { node, name, peer, client, incarnation, membership };
            ClusterCall::AddMember { member, part, lease_ms, level }
        },
    );
    let update = (node(), name(), address()).prop_map(|(node, name, peer)| {
        ClusterCall::UpdateMember { node, name, client: peer.clone(), peer }
    });
    let replace = (name(), prop::option::of(name()))
        .prop_map(|(name, by)| ClusterCall::ReplaceMember { name, by });
    let group = || any::<u32>().prop_map(GroupId);
    let set = (name(), prop::option::of(part()), prop::option::of(group()))
        .prop_map(|(name, part, group)| ClusterCall::SetPart { name, part, group });
    let place = (group(), prop::collection::vec((name(), part()), 0..3))
        .prop_map(|(group, members)| ClusterCall::PlaceGroup { group, members });
    let quorum = (group(), prop::option::of(1..=u8::MAX))
        .prop_map(|(group, quorum)| ClusterCall::SetQuorum { group, quorum });
    let create = (prop::option::of(any::<u32>()), prop::collection::vec(name(), 0..3))
        .prop_map(|(replicas, members)| ClusterCall::CreateGroup { replicas, members });
    prop_oneof![
        Just(ClusterCall::Describe),
        Just(ClusterCall::RevokeTokens),
        level().prop_map(|level| ClusterCall::RaiseLevel { level }),
        add,
        update,
        name().prop_map(|name| ClusterCall::RemoveMember { name }),
        replace,
        create,
        group().prop_map(|group| ClusterCall::DropGroup { group }),
        set,
        place,
        quorum,
    ]
}

fn index_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["by-count", "0_1", "$key"]).prop_map(String::from)
}

fn index_query() -> impl Strategy<Value = Read> {
    let terms = prop_oneof![
        bytes().prop_map(TermSelection::Equal),
        bytes().prop_map(TermSelection::Prefix),
        (bound(), bound()).prop_map(|(low, high)| TermSelection::Between(low, high)),
    ];
    let rows_max = proptest::option::of(1..=base::limits::PAGE_ROWS_MAX);
    let want = prop::sample::select(IndexContent::ALL.to_vec());
    let page = (optional_bytes(), rows_max, want, any::<bool>());
    let r = prop::sample::select(vec![
        None,
        Some(Quorum::One),
        Some(Quorum::Quorum),
        Some(Quorum::All),
        Some(Quorum::Number(2)),
    ]);
    let replicas = (r, any::<bool>(), proptest::option::of(any::<u64>()));
    (index_name(), terms, page, replicas).prop_map(|(index, terms, page, replicas)| {
        let (after, rows_max, want, descending) = page;
        let (r, allows_partial, timeout_ms) = replicas;
        let direction = if descending { Direction::Descending } else { Direction::Ascending };
        let query = IndexQuery {
            index: index.into(),
            terms,
            direction,
            after,
            rows_max,
            want,
            regex: None,
            r,
            allows_partial,
            timeout_ms,
        };
        Read::Index(query.into())
    })
}

fn index_call() -> impl Strategy<Value = DirectoryCall> {
    let spec = (index_name(), any::<bool>(), any::<bool>()).prop_map(|(name, unique, strict)| {
        let (path, value_type, format) = ("$.a".into(), "int".into(), "msgpack".into());
        IndexSpec { name, path, value_type, format, is_unique: unique, is_strict: strict }
    });
    let call = prop_oneof![
        spec.prop_map(IndexCall::Create),
        Just(IndexCall::List),
        index_name().prop_map(|name| IndexCall::Describe { name }),
        index_name().prop_map(|name| IndexCall::Drop { name }),
    ];
    call.prop_map(DirectoryCall::Index)
}

fn call() -> impl Strategy<Value = Call> {
    let level = prop_oneof![
        Just(ReadLevel::Consistent),
        Just(ReadLevel::Dirty),
        any::<u64>().prop_map(|index| ReadLevel::AtLeast(LogIndex(index))),
    ];
    let assertion =
        (bytes(), optional_bytes()).prop_map(|(key, expected)| Read::Assert { key, expected });
    let any_read = prop_oneof![
        read(),
        Just(Read::KeyCount),
        assertion,
        bytes().prop_map(Read::AssertExists),
        index_query(),
    ];
    let changes = || Just(vec![("ttl_ms".to_string(), "5".to_string())]);
    let directory = prop_oneof![
        changes().prop_map(DirectoryCall::CreateBucket),
        changes().prop_map(DirectoryCall::AlterBucket),
        Just(DirectoryCall::DropBucket),
        Just(DirectoryCall::ClearBucket),
        Just(DirectoryCall::DescribeBucket),
        (1..=1000usize).prop_map(|rows_max| DirectoryCall::ListBuckets {
            after: Some(BucketName::default()),
            rows_max
        }),
        Just(DirectoryCall::ListTypes),
        (changes(), places())
            .prop_map(|(changes, place)| { DirectoryCall::PlaceBucket { changes, place } }),
        any::<u32>().prop_map(|group| DirectoryCall::MoveBucket { group: GroupId(group) }),
        Just(DirectoryCall::CancelMove),
        Just(DirectoryCall::ResetBucket),
        members().prop_map(DirectoryCall::Cluster),
        index_call(),
    ];
    let close = any::<u64>().prop_map(|id| SessionCall::Close(SessionId(id)));
    prop_oneof![
        (any_read, level).prop_map(|(read, read_level)| Call::Read(read, read_level)),
        update().prop_map(Call::Update),
        directory.prop_map(Call::Directory),
        prop_oneof![Just(SessionCall::Open), close].prop_map(Call::Session),
    ]
}

proptest! {
    #[test]
    fn client_encoded_update_decodes_to_the_same_update(expected in update()) {
        let mut json = Vec::new();
        append_update(&mut json, &expected);
        let text = String::from_utf8_lossy(&json).into_owned();
        prop_assert_eq!(bodies::update(&json), Ok(expected), "{}", text);
    }

    #[test]
    fn client_encoded_read_decodes_to_the_same_read(expected in read()) {
        let mut json = Vec::new();
        append_read(&mut json, &expected);
        let text = String::from_utf8_lossy(&json).into_owned();
        prop_assert_eq!(bodies::read_operation(&json), Ok(expected), "{}", text);
    }

    #[test]
    fn client_http_request_decodes_to_the_same_call(call in call()) {
        let bucket = BucketName::parse("logs/web").expect("a name");
        let request = Request { bucket, call, retry: None };
        let sent = requests::encode(&request);
        let mut text = format!("{} {} HTTP/1.1\r\nhost: localhost\r\n", sent.method, sent.path);
        for (name, value) in &sent.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = &sent.body {
            text.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        let Ok(Parsed::Head(head, _)) = head::parse(text.as_bytes()) else { panic!("{text:?}") };
        let control = AccessControl::new(&[]);
        let role = super::role(ListenerKind::Clients, Access::Operator);
        let target = target::parse(&head, &control, role, &mut BucketName::default());
        let target = target.unwrap_or_else(|refusal| panic!("{text:?}: {refusal:?}"));
        let least = least_needs(&target).map(|need| need.and_then(|need| need.verb()));
        let operation = operation_name(&target);
        match translate::plan(target, sent.body.unwrap_or_default()) {
            Ok(NativePlan::Submit(decoded, _)) => {
                prop_assert_eq!(&decoded.call, &request.call);
                let mut needs_one_of_them = false;
                let visited = decoded.needs(&mut |need| {
                    needs_one_of_them |= least.contains(&need.verb());
                    Ok(())
                });
                prop_assert!(visited.is_ok() && needs_one_of_them, "{}: {:?}", text, least);
                let named = operation.unwrap_or(decoded.operation_name());
                prop_assert_eq!(named, decoded.operation_name(), "{}", text);
                // Requests for the list of buckets and for the cluster have no bucket.
                let prefixes = ["/v1/buckets?", "/v1/cluster"];
                let is_cluster_wide = prefixes.iter().any(|start| sent.path.starts_with(start));
                if !is_cluster_wide && sent.path != "/v1/types" {
                    prop_assert_eq!(decoded.bucket, request.bucket);
                }
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }
}

#[test]
fn session_id_is_encoded_as_decimal_text() {
    for id in [0, 8, 1 << 53, (1 << 53) + 1, u64::MAX] {
        let mut text = vec![b'{'];
        write::append_body(&mut text, &base::Body::Session(SessionId(id)));
        text.push(b'}');
        assert_eq!(text, format!("{{\"session\":\"{id}\"}}").as_bytes());
    }
}
