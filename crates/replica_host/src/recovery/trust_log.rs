//! Operator's command that a torn log counts as whole.
//!
//! If a log was torn and the member that could tell what it may have held is gone for good, its
//! group has no master, although a majority runs. The operator accepts with this command that
//! entries which only the absent member has are lost, acknowledged or not.

use super::replay::{RepairedEntries, replay};
use super::{Opened, data_dir_error, open};
use crate::settings::HostSettings;
use base::{GroupId, Result};
use replication::records;
use runtime::log_writer::{record, store_error};
use store::DataDir;

/// Records in the log of a stopped node that none of its tears is open any more. Returns the groups
/// that had an open tear. Blocking.
///
/// Errors: as of a start on that directory.
pub fn trust_log(settings: &HostSettings) -> Result<Vec<GroupId>> {
    let data = DataDir::open(&settings.data_dir).map_err(data_dir_error)?;
    let Opened { trees, mut log, records: replay_records, context } =
        open(settings, &data, None, false)?;
    let (groups, _) = replay(&log, replay_records, &*trees, &context, &RepairedEntries::default())?;
    let mut trusted = Vec::new();
    for group in groups.iter().filter(|group| group.replica.tear().is_some()) {
        let promise = records::promise(group.id, group.replica.promised(), None);
        log.append(&record(&promise)).map_err(store_error)?;
        trusted.push(group.id);
    }
    if !trusted.is_empty() {
        log.close().map_err(store_error)?;
    }
    Ok(trusted)
}
