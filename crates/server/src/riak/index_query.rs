//! Queries of secondary indexes (2i): from a path and its parameters to the request for a page.
//!
//! The checks are in Riak's order, and refusals have Riak's texts, Erlang's terms among them. A
//! query is sorted by term and key, whether or not the client asks for it.

use super::answer::RiakResponse;
use super::index_answer::IndexForm;
use super::parameters::{Options, Query};
use super::path::{IndexPath, PathBucket};
use super::render::{Form, ListOptions};
use super::translate::{RiakPlan, RiakShape};
use base::index::{BUCKET_FIELD, IndexContent, IndexQuery, KEY_FIELD, TermSelection};
use base::{Bound, Call, Read, ReadLevel, Request, Vtag};
use bytes::Bytes;

/// Plans a query. `boundary`: random number that separates the parts of a stream.
pub(super) fn plan_query(
    query: &Query,
    bucket: &PathBucket,
    path: IndexPath,
    boundary: u128,
) -> Result<RiakPlan, RiakResponse> {
    // Every answer is sorted.
    flag(query, "pagination_sort")?;
    let wants_terms = flag(query, "return_terms")?;
    let terms = selection(&path)?;
    let regex = query.get("term_regex").map(|regex| term_filter(&path.field, regex)).transpose()?;
    let rows_max = max_results(query)?;
    let timeout_ms = timeout(query)?;
    let mut options = Options::new(query);
    let r = options.r();
    options.finish()?;
    let returns_terms = wants_terms && path.terms.len() == 2 && path.field != BUCKET_FIELD;
    // A continuation tells the term of the last row.
    let needs_terms = returns_terms || rows_max.is_some();
    let index_query = IndexQuery {
        index: path.field,
        terms,
        after: query.get("continuation").map(|text| Bytes::from(text.to_string())),
        rows_max,
        regex,
        want: if needs_terms { IndexContent::Terms } else { IndexContent::Keys },
        r,
        timeout_ms,
        ..IndexQuery::default()
    };
    let form = IndexForm {
        bucket: bucket.name.clone(),
        query: index_query.clone(),
        returns_terms,
        list: ListOptions { stream: query.get("stream") == Some("true"), timeout_ms },
        boundary: Vtag(boundary).to_string(),
    };
    let call = Call::Read(Read::Index(Box::new(index_query)), ReadLevel::Consistent);
    let request = Request { bucket: bucket.name.clone(), call, retry: None };
    Ok(RiakPlan::Submit(Box::new(request), RiakShape(Form::Index(Box::new(form)))))
}

/// Returns the terms of a path: both bounds are included. Whether a field is one of Riak's follows
/// from its name.
fn selection(path: &IndexPath) -> Result<TermSelection, RiakResponse> {
    let IndexPath { field, terms } = path;
    let has_type = |suffix: &[u8]| field.len() > suffix.len() && field.ends_with(suffix);
    if field == BUCKET_FIELD {
        return Ok(TermSelection::default());
    }
    if field != KEY_FIELD && !has_type(b"_bin") && !has_type(b"_int") {
        let reason = format!("{{unknown_field_type,{}}}", erlang_binary(field));
        return Err(invalid_query(&reason));
    }
    let mut texts = terms.iter().filter(|_| has_type(b"_int"));
    if let Some(text) = texts.find(|text| integer(text).is_none()) {
        let (field, text) = (erlang_binary(field), erlang_binary(text));
        return Err(invalid_query(&format!("{{field_parsing_failed,{{{field},{text}}}}}")));
    }
    match &terms[..] {
        [term] => Ok(TermSelection::Equal(term.clone())),
        [low, high] => {
            Ok(TermSelection::Between(Bound::Included(low.clone()), Bound::Included(high.clone())))
        }
        _ => Err(invalid_query("the path has no term: add one, or a lower and an upper one")),
    }
}

fn invalid_query(reason: &str) -> RiakResponse {
    RiakResponse::text(400, format!("Invalid query: {reason}\n"))
}

