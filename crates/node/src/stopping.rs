//! How a node ends.

use crate::Inner;
use crate::keeper::store_error;
use base::{Error, Reason, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a stop looks whether a merge has ended.
const MERGE_PAUSE: Duration = Duration::from_millis(5);
/// A stop waits this long for what is in flight.
const STOP_WAIT: Duration = Duration::from_secs(30);

/// Resolves when no table is being merged; a stopping node begins no merge.
async fn merged(inner: &Inner) {
    while inner.merging.try_lock().is_err() {
        tokio::time::sleep(MERGE_PAUSE).await;
    }
}

/// See [`Node::stop`].
pub(crate) async fn stop(inner: &Arc<Inner>) -> Result<()> {
    if inner.stopping.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    inner.bell.ring();
    inner.groups.close();
    inner.stop.send_replace(true);
    let retired = async {
        for group in inner.groups.all() {
            group.ends().await;
        }
        inner.shelf.ends().await
    };
    let retired = tokio::time::timeout(STOP_WAIT, retired).await;
    let (in_time, vnodes_ended) = (retired.is_ok(), retired.unwrap_or(false));
    if let Some(peers) = inner.peers.get() {
        peers.stop().await;
    }
    let ending = inner.clone();
    let ended = tokio::task::spawn_blocking(move || {
        ending.keeper.stop();
        let _one = ending.flushing.lock().expect("no one panics while holding it");
        if vnodes_ended {
            ending.shelf.end_well()?;
        }
        ending.trees.rotate().map_err(store_error)?;
        ending.trees.flush().map_err(store_error)
    });
    let ended = ended.await;
    // A merge that goes on writes files: then the directory stays locked until it ends, or until
    // the process does, which harms nothing.
    if tokio::time::timeout(STOP_WAIT, merged(inner)).await.is_ok() {
        inner.data.lock().expect("no one panics while holding it").take();
    }
    ended.unwrap_or_else(|_| Err(Error::new(Reason::StoreFailed, "the stop failed")))?;
    if let Some(error) = inner.failed.borrow().clone() {
        return Err(error);
    }
    if !in_time {
        return Err(Error::new(Reason::DeadlinePassed, "updates in flight did not end in time"));
    }
    Ok(())
}
