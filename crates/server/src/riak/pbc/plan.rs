//! Translation of messages into requests of `base`.

use super::super::headers::index_entries;
use super::super::index_answer::IndexForm;
use super::super::index_query::plan_query;
use super::super::parameters::Query;
use super::super::path::{IndexPath, PathBucket, Style, TYPE, bucket_of};
use super::super::properties::changes_of;
use super::super::render::Form;
use super::super::translate::{PendingPlan, RiakPlan, call_on, remove_after_read, type_name};
use super::errors::no_type;
use base::available::TypeChange;
use base::datatype::TypeOperation;
use base::limits::PAGE_ROWS_DEFAULT;
use base::{
    AvailableCall, BucketName, Call, Condition, Context, DirectoryCall, Key, Request, Store, Vtag,
};
use bytes::Bytes;
use riak_pbc::*;

/// Way in which a request is carried out.
#[derive(Debug)]
pub(super) enum PbcPlan {
    /// Request to the node, and the form of its answer.
    Submit(Box<Request>, PbcShape),
    /// Read that precedes a delete.
    RemoveAfterRead(Box<Request>, Box<PendingPlan>),
    /// Answer that needs no request to the node.
    Answer(u8),
    /// Answer with the client's id, after setting it if there is a new one.
    ClientId(Option<Bytes>),
    /// Answer with the node's name and version.
    ServerInfo,
    /// Login.
    Login(RpbAuthReq),
}

/// Form of the answer to a request.
#[derive(Debug)]
pub(super) enum PbcShape {
    /// The values of a key. `seen`: a context that makes them needless.
    Object { head_only: bool, shows_tombstone: bool, seen: Option<Bytes> },
    /// The outcome of a write. `key`: the one that the server generated. `unmet`: the text for a
    /// condition that was not met.
    Stored { head_only: bool, key: Option<Bytes>, unmet: &'static str },
    /// The outcome of a delete.
    Removed,
    /// Keys, in a stream.
    Keys { timeout_ms: Option<u64> },
    /// Buckets.
    Buckets { stream: bool, timeout_ms: Option<u64> },
    /// The properties of a bucket.
    Properties,
    /// The properties of this bucket type.
    TypeProperties(String),
    /// The outcome of a change to properties, and the code of its answer.
    Altered(u8),
    /// Rows of an index.
    Index(Box<IndexForm>),
    /// The owners of a key.
    Owners,
    /// The outcome of an addition to a legacy counter.
    CounterUpdated,
    /// A legacy counter.
    Counter,
    /// A data type.
    Typed { context: bool },
    /// The outcome of a change to a data type. `key`: the one that the server generated.
    TypeChanged { context: bool, key: Option<Bytes>, may_be_counter: bool },
}

impl PbcShape {
    /// Returns true for lists of keys and buckets.
    pub(super) fn is_name_list(&self) -> bool {
        matches!(self, PbcShape::Keys { .. } | PbcShape::Buckets { .. })
    }

    /// Returns true if the answer is a list that is sent page by page, and false if it is one that
    /// is sent as a whole. `None`: it is no list.
    pub(super) fn list(&self) -> Option<bool> {
        match self {
            PbcShape::Keys { .. } => Some(true),
            PbcShape::Buckets { stream, .. } => Some(*stream),
            PbcShape::Index(form) => Some(form.list.stream),
            _ => None,
        }
    }

