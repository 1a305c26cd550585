//! Target of a request: its route, and all parameters from the head. Pure.

use super::errors::{self, malformed};
use super::parameters::Query;
use super::routes::{self, Admission, FoundRoute, HttpRoute, Lookup, RequestBody, RouteName};
use crate::access_control::AccessControl;
use crate::connection::{Access, ListenerRole};
use crate::http::percent::{PlusMeaning, decode};
use crate::http::{BodyFraming, Head, Method, RequestRefusal, StatusCode, head};
use crate::login;
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
    /// The API token's label.
    pub label: String,
    /// The group.
    pub group: GroupId,
    /// Index of an entry in the group's log.
    pub index: LogIndex,
    /// Name of the declared index.
    pub index_name: String,
    /// The query.
    pub query: Query,
    /// Versions in `if-match`.
    pub if_match: Option<Tags>,
    /// Versions in `if-none-match`.
    pub if_none_match: Option<Tags>,
    /// Retry identity, if the request has one.
    pub retry: Option<RetryId>,
    /// Digest of the join token, if the request needs one.
    pub token_digest: Option<TokenDigest>,
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
    /// A list of versions. `None` is a tag that no answer ever contained.
    List(Vec<Option<u64>>),
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

impl From<RequestRefusal> for HttpRefusal {
    fn from(refused: RequestRefusal) -> HttpRefusal {
        let (status, error) = errors::refusal(&refused);
        HttpRefusal { status, error, allow: None }
    }
}

fn refusal(status: StatusCode, detail: &'static str) -> HttpRefusal {
    RequestRefusal { status, detail }.into()
}

/// Parses a head. `previous_bucket` is the bucket of the connection's previous request, usually the
/// same.
pub fn parse(
    head: &Head<'_>,
    access_control: &AccessControl,
    role: ListenerRole,
    previous_bucket: &mut BucketName,
) -> Result<RequestTarget, HttpRefusal> {
    if !access_control.allows_host(head.host) {
        let text = "the name in `host` is not allowed: add it to the setting `allowed_hosts`";
        return Err(refusal(StatusCode::Misdirected, text));
    }
    let is_safe = matches!(head.method, Method::Get | Method::Head);
    if !is_safe
        && head.origin.is_some_and(|origin| !access_control.allows_origin(origin, head.host))
    {
        return Err(refusal(StatusCode::Forbidden, "cross-origin writes are not allowed"));
    }
    let FoundRoute { route, path_values } = find_route(head)?;
    let token_digest = join_token(route.admission, role, head)?;
    check_body(route.request_body, head)?;
    let mut query = Query::parse(head.query, route.query)?;
    if route.name == RouteName::StreamFeed {
        query.feed.read_headers(head);
    }
    let mut target = RequestTarget {
        route,
        bucket: previous_bucket.clone(),
        key: Key::new(),
        session: SessionId(0),
        member: String::new(),
        checkpoint: String::new(),
        label: String::new(),
        group: GroupId(0),
        index: LogIndex(0),
        index_name: String::new(),
        query,
        if_match: None,
        if_none_match: None,
        retry: None,
        token_digest,
    };
    target.set_path_values(path_values)?;
    *previous_bucket = target.bucket.clone();
    if route.headers.has_conditions() {
        target.if_match = head.if_match.map(parse_tags).transpose()?;
        target.if_none_match = head.if_none_match.map(parse_tags).transpose()?;
    }
    target.retry = parse_retry(head)?;
    if target.retry.is_some() && !route.headers.has_retry() {
        return Err(malformed("x-credenza-session is allowed only for updates").into());
    }
    Ok(target)
}

fn find_route<'a>(head: &Head<'a>) -> Result<FoundRoute<'a>, HttpRefusal> {
    match routes::find(head.method, head.path) {
        Lookup::Found(found) => Ok(found),
        Lookup::OtherMethods(methods) => {
            let methods = methods.join(", ");
            let error = malformed(format!("method not allowed; this path supports {methods}"));
            Err(HttpRefusal { status: StatusCode::MethodNotAllowed, error, allow: Some(methods) })
        }
        Lookup::UnknownPath => Err(refusal(
            StatusCode::NotFound,
            "unknown path; /openapi.json lists all paths (a slash in a key is written %2F)",
        )),
    }
}

/// Returns the digest of the join token if the request needs one: nobody else vouches for it.
fn join_token(
    admission: Admission,
    role: ListenerRole,
    head: &Head<'_>,
) -> Result<Option<TokenDigest>, HttpRefusal> {
    let is_vouched_for =
        role.access == Access::Operator || head.authorization.is_some_and(login::is_of_user);
    match admission {
        Admission::JoinToken if !is_vouched_for => {
            Ok(Some(super::admission::token_digest(head.authorization)?))
        }
        Admission::Rights | Admission::JoinToken | Admission::Open => Ok(None),
    }
}

fn check_body(request_body: RequestBody, head: &Head<'_>) -> Result<(), HttpRefusal> {
    let has_body = !matches!(head.body, BodyFraming::None | BodyFraming::Length(0));
    match request_body {
        RequestBody::Nothing if has_body => {
            return Err(refusal(StatusCode::BadRequest, "this route does not take a body"));
        }
        RequestBody::Value if head.body == BodyFraming::None => {
            let text = "a value needs a content-length header or chunked encoding";
            return Err(refusal(StatusCode::LengthRequired, text));
        }
        // A form of a web page can't send these types, so a page can't use these routes.
        RequestBody::Chunk if !has_type(head.content_type, b"application/octet-stream") => {
            let text = "this route requires `content-type: application/octet-stream`";
            return Err(refusal(StatusCode::UnsupportedMediaType, text));
        }
        RequestBody::Json(_) if !is_json(head.content_type) => {
            let text = "this route requires `content-type: application/json`";
            return Err(refusal(StatusCode::UnsupportedMediaType, text));
        }
        RequestBody::MaybeJson(_) if has_body && !is_json(head.content_type) => {
            let text = "this route requires `content-type: application/json`";
            return Err(refusal(StatusCode::UnsupportedMediaType, text));
        }
        _ => {}
    }
    if let BodyFraming::Length(length) = head.body
        && length > request_body.bytes_max() as u64
    {
        return Err(too_large(request_body.bytes_max()));
    }
    Ok(())
}

