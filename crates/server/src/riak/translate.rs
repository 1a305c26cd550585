//! Translation of Riak's requests into those of `base`.

use super::answer::RiakResponse;
use super::headers::{content, context};
use super::negotiate::Wants;
use super::parameters::{Options, Query};
use super::path::{PathBucket, Resource, Style, TYPE, read};
use super::render::{Conditions, Form, RenderedList};
use super::request::RiakRequest;
use super::{datatypes, properties, statistics};
use crate::http::Method;
use base::limits::PAGE_ROWS_DEFAULT;
use base::properties::Changes;
use base::{
    AvailableCall, Body, BucketName, Call, Condition, DirectoryCall, Error, Key, Reply, Request,
    Store, StoreOptions, Vtag,
};
use serde_json::json;

/// Way in which a request is carried out.
#[derive(Debug)]
pub enum RiakPlan {
    /// Request to the node, and the form of its answer.
    Ask(Box<Request>, RiakShape),
    /// Read that must come first; [`go_on`] makes the next plan from its reply.
    Look(Box<Request>, Look),
    /// Answer that needs no node.
    Say(RiakResponse),
    /// Answer with the statistics.
    Statistics,
}

/// Form of the answer to a request.
#[derive(Debug)]
pub struct RiakShape(pub(super) Form);

impl RiakShape {
    /// Returns true if a list is sent page by page, one document each, the last one empty.
    pub fn streams(&self) -> bool {
        self.list().is_some_and(|list| list.stream)
    }

    /// Returns true if the answer is a list.
    pub(super) fn lists(&self) -> bool {
        self.list().is_some()
    }

    /// Returns the client's limit for the whole answer in milliseconds, if it set one.
    pub(super) fn timeout_ms(&self) -> Option<u64> {
        self.list()?.timeout_ms
    }

    fn list(&self) -> Option<RenderedList> {
        match self.0 {
            Form::Keys { list, .. } | Form::Buckets { list } => Some(list),
            _ => None,
        }
    }

    /// Sets the name of the answering node, in the answer about a bucket type.
    pub(super) fn claimed_by(&mut self, node: impl FnOnce() -> String) {
        if let Form::TypeProperties { claimant, .. } = &mut self.0 {
            *claimant = node();
        }
    }

    /// Returns the first document of a stream: on the old paths, the bucket's properties.
    pub(super) fn first_page(&mut self) -> Option<String> {
        let Form::Keys { properties, .. } = &mut self.0 else { return None };
        Some(json!({ "props": properties.take()? }).to_string())
    }

    /// Returns the last document of a stream of this list.
    pub(super) fn last_page(&self) -> &'static [u8] {
        match self.0 {
            Form::Buckets { .. } => b"{\"buckets\":[]}",
            _ => b"{\"keys\":[]}",
        }
    }
}

/// Change that depends on a read of the current values.
#[derive(Debug)]
pub struct Look {
    bucket: BucketName,
    conditions: Conditions,
    then: FollowUp,
}

#[derive(Debug)]
enum FollowUp {
    Store(Box<Store>, RiakShape),
    Remove {
        key: Key,
        context: Option<base::Context>,
        options: StoreOptions,
    },
    /// The keys, with the properties that the read returned.
    Keys(RenderedList),
}

pub(super) fn ask(bucket: &BucketName, call: AvailableCall) -> Box<Request> {
    Box::new(Request { bucket: bucket.clone(), call: Call::Available(call), retry: None })
}

fn direct(bucket: &BucketName, call: DirectoryCall, form: Form) -> RiakPlan {
    let call = Call::Directory(call);
    RiakPlan::Ask(Box::new(Request { bucket: bucket.clone(), call, retry: None }), RiakShape(form))
}

/// Plans a request.
pub fn plan(asked: &RiakRequest) -> RiakPlan {
    planned(asked).unwrap_or_else(RiakPlan::Say)
}

