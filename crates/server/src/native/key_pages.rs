//! Pages of a bucket's keys, of either consistency: the route, its request, its answer.
//!
//! The node lists the keys of an available bucket behind a given key, without an inclusive lower
//! bound and without an upper bound. This module applies the bounds of a request. So a page may
//! hold fewer keys than allowed, or none, and still be followed by another.

use super::json::write::{append_bytes, append_list, append_number};
use super::parameters::Parameter;
use super::ranges::Bounds;
use super::routes::{HttpRoute, ResponseBody, RouteName, route};
use super::translate::NativeShape;
use crate::counters::OperationKind;
use crate::http::Method;
use base::limits::{KEY_BYTES_MAX, PAGE_ROWS_DEFAULT};
use base::{AvailableCall, Bound, Call, Error, Key, Keys, Range};

pub const LIST: HttpRoute = HttpRoute {
    query: &[Parameter::Prefix, Parameter::From, Parameter::To, Parameter::Limit, Parameter::After],
    response_body: ResponseBody::Json("KeyPage"),
    errors: &[404, 413],
    operation: OperationKind::Range,
    ..route(
        RouteName::ListKeys,
        Method::Get,
        "/v1/buckets/{type}/{bucket}/keys",
        "Lists a page of a bucket's keys in order; for an available bucket it reads every \
         partition.",
    )
};

/// Number of bytes appended to a key just below an inclusive lower bound. Keys in between are read
/// and dropped, so the number affects only speed.
const FILL_BYTES: usize = 16;

/// Returns the request, and the form of its answer.
pub fn call(bounds: Bounds) -> Result<(Call, NativeShape), Error> {
    let after = bounds.after.clone();
    let range = bounds.into_range()?;
    let rows_max = range.rows_max.unwrap_or(PAGE_ROWS_DEFAULT);
    // A page that held only keys below the range continues below the range, too.
    let call = AvailableCall::Keys { after: key_below(&range.low).max(after), rows_max };
    Ok((Call::Available(call), NativeShape::Keys(range)))
}

/// Returns a key below every key of the bound, close to it but cheap to compute.
fn key_below(low: &Bound) -> Option<Key> {
    let key = match low {
        Bound::Open => return None,
        Bound::Excluded(key) => return Some(key.clone()),
        Bound::Included(key) => key,
    };
    let (last, rest) = key.split_last()?;
    let mut below = rest.to_vec();
    if let Some(lower) = last.checked_sub(1) {
        below.push(lower);
        below.resize(below.len() + FILL_BYTES, u8::MAX);
        below.truncate(KEY_BYTES_MAX);
    }
    Some(below.into())
}

/// Appends the keys of a page that are inside the range, as JSON fields without the outer braces.
pub fn append_page(out: &mut Vec<u8>, page: &Keys, range: &Range) {
    let reaches_low = |key: &&Key| match &range.low {
        Bound::Open => true,
        Bound::Included(low) => *key >= low,
        Bound::Excluded(low) => *key > low,
    };
    let passes_high = |key: &Key| match &range.high {
        Bound::Open => false,
        Bound::Included(high) => key > high,
        Bound::Excluded(high) => key >= high,
    };
    let within: Vec<&Key> =
        page.keys.iter().filter(reaches_low).filter(|key| !passes_high(key)).collect();
    out.extend_from_slice(b"\"keys\":");
    append_list(out, &within, |out, key| append_bytes(out, key));
    // Continue behind the last key that was read, even if it is dropped.
    let next = page.keys.last().filter(|last| page.more && !passes_high(last));
    out.extend_from_slice(b",\"more\":");
    append_number(out, next.is_some());
    out.extend_from_slice(b",\"continue\":");
    match next {
        Some(key) => append_bytes(out, key),
        None => out.extend_from_slice(b"null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &[u8]) -> Key {
        Key::copy_from_slice(text)
    }

    fn list_keys(bounds: Bounds, keys: &[&[u8]], more: bool) -> String {
        let Ok((Call::Available(AvailableCall::Keys { after, .. }), NativeShape::Keys(range))) =
            call(bounds)
        else {
            panic!("a list of keys is one call")
        };
        // The node's part: keys behind `after`, in order.
        let later_keys = keys
            .iter()
            .filter(|candidate| after.as_ref().is_none_or(|after| **candidate > &after[..]));
        let keys = later_keys.map(|candidate| key(candidate)).collect();
        let mut out = Vec::new();
        append_page(&mut out, &Keys { keys, more }, &range);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn key_page_contains_only_keys_under_its_prefix() {
        let filled = [&b"a9"[..], &[u8::MAX; FILL_BYTES + 1]].concat();
        let keys: [&[u8]; 6] = [b"", b"a", &filled, b"a:", b"a:1", b"a;"];
        let page_of = |prefix: &[u8], more| {
            list_keys(Bounds { prefix: Some(key(prefix)), ..Bounds::default() }, &keys, more)
        };
        assert_eq!(page_of(b"a:", true), r#""keys":["a:","a:1"],"more":false,"continue":null"#);
        assert_eq!(page_of(b"a:1", false), r#""keys":["a:1"],"more":false,"continue":null"#);
        assert!(page_of(b"", true).ends_with(r#""more":true,"continue":"a;""#));
        assert!(page_of(b"", false).starts_with(r#""keys":["","a","#));
    }

    #[test]
    fn key_page_that_ends_before_the_range_has_a_continuation() {
        let bounds = || Bounds { from: Some(key(b"b\0")), ..Bounds::default() };
        assert_eq!(
            list_keys(bounds(), &[b"a", b"b", b"b\0"], true),
            r#""keys":["b\u0000"],"more":true,"continue":"b\u0000""#
        );
        let filled = [&b"a"[..], &[u8::MAX; FILL_BYTES + 1]].concat();
        let bounds = Bounds { from: Some(key(b"b")), ..Bounds::default() };
        let page = list_keys(bounds.clone(), &[&filled], true);
        assert!(page.starts_with(r#""keys":[],"more":true,"continue":{"base64":"#), "{page}");
        let next = Bounds { after: Some(filled.clone().into()), ..bounds };
        let page = list_keys(next, &[&filled, b"b"], false);
        assert_eq!(page, r#""keys":["b"],"more":false,"continue":null"#);
    }

    #[test]
    fn key_page_excludes_continuation_key_and_ends_at_upper_bound() {
        let bounds = Bounds {
            after: Some(key(b"b")),
            to: Some(key(b"d")),
            limit: Some(2),
            ..Bounds::default()
        };
        let page = list_keys(bounds, &[b"a", b"b", b"c", b"d"], true);
        assert_eq!(page, r#""keys":["c"],"more":false,"continue":null"#);
        let largest = Bound::Included(vec![1; KEY_BYTES_MAX].into());
        assert_eq!(key_below(&largest).map(|key| key.len()), Some(KEY_BYTES_MAX));
        assert_eq!(key_below(&Bound::Included(Key::new())), None);
    }
}
