//! Tests of conversations with Riak's clients, and of their parts.

mod conversations;
mod indexes;
mod live;
mod memory;
mod operations;
mod refusals;
mod statistics;
mod tags;
mod types;
mod writing;

use super::{RiakPlan, RiakRequest, RiakResponse, RiakShape, plan, plan_after_read, render};
use crate::http::Method;
use base::{
    AvailableCall, Body, Call, Content, Context, Headers, LogIndex, Reply, Request, Sibling,
    Siblings, Store, Vtag,
};
use bytes::Bytes;

/// Returns a request: method and path with query, headers, body.
fn build_request(line: &str, headers: &[(&str, &str)], body: &'static str) -> RiakRequest {
    let (method, target) = line.split_once(' ').expect("a method and a path");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    use Method::{Delete, Get, Head, Patch, Post, Put};
    let methods = [Get, Head, Put, Post, Patch, Delete];
    let header = |(name, value): &(&str, &str)| (name.to_string(), value.to_string().into());
    RiakRequest {
        method: methods
            .into_iter()
            .find(|candidate| candidate.name() == method)
            .unwrap_or(Method::Other),
        path: path.into(),
        query: query.into(),
        headers: headers.iter().map(header).collect(),
        body: Bytes::from_static(body.as_bytes()),
        random_key: 12_345,
    }
}

fn planned_request(request: &RiakRequest) -> (Request, RiakShape) {
    match plan(request) {
        RiakPlan::Submit(request, shape) => (*request, shape),
        other => panic!("{other:?}"),
    }
}

fn planned_answer(request: &RiakRequest) -> RiakResponse {
    match plan(request) {
        RiakPlan::Answer(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// Returns the answer to a request for a node's reply with this body.
fn rendered(request: &RiakRequest, body: Body) -> RiakResponse {
    let (_, shape) = planned_request(request);
    render(&shape, &Ok(reply(body)))
}

fn reply(body: Body) -> Reply {
    Reply::new(LogIndex(0), body)
}

fn stored(request: &Request) -> &Store {
    match &request.call {
        Call::Available(AvailableCall::Store(store)) => store,
        other => panic!("{other:?}"),
    }
}

fn sibling(value: &'static str, vtag: u128) -> Sibling {
    let headers = Headers { content_type: "text/plain".into(), ..Headers::default() };
    Sibling {
        content: Content { value: value.into(), headers },
        written_ms: 1_795_252_102_000,
        vtag: Vtag(vtag),
        tombstone: false,
    }
}

fn siblings(values: Vec<Sibling>) -> Siblings {
    Siblings { context: Context(Bytes::from_static(b"seen")), values }
}

fn bytes(answer: &RiakResponse) -> String {
    let mut out = Vec::new();
    answer.encode(&mut out, false);
    String::from_utf8(out).expect("text")
}