fn planned(asked: &RiakRequest) -> Result<RiakPlan, RiakResponse> {
    let Some(place) = read(&asked.path) else {
        return Err(RiakResponse::text(404, "not found\n"));
    };
    let place = place.map_err(|words| RiakResponse::text(400, format!("{words}\n")))?;
    let query = Query::read(&asked.query);
    use Method::{Delete, Get, Head, Post, Put};
    let allowed = match &place {
        Resource::Ping | Resource::Statistics | Resource::Root | Resource::Buckets { .. } => {
            "GET, HEAD"
        }
        Resource::Owners(..) => "GET, HEAD",
        Resource::Unserved(_) => "",
        Resource::Keys(bucket) if bucket.style == Style::Old => "GET, HEAD, POST, PUT",
        Resource::Keys(_) => "GET, HEAD, POST",
        Resource::Properties(_) => "GET, HEAD, PUT, DELETE",
        Resource::TypeProperties { .. } => "GET, HEAD, PUT",
        Resource::Object(..) | Resource::Datatype(..) | Resource::Counter(..) => {
            "GET, HEAD, POST, PUT, DELETE"
        }
    };
    if asked.method == Method::Other {
        return Err(RiakResponse::text(501, "no such method\n"));
    }
    if let Resource::Unserved(feature) = place {
        // Not 404: Riak's Java client would take that for an empty result, without an error.
        return Err(RiakResponse::text(501, feature.refusal()));
    }
    match (place, asked.method) {
        (Resource::Ping, Get | Head) => {
            Ok(RiakPlan::Say(RiakResponse::with_body(200, "text/html", "OK")))
        }
        (Resource::Statistics, Get | Head) => Ok(RiakPlan::Statistics),
        (Resource::Root, Get | Head) => {
            let (accept, host) = (asked.text("accept"), asked.text("host"));
            Ok(RiakPlan::Say(statistics::resources(accept, host.unwrap_or_default())))
        }
        (Resource::Buckets { kind }, Get | Head) => buckets(&kind, &query),
        (Resource::Keys(bucket), Get | Head) => keys(&bucket, &query),
        (Resource::Keys(bucket), Post) => {
            let key = Vtag(asked.chance).to_string();
            let location = bucket.key_path(key.as_bytes());
            store(asked, &query, bucket, key.into(), Some(location))
        }
        (Resource::Keys(bucket), Put) if bucket.style == Style::Old => alter(asked, &bucket),
        (Resource::Properties(bucket), Put) => alter(asked, &bucket),
        (Resource::Properties(bucket), Get | Head) => {
            Ok(direct(&bucket.name, DirectoryCall::DescribeBucket, Form::Properties))
        }
        (Resource::Properties(bucket), Delete) => {
            Ok(direct(&bucket.name, DirectoryCall::ResetBucket, Form::Altered(Vec::new())))
        }
        (Resource::TypeProperties { kind }, Get | Head | Put) => type_properties(asked, &kind),
        (Resource::Object(bucket, key), Get | Head) => fetch(asked, &query, bucket, key),
        (Resource::Object(bucket, key), Put | Post) => store(asked, &query, bucket, key, None),
        (Resource::Object(bucket, key), Delete) => remove(asked, &query, &bucket, key),
        (Resource::Datatype(bucket, key), _) => datatypes::datatype(asked, &query, &bucket, key),
        (Resource::Counter(bucket, key), _) => datatypes::counter(asked, &query, &bucket, key),
        (Resource::Owners(bucket, key), Get | Head) => {
            let request = ask(&bucket.name, AvailableCall::Owners { key });
            Ok(RiakPlan::Ask(request, RiakShape(Form::Owners)))
        }
        _ => Err(RiakResponse::text(405, "").header("Allow", allowed)),
    }
}

fn alter(asked: &RiakRequest, bucket: &PathBucket) -> Result<RiakPlan, RiakResponse> {
    let changes = properties::changes(asked, Some(&bucket.bytes))?;
    let form = altered(&changes);
    Ok(direct(&bucket.name, DirectoryCall::AlterBucket(changes), form))
}

fn altered(changes: &Changes) -> Form {
    Form::Altered(changes.iter().map(|(name, _)| name.clone()).collect())
}

fn of_type(kind: &str) -> Result<BucketName, RiakResponse> {
    let name = BucketName::new(kind, "any");
    name.map_err(|_| RiakResponse::text(404, format!("Unknown bucket type: {kind}\n")))
}

fn type_properties(asked: &RiakRequest, kind: &str) -> Result<RiakPlan, RiakResponse> {
    let kind = if kind == "default" { TYPE } else { kind };
    let name = of_type(kind)?;
    if asked.method == Method::Put {
        let changes = properties::changes(asked, None)?;
        let form = altered(&changes);
        return Ok(direct(&name, DirectoryCall::AlterType(changes), form));
    }
    let form = Form::TypeProperties { kind: kind.into(), claimant: String::new() };
    Ok(direct(&name, DirectoryCall::ListTypes, form))
}

