//! Target of a request: its route, and all parameters from the head. Pure.

use super::admission;
use super::errors::{self, malformed};
use super::parameters::Query;
use super::routes::{self, For, FoundRoute, HttpRoute, Lookup, Takes};
use crate::access_control::AccessControl;
use crate::connection::ListenerKind;
use crate::http::percent::{Plus, decode};
use crate::http::{BodyFraming, Head, Method, Refused, StatusCode, head};
use base::cluster::check_member_name;
use base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use base::{BucketName, Error, GroupId, Key, LogIndex, Reason, RetryId, SessionId, TokenDigest};
use std::borrow::Cow;

/// Target of a request whose body has not been read.
#[derive(Debug)]
pub struct RequestTarget {
    /// The route.
    pub route: &'static HttpRoute,
    /// The bucket. For the routes of a bucket type it has that type and a dummy name.
    pub bucket: BucketName,
    /// The key.
    pub key: Key,
    /// The session's id.
    pub session: SessionId,
    /// The member's name.
    pub member: String,
    /// The checkpoint's name, not yet checked.
    pub checkpoint: String,
    /// The group.
    pub group: GroupId,
    /// Index of an entry in the group's log.
    pub index: LogIndex,
    /// The query.
    pub query: Query,
    /// Versions in `if-match`.
    pub if_match: Option<Tags>,
    /// Versions in `if-none-match`.
    pub if_none_match: Option<Tags>,
    /// Retry identity, if the request has one.
    pub retry: Option<RetryId>,
    /// Digest of the join token, if the request needs one.
    pub shown: Option<TokenDigest>,
}

impl std::fmt::Debug for HttpRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.name)
    }
}

/// Versions in a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tags {
    /// `*`: any version.
    Any,
    /// A list of versions. `None` is a tag that no answer ever had.
    These(Vec<Option<u64>>),
}

/// Refusal of a request before it reaches the node.
#[derive(Debug)]
pub struct HttpRefusal {
    /// The status.
    pub status: StatusCode,
    /// The reason.
    pub error: Error,
    /// The methods that the path allows, if the method was the reason.
    pub allow: Option<String>,
}

impl From<Error> for HttpRefusal {
    fn from(error: Error) -> HttpRefusal {
        HttpRefusal { status: errors::status(error.reason), error, allow: None }
    }
}

impl From<Refused> for HttpRefusal {
    fn from(refused: Refused) -> HttpRefusal {
        let (status, error) = errors::refusal(&refused);
        HttpRefusal { status, error, allow: None }
    }
}

fn refusal(status: StatusCode, detail: &'static str) -> HttpRefusal {
    Refused { status, detail }.into()
}

/// Parses a head. `last` is the bucket of the connection's previous request, usually the same.
pub fn read(
    head: &Head<'_>,
    guard: &AccessControl,
    kind: ListenerKind,
    last: &mut BucketName,
) -> Result<RequestTarget, HttpRefusal> {
    if !guard.knows_host(head.host) {
        let words = "this server is not known under the name in `host`; the setting \
                     `allowed_hosts` lists its names";
        return Err(refusal(StatusCode::Misdirected, words));
    }
    let is_safe = matches!(head.method, Method::Get | Method::Head);
    if !is_safe && head.origin.is_some_and(|origin| !guard.trusts_origin(origin, head.host)) {
        return Err(refusal(StatusCode::Forbidden, "pages of other origins may not write here"));
    }
    let FoundRoute { route, named } = found(head)?;
    let shown = check_audience(route.audience, kind, head)?;
    check_body(route.takes, head)?;
    let query = Query::read(head.query, route.query)?;
    let mut target = RequestTarget {
        route,
        bucket: last.clone(),
        key: Key::new(),
        session: SessionId(0),
        member: String::new(),
        checkpoint: String::new(),
        group: GroupId(0),
        index: LogIndex(0),
        query,
        if_match: None,
        if_none_match: None,
        retry: None,
        shown,
    };
    target.take_names(named)?;
    *last = target.bucket.clone();
    if route.headers.has_conditions() {
        target.if_match = head.if_match.map(tags).transpose()?;
        target.if_none_match = head.if_none_match.map(tags).transpose()?;
    }
    target.retry = retry(head)?;
    if target.retry.is_some() && !route.headers.has_retry() {
        return Err(malformed("x-credenza-session means something to updates alone").into());
    }
    Ok(target)
}

