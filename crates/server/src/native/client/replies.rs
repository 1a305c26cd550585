//! Decoding of an HTTP answer into the node's reply or error.

use super::wire::WireResponse;
use crate::native::json::cluster;
use crate::native::json::ring;
use base::properties::{Changes, Properties};
use base::reply::BucketDescription;
use base::request::{Call, DirectoryCall, SessionCall};
use base::{
    Body, BucketId, BucketName, ClusterCall, Entry, Error, GroupId, LogIndex, Moving, Outcome,
    Page, Read, Reason, Reply, Result, RingCall, Row, SessionId, Update, Version,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;

/// Returns the error for an answer that is not from a node, or from one of another version.
pub fn strange() -> Error {
    Error::new(Reason::NotSupported, "the answer is none of Credenza's, or of another version")
}

/// Returns the reply to a call.
pub fn reply(call: &Call, answer: &WireResponse) -> Result<Reply> {
    let index = LogIndex(answer.index.unwrap_or(0));
    let done = |body| Ok(Reply::new(index, body));
    let is_not_found = || answer.status == 404 && error(answer).reason == Reason::NotFound;
    match call {
        Call::Read(Read::Get(_), _) if is_not_found() => done(Body::Row(None)),
        Call::Read(Read::Get(_), _) if answer.status == 200 => done(Body::Row(Some(Row {
            value: answer.body.clone(),
            version: Version(answer.version.ok_or_else(strange)?),
            expires_in_ms: answer.expires_in_ms,
        }))),
        _ if answer.status >= 400 => Err(error(answer)),
        Call::Read(..) => done(body(&answer.json()?)?),
        Call::Update(Update::Set { .. }) => done(Body::Updated(Outcome::Done)),
        Call::Update(_) => done(Body::Updated(outcome(&answer.json()?)?)),
        Call::Directory(DirectoryCall::DescribeBucket) => {
            done(Body::Buckets(vec![bucket(&answer.json()?)?]))
        }
        Call::Directory(DirectoryCall::Cluster(
            ClusterCall::Describe | ClusterCall::AddMember { .. },
        )) => done(cluster::joined(&answer.json()?).ok_or_else(strange)?),
        Call::Directory(DirectoryCall::Cluster(ClusterCall::CreateGroup { .. })) => {
            let made = cluster::placement(&answer.json()?).ok_or_else(strange)?;
            done(Body::Group(Box::new(made)))
        }
        Call::Directory(DirectoryCall::ListBuckets { .. } | DirectoryCall::ListTypes)
        | Call::Session(SessionCall::Open) => done(body(&answer.json()?)?),
        Call::Directory(DirectoryCall::Ring(RingCall::Plan | RingCall::Stage(_))) => {
            let plan = ring::plan(&answer.json()?).ok_or_else(strange)?;
            done(Body::RingPlan(Box::new(plan)))
        }
        Call::Directory(DirectoryCall::Ring(RingCall::Transfers)) => {
            done(Body::RingTransfers(ring::transfers(&answer.json()?).ok_or_else(strange)?))
        }
        Call::Directory(DirectoryCall::Ring(RingCall::Clear)) => done(Body::Done),
        Call::Directory(DirectoryCall::Ring(_)) => {
            done(Body::Ring(cluster::ring(&answer.json()?).ok_or_else(strange)?))
        }
        Call::Available(_) => Err(strange()),
        Call::Directory(_) | Call::Session(_) => done(Body::Done),
    }
}

/// Returns the error that an answer reports.
pub fn error(answer: &WireResponse) -> Error {
    let told = answer.json().ok().and_then(|json| told(&json["error"]).ok());
    told.unwrap_or_else(strange)
}

fn told(json: &Value) -> Result<Error> {
    let word = json["reason"].as_str().ok_or_else(strange)?;
    let reason = Reason::ALL.into_iter().find(|reason| reason.word() == word);
    Ok(Error { reason: reason.ok_or_else(strange)?, detail: bytes(&json["detail"])? })
}

fn bytes(json: &Value) -> Result<Bytes> {
    if let Some(text) = json.as_str() {
        return Ok(Bytes::copy_from_slice(text.as_bytes()));
    }
    let encoded = json["base64"].as_str().ok_or_else(strange)?;
    STANDARD.decode(encoded).map(Bytes::from).map_err(|_| strange())
}

fn maybe_bytes(json: &Value) -> Result<Option<Bytes>> {
    if json.is_null() { Ok(None) } else { bytes(json).map(Some) }
}

fn number(json: &Value) -> Result<u64> {
    json.as_u64().ok_or_else(strange)
}

/// Parses a session's id: text, or a number from a server of the previous version.
fn session(json: &Value) -> Result<SessionId> {
    let id = match json.as_str() {
        Some(text) => text.parse().map_err(|_| strange())?,
        None => number(json)?,
    };
    Ok(SessionId(id))
}

fn flag(json: &Value) -> Result<bool> {
    json.as_bool().ok_or_else(strange)
}

fn list<T>(json: &Value, item: impl Fn(&Value) -> Result<T>) -> Result<Vec<T>> {
    json.as_array().ok_or_else(strange)?.iter().map(item).collect()
}

fn maybe_row(json: &Value) -> Result<Option<Row>> {
    if json.is_null() { Ok(None) } else { row(json).map(Some) }
}

fn row(json: &Value) -> Result<Row> {
    Ok(Row {
        value: bytes(&json["value"])?,
        version: Version(number(&json["version"])?),
        expires_in_ms: json["expires_in_ms"].as_u64(),
    })
}

fn entry(json: &Value) -> Result<Entry> {
    let row = if json["value"].is_null() { None } else { Some(row(json)?) };
    Ok(Entry { key: bytes(&json["key"])?, row })
}

pub(super) fn body(json: &Value) -> Result<Body> {
    let has = |name: &str| json.get(name).is_some();
    if has("done") {
        Ok(Body::Done)
    } else if has("row") {
        Ok(Body::Row(maybe_row(&json["row"])?))
    } else if has("rows") {
        Ok(Body::Rows(list(&json["rows"], maybe_row)?))
    } else if has("entries") {
        let (entries, more) = (list(&json["entries"], entry)?, flag(&json["more"])?);
        Ok(Body::Page(Page { entries, more }))
    } else if has("count") {
        Ok(Body::Count(number(&json["count"])?))
    } else if has("session") {
        session(&json["session"]).map(Body::Session)
    } else if has("buckets") {
        Ok(Body::Buckets(list(&json["buckets"], bucket)?))
    } else if has("types") {
        let of_type = |json: &Value| {
            let name = json["name"].as_str().ok_or_else(strange)?;
            Ok((name.to_string(), properties(&json["properties"])?))
        };
        Ok(Body::Types(list(&json["types"], of_type)?))
    } else {
        Err(strange())
    }
}

fn outcome(json: &Value) -> Result<Outcome> {
    Ok(match json["outcome"].as_str().ok_or_else(strange)? {
        "done" => Outcome::Done,
        "applied" => Outcome::Applied(flag(&json["applied"])?),
        "existed" => Outcome::Existed(flag(&json["existed"])?),
        "old" => Outcome::Old(maybe_bytes(&json["old"])?),
        "swapped" => {
            Outcome::Swapped { written: flag(&json["written"])?, old: maybe_bytes(&json["old"])? }
        }
        "count" => Outcome::Count(number(&json["count"])?),
        "number" => Outcome::Number(json["number"].as_i64().ok_or_else(strange)?),
        "text" => Outcome::Text(bytes(&json["text"])?),
        "length" => Outcome::Length(number(&json["length"])?),
        "read" => Outcome::Read(Box::new(body(&json["read"])?)),
        "steps" => Outcome::Steps(list(&json["steps"], step)?),
        "applied_at" => Outcome::AppliedAt(LogIndex(number(&json["applied_at"])?)),
        _ => return Err(strange()),
    })
}

fn step(json: &Value) -> Result<Result<Outcome>> {
    match json["outcome"].as_str() {
        Some("error") => Ok(Err(told(&json["error"])?)),
        _ => Ok(Ok(outcome(json)?)),
    }
}

fn bucket(json: &Value) -> Result<BucketDescription> {
    let narrow = |json: &Value| u32::try_from(number(json)?).map_err(|_| strange());
    let moving = match json.get("moves_to") {
        Some(json) => {
            let (group, id) = (GroupId(narrow(&json["group"])?), BucketId(narrow(&json["id"])?));
            Some(Moving { group, id })
        }
        None => None,
    };
    Ok(BucketDescription {
        moving,
        name: BucketName::parse(json["name"].as_str().ok_or_else(strange)?)?,
        id: BucketId(narrow(&json["id"])?),
        group: GroupId(narrow(&json["group"])?),
        properties: properties(&json["properties"])?,
    })
}

fn properties(json: &Value) -> Result<Properties> {
    let mut changes = Changes::new();
    for (name, value) in json.as_object().ok_or_else(strange)? {
        let text = value.as_str().map_or_else(|| value.to_string(), String::from);
        changes.push((name.clone(), text));
    }
    Properties::default().with(&changes)
}
