//! Tests that what destroys data, replicas or rights must be confirmed by its name.

use super::{planned, target};
use crate::native::parameters::Parameter;
use crate::native::table;
use crate::native::translate::NativePlan;
use base::request::{Call, DirectoryCall};
use base::{Reason, RingCall};

/// Requests that must be confirmed, each with its body and the name that confirms it.
const CONFIRMED: [(&str, &str, &str); 12] = [
    ("DELETE /v1/buckets/logs/web", "", "logs/web"),
    ("POST /v1/buckets/logs/web/clear", "", "logs/web"),
    ("POST /v1/buckets/logs/web/empty_prefix", r#"{"prefix":"a"}"#, "logs/web"),
    ("DELETE /v1/access/users/ada", "", "ada"),
    ("DELETE /v1/access/roles/web", "", "web"),
    ("PUT /v1/access", r#"{"on":false}"#, "off"),
    ("DELETE /v1/cluster/members/n3", "", "n3"),
    ("POST /v1/cluster/members/n3/replace", r#"{"by":"n4"}"#, "n3"),
    ("PUT /v1/cluster/members/n3/part", r#"{"part":"none","group":2}"#, "n3"),
    ("DELETE /v1/cluster/groups/2", "", "2"),
    ("POST /v1/cluster/ring/commit", r#"{"epoch":7}"#, "7"),
    ("DELETE /v1/admin/checkpoints/monday", "", "monday"),
];
/// Requests of the same routes that destroy nothing, each with its body.
const HARMLESS: [(&str, &str); 4] = [
    ("PUT /v1/access", r#"{"on":true}"#),
    ("POST /v1/cluster/members/n3/replace", ""),
    ("PUT /v1/cluster/members/n3/part", r#"{"part":"learner","group":2}"#),
    ("PUT /v1/cluster/groups/2", r#"{"members":[{"name":"n1","part":"voter"}]}"#),
];
const JSON: &str = "HTTP/1.1\ncontent-type: application/json";

#[test]
fn destruction_without_the_name_of_its_object_is_refused() {
    for (line, body, name) in CONFIRMED {
        for query in ["", "?confirm=", "?confirm=web2", "?confirm=yes"] {
            let refused = planned(&format!("{line}{query} {JSON}"), body).expect_err(line);
            assert_eq!(refused.reason, Reason::Malformed, "{line}{query}");
            assert!(refused.text().contains(&format!("`confirm={name}`")), "{refused}");
        }
        for name in [name.to_string(), name.replace('/', "%2F")] {
            let planned = planned(&format!("{line}?confirm={name} {JSON}"), body);
            assert!(planned.is_ok(), "{line}: {planned:?}");
        }
    }
    for (line, body) in HARMLESS {
        let planned = planned(&format!("{line} {JSON}"), body);
        assert!(planned.is_ok(), "{line} {body}: {planned:?}");
    }
    let confirmed: Vec<_> = CONFIRMED
        .iter()
        .map(|(line, ..)| target(&format!("{line} {JSON}")).expect(line).route.name)
        .collect();
    for route in table::all() {
        let takes_it = route.query.contains(&Parameter::Confirm);
        assert_eq!(takes_it, confirmed.contains(&route.name), "{:?}", route.name);
    }
}

#[test]
fn ring_is_committed_only_at_the_confirmed_epoch_of_its_plan() {
    let commit = |query: &str, body: &str| {
        let planned = planned(&format!("POST /v1/cluster/ring/commit{query} {JSON}"), body);
        planned.map(|planned| match planned {
            NativePlan::Submit(request, _) => request.call,
            other => panic!("{other:?}"),
        })
    };
    let at =
        |epoch| Ok(Call::Directory(DirectoryCall::Ring(RingCall::Commit { epoch: Some(epoch) })));
    assert_eq!(commit("?confirm=7", ""), at(7));
    assert_eq!(commit("?confirm=7", r#"{"epoch":7}"#), at(7));
    for (query, body) in [("", ""), ("?confirm=yes", ""), ("?confirm=8", r#"{"epoch":7}"#)] {
        let refused = commit(query, body).expect_err("not confirmed");
        assert_eq!(refused.reason, Reason::Malformed, "{query} {body}");
        assert!(refused.text().contains("nothing was done"), "{refused}");
    }
    let refused = commit("", "").expect_err("not confirmed");
    assert!(refused.text().contains("/v1/cluster/ring/plan"), "{refused}");
}

#[test]
fn checkpoint_is_confirmed_by_its_name_however_it_is_encoded() {
    for path in ["a%2Eb", "a.b"] {
        for name in ["a%2Eb", "a.b"] {
            let line = format!("DELETE /v1/admin/checkpoints/{path}?confirm={name} {JSON}");
            assert!(planned(&line, "").is_ok(), "{line}");
        }
        let line = format!("DELETE /v1/admin/checkpoints/{path}?confirm=b {JSON}");
        assert!(planned(&line, "").is_err(), "{line}");
    }
}
