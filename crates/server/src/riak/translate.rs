//! Translation of Riak's requests into those of `base`.

use super::answer::RiakResponse;
use super::headers::{content, context};
use super::lists::{all_keys, buckets, list};
use super::negotiate::Preferences;
use super::parameters::{Options, Query};
use super::path::{PathBucket, Resource, Style, TYPE, parse_path};
use super::render::{Conditions, Form, ListOptions};
use super::request::RiakRequest;
use super::{datatypes, index_query, properties, statistics};
use crate::http::Method;
use base::properties::Changes;
use base::{
    AvailableCall, Body, BucketName, Call, Condition, DirectoryCall, Error, FetchOptions, Key,
    Reply, Request, Store, StoreOptions, Vtag,
};

/// Way in which a request is carried out.
#[derive(Debug)]
pub enum RiakPlan {
    /// Request to the node, and the form of its answer.
    Submit(Box<Request>, RiakShape),
    /// Read that precedes the change; [`plan_after_read`] makes the next plan from its reply.
    ReadFirst(Box<Request>, PendingPlan),
    /// Answer that needs no request to the node.
    Answer(RiakResponse),
    /// Answer with the statistics.
    Statistics,
}

/// Form of the answer to a request.
#[derive(Debug)]
pub struct RiakShape(pub(super) Form);

impl RiakShape {
    /// Returns true if a list is sent page by page, in documents of their own.
    pub fn is_streamed(&self) -> bool {
        self.list().is_some_and(|list| list.stream)
    }

    /// Returns true if the answer is a list.
    pub(super) fn is_list(&self) -> bool {
        self.list().is_some()
    }

    /// Returns true for lists of keys and buckets, and false for index queries, which Riak counts
    /// apart.
    pub(super) fn is_name_list(&self) -> bool {
        matches!(self.0, Form::Keys { .. } | Form::Buckets { .. })
    }

    /// Returns the client's time limit for the complete answer in milliseconds, if it set one.
    pub(super) fn timeout_ms(&self) -> Option<u64> {
        self.list()?.timeout_ms
    }

    fn list(&self) -> Option<ListOptions> {
        match self.0 {
            Form::Keys { list, .. } | Form::Buckets { list } => Some(list),
            Form::Index(ref form) => Some(form.list),
            _ => None,
        }
    }

    /// Sets the claimant in the answer about a bucket type: the name of the answering node.
    pub(super) fn set_claimant(&mut self, node: impl FnOnce() -> String) {
        if let Form::TypeProperties { claimant, .. } = &mut self.0 {
            *claimant = node();
        }
    }
}

/// Rest of a request that depends on a read: a conditional change, or a list with properties.
#[derive(Debug)]
pub struct PendingPlan {
    bucket: BucketName,
    conditions: Conditions,
    next: FollowUp,
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
    Keys(ListOptions),
}

pub(super) fn call_on(bucket: &BucketName, call: AvailableCall) -> Box<Request> {
    Box::new(Request { bucket: bucket.clone(), call: Call::Available(call), retry: None })
}

fn directory_plan(name: &BucketName, call: DirectoryCall, form: Form) -> RiakPlan {
    let call = Call::Directory(call);
    RiakPlan::Submit(Box::new(Request { bucket: name.clone(), call, retry: None }), RiakShape(form))
}

/// Plans a request.
pub fn plan(request: &RiakRequest) -> RiakPlan {
    try_plan(request).unwrap_or_else(RiakPlan::Answer)
}

