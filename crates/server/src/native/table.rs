//! Table of routes, the source of both request dispatch and the OpenAPI document.

use super::parameters::Parameter::{self, *};
use super::ring;
use super::routes::{For, Gives, Headers, HttpRoute, RouteName as Name, Takes, cluster, route};
use super::{admission, checkpoints, emptying, key_pages, moves, siblings};
use crate::counters::OperationKind as Operation;
use crate::http::Method;

const KEY: &str = "/v1/buckets/{type}/{bucket}/keys/{key}";
const BUCKET: &str = "/v1/buckets/{type}/{bucket}";
const TYPE: &str = "/v1/types/{type}";
const MEMBERS: &str = "/v1/cluster/members";
const MEMBER: &str = "/v1/cluster/members/{name}";
const RANGE: &[Parameter] =
    &[Prefix, From, To, FromExclusive, ToInclusive, Reverse, Limit, After, Want, Consistency];
const STREAM: &[Parameter] =
    &[Prefix, From, To, FromExclusive, ToInclusive, Reverse, After, Want, Consistency];

/// All routes, the most frequent ones first.
pub const ROUTES: [HttpRoute; 70] = [
    HttpRoute {
        query: &[Consistency],
        gives: Gives::Value,
        errors: &[304, 404, 412, 413],
        headers: Headers::Conditions,
        operation: Operation::Get,
        ..route(Name::GetKey, Method::Get, KEY, "The value of a key; its version is the ETag.")
    },
    HttpRoute {
        query: &[Ttl],
        takes: Takes::Value,
        errors: &[404, 409, 411, 412, 413],
        headers: Headers::Both,
        operation: Operation::Put,
        ..route(Name::PutKey, Method::Put, KEY, "Writes a value, if the conditions hold.")
    },
    HttpRoute {
        errors: &[404, 409, 412, 413],
        headers: Headers::Both,
        operation: Operation::Delete,
        ..route(Name::DeleteKey, Method::Delete, KEY, "Deletes a key, if the conditions hold.")
    },
    HttpRoute {
        query: &[Consistency],
        gives: Gives::Value,
        errors: &[304, 404, 412, 413],
        headers: Headers::Conditions,
        operation: Operation::Get,
        ..route(Name::HeadKey, Method::Head, KEY, "Whether a key exists, its version and size.")
    },
    HttpRoute {
        takes: Takes::Json("Sequence"),
        gives: Gives::Json("Updated"),
        errors: &[404, 409, 413, 415],
        headers: Headers::Retry,
        operation: Operation::Sequence,
        ..route(
            Name::Sequence,
            Method::Post,
            "/v1/buckets/{type}/{bucket}/sequence",
            "Updates that hold together or not at all; later steps see earlier ones.",
        )
    },
    HttpRoute {
        takes: Takes::Json("Update"),
        gives: Gives::Json("Updated"),
        errors: &[404, 409, 413, 415],
        headers: Headers::Retry,
        operation: Operation::Update,
        ..route(
            Name::Update,
            Method::Post,
            "/v1/buckets/{type}/{bucket}/update",
            "One update of any kind.",
        )
    },
    HttpRoute {
        query: &[Consistency],
        takes: Takes::Json("MultiGet"),
        gives: Gives::Json("Rows"),
        errors: &[404, 413, 415],
        operation: Operation::MultiGet,
        ..route(
            Name::MultiGet,
            Method::Post,
            "/v1/buckets/{type}/{bucket}/multi_get",
            "The rows of many keys, in their order.",
        )
    },
    HttpRoute {
        query: &[Consistency],
        takes: Takes::Json("Read"),
        gives: Gives::Json("ReadReply"),
        errors: &[404, 409, 413, 415],
        operation: Operation::MultiGet,
        ..route(
            Name::Read,
            Method::Post,
            "/v1/buckets/{type}/{bucket}/read",
            "One read of any kind.",
        )
    },
    HttpRoute {
        query: RANGE,
        gives: Gives::Json("Page"),
        errors: &[404, 413],
        operation: Operation::Range,
        ..route(
            Name::Range,
            Method::Get,
            "/v1/buckets/{type}/{bucket}/range",
            "A page of rows in key order.",
        )
    },
    HttpRoute {
        query: STREAM,
        gives: Gives::JsonLines("Entry"),
        errors: &[404, 413],
        operation: Operation::Range,
        ..route(
            Name::Stream,
            Method::Get,
            "/v1/buckets/{type}/{bucket}/stream",
            "All rows of a range, one JSON object a line, as fast as the client takes them.",
        )
    },
    HttpRoute {
        query: &[Consistency],
        gives: Gives::Json("Count"),
        errors: &[404],
        operation: Operation::Count,
        ..route(
            Name::Count,
            Method::Get,
            "/v1/buckets/{type}/{bucket}/count",
            "How many keys the bucket holds, by counting them.",
        )
    },
    HttpRoute {
        takes: Takes::Json("Prefix"),
        gives: Gives::Json("Updated"),
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
    HttpRoute {
        errors: &[404],
        operation: Operation::Directory,
        ..route(
            Name::ClearBucket,
            Method::Post,
            "/v1/buckets/{type}/{bucket}/clear",
            "Empties a bucket of any size at once.",
        )
    },
    emptying::ROUTE,
    moves::BEGIN,
    moves::SEE,
    moves::CANCEL,
    key_pages::LIST,
    siblings::FETCH,
    siblings::STORE,
    siblings::REMOVE,
    siblings::LOOK,
    siblings::CHANGE,
    siblings::RESET,
    HttpRoute {
        query: &[AfterBucket, LimitBuckets],
        gives: Gives::Json("Buckets"),
        operation: Operation::Directory,
        ..route(Name::ListBuckets, Method::Get, "/v1/buckets", "A page of buckets.")
    },
    HttpRoute {
        takes: Takes::MaybeJson("NewBucket"),
        gives: Gives::Created,
        errors: &[404, 409, 413, 415],
        operation: Operation::Directory,
        ..route(Name::CreateBucket, Method::Put, BUCKET, "Makes a bucket of its type.")
    },
    HttpRoute {
        gives: Gives::Json("BucketReply"),
        errors: &[404],
        operation: Operation::Directory,
        ..route(Name::DescribeBucket, Method::Get, BUCKET, "A bucket and its properties.")
    },
    HttpRoute {
        takes: Takes::Json("Properties"),
        errors: &[404, 409, 413, 415],
        operation: Operation::Directory,
        ..route(Name::AlterBucket, Method::Patch, BUCKET, "Changes properties of a bucket.")
    },
    HttpRoute {
        errors: &[404],
        operation: Operation::Directory,
        ..route(Name::DropBucket, Method::Delete, BUCKET, "Drops a bucket and all that is in it.")
    },
    HttpRoute {
        gives: Gives::Json("Types"),
        operation: Operation::Directory,
        ..route(Name::ListTypes, Method::Get, "/v1/types", "All bucket types.")
    },
    HttpRoute {
        takes: Takes::MaybeJson("Properties"),
        gives: Gives::Created,
        errors: &[409, 413, 415],
        operation: Operation::Directory,
        ..route(Name::CreateType, Method::Put, TYPE, "Makes a bucket type.")
    },
    HttpRoute {
        takes: Takes::Json("Properties"),
        errors: &[404, 409, 413, 415],
        operation: Operation::Directory,
        ..route(
            Name::AlterType,
            Method::Patch,
            TYPE,
            "Changes a bucket type; buckets made before keep their properties.",
        )
    },
    HttpRoute {
        errors: &[404, 409],
        operation: Operation::Directory,
        ..route(Name::DropType, Method::Delete, TYPE, "Drops a bucket type that has no buckets.")
    },
    HttpRoute {
        audience: For::Everyone,
        ..cluster(
            (Name::Cluster, Method::Get, "/v1/cluster"),
            (Takes::Nothing, Gives::Json("Cluster")),
            "Members, their connections and their groups, as this node sees them.",
        )
    },
    cluster(
        (Name::Transfer, Method::Post, "/v1/cluster/groups/{group}/transfer"),
        (Takes::Json("Transfer"), Gives::Nothing),
        "Makes another voter master; its master is asked to, whichever node hears it.",
    ),
    cluster(
        (Name::Verify, Method::Post, "/v1/cluster/groups/{group}/verify"),
        (Takes::Nothing, Gives::Json("Pass")),
        "Has a group's replicas compared by its master, whichever node hears it; the group's \
         `comparison` tells more.",
    ),
    HttpRoute {
        audience: For::Everyone,
        ..cluster(
            (Name::ListMembers, Method::Get, MEMBERS),
            (Takes::Nothing, Gives::Json("Members")),
            "Members of the cluster, and who is wanted in each group.",
        )
    },
    admission::DECIDED_VALUE,
    admission::ADD_MEMBER,
    cluster(
        (Name::UpdateMember, Method::Patch, MEMBERS),
        (Takes::Json("ChangedMember"), Gives::Nothing),
        "A member's name or addresses are others now.",
    ),
    cluster(
        (Name::RemoveMember, Method::Delete, MEMBER),
        (Takes::Nothing, Gives::Nothing),
        "A member leaves its groups, and then the cluster.",
    ),
    admission::REPLACE_MEMBER,
    admission::MAKE,
    admission::REVOKE,
    admission::MAKE_SECRET,
    cluster(
        (Name::SetPart, Method::Put, "/v1/cluster/members/{name}/part"),
        (Takes::Json("SetPart"), Gives::Nothing),
        "Gives a member a part, or none, in one group or in all.",
    ),
    cluster(
        (Name::PlaceGroup, Method::Put, "/v1/cluster/groups/{group}"),
        (Takes::Json("DesiredMembers"), Gives::Nothing),
        "Says who is wanted in a group.",
    ),
    cluster(
        (Name::SetQuorum, Method::Put, "/v1/cluster/groups/{group}/quorum"),
        (Takes::Json("DesiredQuorum"), Gives::Nothing),
        "Says how many voters save a value before it is decided; null: a majority.",
    ),
    cluster(
        (Name::CreateGroup, Method::Post, "/v1/cluster/groups"),
        (Takes::MaybeJson("NewGroup"), Gives::CreatedJson("Group")),
        "Makes a group on members that are named, or on those that are in the fewest.",
    ),
    ring::SEE,
    ring::CLAIM,
    ring::SEE_PLAN,
    ring::STAGE,
    ring::CLEAR,
    ring::COMMIT,
    ring::CANCEL,
    ring::TRANSFERS,
    cluster(
        (Name::DropGroup, Method::Delete, "/v1/cluster/groups/{group}"),
        (Takes::Nothing, Gives::Nothing),
        "A group without buckets ends; its number is never given again.",
    ),
    HttpRoute {
        gives: Gives::CreatedJson("Session"),
        errors: &[404],
        operation: Operation::Session,
        ..route(
            Name::OpenSession,
            Method::Post,
            "/v1/sessions/{type}/{bucket}",
            "Opens a session, so that retried updates apply once.",
        )
    },
    HttpRoute {
        errors: &[404],
        operation: Operation::Session,
        ..route(
            Name::CloseSession,
            Method::Delete,
            "/v1/sessions/{type}/{bucket}/{id}",
            "Closes a session.",
        )
    },
    HttpRoute {
        takes: Takes::Json("Target"),
        gives: Gives::Json("Checkpoint"),
        errors: &[409, 413, 415],
        operation: Operation::Admin,
        audience: For::Operators,
        ..route(
            Name::Checkpoint,
            Method::Post,
            "/v1/admin/checkpoint",
            "Copies all data, as of now, into the folder `checkpoints` of the data directory.",
        )
    },
    checkpoints::LIST,
    checkpoints::REMOVE,
    HttpRoute {
        gives: Gives::Json("LogLevels"),
        operation: Operation::Admin,
        audience: For::Operators,
        ..route(
            Name::GetLogLevels,
            Method::Get,
            "/v1/admin/log-levels",
            "How much the log says, by section.",
        )
    },
    HttpRoute {
        takes: Takes::Json("LogLevels"),
        gives: Gives::Json("LogLevels"),
        errors: &[413, 415],
        operation: Operation::Admin,
        audience: For::Operators,
        ..route(
            Name::PutLogLevels,
            Method::Put,
            "/v1/admin/log-levels",
            "Changes how much the log says, until the next start.",
        )
    },
    HttpRoute {
        gives: Gives::Json("Status"),
        operation: Operation::Admin,
        audience: For::Operators,
        ..route(Name::Status, Method::Get, "/status", "Everything a health check needs.")
    },
    HttpRoute {
        gives: Gives::Text("text/plain; version=0.0.4; charset=utf-8"),
        operation: Operation::Admin,
        audience: For::Operators,
        ..route(Name::Metrics, Method::Get, "/metrics", "All metrics in Prometheus' text form.")
    },
    HttpRoute {
        gives: Gives::Text("text/plain; charset=utf-8"),
        operation: Operation::Admin,
        audience: For::Everyone,
        ..route(Name::Live, Method::Get, "/live", "The process answers.")
    },
    HttpRoute {
        gives: Gives::Text("text/plain; charset=utf-8"),
        operation: Operation::Admin,
        audience: For::Everyone,
        ..route(Name::Ready, Method::Get, "/ready", "The node takes writes; 503 while it does not.")
    },
    HttpRoute {
        gives: Gives::Text("application/json"),
        operation: Operation::Admin,
        audience: For::Everyone,
        ..route(Name::OpenApi, Method::Get, "/openapi.json", "This description.")
    },
];