fn fetch(
    asked: &RiakRequest,
    query: &Query,
    bucket: PathBucket,
    key: Key,
) -> Result<RiakPlan, RiakResponse> {
    let mut options = Options::of(query);
    let fetch = options.fetch();
    options.end()?;
    let request = ask(&bucket.name, AvailableCall::Fetch { key, options: fetch });
    let form = Form::Object {
        bucket,
        vtag: query.get("vtag").map(str::to_string),
        wants: Wants::of(asked),
        conditions: Conditions::of(asked),
    };
    Ok(RiakPlan::Ask(request, RiakShape(form)))
}

fn store(
    asked: &RiakRequest,
    query: &Query,
    bucket: PathBucket,
    key: Key,
    location: Option<String>,
) -> Result<RiakPlan, RiakResponse> {
    let mut options = Options::of(query);
    let (store_options, look_options) = (options.store(), options.fetch());
    options.end()?;
    let unchanged = context(asked, "X-Riak-If-Not-Modified")?.map(Condition::Unchanged);
    let conditions = Conditions::of(asked);
    // A condition that the storing replica can check itself needs no read before.
    let absent = conditions.only_if_absent().then_some(Condition::Absent);
    let unmet = if unchanged.is_some() { 409 } else { 412 };
    let store = Store {
        key,
        content: content(asked, &bucket)?,
        context: context(asked, super::headers::VCLOCK)?,
        options: store_options,
        condition: unchanged.or(absent),
    };
    let name = bucket.name.clone();
    let wants = Wants::of(asked);
    let shape = RiakShape(Form::Stored { bucket, location, wants, unmet });
    if conditions.is_empty() || store.condition == Some(Condition::Absent) {
        return Ok(RiakPlan::Ask(ask(&name, AvailableCall::Store(Box::new(store))), shape));
    }
    let fetch = AvailableCall::Fetch { key: store.key.clone(), options: look_options };
    let then = FollowUp::Store(Box::new(store), shape);
    Ok(RiakPlan::Look(ask(&name, fetch), Look { bucket: name, conditions, then }))
}

/// Plans a delete. It reads first, to report an absent key and to get the context if none is given.
fn remove(
    asked: &RiakRequest,
    query: &Query,
    bucket: &PathBucket,
    key: Key,
) -> Result<RiakPlan, RiakResponse> {
    let mut options = Options::of(query);
    let (mut fetch, mut store) = (options.fetch(), options.store());
    let both = options.both();
    options.end()?;
    fetch.r = fetch.r.or(both);
    store.w = store.w.or(both);
    store.return_body = false;
    let context = context(asked, super::headers::VCLOCK)?;
    let look = ask(&bucket.name, AvailableCall::Fetch { key: key.clone(), options: fetch });
    let then = FollowUp::Remove { key, context, options: store };
    let conditions = Conditions::of(asked);
    Ok(RiakPlan::Look(look, Look { bucket: bucket.name.clone(), conditions, then }))
}

/// Makes the next plan of a change from the reply to its read.
pub fn go_on(look: Look, found: &Result<Reply, Error>) -> RiakPlan {
    let siblings = match found {
        Ok(Reply { body: Body::Siblings(siblings), .. }) => siblings,
        Ok(Reply { body: Body::Buckets(buckets), .. }) => {
            let (FollowUp::Keys(list), [bucket]) = (&look.then, &buckets[..]) else {
                return RiakPlan::Say(RiakResponse::text(
                    500,
                    "Error:\nan answer to another question\n",
                ));
            };
            let properties = Some(properties::of_bucket(&bucket.name, &bucket.properties));
            return all_keys(&look.bucket, Form::Keys { list: *list, properties });
        }
        Ok(_) => {
            return RiakPlan::Say(RiakResponse::text(
                500,
                "Error:\nan answer to another question\n",
            ));
        }
        Err(error) => return RiakPlan::Say(super::errors::answer(error)),
    };
    if let Some(status) = look.conditions.against(siblings, false) {
        return RiakPlan::Say(RiakResponse::bare(status));
    }
    match look.then {
        FollowUp::Store(mut store, shape) => {
            // The values must not have changed since the conditions were checked.
            let judged = || Condition::Unchanged(siblings.context.clone());
            store.condition.get_or_insert_with(judged);
            RiakPlan::Ask(ask(&look.bucket, AvailableCall::Store(store)), shape)
        }
        FollowUp::Remove { .. } if siblings.living().next().is_none() => {
            RiakPlan::Say(super::render::not_found(siblings))
        }
        FollowUp::Remove { key, context, options } => {
            let context = context.or_else(|| Some(siblings.context.clone()));
            let call = AvailableCall::Remove { key, context, options };
            RiakPlan::Ask(ask(&look.bucket, call), RiakShape(Form::Removed))
        }
        FollowUp::Keys(_) => {
            RiakPlan::Say(RiakResponse::text(500, "Error:\nan answer to another question\n"))
        }
    }
}

