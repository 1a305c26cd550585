//! Table of routes, the source of both request dispatch and the OpenAPI document.

use super::parameters::Parameter::{self, *};
use super::ring;
use super::routes::{
    Admission, Headers, HttpRoute, RequestBody, ResponseBody, RouteName as Name, cluster,
    confirmed, route,
};
use super::{
    access, admission, checkpoints, declared_indexes, emptying, feed, hot, import, key_pages,
    moves, reload, siblings, slow,
};
use crate::counters::OperationKind as Operation;
use crate::http::Method;

const KEY: &str = "/v1/buckets/{type}/{bucket}/keys/{key}";
const BUCKET: &str = "/v1/buckets/{type}/{bucket}";
const TYPE: &str = "/v1/types/{type}";
const SESSION: &str = "/v1/sessions/{type}/{bucket}/{id}";
const MEMBERS: &str = "/v1/cluster/members";
const MEMBER: &str = "/v1/cluster/members/{name}";
const RANGE: &[Parameter] =
    &[Prefix, From, To, FromExclusive, ToInclusive, Reverse, Limit, After, Want, Consistency];
const STREAM: &[Parameter] =
    &[Prefix, From, To, FromExclusive, ToInclusive, Reverse, After, Want, Consistency];

/// Returns all routes, the most frequent ones first.
pub fn all() -> impl Iterator<Item = &'static HttpRoute> {
    ROUTES.iter().chain(&access::ROUTES)
}

