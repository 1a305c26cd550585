//! Routes: their description, and the look-up of a request's route.

use super::parameters::Parameter;
use super::table::ROUTES;
use crate::counters::OperationKind;
use crate::http::Method;
use base::limits::{FRAME_BYTES_MAX, HTTP_SMALL_BODY_BYTES_MAX, VALUE_BYTES_MAX};

/// Name of a route, for its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RouteName {
    GetKey,
    HeadKey,
    PutKey,
    DeleteKey,
    Update,
    Sequence,
    MultiGet,
    Read,
    Range,
    Stream,
    Count,
    DeletePrefix,
    EmptyPrefix,
    ClearBucket,
    MoveBucket,
    CancelMove,
    SeeMove,
    ListBuckets,
    CreateBucket,
    DescribeBucket,
    AlterBucket,
    DropBucket,
    ListTypes,
    CreateType,
    AlterType,
    DropType,
    Cluster,
    Transfer,
    Verify,
    DecidedValue,
    ListMembers,
    AddMember,
    UpdateMember,
    RemoveMember,
    ReplaceMember,
    MakeToken,
    RevokeTokens,
    MakeSecret,
    SetPart,
    PlaceGroup,
    SetQuorum,
    CreateGroup,
    SeeRing,
    ClaimRing,
    SeeRingPlan,
    StageRing,
    ClearRingPlan,
    CommitRing,
    CancelRing,
    SeeTransfers,
    DropGroup,
    ListKeys,
    FetchSiblings,
    StoreSibling,
    RemoveSiblings,
    FetchType,
    ChangeType,
    ResetBucket,
    OpenSession,
    CloseSession,
    Checkpoint,
    ListCheckpoints,
    RemoveCheckpoint,
    GetLogLevels,
    PutLogLevels,
    Status,
    Metrics,
    Live,
    Ready,
    OpenApi,
}

/// Audience of a route; it decides which listeners serve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Clients.
    Clients,
    /// Operators.
    Operators,
    /// Clients and operators: health, and the document.
    Everyone,
    /// Operators, and nodes that present a join token.
    Joining,
}

