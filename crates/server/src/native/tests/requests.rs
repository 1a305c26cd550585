//! Encoder of requests of `base` as a client writes them, for the tests of their decoding.

use super::steps::{append_read, append_update};
use crate::http::percent::append_encoded;
use base::index::{IndexCall, IndexContent, IndexQuery, TermSelection};
use base::properties::Changes;
use base::range::Direction;
use base::request::{BucketPlace, Call, DirectoryCall, Expiry, SessionCall};
use base::{
    Bound, BucketName, ClusterCall, JoinTokenTerms, Key, MemberDescription, Part, Range, Read,
    ReadLevel, Request, RingCall, RowContent, Update,
};
use bytes::Bytes;
use serde_json::json;
use std::fmt::Write;

/// HTTP request.
#[derive(Clone, Debug)]
pub struct SentRequest {
    /// Method: `GET`, ...
    pub method: &'static str,
    /// Path and query, percent-encoded.
    pub path: String,
    /// Headers in addition to `host` and `content-length`.
    pub headers: Vec<(&'static str, String)>,
    /// Body, if the method has one.
    pub body: Option<Bytes>,
}

impl SentRequest {
    /// Returns a request without a body.
    pub fn new(method: &'static str, path: impl Into<String>) -> SentRequest {
        SentRequest { method, path: path.into(), headers: Vec::new(), body: None }
    }