/// All routes but those about users and roles.
static ROUTES: [HttpRoute; 84] = [
    HttpRoute {
        query: &[Consistency],
        response_body: ResponseBody::Value,
        errors: &[304, 404, 412, 413],
        headers: Headers::Conditions,
        operation: Operation::Get,
        ..route(Name::GetKey, Method::Get, KEY, "Returns a key's value; its version is the ETag.")
    },
    HttpRoute {
        query: &[Ttl],
        request_body: RequestBody::Value,
        errors: &[404, 409, 411, 412, 413],
        headers: Headers::Both,
        operation: Operation::Put,
        ..route(Name::PutKey, Method::Put, KEY, "Writes a key's value if the conditions hold.")
    },
    HttpRoute {
        errors: &[404, 409, 412, 413],
        headers: Headers::Both,
        operation: Operation::Delete,
        ..route(Name::DeleteKey, Method::Delete, KEY, "Deletes a key if the conditions hold.")
    },
    HttpRoute {
        query: &[Consistency],
        response_body: ResponseBody::Value,
        errors: &[304, 404, 412, 413],
        headers: Headers::Conditions,
        operation: Operation::Get,
        ..route(Name::HeadKey, Method::Head, KEY, "Returns the version and size of a key's value.")
    },
    HttpRoute {
        request_body: RequestBody::Json("Sequence"),
        response_body: ResponseBody::Json("Updated"),
        errors: &[404, 409, 413, 415],
        headers: Headers::Retry,
        operation: Operation::Sequence,
        ..route(
            Name::Sequence,
            Method::Post,
            "/v1/buckets/{type}/{bucket}/sequence",
            "Applies updates and assertions in order, by default atomically.",
        )
    },
    HttpRoute {
        request_body: RequestBody::Json("Update"),
        response_body: ResponseBody::Json("Updated"),
        errors: &[404, 409, 413, 415],
        headers: Headers::Retry,
        operation: Operation::Update,
        ..route(
            Name::Update,
            Method::Post,
            "/v1/buckets/{type}/{bucket}/update",
            "Applies one update of any kind.",
        )
    },
    HttpRoute {
        query: &[Consistency],
        request_body: RequestBody::Json("MultiGet"),
        response_body: ResponseBody::Json("Rows"),
        errors: &[404, 413, 415],
        operation: Operation::MultiGet,
        ..route(
            Name::MultiGet,
            Method::Post,
            "/v1/buckets/{type}/{bucket}/multi_get",
            "Returns the rows of many keys, in the order of the keys.",
        )
    },
    HttpRoute {
        query: &[Consistency],
        request_body: RequestBody::Json("Read"),
        response_body: ResponseBody::Json("ReadReply"),
        errors: &[404, 409, 413, 415],
        operation: Operation::MultiGet,
        ..route(
            Name::Read,
            Method::Post,
            "/v1/buckets/{type}/{bucket}/read",
            "Executes one read of any kind.",
        )
    },
    HttpRoute {
        query: RANGE,
        response_body: ResponseBody::Json("Page"),
        errors: &[404, 413],
        operation: Operation::Range,
        ..route(
            Name::Range,
            Method::Get,
            "/v1/buckets/{type}/{bucket}/range",
            "Returns a page of rows in key order.",
        )
    },
    HttpRoute {
        query: STREAM,
        response_body: ResponseBody::JsonLines("Entry"),
        errors: &[404, 413],
        operation: Operation::Range,
        ..route(
            Name::Stream,
            Method::Get,
            "/v1/buckets/{type}/{bucket}/stream",
            "Streams all rows of a range, one JSON object per line, with back-pressure.",
        )
    },
    HttpRoute {
        query: &[Consistency],
        response_body: ResponseBody::Json("Count"),
        errors: &[404],
        operation: Operation::Count,
        ..route(
            Name::Count,
            Method::Get,
            "/v1/buckets/{type}/{bucket}/count",
            "Counts the keys of a bucket: at once if it is counted, else by a scan.",
        )
    },
    HttpRoute {
        request_body: RequestBody::Json("Prefix"),
        response_body: ResponseBody::Json("Updated"),
        errors: &[404, 413, 415],
        headers: Headers::Retry,
        operation: Operation::Delete,
        ..route(
            Name::DeletePrefix,
            Method::Post,
            "/v1/buckets/{type}/{bucket}/delete_prefix",
            "Deletes all keys under a prefix.",
        )
    },
    import::ROUTE,
    emptying::CLEAR,
    emptying::ROUTE,
    moves::BEGIN,
    moves::DESCRIBE,
    moves::CANCEL,
    key_pages::LIST,
    declared_indexes::QUERY,
    declared_indexes::STREAM,
    declared_indexes::CREATE,
    declared_indexes::LIST,
    declared_indexes::DESCRIBE,
    declared_indexes::DROP,
    feed::READ,
    feed::STREAM,
    siblings::FETCH,
    siblings::STORE,
    siblings::REMOVE,
    siblings::FETCH_TYPE,
    siblings::CHANGE_TYPE,
    siblings::RESET,
    HttpRoute {
        query: &[AfterBucket, LimitBuckets],
        response_body: ResponseBody::Json("Buckets"),
        operation: Operation::Directory,
        ..route(Name::ListBuckets, Method::Get, "/v1/buckets", "Lists a page of buckets.")
    },
    HttpRoute {
        request_body: RequestBody::MaybeJson("NewBucket"),
        response_body: ResponseBody::Created,
        errors: &[404, 409, 413, 415],
        operation: Operation::Directory,
        ..route(Name::CreateBucket, Method::Put, BUCKET, "Creates a bucket.")
    },
    HttpRoute {
        response_body: ResponseBody::Json("BucketReply"),
        errors: &[404],
        operation: Operation::Directory,
        ..route(Name::DescribeBucket, Method::Get, BUCKET, "Returns a bucket and its properties.")
    },
    HttpRoute {
        request_body: RequestBody::Json("Properties"),
        errors: &[404, 409, 413, 415],
        operation: Operation::Directory,
        ..route(Name::AlterBucket, Method::Patch, BUCKET, "Updates properties of a bucket.")
    },
    HttpRoute {
        query: &[Confirm],
        errors: &[404],
        operation: Operation::Directory,
        ..route(Name::DropBucket, Method::Delete, BUCKET, "Drops a bucket and all its data.")
    },
    HttpRoute {
        response_body: ResponseBody::Json("Types"),
        operation: Operation::Directory,
        ..route(Name::ListTypes, Method::Get, "/v1/types", "Lists all bucket types.")
    },
    HttpRoute {
        request_body: RequestBody::MaybeJson("Properties"),
        response_body: ResponseBody::Created,
        errors: &[409, 413, 415],
        operation: Operation::Directory,
        ..route(Name::CreateType, Method::Put, TYPE, "Creates a bucket type.")
    },
    HttpRoute {
        request_body: RequestBody::Json("Properties"),
        errors: &[404, 409, 413, 415],
        operation: Operation::Directory,
        ..route(
            Name::AlterType,
            Method::Patch,
            TYPE,
            "Updates properties of a bucket type; existing buckets keep their properties.",
        )
    },
    HttpRoute {
        errors: &[404, 409],
        operation: Operation::Directory,
        ..route(Name::DropType, Method::Delete, TYPE, "Drops a bucket type that has no buckets.")
    },
    cluster(
        (Name::Cluster, Method::Get, "/v1/cluster"),
        (RequestBody::Nothing, ResponseBody::Json("Cluster")),
        "Returns members, their connections and their groups, as this node sees them.",
    ),
    cluster(
        (Name::Transfer, Method::Post, "/v1/cluster/groups/{group}/transfer"),
        (RequestBody::Json("Transfer"), ResponseBody::Nothing),
        "Transfers a group's mastership to another voter. Any node forwards it to the master.",
    ),
    cluster(
        (Name::Verify, Method::Post, "/v1/cluster/groups/{group}/verify"),
        (RequestBody::Nothing, ResponseBody::Json("Pass")),
        "Compares the replicas of a group; any node forwards the request to the master. The \
         group's `comparison` has the progress and result.",
    ),
    admission::LIST_MEMBERS,
    admission::DECIDED_VALUE,
    admission::ADD_MEMBER,
    cluster(
        (Name::UpdateMember, Method::Patch, MEMBERS),
        (RequestBody::Json("ChangedMember"), ResponseBody::Nothing),
        "Updates the name or addresses of a member.",
    ),
    confirmed(cluster(
        (Name::RemoveMember, Method::Delete, MEMBER),
        (RequestBody::Nothing, ResponseBody::Nothing),
        "Removes a member from its groups, then from the cluster.",
    )),
    admission::REPLACE_MEMBER,
    admission::CREATE,
    admission::REVOKE,
    admission::CREATE_SECRET,
    admission::RAISE_LEVEL,
    confirmed(cluster(
        (Name::SetPart, Method::Put, "/v1/cluster/members/{name}/part"),
        (RequestBody::Json("SetPart"), ResponseBody::Nothing),
        "Sets a member's part (voter, learner, witness or none) in one group or in all groups.",
    )),
    cluster(
        (Name::PlaceGroup, Method::Put, "/v1/cluster/groups/{group}"),
        (RequestBody::Json("DesiredMembers"), ResponseBody::Nothing),
        "Sets the desired members of a group.",
    ),
    cluster(
        (Name::SetQuorum, Method::Put, "/v1/cluster/groups/{group}/quorum"),
        (RequestBody::Json("DesiredQuorum"), ResponseBody::Nothing),
        "Sets the write quorum of a group: voters that must save an entry; null: a majority.",
    ),
    cluster(
        (Name::CreateGroup, Method::Post, "/v1/cluster/groups"),
        (RequestBody::MaybeJson("NewGroup"), ResponseBody::CreatedJson("Group")),
        "Creates a group on the named members, or on those with the fewest groups.",
    ),
    ring::DESCRIBE,
    ring::CLAIM,
    ring::DESCRIBE_PLAN,
    ring::STAGE,
    ring::CLEAR,
    ring::COMMIT,
    ring::CANCEL,
    ring::TRANSFERS,
    confirmed(cluster(
        (Name::DropGroup, Method::Delete, "/v1/cluster/groups/{group}"),
        (RequestBody::Nothing, ResponseBody::Nothing),
        "Deletes a group without buckets; its number is never reused.",
    )),
    HttpRoute {
        response_body: ResponseBody::CreatedJson("Session"),
        errors: &[404],
        operation: Operation::Session,
        ..route(
            Name::OpenSession,
            Method::Post,
            "/v1/sessions/{type}/{bucket}",
            "Opens a session, in which a retried update is applied only once.",
        )
    },
    HttpRoute {
        errors: &[404],
        operation: Operation::Session,
        ..route(Name::CloseSession, Method::Delete, SESSION, "Closes a session.")
    },
    checkpoints::CREATE,
    checkpoints::LIST,
    checkpoints::REMOVE,
    slow::LIST,
    slow::RESET,
    hot::LIST,
    HttpRoute {
        response_body: ResponseBody::Json("LogLevels"),
        operation: Operation::Admin,
        ..route(
            Name::GetLogLevels,
            Method::Get,
            "/v1/admin/log-levels",
            "Returns the log level of each section.",
        )
    },
    HttpRoute {
        request_body: RequestBody::Json("LogLevels"),
        response_body: ResponseBody::Json("LogLevels"),
        errors: &[413, 415],
        operation: Operation::Admin,
        ..route(
            Name::PutLogLevels,
            Method::Put,
            "/v1/admin/log-levels",
            "Sets log levels by section, until the next start.",
        )
    },
    reload::ROUTE,
    HttpRoute {
        response_body: ResponseBody::Json("Status"),
        operation: Operation::Admin,
        ..route(Name::Status, Method::Get, "/status", "Returns this node's health and statistics.")
    },
    HttpRoute {
        response_body: ResponseBody::Text("text/plain; version=0.0.4; charset=utf-8"),
        operation: Operation::Admin,
        ..route(Name::Metrics, Method::Get, "/metrics", "Returns all metrics in Prometheus format.")
    },
    HttpRoute {
        response_body: ResponseBody::Text("text/plain; charset=utf-8"),
        operation: Operation::Admin,
        admission: Admission::Open,
        ..route(
            Name::Live,
            Method::Get,
            "/live",
            "Liveness check: 200 while no task of the process stands still.",
        )
    },
    HttpRoute {
        response_body: ResponseBody::Text("text/plain; charset=utf-8"),
        operation: Operation::Admin,
        admission: Admission::Open,
        ..route(Name::Ready, Method::Get, "/ready", "Readiness check: 200 if it serves requests.")
    },
    HttpRoute {
        response_body: ResponseBody::Text("application/json"),
        operation: Operation::Admin,
        admission: Admission::Open,
        ..route(Name::OpenApi, Method::Get, "/openapi.json", "Returns this OpenAPI document.")
    },
];