/// Body that a route takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No body.
    Nothing,
    /// A value as it is.
    Value,
    /// JSON of the named schema.
    Json(&'static str),
    /// JSON of the named schema, or no body.
    MaybeJson(&'static str),
}

impl Takes {
    /// Returns the maximum size of the body in bytes.
    pub fn bytes_max(self) -> usize {
        match self {
            Takes::Nothing => 0,
            Takes::Value => VALUE_BYTES_MAX,
            Takes::Json(
                "Properties" | "NewBucket" | "MoveTo" | "LogLevels" | "Target" | "NewMember"
                | "ChangedMember" | "SetPart" | "DesiredMembers" | "DesiredQuorum" | "Transfer"
                | "RingChange",
            ) => HTTP_SMALL_BODY_BYTES_MAX,
            Takes::MaybeJson(_) => HTTP_SMALL_BODY_BYTES_MAX,
            Takes::Json(_) => FRAME_BYTES_MAX,
        }
    }
}

/// Body of a successful answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Status 204 without a body.
    Nothing,
    /// Status 201 without a body.
    Created,
    /// A value as it is.
    Value,
    /// JSON of the named schema.
    Json(&'static str),
    /// Status 201 with JSON of the named schema.
    CreatedJson(&'static str),
    /// JSON lines, each of the named schema.
    JsonLines(&'static str),
    /// Text of this media type.
    Text(&'static str),
}

/// Route of the native front-end.
pub struct HttpRoute {
    /// Its name.
    pub name: RouteName,
    /// Its method.
    pub method: Method,
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// Its query parameters.
    pub query: &'static [Parameter],
    /// The body that it takes.
    pub takes: Takes,
    /// The body of its successful answer.
    pub gives: Gives,
    /// Error statuses beside those that every route may return.
    pub errors: &'static [u16],
    /// Headers of retries and conditions that it supports.
    pub headers: Headers,
    /// Kind of operation that it is counted as.
    pub operation: OperationKind,
    /// Its audience.
    pub audience: For,
    /// Description in one line, for the document.
    pub summary: &'static str,
}

/// Optional headers that a route supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// None of them.
    None,
    /// `if-match` and `if-none-match`.
    Conditions,
    /// `x-credenza-session` and `x-credenza-request`.
    Retry,
    /// All of them.
    Both,
}

impl Headers {
    /// Returns true if the route supports conditions.
    pub fn has_conditions(self) -> bool {
        matches!(self, Headers::Conditions | Headers::Both)
    }

    /// Returns true if the route supports retries.
    pub fn has_retry(self) -> bool {
        matches!(self, Headers::Retry | Headers::Both)
    }
}

/// Returns a route that takes and gives no body. Struct update syntax adds what differs.
pub const fn route(
    name: RouteName,
    method: Method,
    path: &'static str,
    summary: &'static str,
) -> HttpRoute {
    HttpRoute {
        name,
        method,
        path,
        query: &[],
        takes: Takes::Nothing,
        gives: Gives::Nothing,
        errors: &[],
        headers: Headers::None,
        operation: OperationKind::Other,
        audience: For::Clients,
        summary,
    }
}

/// Returns a route about the cluster's members and placement.
pub const fn cluster(
    (name, method, path): (RouteName, Method, &'static str),
    (takes, gives): (Takes, Gives),
    summary: &'static str,
) -> HttpRoute {
    let errors: &[u16] = match takes {
        Takes::Nothing => &[404, 409],
        _ => &[404, 409, 413, 415],
    };
    let (operation, audience) = (OperationKind::Directory, For::Operators);
    HttpRoute { takes, gives, errors, operation, audience, ..route(name, method, path, summary) }
}

/// Most segments of a path.
const SEGMENTS_MAX: usize = 8;

/// Route that matches a request, with the path segments at its parameters, in order.
#[derive(Clone, Copy)]
pub struct FoundRoute<'a> {
    /// The route.
    pub route: &'static HttpRoute,
    /// Values of `{type}`, `{bucket}`, `{key}`, `{id}`, `{name}`, `{group}`, `{index}` or
    /// `{checkpoint}`, still percent-encoded.
    pub named: [&'a str; 3],
}

/// Result of a look-up.
pub enum Lookup<'a> {
    /// The route.
    Found(FoundRoute<'a>),
    /// The path exists, for these methods.
    OtherMethods(Vec<&'static str>),
    /// No route has this path.
    Nowhere,
}

/// Finds the route of a method and path.
pub fn find(method: Method, path: &str) -> Lookup<'_> {
    let mut segments = [""; SEGMENTS_MAX];
    let mut count = 0;
    for segment in path.split('/').skip(1) {
        if count == SEGMENTS_MAX {
            return Lookup::Nowhere;
        }
        segments[count] = segment;
        count += 1;
    }
    let segments = &segments[..count];
    let mut methods = Vec::new();
    for route in &ROUTES {
        if let Some(named) = fits(route.path, segments) {
            if route.method == method {
                return Lookup::Found(FoundRoute { route, named });
            }
            methods.push(route.method.word());
        }
    }
    if methods.is_empty() { Lookup::Nowhere } else { Lookup::OtherMethods(methods) }
}

fn fits<'a>(pattern: &str, segments: &[&'a str]) -> Option<[&'a str; 3]> {
    let mut named = [""; 3];
    let mut names = 0;
    let mut rest = segments.iter();
    for part in pattern.split('/').skip(1) {
        let segment = rest.next()?;
        if part.starts_with('{') {
            named[names] = segment;
            names += 1;
        } else if part != *segment {
            return None;
        }
    }
    rest.next().is_none().then_some(named)
}
