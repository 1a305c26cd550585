//! Routes: their description, and the look-up of a request's route.

use super::parameters::Parameter;
use super::table;
use crate::counters::OperationKind;
use crate::http::Method;
use base::limits::{
    FRAME_BYTES_MAX, HTTP_SMALL_BODY_BYTES_MAX, IMPORT_CHUNK_BYTES_MAX, VALUE_BYTES_MAX,
};

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
    ImportRecords,
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
    RaiseLevel,
    ShowAccess,
    InitAccess,
    SwitchAccess,
    CheckAccess,
    AddUser,
    ChangeUser,
    RemoveUser,
    SetPassword,
    AddApiToken,
    RevokeApiToken,
    SetRole,
    RemoveRole,
    SetQuota,
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
    CreateIndex,
    ListIndexes,
    DescribeIndex,
    DropIndex,
    QueryIndex,
    StreamIndex,
    ReadFeed,
    StreamFeed,
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
    Reload,
    ListSlowRequests,
    ResetSlowRequests,
    ListHotKeys,
    Status,
    Metrics,
    Live,
    Ready,
    OpenApi,
}

/// Way in to a route, before its body is read. What a request needs is in `base/rights`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Principals with the rights that the request needs.
    Rights,
    /// The same, and nodes that present a join token.
    JoinToken,
    /// Everybody: health, and the document.
    Open,
}

/// Request body of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// No body.
    Nothing,
    /// A value as it is.
    Value,
    /// A chunk of records, `base::import_chunk`.
    Chunk,
    /// JSON of the named schema.
    Json(&'static str),
    /// JSON of the named schema, or no body.
    MaybeJson(&'static str),
}

impl RequestBody {
    /// Returns the maximum size of the body in bytes.
    pub fn bytes_max(self) -> usize {
        match self {
            RequestBody::Nothing => 0,
            RequestBody::Value => VALUE_BYTES_MAX,
            RequestBody::Chunk => IMPORT_CHUNK_BYTES_MAX,
            RequestBody::Json(
                "Properties" | "NewBucket" | "MoveTo" | "LogLevels" | "Target" | "NewMember"
                | "ChangedMember" | "SetPart" | "DesiredMembers" | "DesiredQuorum" | "Transfer"
                | "RingChange" | "RaiseLevel" | "AccessSwitch" | "AccessQuestion" | "NewUser"
                | "UserChange" | "NewPassword" | "NewApiToken" | "RoleGrants" | "UserQuota"
                | "NewIndex",
            ) => HTTP_SMALL_BODY_BYTES_MAX,
            RequestBody::MaybeJson(_) => HTTP_SMALL_BODY_BYTES_MAX,
            RequestBody::Json(_) => FRAME_BYTES_MAX,
        }
    }
}

/// Response body of a successful request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
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
    /// Messages of a feed without an end, as JSON lines or server-sent events.
    Events,
    /// Text of this media type.
    Text(&'static str),
}

/// Route of the native front-end.
#[derive(Clone, Copy)]
pub struct HttpRoute {
    /// Its name.
    pub name: RouteName,
    /// Its method.
    pub method: Method,
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// Its query parameters.
    pub query: &'static [Parameter],
    /// Its request body.
    pub request_body: RequestBody,
    /// Its response body if the request succeeds.
    pub response_body: ResponseBody,
    /// Error statuses in addition to those that every route may return.
    pub errors: &'static [u16],
    /// Headers of retries and conditions that it supports.
    pub headers: Headers,
    /// Kind of operation that it is counted as.
    pub operation: OperationKind,
    /// Way in to it.
    pub admission: Admission,
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

/// Returns a route without bodies. Callers override single fields by struct update syntax.
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
        request_body: RequestBody::Nothing,
        response_body: ResponseBody::Nothing,
        errors: &[],
        headers: Headers::None,
        operation: OperationKind::Other,
        admission: Admission::Rights,
        summary,
    }
}

/// Returns a route about the cluster's members and placement.
pub const fn cluster(
    (name, method, path): (RouteName, Method, &'static str),
    (request_body, response_body): (RequestBody, ResponseBody),
    summary: &'static str,
) -> HttpRoute {
    let errors: &[u16] = match request_body {
        RequestBody::Nothing => &[404, 409],
        _ => &[404, 409, 413, 415],
    };
    let operation = OperationKind::Directory;
    HttpRoute {
        request_body,
        response_body,
        errors,
        operation,
        ..route(name, method, path, summary)
    }
}

/// Returns a route whose requests may have to be confirmed.
pub const fn confirmed(route: HttpRoute) -> HttpRoute {
    HttpRoute { query: &[Parameter::Confirm], ..route }
}

/// Maximum number of segments of a path.
const SEGMENTS_MAX: usize = 8;

/// Route that matches a request, with the path segments at its parameters, in order.
#[derive(Clone, Copy)]
pub struct FoundRoute<'a> {
    /// The route.
    pub route: &'static HttpRoute,
    /// Values of `{type}`, `{bucket}`, `{key}`, `{id}`, `{name}`, `{group}`, `{index}`,
    /// `{index_name}` or `{checkpoint}`, still percent-encoded.
    pub path_values: [&'a str; 3],
}

/// Result of a look-up.
pub enum Lookup<'a> {
    /// The route.
    Found(FoundRoute<'a>),
    /// The path exists, for these methods.
    OtherMethods(Vec<&'static str>),
    /// No route has this path.
    UnknownPath,
}

/// Finds the route of a method and path.
pub fn find(method: Method, path: &str) -> Lookup<'_> {
    let mut segments = [""; SEGMENTS_MAX];
    let mut count = 0;
    for segment in path.split('/').skip(1) {
        if count == SEGMENTS_MAX {
            return Lookup::UnknownPath;
        }
        segments[count] = segment;
        count += 1;
    }
    let segments = &segments[..count];
    let mut methods = Vec::new();
    for route in table::all() {
        if let Some(path_values) = match_path(route.path, segments) {
            if route.method == method {
                return Lookup::Found(FoundRoute { route, path_values });
            }
            methods.push(route.method.name());
        }
    }
    if methods.is_empty() { Lookup::UnknownPath } else { Lookup::OtherMethods(methods) }
}

fn match_path<'a>(pattern: &str, segments: &[&'a str]) -> Option<[&'a str; 3]> {
    let mut path_values = [""; 3];
    let mut count = 0;
    let mut rest = segments.iter();
    for part in pattern.split('/').skip(1) {
        let segment = rest.next()?;
        if part.starts_with('{') {
            path_values[count] = segment;
            count += 1;
        } else if part != *segment {
            return None;
        }
    }
    rest.next().is_none().then_some(path_values)
}
