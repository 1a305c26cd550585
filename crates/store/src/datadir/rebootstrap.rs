//! A survivor's directory as the first of a new cluster.

use super::identity::Identity;
use super::{DataDir, chance, incarnations, members};
use crate::StoreError;
use base::{ClusterDescription, ClusterId};

impl DataDir {
    /// Gives the directory to a new cluster, in which it knows these: what still speaks under the
    /// old cluster's id is none of it. Gives the new id. Cut short, it is to be repeated.
    pub fn refound(&self, known: &ClusterDescription) -> Result<u64, StoreError> {
        let cluster = chance()?;
        let known = ClusterDescription { cluster: ClusterId(cluster), ..known.clone() };
        let disk = self.disk()?;
        members::write(&disk, &self.path, &known)?;
        Identity::of(cluster, self.node).write(&disk, &self.path)?;
        // No other member is left that could know better.
        incarnations::forgive(&disk, &self.path)?;
        Ok(cluster)
    }
}
