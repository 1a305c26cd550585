//! Registry that the connections of Arakoon's clients share: the statistics of each cluster.

use super::statistics::Statistics;
use base::BucketName;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Statistics by bucket; there are never more than there are buckets with Arakoon's clients.
#[derive(Default)]
pub struct Registry {
    statistics: Mutex<BTreeMap<BucketName, Arc<Mutex<Statistics>>>>,
}

impl Registry {
    /// Of this bucket, which exists.
    pub fn of(&self, bucket: &BucketName) -> Arc<Mutex<Statistics>> {
        let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        statistics.entry(bucket.clone()).or_default().clone()
    }
}