/// Returns the refusal of a body over its limit.
pub fn too_large(bytes_max: usize) -> HttpRefusal {
    let text = match bytes_max {
        VALUE_BYTES_MAX => format!(
            "a value may have at most {bytes_max} bytes (a bucket's `value_bytes_max` may be \
             lower): split larger values"
        ),
        _ => format!("the body exceeds {bytes_max} bytes, the limit of this route"),
    };
    Error::new(Reason::TooLarge, text).into()
}

fn is_json(content_type: Option<&[u8]>) -> bool {
    has_type(content_type, b"application/json")
}

/// Returns true if the header names this type, with parameters or without.
fn has_type(content_type: Option<&[u8]>, media_type: &[u8]) -> bool {
    let Some(kind) = content_type else { return false };
    let kind = kind.split(|&byte| byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(media_type)
}

impl RequestTarget {
    /// Stores the path segments at the route's parameters, in order.
    fn set_path_values(&mut self, path_values: [&str; 3]) -> Result<(), HttpRefusal> {
        let path = self.route.path;
        if path.contains("{bucket}") {
            let [kind, name, rest] = path_values;
            if (self.bucket.kind(), self.bucket.name()) != (kind, name) || name.contains('%') {
                self.bucket = BucketName::new(kind, &decode_bucket_name(name)?)?;
            }
            if path.ends_with("{key}") {
                let error = || malformed("the key is not correctly percent-encoded");
                self.key = decode(rest, PlusMeaning::Plus).ok_or_else(error)?;
                if self.key.len() > KEY_BYTES_MAX {
                    let text = format!("a key may have at most {KEY_BYTES_MAX} bytes");
                    return Err(Error::new(Reason::TooLarge, text).into());
                }
            } else if path.contains("{index_name}") {
                let name = decode(rest, PlusMeaning::Plus);
                let name = name.and_then(|name| String::from_utf8(name.into()).ok());
                let error = || malformed("the name of the index is not percent-encoded UTF-8");
                self.index_name = name.ok_or_else(error)?;
            } else if path.ends_with("{id}") {
                let number = head::parse_number(rest.as_bytes());
                self.session =
                    SessionId(number.ok_or_else(|| malformed("a session id must be a number"))?);
            }
        } else if path.contains("{type}") {
            self.bucket = BucketName::new(path_values[0], BucketName::DEFAULT)?;
        } else if path.contains("{name}") {
            check_member_name(path_values[0])?;
            self.member = path_values[0].into();
            if path.contains("{label}") {
                check_member_name(path_values[1])?;
                self.label = path_values[1].into();
            }
        } else if path.contains("{checkpoint}") {
            self.checkpoint = path_values[0].into();
        } else if path.contains("{group}") {
            let number =
                head::parse_number(path_values[0].as_bytes()).and_then(|n| u32::try_from(n).ok());
            self.group = GroupId(number.ok_or_else(|| malformed("a group must be a number"))?);
            if path.contains("{index}") {
                let index = head::parse_number(path_values[1].as_bytes());
                self.index = LogIndex(index.ok_or_else(|| malformed("an index must be a number"))?);
            }
        }
        Ok(())
    }
}

/// Decodes a bucket's name in a path. Only `%` may be encoded, so every name has one spelling.
fn decode_bucket_name(segment: &str) -> Result<Cow<'_, str>, HttpRefusal> {
    if !segment.contains('%') {
        return Ok(Cow::Borrowed(segment));
    }
    if segment.split('%').skip(1).any(|rest| !rest.starts_with("25")) {
        return Err(malformed("in a bucket name only % may be percent-encoded").into());
    }
    Ok(Cow::Owned(segment.replace("%25", "%")))
}

/// Parses `*`, or versions in quotes. The mark of a weak tag is ignored: a version identifies the
/// bytes exactly.
fn parse_tags(header: &[u8]) -> Result<Tags, Error> {
    if header.trim_ascii() == b"*" {
        return Ok(Tags::Any);
    }
    let mut tags = Vec::new();
    for tag in header.split(|&byte| byte == b',') {
        let tag = tag.trim_ascii();
        let tag = tag.strip_prefix(b"W/").unwrap_or(tag);
        let inner = tag.strip_prefix(b"\"").and_then(|tag| tag.strip_suffix(b"\""));
        let inner = inner
            .ok_or_else(|| malformed("a condition must be one or more quoted versions, or *"))?;
        tags.push(head::parse_number(inner));
    }
    Ok(Tags::List(tags))
}

fn parse_retry(head: &Head<'_>) -> Result<Option<RetryId>, Error> {
    let number = |header: &[u8]| {
        head::parse_number(header)
            .ok_or_else(|| malformed("x-credenza-session and x-credenza-request must be numbers"))
    };
    match (head.session, head.request) {
        (None, None) => Ok(None),
        (Some(session), Some(request)) => {
            Ok(Some(RetryId { session: SessionId(number(session)?), number: number(request)? }))
        }
        _ => Err(malformed("x-credenza-session and x-credenza-request must be used together")),
    }
}
