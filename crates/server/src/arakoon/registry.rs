//! Registry shared by the connections of Arakoon's clients: the statistics of each cluster.

use super::statistics::Statistics;
use base::BucketName;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Statistics by bucket, at most one per bucket that Arakoon's clients have used.
#[derive(Default)]
pub struct Registry {
    statistics: Mutex<BTreeMap<BucketName, Arc<Mutex<Statistics>>>>,
}

impl Registry {
    /// Returns the statistics of a bucket, which must exist. Creates them on first use.
    pub fn statistics_of(&self, bucket: &BucketName) -> Arc<Mutex<Statistics>> {
        let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        statistics.entry(bucket.clone()).or_default().clone()
    }
}