/// Returns the regular expression that terms of a field must match.
fn term_filter(field: &[u8], regex: &str) -> Result<String, RiakResponse> {
    if field.ends_with(b"_int") {
        let text = "Can not use term regular expressions on integer queries".to_string();
        return Err(RiakResponse::text(400, text));
    }
    node::check_tag_filter(regex).map_err(|error| {
        let text = format!("Invalid term regular expression {regex:?} : {}", error.text());
        RiakResponse::text(400, text)
    })?;
    Ok(regex.to_string())
}

fn flag(query: &Query, name: &str) -> Result<bool, RiakResponse> {
    let Some(text) = query.get(name) else { return Ok(false) };
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => {
            let text = format!("Invalid {name:?}. {text:?} is not a boolean");
            Err(RiakResponse::text(400, text))
        }
    }
}

/// Returns the number of rows that the client wants at most. `None`: all.
fn max_results(query: &Query) -> Result<Option<usize>, RiakResponse> {
    let Some(text) = query.get("max_results") else { return Ok(None) };
    let shown = match integer(text.as_bytes()) {
        Some(Integer { is_negative: false, digits }) if !digits.is_empty() => {
            return Ok(Some(digits.parse().unwrap_or(usize::MAX)));
        }
        found => shown_number(found, text),
    };
    let text = format!("Invalid \"max_results\". {shown} is not a positive integer");
    Err(RiakResponse::text(400, text))
}

/// Returns the timeout in milliseconds. `None`: no timeout, also if it is 0.
fn timeout(query: &Query) -> Result<Option<u64>, RiakResponse> {
    let Some(text) = query.get("timeout") else { return Ok(None) };
    let shown = match integer(text.as_bytes()) {
        Some(Integer { digits: "", .. }) => return Ok(None),
        Some(Integer { is_negative: false, digits }) => {
            return Ok(Some(digits.parse().unwrap_or(u64::MAX)));
        }
        found => shown_number(found, text),
    };
    let text = format!("Bad timeout value {shown}. Must be a non-negative integer\n");
    Err(RiakResponse::text(400, text))
}

/// Integer in decimal: its digits without leading zeros, none for 0.
#[derive(Clone, Copy)]
struct Integer<'a> {
    is_negative: bool,
    digits: &'a str,
}

/// Parses an integer of any length, as Erlang does. `None`: the text is none.
fn integer(text: &[u8]) -> Option<Integer<'_>> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(Integer { is_negative: text.starts_with('-'), digits: digits.trim_start_matches('0') })
}

/// Returns a refused number as Erlang prints it, or the text that is no number in quotes.
fn shown_number(found: Option<Integer<'_>>, text: &str) -> String {
    match found {
        None => format!("{text:?}"),
        Some(Integer { digits: "", .. }) => "0".into(),
        Some(Integer { is_negative, digits }) => {
            format!("{}{digits}", if is_negative { "-" } else { "" })
        }
    }
}

/// Returns bytes as Erlang prints a binary: as text if it is printable.
fn erlang_binary(bytes: &[u8]) -> String {
    let printable = std::str::from_utf8(bytes).ok();
    match printable.filter(|text| !text.is_empty() && !text.contains(char::is_control)) {
        Some(text) => format!("<<{text:?}>>"),
        None => {
            let numbers: Vec<_> = bytes.iter().map(u8::to_string).collect();
            format!("<<{}>>", numbers.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_and_shown_as_erlang_does() {
        for (text, shown) in [
            ("0", "0"),
            ("-0", "0"),
            ("+007", "7"),
            ("-0012", "-12"),
            ("99999999999999999999999999", "99999999999999999999999999"),
            ("", "\"\""),
            ("-", "\"-\""),
            ("+-1", "\"+-1\""),
            ("1.5", "\"1.5\""),
            (" 1", "\" 1\""),
        ] {
            assert_eq!(shown_number(integer(text.as_bytes()), text), shown, "{text}");
        }
        assert!(integer(b"1\xff").is_none());
    }

    #[test]
    fn binaries_are_shown_as_erlang_does() {
        assert_eq!(erlang_binary(b"x_int"), "<<\"x_int\">>");
        assert_eq!(erlang_binary(b""), "<<>>");
        assert_eq!(erlang_binary(b"a\0"), "<<97,0>>");
        assert_eq!(erlang_binary(b"\xff\xfe"), "<<255,254>>");
    }
}
