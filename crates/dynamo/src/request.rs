//! Client requests of available buckets: admission, and the choice of the coordinator.

use super::multi_key::{submit_multi_key, within_limits};
use super::redirect::{Coordinator, single_key};
use crate::Available;
use base::{BucketName, Properties, Reply, Request, Result};
use runtime::submit::{LaterReply, SubmitResult};
use std::ops::ControlFlow;
use std::sync::Arc;

impl Available {
    /// Answers a request of an available bucket with these properties, of one or several keys.
    pub fn submit(
        self: &Arc<Available>,
        request: Request,
        properties: Arc<Properties>,
    ) -> SubmitResult {
        if let Err(error) = within_limits(&request.call, &properties) {
            return SubmitResult::Ready(Err(error));
        }
        match submit_multi_key(self, request, &properties) {
            ControlFlow::Break(submitted) => submitted,
            ControlFlow::Continue(request) => self.submit_one(request, properties),
        }
    }

    /// Answers a request that is not split by key.
    fn submit_one(
        self: &Arc<Available>,
        request: Request,
        properties: Arc<Properties>,
    ) -> SubmitResult {
        let (available, key) = (self.clone(), single_key(&request.call).cloned());
        let mut request = request;
        let answer: LaterReply =
            Box::pin(async move { available.answer(&mut request, &properties).await });
        match key {
            Some(key) => SubmitResult::Independent(key, answer),
            None => SubmitResult::Later(answer),
        }
    }

    /// Answers a request. A write is coordinated by an owner of its key, if one is reachable: dots
    /// of other nodes would make every clock longer.
    pub(super) async fn answer(
        self: &Arc<Available>,
        request: &mut Request,
        properties: &Properties,
    ) -> Result<Reply> {
        // What is rare is boxed: the future of a frequent request has no space for it.
        if self.check_warmup().is_err() {
            Box::pin(self.wait_for_warmup(request)).await;
        }
        match self.coordinator(request, properties)? {
            Coordinator::Local(owners) => self.coordinate(request, properties, owners).await,
            Coordinator::Remote(owners) => {
                Box::pin(self.redirect(request, properties, owners)).await
            }
        }
    }

    /// Returns the properties of an available bucket. Errors: `no_such_bucket`.
    pub fn properties(&self, bucket: &BucketName) -> Result<Arc<Properties>> {
        let found = self.schema.find(bucket);
        found.ok_or_else(|| base::bucket::no_such_bucket(bucket))
    }
}