    /// Returns a request with a JSON body.
    pub fn json(method: &'static str, path: impl Into<String>, body: Vec<u8>) -> SentRequest {
        let mut sent = SentRequest::new(method, path);
        sent.headers.push(("content-type", "application/json".into()));
        sent.body = Some(body.into());
        sent
    }
}

/// Returns the request as it is sent, without the headers of a retry.
pub fn encode(request: &Request) -> SentRequest {
    let bucket = &request.bucket;
    match &request.call {
        Call::Read(Read::Get(key), level) => {
            SentRequest::new("GET", key_path(bucket, key) + "?" + &read_level(*level))
        }
        Call::Read(Read::KeyCount, level) => {
            SentRequest::new("GET", path(bucket, "/count?") + &read_level(*level))
        }
        Call::Read(Read::Range(range), level) => {
            let path = path(bucket, "/range?") + &read_level(*level);
            SentRequest::new("GET", path + &range_query(range))
        }
        Call::Read(Read::Index(query), level) => {
            let name = std::str::from_utf8(&query.index).expect("tests ask for UTF-8");
            let path = path(bucket, "/index/") + name + "?" + &read_level(*level);
            SentRequest::new("GET", path + &index_query(query))
        }
        Call::Read(read, level) => {
            let path = path(bucket, "/read?") + &read_level(*level);
            let mut body = Vec::new();
            append_read(&mut body, read);
            SentRequest::json("POST", path, body)
        }
        Call::Update(Update::Set { key, value, expiry }) => {
            let mut sent = SentRequest::new("PUT", key_path(bucket, key) + &ttl(*expiry));
            sent.body = Some(value.clone());
            sent
        }
        Call::Update(update) => {
            let mut body = Vec::new();
            append_update(&mut body, update);
            SentRequest::json("POST", path(bucket, "/update"), body)
        }
        Call::Directory(call) => directory_request(bucket, call),
        Call::Session(call) => {
            let path = format!("/v1/sessions/{}/{}", bucket.kind(), bucket.name());
            match call {
                SessionCall::Open => SentRequest::new("POST", path),
                SessionCall::Close(id) => SentRequest::new("DELETE", format!("{path}/{id}")),
            }
        }
        // No route has this path yet; programs that embed a node make the call directly.
        Call::Available(_) => SentRequest::new("POST", path(bucket, "/available")),
    }
}

fn read_level(level: ReadLevel) -> String {
    match level {
        ReadLevel::Consistent => "consistency=consistent".into(),
        ReadLevel::Dirty => "consistency=dirty".into(),
        ReadLevel::AtLeast(index) => format!("consistency=at_least:{index}"),
    }
}

fn ttl(expiry: Expiry) -> String {
    match expiry {
        Expiry::Default => String::new(),
        Expiry::Keep => "?ttl_ms=keep".into(),
        Expiry::Never => "?ttl_ms=never".into(),
        Expiry::After(ms) => format!("?ttl_ms={ms}"),
    }
}

fn range_query(range: &Range) -> String {
    let mut query = String::new();
    let mut key = |name: &str, key: &Key| {
        let _ = write!(query, "&{name}=");
        append_encoded(&mut query, key);
    };
    match &range.low {
        Bound::Open => {}
        Bound::Included(low) | Bound::Excluded(low) => key("from", low),
    }
    match &range.high {
        Bound::Open => {}
        Bound::Included(high) | Bound::Excluded(high) => key("to", high),
    }
    if matches!(range.low, Bound::Excluded(_)) {
        query.push_str("&from_exclusive=true");
    }
    if matches!(range.high, Bound::Included(_)) {
        query.push_str("&to_inclusive=true");
    }
    if range.direction == Direction::Descending {
        query.push_str("&reverse=true");
    }
    if let Some(limit) = range.rows_max {
        let _ = write!(query, "&limit={limit}");
    }
    if range.want == RowContent::Keys {
        query.push_str("&want=keys");
    }
    query
}

fn index_query(query: &IndexQuery) -> String {
    let mut text = match &query.terms {
        TermSelection::Between(low, high) => {
            range_query(&Range { low: low.clone(), high: high.clone(), ..Range::default() })
        }
        TermSelection::Equal(_) | TermSelection::Prefix(_) => String::new(),
    };
    let mut term = |name: &str, term: &[u8]| {
        let _ = write!(text, "&{name}=");
        append_encoded(&mut text, term);
    };
    match &query.terms {
        TermSelection::Equal(equal) => term("equals", equal),
        TermSelection::Prefix(prefix) => term("prefix", prefix),
        TermSelection::Between(..) => {}
    }
    if let Some(after) = &query.after {
        term("after", after);
    }
    if query.direction == Direction::Descending {
        text.push_str("&reverse=true");
    }
    if let Some(limit) = query.rows_max {
        let _ = write!(text, "&limit={limit}");
    }
    if query.want != IndexContent::Keys {
        let _ = write!(text, "&want={}", query.want.name());
    }
    if let Some(r) = query.r {
        let _ = write!(text, "&r={r}");
    }
    if query.allows_partial {
        text.push_str("&partial=true");
    }
    if let Some(timeout_ms) = query.timeout_ms {
        let _ = write!(text, "&timeout_ms={timeout_ms}");
    }
    text
}

fn index_request(bucket_path: String, call: &IndexCall) -> SentRequest {
    let path = bucket_path + "/indexes";
    match call {
        IndexCall::Create(spec) => {
            let body = json!({
                "name": spec.name, "path": spec.path, "type": spec.value_type,
                "format": spec.format, "unique": spec.is_unique, "strict": spec.is_strict,
            });
            SentRequest::json("POST", path, body.to_string().into_bytes())
        }
        IndexCall::List => SentRequest::new("GET", path),
        IndexCall::Describe { name } => SentRequest::new("GET", format!("{path}/{name}")),
        IndexCall::Drop { name } => SentRequest::new("DELETE", format!("{path}/{name}")),
        // Only nodes make this call; clients have no route for it.
        IndexCall::Report(_) => SentRequest::new("POST", path + "/report"),
    }
}

fn directory_request(bucket: &BucketName, call: &DirectoryCall) -> SentRequest {
    let bucket_path = path(bucket, "");
    let type_path = format!("/v1/types/{}", bucket.kind());
    match call {
        DirectoryCall::CreateBucket(changes) => {
            SentRequest::json("PUT", bucket_path, properties(changes))
        }
        DirectoryCall::AlterBucket(changes) => {
            SentRequest::json("PATCH", bucket_path, properties(changes))
        }
        DirectoryCall::DropBucket => {
            SentRequest::new("DELETE", format!("{bucket_path}?{}", confirm(bucket.full())))
        }
        DirectoryCall::ClearBucket => {
            SentRequest::new("POST", format!("{bucket_path}/clear?{}", confirm(bucket.full())))
        }
        DirectoryCall::DescribeBucket => SentRequest::new("GET", bucket_path),
        DirectoryCall::ListBuckets { after, rows_max } => {
            let mut path = format!("/v1/buckets?limit={rows_max}");
            if let Some(after) = after {
                let _ = write!(path, "&after={after}");
            }
            SentRequest::new("GET", path)
        }
        DirectoryCall::CreateType(changes) => {
            SentRequest::json("PUT", type_path, properties(changes))
        }
        DirectoryCall::AlterType(changes) => {
            SentRequest::json("PATCH", type_path, properties(changes))
        }
        DirectoryCall::DropType => SentRequest::new("DELETE", type_path),
        DirectoryCall::ListTypes => SentRequest::new("GET", "/v1/types"),
        DirectoryCall::Cluster(call) => member_request(call),
        DirectoryCall::Ring(call) => ring_request(call),
        DirectoryCall::PlaceBucket { changes, place } => {
            let mut changes = changes.clone();
            changes.push(match place {
                BucketPlace::Group(group) => ("group".into(), group.to_string()),
                BucketPlace::Replicas(voters) => ("replicas".into(), voters.to_string()),
            });
            SentRequest::json("PUT", bucket_path, properties(&changes))
        }
        DirectoryCall::MoveBucket { group } => {
            let body = json!({ "group": group.0 }).to_string();
            SentRequest::json("POST", bucket_path + "/move", body.into_bytes())
        }
        DirectoryCall::CancelMove => SentRequest::new("DELETE", bucket_path + "/move"),
        DirectoryCall::ResetBucket => SentRequest::new("DELETE", bucket_path + "/properties"),
        // Only nodes make this call; clients have no route for it.
        DirectoryCall::StepMove { .. } => SentRequest::new("POST", bucket_path + "/move/step"),
        // Clients send passwords; only nodes send their hashes.
        DirectoryCall::Access(_) => SentRequest::new("POST", "/v1/access"),
        DirectoryCall::Index(call) => index_request(bucket_path, call),
    }
}

fn member_request(call: &ClusterCall) -> SentRequest {
    const MEMBERS: &str = "/v1/cluster/members";
    const TOKENS: &str = "/v1/cluster/tokens";
    const SECRET: &str = "/v1/cluster/secret";
    let json = |method: &'static str, path: String, body: serde_json::Value| {
        SentRequest::json(method, path, body.to_string().into_bytes())
    };
    let member_path = |name: &String, rest: &str| format!("{MEMBERS}/{name}{rest}");
    match call {
        ClusterCall::Describe => SentRequest::new("GET", MEMBERS),
        ClusterCall::AddMember { member, part, lease_ms, level } => {
            let MemberDescription { node, name, peer, client, .. } = member;
            let body = json!({ "node": node.to_string(), "name": name, "peer": peer,
                "client": client, "part": part.name(), "lease_ms": lease_ms,
                "level": level.0 });
            json("POST", MEMBERS.into(), body)
        }
        ClusterCall::UpdateMember { node, name, peer, client } => {
            let node = node.to_string();
            let body = json!({ "node": node, "name": name, "peer": peer, "client": client });
            json("PATCH", MEMBERS.into(), body)
        }
        ClusterCall::RemoveMember { name } => {
            SentRequest::new("DELETE", member_path(name, "?") + &confirm(name))
        }
        ClusterCall::ReplaceMember { name, by } => {
            json("POST", member_path(name, "/replace?") + &confirm(name), json!({ "by": by }))
        }
        ClusterCall::SetPart { name, part, group } => {
            let part = part.map_or("none", Part::name);
            let group = group.map(|group| group.0);
            let path = member_path(name, "/part?") + &confirm(name);
            json("PUT", path, json!({ "part": part, "group": group }))
        }
        ClusterCall::PlaceGroup { group, members } => {
            let member =
                |(name, part): &(String, Part)| json!({ "name": name, "part": part.name() });
            let members: Vec<_> = members.iter().map(member).collect();
            let path = format!("/v1/cluster/groups/{group}");
            json("PUT", path, json!({ "members": members }))
        }
        ClusterCall::SetQuorum { group, quorum } => {
            let path = format!("/v1/cluster/groups/{group}/quorum");
            json("PUT", path, json!({ "quorum": quorum }))
        }
        ClusterCall::CreateGroup { replicas, members } => {
            let body = json!({ "replicas": replicas, "members": members });
            json("POST", "/v1/cluster/groups".into(), body)
        }
        ClusterCall::DropGroup { group } => {
            SentRequest::new("DELETE", format!("/v1/cluster/groups/{group}?confirm={group}"))
        }
        // The header carries the token itself; the digest is for calls between nodes.
        ClusterCall::WithToken { call, .. } => member_request(call),
        ClusterCall::AddToken { terms, .. } => {
            let JoinTokenTerms { lifetime_ms, uses } = *terms;
            let standing = *terms == JoinTokenTerms::STANDING;
            let body = json!({ "lifetime_ms": lifetime_ms, "uses": uses, "standing": standing });
            json("POST", TOKENS.into(), body)
        }
        ClusterCall::RevokeTokens => SentRequest::new("DELETE", TOKENS),
        ClusterCall::MakeSecret => SentRequest::new("POST", SECRET),
        ClusterCall::RaiseLevel { level } => {
            json("POST", "/v1/cluster/level".into(), json!({ "level": level.0 }))
        }
    }
}

