//! Calls about the ring, at the node that leads the directory: the directory's rows change, and
//! what only the nodes know is asked of them.

use crate::route::Router;
use base::error::shutting_down;
use base::{BucketName, DirectoryCall, Reply, Result, RingCall};
use dynamo::{Available, RingDirectory};
use metadata::Directory;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

/// Executes a ring call at the directory's master.
pub(crate) async fn execute(
    directory: &Directory,
    available: &Arc<Available>,
    call: RingCall,
) -> Result<Reply> {
    let mut reply = match call {
        RingCall::Claim if directory.claim_changes()? => {
            let fence = available.fence_empty_ring().await?;
            let reply = directory.claim_ring(|| fence.admit()).await?;
            fence.check_decided_in_time()?;
            reply
        }
        _ => directory.execute_ring(&call, &available.unreachable_nodes()).await?,
    };
    available.complete_ring_reply(&call, &mut reply).await?;
    Ok(reply)
}

/// Connects this node's vnodes with the directory.
pub(crate) fn connect(router: &Arc<Router>) {
    let directory = Box::new(AnyDirectory(Arc::downgrade(router)));
    let _ = router.available.directory.set(directory); // No other code sets it.
}

/// Directory at whichever node leads it. Weak: the router holds the vnodes.
struct AnyDirectory(Weak<Router>);

impl RingDirectory for AnyDirectory {
    fn ring_call(&self, call: RingCall) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> {
        let router = self.0.upgrade();
        Box::pin(async move {
            let Some(router) = router else { return Err(shutting_down()) };
            router.call_directory(BucketName::default(), DirectoryCall::Ring(call)).await
        })
    }
}
