//! Conversion of a surviving node's directory into the first one of a new cluster.

use super::identity::Identity;
use super::{DataDir, incarnations, members, random_id};
use crate::StoreError;
use base::{ClusterDescription, ClusterId};

impl DataDir {
    /// Assigns the directory to a new cluster with these members, so that nodes with the old
    /// cluster's id are not part of it. Returns the new id. The caller repeats an interrupted call.
    pub fn found_new_cluster(&self, description: &ClusterDescription) -> Result<u64, StoreError> {
        let cluster = random_id()?;
        let description = ClusterDescription { cluster: ClusterId(cluster), ..description.clone() };
        let disk = self.disk()?;
        members::write(&disk, &self.path, &description)?;
        Identity { cluster, ..self.identity()? }.write(&disk, &self.path)?;
        // No other member is left that could have recorded a newer incarnation.
        incarnations::clear_outdated(&disk, &self.path)?;
        Ok(cluster)
    }
}
