//! Rejoin of a member whose log or store is damaged, as another node.
//!
//! A voter that may have forgotten what it promised or accepted must not speak again, or it could
//! help to decide a second entry at an index (Alagappan et al., *Protocol-Aware Recovery for
//! Consensus-Based Storage*, FAST 2018). So its id never does: a change of members lets its place
//! be taken, its data are moved aside, and the node joins under a new id, learns the decided
//! entries, and votes when it is level. Without the decision of a majority nothing is moved.
//!
//! Promises: the damaged data are moved, never cut; they are moved only after a decided change.
//! Never: rejoins without other members: there would be none to fetch from.

use crate::NodeSettings;
use base::{NodeId, Part, Result};
use replica_host::recovery::data_dir_error;
use runtime::log_writer::store_error;
use std::path::PathBuf;
use store::DataDir;

/// A damaged member's directory. It stays locked until this is dropped.
pub struct DamagedMember {
    data: DataDir,
    /// The node's name: the members are asked first to let its place be taken.
    pub name: String,
    is_witness: bool,
    /// Client addresses of the other members.
    pub members: Vec<String>,
}

impl DamagedMember {
    /// Returns the directory of a node that found damage. `None`: it knows no members that could
    /// help. Blocking.
    pub fn open(settings: &NodeSettings) -> Result<Option<DamagedMember>> {
        let data = DataDir::open(&settings.data_dir).map_err(data_dir_error)?;
        let Some(cluster) = data.members().map_err(store_error)? else { return Ok(None) };
        let own = cluster.member(NodeId(data.node));
        let Some(name) = own.map(|own| own.name.clone()) else { return Ok(None) };
        let members = cluster.peer_client_addresses(NodeId(data.node));
        let is_witness = cluster.is_witness(NodeId(data.node));
        Ok((!members.is_empty()).then_some(DamagedMember { data, name, is_witness, members }))
    }

    /// Returns the damage that ended the last run, if other members may help. `None`: there is
    /// none. Blocking.
    pub fn recorded_damage(settings: &NodeSettings) -> Result<Option<String>> {
        if !DataDir::has_damage_record(&settings.data_dir) {
            return Ok(None);
        }
        match DamagedMember::open(settings)? {
            Some(rejoining) => rejoining.data.damage_record().map_err(store_error),
            None => Ok(None),
        }
    }

    /// That was decided: sets everything aside. Gives where it is. Blocking.
    pub fn set_aside(self) -> Result<PathBuf> {
        let moved = self.data.set_aside(&self.members, self.is_witness);
        moved.map(|rejoin| rejoin.damaged_path).map_err(store_error)
    }

    /// Returns the members that can admit a node whose data were set aside and that has not joined
    /// since, and its part: a node in the place of the old one gets its parts. `None`: there is
    /// none. Blocking.
    pub fn pending_join(settings: &NodeSettings) -> Result<Option<(Vec<String>, Part)>> {
        let begun = DataDir::resume_set_aside(&settings.data_dir).map_err(data_dir_error)?;
        let part = |is_witness| if is_witness { Part::Witness } else { Part::Voter };
        Ok(begun.map(|rejoin| (rejoin.members, part(rejoin.is_witness))))
    }

    /// Records for the next start that damage ended this run. If that fails, the next start finds
    /// the damage itself, or later, when the bytes are read again. Blocking.
    pub fn record_damage(settings: &NodeSettings, description: &str) -> Result<()> {
        DataDir::record_damage(&settings.data_dir, description).map_err(store_error)
    }
}