fn try_plan(request: &RiakRequest) -> Result<RiakPlan, RiakResponse> {
    let Some(resource) = parse_path(&request.path) else {
        return Err(RiakResponse::text(404, "not found\n"));
    };
    let resource = resource.map_err(|words| RiakResponse::text(400, format!("{words}\n")))?;
    let query = Query::parse(&request.query);
    use Method::{Delete, Get, Head, Post, Put};
    let allowed = match &resource {
        Resource::Ping | Resource::Statistics | Resource::Root | Resource::Buckets { .. } => {
            "GET, HEAD"
        }
        Resource::Owners(..) | Resource::Index(..) => "GET, HEAD",
        Resource::Unsupported(_) => "",
        Resource::Keys(bucket) if bucket.style == Style::Old => "GET, HEAD, POST, PUT",
        Resource::Keys(_) => "GET, HEAD, POST",
        Resource::Properties(_) => "GET, HEAD, PUT, DELETE",
        Resource::TypeProperties { .. } => "GET, HEAD, PUT",
        Resource::Object(..) | Resource::Datatype(..) | Resource::Counter(..) => {
            "GET, HEAD, POST, PUT, DELETE"
        }
    };
    if request.method == Method::Other {
        return Err(RiakResponse::text(501, "no such method\n"));
    }
    if let Resource::Unsupported(feature) = resource {
        // Not 404: Riak's Java client would treat that as an empty result, without an error.
        return Err(RiakResponse::text(501, feature.refusal()));
    }
    match (resource, request.method) {
        (Resource::Ping, Get | Head) => {
            Ok(RiakPlan::Answer(RiakResponse::with_body(200, "text/html", "OK")))
        }
        (Resource::Statistics, Get | Head) => Ok(RiakPlan::Statistics),
        (Resource::Root, Get | Head) => {
            let (accept, host) = (request.text("accept"), request.text("host"));
            Ok(RiakPlan::Answer(statistics::resources(accept, host.unwrap_or_default())))
        }
        (Resource::Buckets { kind }, Get | Head) => buckets(&kind, &query),
        (Resource::Keys(bucket), Get | Head) => keys(&bucket, &query),
        (Resource::Keys(bucket), Post) => {
            let key = Vtag(request.random_key).to_string();
            let location = bucket.key_path(key.as_bytes());
            store(request, &query, bucket, key.into(), Some(location))
        }
        (Resource::Keys(bucket), Put) if bucket.style == Style::Old => alter(request, &bucket),
        (Resource::Properties(bucket), Put) => alter(request, &bucket),
        (Resource::Properties(bucket), Get | Head) => {
            Ok(directory_plan(&bucket.name, DirectoryCall::DescribeBucket, Form::Properties))
        }
        (Resource::Properties(bucket), Delete) => {
            Ok(directory_plan(&bucket.name, DirectoryCall::ResetBucket, Form::Altered(Vec::new())))
        }
        (Resource::TypeProperties { kind }, Get | Head | Put) => type_properties(request, &kind),
        (Resource::Object(bucket, key), Get | Head) => fetch(request, &query, bucket, key),
        (Resource::Object(bucket, key), Put | Post) => store(request, &query, bucket, key, None),
        (Resource::Object(bucket, key), Delete) => remove(request, &query, &bucket, key),
        (Resource::Datatype(bucket, key), _) => datatypes::datatype(request, &query, &bucket, key),
        (Resource::Counter(bucket, key), _) => datatypes::counter(request, &query, &bucket, key),
        (Resource::Index(bucket, path), Get | Head) => {
            index_query::plan_query(&query, &bucket, path, request.random_key)
        }
        (Resource::Owners(bucket, key), Get | Head) => {
            let node_request = call_on(&bucket.name, AvailableCall::Owners { key });
            Ok(RiakPlan::Submit(node_request, RiakShape(Form::Owners)))
        }
        _ => Err(RiakResponse::text(405, "").with_header("Allow", allowed)),
    }
}

fn alter(request: &RiakRequest, bucket: &PathBucket) -> Result<RiakPlan, RiakResponse> {
    let changes = properties::changes(request, Some(&bucket.client_name))?;
    let form = altered(&changes);
    Ok(directory_plan(&bucket.name, DirectoryCall::AlterBucket(changes), form))
}

fn altered(changes: &Changes) -> Form {
    Form::Altered(changes.iter().map(|(name, _)| name.clone()).collect())
}

pub(super) fn type_name(kind: &str) -> Result<BucketName, RiakResponse> {
    let name = BucketName::new(kind, "any");
    name.map_err(|_| RiakResponse::text(404, format!("Unknown bucket type: {kind}\n")))
}

fn type_properties(request: &RiakRequest, kind: &str) -> Result<RiakPlan, RiakResponse> {
    let kind = if kind == "default" { TYPE } else { kind };
    let name = type_name(kind)?;
    if request.method == Method::Put {
        let changes = properties::changes(request, None)?;
        let form = altered(&changes);
        return Ok(directory_plan(&name, DirectoryCall::AlterType(changes), form));
    }
    let form = Form::TypeProperties { kind: kind.into(), claimant: String::new() };
    Ok(directory_plan(&name, DirectoryCall::ListTypes, form))
}

fn fetch(
    request: &RiakRequest,
    query: &Query,
    bucket: PathBucket,
    key: Key,
) -> Result<RiakPlan, RiakResponse> {
    let mut options = Options::new(query);
    let fetch = options.fetch();
    options.finish()?;
    let node_request = call_on(&bucket.name, AvailableCall::Fetch { key, options: fetch });
    let form = Form::Object {
        bucket,
        vtag: query.get("vtag").map(str::to_string),
        preferences: Preferences::from_request(request),
        conditions: Conditions::from_request(request),
    };
    Ok(RiakPlan::Submit(node_request, RiakShape(form)))
}

fn store(
    request: &RiakRequest,
    query: &Query,
    bucket: PathBucket,
    key: Key,
    location: Option<String>,
) -> Result<RiakPlan, RiakResponse> {
    let mut options = Options::new(query);
    let (store_options, read_options) = (options.store(), options.fetch());
    options.finish()?;
    let unchanged = context(request, "X-Riak-If-Not-Modified")?.map(Condition::Unchanged);
    let conditions = Conditions::from_request(request);
    // The storing replica checks this condition itself, so no read is needed before.
    let absent = conditions.only_if_absent().then_some(Condition::Absent);
    let unmet_status = if unchanged.is_some() { 409 } else { 412 };
    let store = Store {
        key,
        content: content(request, &bucket)?,
        context: context(request, super::headers::VCLOCK)?,
        options: store_options,
        condition: unchanged.or(absent),
    };
    let name = bucket.name.clone();
    let preferences = Preferences::from_request(request);
    let shape = RiakShape(Form::Stored { bucket, location, preferences, unmet_status });
    if conditions.is_empty() || store.condition == Some(Condition::Absent) {
        return Ok(RiakPlan::Submit(call_on(&name, AvailableCall::Store(Box::new(store))), shape));
    }
    let fetch = AvailableCall::Fetch { key: store.key.clone(), options: read_options };
    let next = FollowUp::Store(Box::new(store), shape);
    Ok(RiakPlan::ReadFirst(call_on(&name, fetch), PendingPlan { bucket: name, conditions, next }))
}