fn found<'a>(head: &Head<'a>) -> Result<FoundRoute<'a>, HttpRefusal> {
    match routes::find(head.method, head.path) {
        Lookup::Found(found) => Ok(found),
        Lookup::OtherMethods(methods) => {
            let methods = methods.join(", ");
            let error = malformed(format!("this path takes {methods}"));
            Err(HttpRefusal { status: StatusCode::MethodNotAllowed, error, allow: Some(methods) })
        }
        Lookup::Nowhere => Err(refusal(
            StatusCode::NotFound,
            "there is no such path; /openapi.json lists them (a slash within a key is written %2F)",
        )),
    }
}

/// Checks that the listener serves this audience. Returns the digest of the join token if the
/// request needs one.
fn check_audience(
    audience: For,
    kind: ListenerKind,
    head: &Head<'_>,
) -> Result<Option<TokenDigest>, HttpRefusal> {
    match (audience, kind) {
        (_, ListenerKind::Both) | (For::Everyone, _) => Ok(None),
        (For::Clients, ListenerKind::Clients | ListenerKind::Arakoon | ListenerKind::Riak)
        | (For::Operators | For::Joining, ListenerKind::Operators) => Ok(None),
        (For::Joining, ListenerKind::Clients | ListenerKind::Arakoon | ListenerKind::Riak) => {
            Ok(Some(admission::shown(head.authorization)?))
        }
        (For::Operators, ListenerKind::Clients | ListenerKind::Arakoon | ListenerKind::Riak) => {
            let words = "beyond loopback this is served at `admin_listen` alone";
            Err(refusal(StatusCode::Forbidden, words))
        }
        (For::Clients, ListenerKind::Operators) => Err(refusal(
            StatusCode::Forbidden,
            "this listener is for operators; data is at `listen`",
        )),
    }
}

fn check_body(takes: Takes, head: &Head<'_>) -> Result<(), HttpRefusal> {
    let has_body = !matches!(head.body, BodyFraming::None | BodyFraming::Length(0));
    match takes {
        Takes::Nothing if has_body => {
            return Err(refusal(StatusCode::BadRequest, "this route takes no body"));
        }
        Takes::Value if head.body == BodyFraming::None => {
            let words = "a value needs its length: content-length, or chunks";
            return Err(refusal(StatusCode::LengthRequired, words));
        }
        // A form of a web page can't send this type, so a page can't use these routes.
        Takes::Json(_) if !is_json(head.content_type) => {
            let words = "this route takes `content-type: application/json`";
            return Err(refusal(StatusCode::UnsupportedMediaType, words));
        }
        Takes::MaybeJson(_) if has_body && !is_json(head.content_type) => {
            let words = "this route takes `content-type: application/json`";
            return Err(refusal(StatusCode::UnsupportedMediaType, words));
        }
        _ => {}
    }
    if let BodyFraming::Length(length) = head.body
        && length > takes.bytes_max() as u64
    {
        return Err(too_large(takes.bytes_max()));
    }
    Ok(())
}

/// Returns the refusal of a body over its limit.
pub fn too_large(bytes_max: usize) -> HttpRefusal {
    let text = match bytes_max {
        VALUE_BYTES_MAX => format!(
            "a value has at most {bytes_max} bytes (a bucket's `value_bytes_max` may be less): \
             store larger ones in parts"
        ),
        _ => format!("this route takes at most {bytes_max} bytes"),
    };
    Error::new(Reason::TooLarge, text).into()
}

