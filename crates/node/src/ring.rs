//! Calls about the ring, at the node that leads the directory: the directory's rows change, and
//! what only the nodes know is asked of them.

use crate::Inner;
use crate::flow::Flow;
use base::{BucketName, Call, DirectoryCall, Reply, Request, Result, RingCall};
use dynamo::RingDirectory;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

impl Inner {
    /// Carries out a call about the ring.
    pub(crate) async fn ring_here(&self, call: RingCall) -> Result<Reply> {
        match call {
            RingCall::Claim if self.directory.claim_changes()? => {
                self.available.nothing_moves().await?;
            }
            _ => {}
        }
        let mut reply = self.directory.execute_ring(&call, &self.available.down()).await?;
        self.available.complete_ring_reply(&call, &mut reply).await?;
        Ok(reply)
    }
}

/// Gives this node's vnodes their way to the directory.
pub(crate) fn connect(inner: &Arc<Inner>) {
    let directory = Box::new(AnyDirectory(Arc::downgrade(inner)));
    let _ = inner.available.directory.set(directory); // Nobody else sets it.
}

/// The directory, wherever it is led.
struct AnyDirectory(Weak<Inner>);

impl RingDirectory for AnyDirectory {
    fn ring_call(&self, call: RingCall) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> {
        let inner = self.0.upgrade();
        Box::pin(async move {
            let Some(inner) = inner else { return Err(base::error::shutting_down()) };
            let call = Call::Directory(DirectoryCall::Ring(call));
            let request = Request { bucket: BucketName::default(), call, retry: None };
            let submitted = inner.submit(&mut Flow::default(), request);
            inner.answered(submitted).await.map(|_| ())
        })
    }
}
