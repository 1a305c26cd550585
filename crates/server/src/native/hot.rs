//! Hot keys over HTTP: their route, and its answer.

use super::routes::{HttpRoute, ResponseBody, RouteName, route};
use crate::counters::OperationKind;
use crate::http::Method;
use crate::shared::Shared;
use base::Principal;
use node::HotKey;

pub const LIST: HttpRoute = HttpRoute {
    response_body: ResponseBody::Json("HotKeys"),
    operation: OperationKind::Admin,
    ..route(
        RouteName::ListHotKeys,
        Method::Get,
        "/v1/admin/hot-keys",
        "Lists the keys that most requests of this node concern, the most frequent first.",
    )
};

/// Returns the hot keys, as far as the principal may see them.
pub fn list(shared: &Shared, principal: &Principal) -> api::HotKeys {
    api::HotKeys { keys: shared.node.hot_keys(principal).into_iter().map(entry).collect() }
}

fn entry(key: HotKey) -> api::HotKey {
    let HotKey { bucket, access, key_digest, key_begin, key_bytes, share, per_second } = key;
    api::HotKey {
        bucket: bucket.full().into(),
        access: access.name().into(),
        key: key_begin.map(api::Blob),
        key_digest: format!("{key_digest:016x}"),
        key_bytes: key_bytes as u64,
        share_permille: (share * 1_000.0).round() as u64,
        per_second: per_second.round() as u64,
    }
}
