//! Tests that routes need, before a body is read, what their requests need.

use super::target;
use crate::native::access::AccessRequest;
use crate::native::route_needs::least_needs;
use crate::native::route_operations::operation_name;
use crate::native::routes::{Admission, RequestBody, RouteName};
use crate::native::table;
use crate::native::translate::{NativePlan, OperatorCall, plan};
use base::{BucketName, Call, DirectoryCall, Request};
use bytes::Bytes;

#[test]
fn every_route_but_the_open_ones_needs_a_right_and_operators_routes_that_of_their_act() {
    let mut acts = 0;
    for route in table::all() {
        let path = route.path.replace("{group}", "1").replace("{index}", "1");
        let path = path.replace("{id}", "1").replace(['{', '}'], "");
        let (content_type, body) = match route.request_body {
            RequestBody::Chunk => ("application/octet-stream", ""),
            RequestBody::Json("Target") => ("application/json", r#"{"target":"x"}"#),
            RequestBody::Json("LogLevels") => ("application/json", r#"{"node":"info"}"#),
            RequestBody::Json("Transfer") => ("application/json", r#"{"to":"n1"}"#),
            _ => ("application/json", ""),
        };
        let length = body.len();
        // What is not confirmed has no plan.
        let confirm = if path.contains("checkpoints/") { "?confirm=checkpoint" } else { "" };
        let request = format!(
            "{} {path}{confirm} HTTP/1.1\ncontent-length: {length}\ncontent-type: {content_type}",
            route.method.name()
        );
        let target = target(&request).unwrap_or_else(|refusal| panic!("{request}: {refusal:?}"));
        let verbs = least_needs(&target).map(|need| need.and_then(|need| need.verb()));
        assert_eq!(verbs[0].is_none(), route.admission == Admission::Open, "{request}");
        let name = operation_name(&target);
        let is_open = route.admission == Admission::Open;
        let is_in_body = matches!(route.name, RouteName::Update | RouteName::Read);
        assert_eq!(name.is_none(), is_open || is_in_body, "{request}");
        let planned = plan(target, Bytes::from_static(body.as_bytes()));
        let Ok(NativePlan::Operator(call)) = planned else { continue };
        if let Some(act) = call.act() {
            assert_eq!(verbs[0], act.needs().verb(), "{request}");
            acts += 1;
            let (bucket, retry) = (BucketName::default(), None);
            let expected = match call {
                OperatorCall::Access(AccessRequest::Change(call)) => {
                    let call = Call::Directory(DirectoryCall::Access(call));
                    Some(Request { bucket, call, retry }.operation_name())
                }
                OperatorCall::Access(AccessRequest::Init) => Some("init_access"),
                OperatorCall::Access(AccessRequest::Show) => Some("show_access"),
                _ => Some(act.operation_name()),
            };
            assert_eq!(name, expected, "{request}");
        }
    }
    assert!(acts > 15, "{acts}");
}
