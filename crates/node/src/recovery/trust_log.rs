//! Operator's command that a torn log counts as whole.
//!
//! If a log was torn and the member that could tell what it may have held is gone for good, its
//! group has no master, although a majority runs. The operator accepts with this command that
//! entries which only the absent member has are lost, acknowledged or not.

use super::replay::{RepairedEntries, replay};
use super::{Opened, open, unusable};
use crate::NodeSettings;
use base::{GroupId, Result};
use replication::records;
use runtime::log_writer::{record, store_error};
use store::DataDir;

/// Says in the log of a stopped node that no tear of it is open any more; gives the groups of which
/// one was. Blocking.
///
/// Errors: as of a start on that directory.
pub fn trust_log(settings: &NodeSettings) -> Result<Vec<GroupId>> {
    let data = DataDir::open(&settings.data_dir).map_err(unusable)?;
    let Opened { trees, mut log, records: found, terms } = open(settings, &data, None, false)?;
    let (groups, _) = replay(&log, found, &*trees, &terms, &RepairedEntries::default())?;
    let mut trusted = Vec::new();
    for group in groups.iter().filter(|group| group.replica.tear().is_some()) {
        let whole = records::promise(group.id, group.replica.promised(), None);
        log.append(&record(&whole)).map_err(store_error)?;
        trusted.push(group.id);
    }
    if !trusted.is_empty() {
        log.close().map_err(store_error)?;
    }
    Ok(trusted)
}
