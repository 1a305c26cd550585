//! Checkpoints: their routes, and the rules for their names.
//!
//! Never: accesses a path outside of the folder of checkpoints.

use super::parameters::Parameter;
use super::routes::{HttpRoute, RequestBody, ResponseBody, RouteName, route};
use crate::counters::OperationKind;
use crate::http::Method;
use crate::shared::Shared;
use base::{Error, Reason};
use node::CheckpointStatus;
use std::path::{Component, Path, PathBuf};

pub const CREATE: HttpRoute = HttpRoute {
    request_body: RequestBody::Json("Target"),
    response_body: ResponseBody::Json("Checkpoint"),
    errors: &[409, 413, 415],
    operation: OperationKind::Admin,
    ..route(
        RouteName::Checkpoint,
        Method::Post,
        "/v1/admin/checkpoint",
        "Creates a checkpoint of all data in the folder `checkpoints` of the data directory.",
    )
};

pub const LIST: HttpRoute = HttpRoute {
    response_body: ResponseBody::Json("Checkpoints"),
    operation: OperationKind::Admin,
    ..route(
        RouteName::ListCheckpoints,
        Method::Get,
        "/v1/admin/checkpoints",
        "Lists the checkpoints in the folder `checkpoints` of this node's data directory.",
    )
};

pub const REMOVE: HttpRoute = HttpRoute {
    query: &[Parameter::Confirm],
    errors: &[404],
    operation: OperationKind::Admin,
    ..route(
        RouteName::RemoveCheckpoint,
        Method::Delete,
        "/v1/admin/checkpoints/{checkpoint}",
        "Deletes a checkpoint from this node's data directory.",
    )
};

/// Makes a checkpoint. Returns its path.
pub async fn create(shared: &Shared, target: &str) -> Result<String, Error> {
    let folder = folder(shared)?;
    let path = path_inside(folder, target)?;
    shared.node.checkpoint(path.clone()).await?;
    Ok(path.display().to_string())
}

/// Returns the stored checkpoints.
pub async fn list(shared: &Shared) -> Result<api::Checkpoints, Error> {
    let found = shared.node.checkpoints(folder(shared)?.clone()).await?;
    let stored = |CheckpointStatus { name, is_complete, created_ms, bytes }| {
        api::StoredCheckpoint { name, complete: is_complete, created_ms, bytes }
    };
    Ok(api::Checkpoints { checkpoints: found.into_iter().map(stored).collect() })
}

/// Removes a checkpoint.
pub async fn remove(shared: &Shared, name: &str) -> Result<(), Error> {
    let folder = folder(shared)?;
    // A request to create a checkpoint may name its full path; a request to remove one may not.
    let path = path_inside(folder, name)?;
    if path.file_name() != Some(name.as_ref()) {
        return Err(Error::new(Reason::Forbidden, "give the checkpoint's name, not its path"));
    }
    shared.node.remove_checkpoint(folder.clone(), name.to_string()).await
}

fn folder(shared: &Shared) -> Result<&PathBuf, Error> {
    let unsupported =
        || Error::new(Reason::NotSupported, "this server does not support checkpoints");
    shared.settings.checkpoints.as_ref().ok_or_else(unsupported)
}

/// Returns the path of a new folder directly inside `folder`. `target` is a plain name, or the full
/// path.
fn path_inside(folder: &Path, target: &str) -> Result<PathBuf, Error> {
    let path = Path::new(target);
    let name = path.strip_prefix(folder).unwrap_or(path);
    let mut parts = name.components();
    let is_plain = |name: &std::ffi::OsStr| {
        let bytes = name.as_encoded_bytes();
        let is_allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        bytes.len() <= 100 && bytes[0] != b'.' && bytes.iter().all(is_allowed)
    };
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) if is_plain(name) && !target.ends_with('/') => {
            Ok(folder.join(name))
        }
        _ => Err(Error::new(
            Reason::Forbidden,
            format!(
                "checkpoints are created in {}: give the name of a new folder there, of letters, \
                 digits, - _ .",
                folder.display()
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_path_outside_its_folder_is_refused() {
        let folder = Path::new("/data/checkpoints");
        let good = PathBuf::from("/data/checkpoints/monday-1.0");
        assert_eq!(path_inside(folder, "monday-1.0"), Ok(good.clone()));
        assert_eq!(path_inside(folder, "/data/checkpoints/monday-1.0"), Ok(good));
        let long = "x".repeat(101);
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "/etc",
            "/data/checkpoints",
            "/data/checkpoints/",
            "/data/checkpoints/../x",
            "/data/checkpoints/a/b",
            "/data/checkpointsx/a",
            "./a",
            "a/",
            "a b",
            "a\0",
            "\u{e9}",
            ".hidden",
            long.as_str(),
        ] {
            assert!(path_inside(folder, bad).is_err(), "{bad:?}");
        }
    }
}