fn properties(changes: &Changes) -> Vec<u8> {
    let object: serde_json::Map<String, serde_json::Value> =
        changes.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
    serde_json::Value::Object(object).to_string().into_bytes()
}

fn ring_request(call: &RingCall) -> SentRequest {
    const PLAN: &str = "/v1/cluster/ring/plan";
    match call {
        RingCall::Describe => SentRequest::new("GET", "/v1/cluster/ring"),
        RingCall::Claim => SentRequest::new("PUT", "/v1/cluster/ring"),
        RingCall::Plan => SentRequest::new("GET", PLAN),
        RingCall::Stage(change) => {
            let body = json!(api::RingChange::from(change)).to_string();
            SentRequest::json("POST", PLAN, body.into_bytes())
        }
        RingCall::Clear => SentRequest::new("DELETE", PLAN),
        RingCall::Commit { epoch } => {
            let path = format!("/v1/cluster/ring/commit?confirm={}", epoch.unwrap_or_default());
            SentRequest::json("POST", path, json!({ "epoch": epoch }).to_string().into_bytes())
        }
        RingCall::Cancel => SentRequest::new("POST", "/v1/cluster/ring/cancel"),
        RingCall::Transfers => SentRequest::new("GET", "/v1/cluster/ring/transfers"),
        // Only nodes make these calls; clients have no route for them.
        RingCall::Received { .. } | RingCall::Cleared { .. } => {
            SentRequest::new("POST", "/v1/cluster/ring/told")
        }
    }
}

/// Returns the query that confirms the destruction of what has this name.
fn confirm(name: &str) -> String {
    let mut query = String::from("confirm=");
    append_encoded(&mut query, name.as_bytes());
    query
}

/// Returns the path of a resource in a bucket.
fn path(bucket: &BucketName, rest: &str) -> String {
    let mut path = format!("/v1/buckets/{}/", bucket.kind());
    append_encoded(&mut path, bucket.name().as_bytes());
    path + rest
}

/// Returns the path of a key.
fn key_path(bucket: &BucketName, key: &[u8]) -> String {
    let mut path = path(bucket, "/keys/");
    // Encode dots: intermediaries would resolve a segment that is only dots as a step up the path.
    match key {
        b"." => path.push_str("%2E"),
        b".." => path.push_str("%2E%2E"),
        key => append_encoded(&mut path, key),
    }
    path
}
