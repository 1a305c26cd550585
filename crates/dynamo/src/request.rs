//! Client requests of available buckets: admission, and the choice of the coordinator.

use super::multi_key::{submit_multi_key, within_limits};
use super::redirect::{Coordinator, only_key};
use crate::Available;
use base::{BucketName, Properties, Reply, Request, Result};
use runtime::submit::{LaterReply, Submitted};
use std::ops::ControlFlow;
use std::sync::Arc;

impl Available {
    /// Answers a request of an available bucket with these properties, of however many keys.
    pub fn submit(
        self: &Arc<Available>,
        request: Request,
        properties: Arc<Properties>,
    ) -> Submitted {
        if let Err(error) = within_limits(&request.call, &properties) {
            return Submitted::Ready(Err(error));
        }
        match submit_multi_key(self, request, &properties) {
            ControlFlow::Break(submitted) => submitted,
            ControlFlow::Continue(request) => self.submit_one(request, properties),
        }
    }

    /// Answers a request of one key, or one that is refused.
    fn submit_one(
        self: &Arc<Available>,
        request: Request,
        properties: Arc<Properties>,
    ) -> Submitted {
        let (available, key) = (self.clone(), only_key(&request.call).cloned());
        let answer: LaterReply =
            Box::pin(async move { available.answer(request, &properties).await });
        match key {
            Some(key) => Submitted::Independent(key, answer),
            None => Submitted::Later(answer),
        }
    }

    /// Answers a request. A write is coordinated by a node that keeps the key, if one is reached:
    /// the dots of other nodes would make every clock longer.
    pub(super) async fn answer(
        self: &Arc<Available>,
        request: Request,
        properties: &Properties,
    ) -> Result<Reply> {
        let request = self.after_finding_others(request).await;
        match self.coordinator(&request, properties).await? {
            Coordinator::Other(reply) => Ok(reply),
            Coordinator::This(owners) => self.coordinate(request, properties, owners).await,
        }
    }

    /// Returns the properties of an available bucket. Errors: `no_such_bucket`.
    pub fn properties(&self, bucket: &BucketName) -> Result<Arc<Properties>> {
        let found = self.schema.find(bucket);
        found.ok_or_else(|| base::bucket::no_such_bucket(bucket))
    }
}