fn is_json(content_type: Option<&[u8]>) -> bool {
    let Some(kind) = content_type else { return false };
    let kind = kind.split(|&byte| byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

impl RequestTarget {
    /// Stores the path segments at the route's parameters, in order.
    fn take_names(&mut self, named: [&str; 3]) -> Result<(), HttpRefusal> {
        let path = self.route.path;
        if path.contains("{bucket}") {
            let [kind, name, rest] = named;
            if (self.bucket.kind(), self.bucket.name()) != (kind, name) || name.contains('%') {
                self.bucket = BucketName::new(kind, &plain_name(name)?)?;
            }
            if path.ends_with("{key}") {
                let wrong = || malformed("the key is not percent-encoded as it should be");
                self.key = decode(rest, Plus::Plus).ok_or_else(wrong)?;
                if self.key.len() > KEY_BYTES_MAX {
                    let words = format!("a key has at most {KEY_BYTES_MAX} bytes");
                    return Err(Error::new(Reason::TooLarge, words).into());
                }
            } else if path.ends_with("{id}") {
                let number = head::number(rest.as_bytes());
                self.session = SessionId(number.ok_or_else(|| malformed("a session is a number"))?);
            }
        } else if path.contains("{type}") {
            self.bucket = BucketName::new(named[0], BucketName::DEFAULT)?;
        } else if path.contains("{name}") {
            check_member_name(named[0])?;
            self.member = named[0].into();
        } else if path.contains("{checkpoint}") {
            self.checkpoint = named[0].into();
        } else if path.contains("{group}") {
            let number = head::number(named[0].as_bytes()).and_then(|n| u32::try_from(n).ok());
            self.group = GroupId(number.ok_or_else(|| malformed("a group is a number"))?);
            if path.contains("{index}") {
                let index = head::number(named[1].as_bytes());
                self.index = LogIndex(index.ok_or_else(|| malformed("an index is a number"))?);
            }
        }
        Ok(())
    }
}

/// Decodes a bucket's name in a path. Only `%` may be encoded, so every name has one spelling.
fn plain_name(segment: &str) -> Result<Cow<'_, str>, HttpRefusal> {
    if !segment.contains('%') {
        return Ok(Cow::Borrowed(segment));
    }
    if segment.split('%').skip(1).any(|rest| !rest.starts_with("25")) {
        return Err(malformed("in a bucket's name nothing but % is percent-encoded").into());
    }
    Ok(Cow::Owned(segment.replace("%25", "%")))
}

/// Parses `*`, or versions in quotes. The mark of a weak tag is ignored: a version identifies the
/// bytes exactly.
fn tags(header: &[u8]) -> Result<Tags, Error> {
    if header.trim_ascii() == b"*" {
        return Ok(Tags::Any);
    }
    let mut tags = Vec::new();
    for tag in header.split(|&byte| byte == b',') {
        let tag = tag.trim_ascii();
        let tag = tag.strip_prefix(b"W/").unwrap_or(tag);
        let inner = tag.strip_prefix(b"\"").and_then(|tag| tag.strip_suffix(b"\""));
        let inner = inner.ok_or_else(|| malformed("a condition holds versions in quotes, or *"))?;
        tags.push(head::number(inner));
    }
    Ok(Tags::These(tags))
}

fn retry(head: &Head<'_>) -> Result<Option<RetryId>, Error> {
    let number = |header: &[u8]| {
        head::number(header).ok_or_else(|| malformed("a session and a request are numbers"))
    };
    match (head.session, head.request) {
        (None, None) => Ok(None),
        (Some(session), Some(request)) => {
            Ok(Some(RetryId { session: SessionId(number(session)?), number: number(request)? }))
        }
        _ => Err(malformed("x-credenza-session and x-credenza-request stand together")),
    }
}
