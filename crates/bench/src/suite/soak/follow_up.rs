//! Loads of a soak that follow it, one after the other, on the same server: what an operation costs
//! after the soak, and after the server had time to tidy up.

use super::run::LoadRecord;
use super::{Soak, SoakContext, SoakLoad, SoakRun};
use crate::suite::file::{Server, config};
use crate::suite::server::StartedServer;
use crate::suite::work::Placeholders;
use load_generator::config::{Config, Item, duration_of};
use load_generator::load::{self, Collected};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A load that follows a soak.
pub struct FollowUp {
    /// Time without a load before it.
    pub wait: Duration,
    /// Longest time to wait, instead, until the server writes nothing any more. `None`: no wait.
    pub settle: Option<Duration>,
    /// The load. It has the server to itself.
    pub load: SoakLoad,
}

impl FollowUp {
    /// Reads an entry of a soak's list `after`.
    pub(super) fn read(item: &Item, context: &SoakContext<'_>) -> Result<FollowUp, String> {
        let mut items = item.table()?;
        let wait = items.read("wait", Duration::ZERO, |item| duration_of(item, 1.0))?;
        let settle = items.read("settle", None, |item| duration_of(item, 1.0).map(Some))?;
        Ok(FollowUp { wait, settle, load: SoakLoad::from_items(items, context)? })
    }
}

impl Soak {
    /// Returns the loads that follow the soak, each with its settings.
    pub fn follow_up_configs(
        &self,
        server: &Server,
        placeholders: &Placeholders,
        core: Option<usize>,
    ) -> Result<Vec<(&FollowUp, Config)>, String> {
        let settings =
            |follow_up: &FollowUp| config(&follow_up.load.items, server, None, placeholders, core);
        self.follow_ups.iter().map(|follow_up| Ok((follow_up, settings(follow_up)?))).collect()
    }
}

impl SoakRun {
    /// Runs the loads that follow, and adds their figures. `server us/op` behind a load's name is
    /// the server's processor time for one of its operations.
    pub(super) fn add_follow_ups(
        &mut self,
        soak: &Soak,
        (server, core): (&Server, Option<usize>),
        started: &StartedServer,
    ) -> Result<(), String> {
        for (FollowUp { wait, settle, load }, config) in
            soak.follow_up_configs(server, &started.placeholders, core)?
        {
            std::thread::sleep(*wait);
            settle.iter().for_each(|limit| started.processes.wait_until_settled(*limit));
            let label = format!("{}: {}", soak.name, load.name);
            let mut record = LoadRecord::new(&label);
            let before = started.processes.cpu_seconds();
            let collected =
                load::run(&config, &*started.target, &AtomicBool::new(false), &mut record);
            let collected = collected.map_err(|error| error.text)?;
            let cpu_us = (started.processes.cpu_seconds() - before) * 1e6;
            let operations = succeeded(&collected) as f64;
            self.add_load(&load.name, record, &collected);
            self.whole.insert(format!("{} server us/op", load.name), cpu_us / operations.max(1.0));
        }
        Ok(())
    }
}

/// Returns the number of operations that succeeded.
pub(super) fn succeeded(collected: &Collected) -> u64 {
    collected.operations.iter().map(|operation| operation.ok + operation.late).sum()
}
