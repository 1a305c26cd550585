//! Routes: what one is, and how a request finds its own.

use super::parameters::Parameter;
use super::table::ROUTES;
use crate::counters::OperationKind;
use crate::http::Method;
use base::limits::{FRAME_BYTES_MAX, HTTP_SMALL_BODY_BYTES_MAX, VALUE_BYTES_MAX};

/// What a route does.
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

/// Who a route is for: which listeners serve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Clients.
    Clients,
    /// Operators.
    Operators,
    /// Both: health, and the document.
    Everyone,
    /// Operators, and nodes that show a join token.
    Joining,
}

/// What a request's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// A value, as it is.
    Value,
    /// JSON of the named schema.
    Json(&'static str),
    /// JSON of the named schema, or nothing.
    MaybeJson(&'static str),
}

impl Takes {
    /// Most bytes of the body.
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

/// What a good answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// 204.
    Nothing,
    /// 201 without a body.
    Created,
    /// A value, as it is.
    Value,
    /// JSON of the named schema.
    Json(&'static str),
    /// 201 with JSON of the named schema.
    CreatedJson(&'static str),
    /// Lines of JSON, each of the named schema.
    JsonLines(&'static str),
    /// Text of this type.
    Text(&'static str),
}

/// One route.
pub struct HttpRoute {
    /// What it does.
    pub name: RouteName,
    /// How.
    pub method: Method,
    /// Where, with names in braces.
    pub path: &'static str,
    /// Its query parameters.
    pub query: &'static [Parameter],
    /// Its body.
    pub takes: Takes,
    /// Its good answer.
    pub gives: Gives,
    /// Statuses of errors beside those that every route may give.
    pub errors: &'static [u16],
    /// Whether a retry's headers mean something, and conditions.
    pub headers: Headers,
    /// As what it is counted.
    pub operation: OperationKind,
    /// Whom it is for.
    pub audience: For,
    /// One line for the docs.
    pub summary: &'static str,
}

/// Which headers mean something to a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// None.
    None,
    /// `if-match`, `if-none-match`.
    Conditions,
    /// `x-credenza-session`, `x-credenza-request`.
    Retry,
    /// All of these.
    Both,
}

impl Headers {
    /// Whether conditions mean something.
    pub fn has_conditions(self) -> bool {
        matches!(self, Headers::Conditions | Headers::Both)
    }

    /// Whether a retry's headers mean something.
    pub fn has_retry(self) -> bool {
        matches!(self, Headers::Retry | Headers::Both)
    }
}

/// A route that takes and gives nothing; what differs is said beside it.
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

/// A route of the cluster's members and placement.
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

/// A route that fits, with the segments that stand where it has names, in order.
#[derive(Clone, Copy)]
pub struct FoundRoute<'a> {
    /// The route.
    pub route: &'static HttpRoute,
    /// `{type}`, `{bucket}`, `{key}`, `{id}`, `{name}`, `{group}`, `{index}` or `{checkpoint}`,
    /// still percent-encoded.
    pub named: [&'a str; 3],
}

/// What comes of looking for a route.
pub enum Lookup<'a> {
    /// It is there.
    Found(FoundRoute<'a>),
    /// The path is there, for these methods.
    OtherMethods(Vec<&'static str>),
    /// There is no such path.
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