/// Plans a delete. It reads first, to report an absent key and to get the context if none is given.
fn remove(
    request: &RiakRequest,
    query: &Query,
    bucket: &PathBucket,
    key: Key,
) -> Result<RiakPlan, RiakResponse> {
    let mut options = Options::new(query);
    let (mut fetch, mut store) = (options.fetch(), options.store());
    let rw = options.rw();
    options.finish()?;
    fetch.r = fetch.r.or(rw);
    store.w = store.w.or(rw);
    store.return_body = false;
    let context = context(request, super::headers::VCLOCK)?;
    let (read, pending) = remove_after_read((&bucket.name, key), context, (fetch, store));
    let conditions = Conditions::from_request(request);
    Ok(RiakPlan::ReadFirst(read, PendingPlan { conditions, ..pending }))
}

/// Returns the read that precedes a delete, and the delete that follows it.
pub(super) fn remove_after_read(
    (bucket, key): (&BucketName, Key),
    context: Option<base::Context>,
    (fetch, options): (FetchOptions, StoreOptions),
) -> (Box<Request>, PendingPlan) {
    let read = call_on(bucket, AvailableCall::Fetch { key: key.clone(), options: fetch });
    let next = FollowUp::Remove { key, context, options };
    let conditions = Conditions::default();
    (read, PendingPlan { bucket: bucket.clone(), conditions, next })
}

/// Makes the next plan of a request from the reply to its read.
pub fn plan_after_read(pending: PendingPlan, found: &Result<Reply, Error>) -> RiakPlan {
    let siblings = match found {
        Ok(Reply { body: Body::Siblings(siblings), .. }) => siblings,
        Ok(Reply { body: Body::Buckets(buckets), .. }) => {
            let (FollowUp::Keys(list), [bucket]) = (&pending.next, &buckets[..]) else {
                return RiakPlan::Answer(RiakResponse::text(
                    500,
                    "Error:\nan answer to another request\n",
                ));
            };
            let properties = Some(properties::bucket_document(&bucket.name, &bucket.properties));
            return all_keys(&pending.bucket, Form::Keys { list: *list, properties });
        }
        Ok(_) => {
            return RiakPlan::Answer(RiakResponse::text(
                500,
                "Error:\nan answer to another request\n",
            ));
        }
        Err(error) => return RiakPlan::Answer(super::errors::answer(error)),
    };
    if let Some(status) = pending.conditions.unmet_status(siblings, false) {
        return RiakPlan::Answer(RiakResponse::empty(status));
    }
    match pending.next {
        FollowUp::Store(mut store, shape) => {
            // The values must not have changed since the conditions were checked.
            let checked_condition = || Condition::Unchanged(siblings.context.clone());
            store.condition.get_or_insert_with(checked_condition);
            RiakPlan::Submit(call_on(&pending.bucket, AvailableCall::Store(store)), shape)
        }
        FollowUp::Remove { .. } if siblings.without_tombstones().next().is_none() => {
            RiakPlan::Answer(super::render::not_found(siblings))
        }
        FollowUp::Remove { key, context, options } => {
            let context = context.or_else(|| Some(siblings.context.clone()));
            let call = AvailableCall::Remove { key, context, options };
            RiakPlan::Submit(call_on(&pending.bucket, call), RiakShape(Form::Removed))
        }
        FollowUp::Keys(_) => {
            RiakPlan::Answer(RiakResponse::text(500, "Error:\nan answer to another request\n"))
        }
    }
}

fn keys(bucket: &PathBucket, query: &Query) -> Result<RiakPlan, RiakResponse> {
    let shows_properties = bucket.style == Style::Old && query.get("props") != Some("false");
    let describe = DirectoryCall::DescribeBucket;
    match list(query, "keys")? {
        Some(list) if shows_properties => {
            let call = Call::Directory(describe);
            let request = Request { bucket: bucket.name.clone(), call, retry: None };
            let (bucket, conditions) = (bucket.name.clone(), Conditions::default());
            let pending = PendingPlan { bucket, conditions, next: FollowUp::Keys(list) };
            Ok(RiakPlan::ReadFirst(Box::new(request), pending))
        }
        Some(list) => Ok(all_keys(&bucket.name, Form::Keys { list, properties: None })),
        None if shows_properties => Ok(directory_plan(&bucket.name, describe, Form::Properties)),
        None => Err(RiakResponse::with_body(200, "application/json", "{}")),
    }
}
