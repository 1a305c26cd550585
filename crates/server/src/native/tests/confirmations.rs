//! Tests that what destroys data or rights must be confirmed by its name.

use super::{planned, target};
use crate::native::parameters::Parameter;
use crate::native::table;
use base::Reason;

/// Requests that must be confirmed, each with its body and the name that confirms it.
const CONFIRMED: [(&str, &str, &str); 6] = [
    ("DELETE /v1/buckets/logs/web", "", "logs/web"),
    ("POST /v1/buckets/logs/web/clear", "", "logs/web"),
    ("POST /v1/buckets/logs/web/empty_prefix", r#"{"prefix":"a"}"#, "logs/web"),
    ("DELETE /v1/access/users/ada", "", "ada"),
    ("DELETE /v1/access/roles/web", "", "web"),
    ("PUT /v1/access", r#"{"on":false}"#, "off"),
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
    let on = planned(&format!("PUT /v1/access {JSON}"), r#"{"on":true}"#);
    assert!(on.is_ok(), "turning access on destroys nothing");
    let confirmed: Vec<_> = CONFIRMED
        .iter()
        .map(|(line, ..)| target(&format!("{line} {JSON}")).expect(line).route.name)
        .collect();
    for route in table::all() {
        let takes_it = route.query.contains(&Parameter::Confirm);
        assert_eq!(takes_it, confirmed.contains(&route.name), "{:?}", route.name);
    }
}
