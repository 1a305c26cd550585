//! Calls about the ring, at the node that leads the directory: the directory's rows change, and
//! what only the nodes know is asked of them.

use crate::route::Router;
use base::error::shutting_down;
use base::{BucketName, Call, DirectoryCall, Reply, Request, Result, RingCall};
use dynamo::{Available, RingDirectory};
use metadata::Directory;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

/// Carries out a call about the ring.
pub(crate) async fn execute(
    directory: &Directory,
    available: &Arc<Available>,
    call: RingCall,
) -> Result<Reply> {
    let mut reply = match call {
        RingCall::Claim if directory.claim_changes()? => {
            let fence = available.nothing_moves().await?;
            let reply = directory.claim_ring(|| fence.admit()).await?;
            fence.held()?;
            reply
        }
        _ => directory.execute_ring(&call, &available.down()).await?,
    };
    available.complete_ring_reply(&call, &mut reply).await?;
    Ok(reply)
}

/// Connects this node's vnodes with the directory.
pub(crate) fn connect(router: &Arc<Router>) {
    let directory = Box::new(AnyDirectory(Arc::downgrade(router)));
    let _ = router.available.directory.set(directory); // Nobody else sets it.
}

/// The directory, wherever it is led. Weak: the router holds the vnodes.
struct AnyDirectory(Weak<Router>);

impl RingDirectory for AnyDirectory {
    fn ring_call(&self, call: RingCall) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> {
        let router = self.0.upgrade();
        Box::pin(async move {
            let Some(router) = router else { return Err(shutting_down()) };
            let call = Call::Directory(DirectoryCall::Ring(call));
            let request = Request { bucket: BucketName::default(), call, retry: None };
            router.handle(request).await.map(|_| ())
        })
    }
}