/// Returns the options of a list, or `None` if the query asks for none.
fn list(query: &Query, name: &str) -> Result<Option<RenderedList>, RiakResponse> {
    let mut options = Options::of(query);
    let timeout_ms = options.timeout();
    options.end()?;
    Ok(match query.get(name) {
        Some("true") => Some(RenderedList { stream: false, timeout_ms }),
        Some("stream") => Some(RenderedList { stream: true, timeout_ms }),
        _ => None,
    })
}

fn buckets(kind: &str, query: &Query) -> Result<RiakPlan, RiakResponse> {
    let Some(list) = list(query, "buckets")? else {
        return Err(RiakResponse::with_body(200, "application/json", r#"{"buckets":[]}"#));
    };
    let name = of_type(if kind == "default" { TYPE } else { kind })?;
    let call = AvailableCall::Buckets { after: None, rows_max: PAGE_ROWS_DEFAULT };
    Ok(RiakPlan::Ask(ask(&name, call), RiakShape(Form::Buckets { list })))
}

fn keys(bucket: &PathBucket, query: &Query) -> Result<RiakPlan, RiakResponse> {
    let old = bucket.style == Style::Old && query.get("props") != Some("false");
    let describe = DirectoryCall::DescribeBucket;
    match list(query, "keys")? {
        Some(list) if old => {
            let call = Call::Directory(describe);
            let request = Request { bucket: bucket.name.clone(), call, retry: None };
            let (bucket, conditions) = (bucket.name.clone(), Conditions::default());
            let look = Look { bucket, conditions, then: FollowUp::Keys(list) };
            Ok(RiakPlan::Look(Box::new(request), look))
        }
        Some(list) => Ok(all_keys(&bucket.name, Form::Keys { list, properties: None })),
        None if old => Ok(direct(&bucket.name, describe, Form::Properties)),
        None => Err(RiakResponse::with_body(200, "application/json", "{}")),
    }
}

fn all_keys(bucket: &BucketName, form: Form) -> RiakPlan {
    let call = AvailableCall::Keys { after: None, rows_max: PAGE_ROWS_DEFAULT };
    RiakPlan::Ask(ask(bucket, call), RiakShape(form))
}

/// Returns the request for the next page, or `None` if this one is the last.
pub fn next_page(request: &Request, body: &Body) -> Option<Box<Request>> {
    let call = match (&request.call, body) {
        (Call::Available(AvailableCall::Keys { rows_max, .. }), Body::Keys(page)) => {
            let after = page.keys.last().filter(|_| page.more)?;
            AvailableCall::Keys { after: Some(after.clone()), rows_max: *rows_max }
        }
        (Call::Available(AvailableCall::Buckets { rows_max, .. }), Body::BucketNames(page)) => {
            let after = page.names.last().filter(|_| page.more)?;
            AvailableCall::Buckets { after: Some(after.clone()), rows_max: *rows_max }
        }
        _ => return None,
    };
    Some(ask(&request.bucket, call))
}

/// Appends the next page to the pages before.
pub fn gather(first: &mut Body, next: Body) {
    match (first, next) {
        (Body::Keys(first), Body::Keys(next)) => {
            first.keys.extend(next.keys);
            first.more = next.more;
        }
        (Body::BucketNames(first), Body::BucketNames(next)) => {
            first.names.extend(next.names);
            first.more = next.more;
        }
        _ => {}
    }
}