    /// Returns the client's time limit for the complete list in milliseconds, if it set one.
    pub(super) fn timeout_ms(&self) -> Option<u64> {
        match self {
            PbcShape::Keys { timeout_ms } | PbcShape::Buckets { timeout_ms, .. } => *timeout_ms,
            PbcShape::Index(form) => form.list.timeout_ms,
            _ => None,
        }
    }
}

/// Refusal of MapReduce, which has no meaning here.
const MAP_REDUCE: &str = "MapReduce is not supported. Read the objects, and map and reduce them in \
                          the client.";

type Planned = Result<PbcPlan, String>;

/// Plans a request. `random`: for a generated key. Errors: the text of a refusal.
pub(super) fn plan(request: PbcRequest, random: u128) -> Planned {
    match request {
        PbcRequest::Ping => Ok(PbcPlan::Answer(code::PING)),
        PbcRequest::GetClientId => Ok(PbcPlan::ClientId(None)),
        PbcRequest::SetClientId(set) => Ok(PbcPlan::ClientId(Some(set.client_id))),
        PbcRequest::GetServerInfo => Ok(PbcPlan::ServerInfo),
        PbcRequest::Auth(auth) => Ok(PbcPlan::Login(auth)),
        PbcRequest::StartTls => Err("Security not enabled; STARTTLS not allowed.".into()),
        PbcRequest::MapRed(_) => Err(MAP_REDUCE.into()),
        PbcRequest::Get(get) => fetch(*get),
        PbcRequest::Put(put) => store(*put, random),
        PbcRequest::Del(del) => remove(*del),
        PbcRequest::ListBuckets(list) => {
            let name = kind_of(list.r#type.as_ref().map(type_text).transpose()?)?;
            let call = AvailableCall::Buckets { after: None, rows_max: PAGE_ROWS_DEFAULT };
            let (stream, timeout_ms) = (list.stream == Some(true), timeout_ms(list.timeout));
            Ok(PbcPlan::Submit(call_on(&name, call), PbcShape::Buckets { stream, timeout_ms }))
        }
        PbcRequest::ListKeys(list) => {
            let bucket = bucket(list.r#type.as_ref(), list.bucket)?;
            let call = AvailableCall::Keys { after: None, rows_max: PAGE_ROWS_DEFAULT };
            let timeout_ms = timeout_ms(list.timeout);
            Ok(PbcPlan::Submit(call_on(&bucket.name, call), PbcShape::Keys { timeout_ms }))
        }
        PbcRequest::GetBucket(get) => {
            let bucket = bucket(get.r#type.as_ref(), get.bucket)?;
            let call = DirectoryCall::DescribeBucket;
            Ok(directory(bucket.name, call, PbcShape::Properties))
        }
        PbcRequest::SetBucket(set) => {
            let bucket = bucket(set.r#type.as_ref(), set.bucket)?;
            let changes = changes(set.props.as_ref(), Some(&bucket.client_name))?;
            let call = DirectoryCall::AlterBucket(changes);
            Ok(directory(bucket.name, call, PbcShape::Altered(code::SET_BUCKET)))
        }
        PbcRequest::ResetBucket(reset) => {
            let bucket = bucket(reset.r#type.as_ref(), reset.bucket)?;
            let shape = PbcShape::Altered(code::RESET_BUCKET);
            Ok(directory(bucket.name, DirectoryCall::ResetBucket, shape))
        }
        PbcRequest::GetBucketType(get) => {
            let name = kind_of(Some(type_text(&get.r#type)?))?;
            let shape = PbcShape::TypeProperties(name.kind().to_string());
            Ok(directory(name, DirectoryCall::ListTypes, shape))
        }
        PbcRequest::SetBucketType(set) => {
            let name = kind_of(Some(type_text(&set.r#type)?))?;
            let call = DirectoryCall::AlterType(changes(set.props.as_ref(), None)?);
            Ok(directory(name, call, PbcShape::Altered(code::SET_BUCKET)))
        }
        PbcRequest::GetPreflist(get) => {
            let bucket = bucket(get.r#type.as_ref(), get.bucket)?;
            let call = AvailableCall::Owners { key: key(get.key)? };
            Ok(PbcPlan::Submit(call_on(&bucket.name, call), PbcShape::Owners))
        }
        PbcRequest::Index(index) => query(*index),
        PbcRequest::CounterUpdate(add) => add_to_counter(add),
        PbcRequest::CounterGet(get) => fetch_counter(get),
        PbcRequest::DtFetch(fetch) => fetch_type(*fetch),
        PbcRequest::DtUpdate(update) => change(*update, random),
    }
}

fn directory(bucket: BucketName, call: DirectoryCall, shape: PbcShape) -> PbcPlan {
    let call = Call::Directory(call);
    PbcPlan::Submit(Box::new(Request { bucket, call, retry: None }), shape)
}

fn type_text(kind: &Bytes) -> Result<&str, String> {
    if kind.is_empty() {
        return Err("Type cannot be zero-length".into());
    }
    std::str::from_utf8(kind).map_err(|_| no_type(&String::from_utf8_lossy(kind)))
}

/// Returns any bucket of a type; without one, of that of paths without a type.
fn kind_of(kind: Option<&str>) -> Result<BucketName, String> {
    let kind = kind.filter(|kind| *kind != "default");
    type_name(kind.unwrap_or(TYPE)).map_err(|_| no_type(kind.unwrap_or_default()))
}

fn bucket(kind: Option<&Bytes>, name: Bytes) -> Result<PathBucket, String> {
    let kind = kind.map(type_text).transpose()?;
    if name.is_empty() {
        return Err("Bucket cannot be zero-length".into());
    }
    kind_of(kind)?;
    Ok(bucket_of(kind, name, Style::New)?)
}

fn key(key: Bytes) -> Result<Key, String> {
    if key.is_empty() { Err("Key cannot be zero-length".into()) } else { Ok(key) }
}

/// Returns the key of a write, and it once more if the server generates it.
fn key_or_random(named: Option<Bytes>, random: u128) -> Result<(Key, Option<Bytes>), String> {
    match named {
        Some(named) => Ok((key(named)?, None)),
        None => {
            let key = Key::from(Vtag(random).to_string());
            Ok((key.clone(), Some(key)))
        }
    }
}

fn fetch(get: RpbGetReq) -> Planned {
    let options = get.read_options()?;
    let bucket = bucket(get.r#type.as_ref(), get.bucket)?;
    let call = AvailableCall::Fetch { key: key(get.key)?, options };
    let shape = PbcShape::Object {
        head_only: get.head == Some(true),
        shows_tombstone: get.deletedvclock == Some(true),
        seen: get.if_modified,
    };
    Ok(PbcPlan::Submit(call_on(&bucket.name, call), shape))
}

fn store(put: RpbPutReq, random: u128) -> Planned {
    let options = put.write_options()?;
    let head_only = put.return_head == Some(true) && put.return_body != Some(true);
    let bucket = bucket(put.r#type.as_ref(), put.bucket)?;
    let (key, generated_key) = key_or_random(put.key, random)?;
    let content = put.content.ok_or("the message has no content: a put needs one")?;
    let mut content = to_content(content);
    content.headers.indexes = index_entries(content.headers.indexes)?;
    let context = put.vclock.map(Context);
    // The storing replica checks both conditions itself, so no read that may fail precedes.
    let unchanged = (put.if_not_modified == Some(true))
        .then(|| Condition::Unchanged(context.clone().unwrap_or_default()));
    let absent = (put.if_none_match == Some(true)).then_some(Condition::Absent);
    let unmet = if unchanged.is_some() { "modified" } else { "match_found" };
    let condition = unchanged.or(absent);
    let store = Store { key, content, context, options, condition };
    let call = AvailableCall::Store(Box::new(store));
    let shape = PbcShape::Stored { head_only, key: generated_key, unmet };
    Ok(PbcPlan::Submit(call_on(&bucket.name, call), shape))
}

fn remove(del: RpbDelReq) -> Planned {
    let options = (del.read_options()?, del.write_options()?);
    let bucket = bucket(del.r#type.as_ref(), del.bucket)?;
    let context = del.vclock.map(Context);
    let (read, pending) = remove_after_read((&bucket.name, key(del.key)?), context, options);
    Ok(PbcPlan::RemoveAfterRead(read, Box::new(pending)))
}

fn changes(
    props: Option<&RpbBucketProps>,
    bucket: Option<&[u8]>,
) -> Result<base::properties::Changes, String> {
    let document = props.map(to_json).unwrap_or_default();
    changes_of(&document, bucket).map_err(|errors| {
        format!("Invalid bucket properties: {}", serde_json::Value::Object(errors))
    })
}

fn add_to_counter(update: RpbCounterUpdateReq) -> Planned {
    let options = update.write_options()?;
    let operation = TypeOperation::Add(update.amount.unwrap_or_default());
    let bucket = bucket(None, update.bucket)?;
    let key = key(update.key)?;
    let change = TypeChange { key, operation, context: None, options };
    let call = AvailableCall::Change(Box::new(change));
    Ok(PbcPlan::Submit(call_on(&bucket.name, call), PbcShape::CounterUpdated))
}

fn fetch_counter(get: RpbCounterGetReq) -> Planned {
    let options = get.read_options()?;
    let bucket = bucket(None, get.bucket)?;
    let call = AvailableCall::FetchType { key: key(get.key)?, options };
    Ok(PbcPlan::Submit(call_on(&bucket.name, call), PbcShape::Counter))
}

fn fetch_type(fetch: DtFetchReq) -> Planned {
    let options = fetch.read_options()?;
    let context = fetch.include_context != Some(false);
    let bucket = bucket(Some(&fetch.r#type), fetch.bucket)?;
    let call = AvailableCall::FetchType { key: key(fetch.key)?, options };
    Ok(PbcPlan::Submit(call_on(&bucket.name, call), PbcShape::Typed { context }))
}

fn change(update: DtUpdateReq, random: u128) -> Planned {
    let options = update.write_options()?;
    let bucket = bucket(Some(&update.r#type), update.bucket)?;
    let (key, generated_key) = key_or_random(update.key, random)?;
    let operation = to_operation(update.op.unwrap_or_default())?;
    let may_be_counter = matches!(operation, TypeOperation::Add(_));
    let context = update.context.map(Context);
    let change = TypeChange { key, operation, context, options };
    let call = AvailableCall::Change(Box::new(change));
    let context = update.include_context != Some(false);
    let shape = PbcShape::TypeChanged { context, key: generated_key, may_be_counter };
    Ok(PbcPlan::Submit(call_on(&bucket.name, call), shape))
}

/// Plans a query of an index as the HTTP interface does that of the same path and parameters.
fn query(index: RpbIndexReq) -> Planned {
    let bucket = bucket(index.r#type.as_ref(), index.bucket)?;
    if index.return_body == Some(true) || index.cover_context.is_some() {
        return Err("return_body and cover_context are not supported".into());
    }
    let terms = match index.qtype {
        Some(QUERY_EQUAL) => index.key.into_iter().collect(),
        Some(QUERY_RANGE) => match (index.range_min, index.range_max) {
            (Some(low), Some(high)) => vec![low, high],
            _ => return Err("Invalid query: a range needs range_min and range_max".into()),
        },
        _ => return Err("Invalid query: qtype must be eq or range".into()),
    };
    let mut pairs = Vec::new();
    let flag = |flag: Option<bool>| flag.map(|flag| flag.to_string());
    for (name, value) in [
        ("return_terms", flag(index.return_terms)),
        ("stream", flag(index.stream)),
        ("max_results", index.max_results.map(|rows| rows.to_string())),
        ("continuation", text("continuation", index.continuation)?),
        ("timeout", index.timeout.map(|timeout| timeout.to_string())),
        ("term_regex", text("term_regex", index.term_regex)?),
    ] {
        pairs.extend(value.map(|value| (name.to_string(), value)));
    }
    let path = IndexPath { field: index.index.to_ascii_lowercase().into(), terms };
    match plan_query(&Query::from_pairs(pairs), &bucket, path, 0) {
        Ok(RiakPlan::Submit(request, shape)) => match shape.0 {
            Form::Index(form) => Ok(PbcPlan::Submit(request, PbcShape::Index(form))),
            form => Err(format!("{form:?} is no query")),
        },
        Ok(plan) => Err(format!("{plan:?} is no query")),
        Err(refusal) => Err(String::from_utf8_lossy(&refusal.body).trim_end().to_string()),
    }
}

fn text(name: &str, bytes: Option<Bytes>) -> Result<Option<String>, String> {
    let to_text = |bytes: Bytes| String::from_utf8(bytes.into());
    let text = bytes.map(to_text).transpose();
    text.map_err(|_| format!("Invalid {name}: it is not UTF-8"))
}
