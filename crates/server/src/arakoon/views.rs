//! Views of the cluster for Arakoon's clients: master, members, and how far each is.
//!
//! This module answers every question that depends on other nodes, from one
//! [`node::BucketPlacement`]. More members in a group change the content of that placement and
//! nothing else in this front-end.

use super::errors::ArakoonRefusal;
use super::nursery::{self, ClientAddress};
use super::serve::ArakoonConnection;
use super::statistics::{NumberSeries, Surroundings};
use super::translate::{ClusterQuery, on_master_refusal};
use super::words::Wire;
use node::{BucketPlacement, Sample};
use std::sync::PoisonError;

const ALONE: &str = "drop master not supported for singletons";

/// Returns the body of the answer to a query about the cluster.
pub fn look(visit: &ArakoonConnection, view: &ClusterQuery) -> Result<Vec<u8>, ArakoonRefusal> {
    let place =
        visit.shared.node.place(&visit.bucket).map_err(|error| ArakoonRefusal::from(&error))?;
    let mut body = Vec::new();
    match view {
        ClusterQuery::WhoMaster => body.maybe(place.master.as_ref().map(|name| name.as_bytes())),
        ClusterQuery::State => body.text(state(place.role).as_bytes()),
        ClusterQuery::Txid => {
            // Written as a read level, so that a client can use it for a read at this index.
            body.push(2);
            body.long(i64::try_from(place.applied.0).unwrap_or(i64::MAX));
        }
        ClusterQuery::Progress => body.flag(progress(&place)),
        ClusterQuery::Statistics => body.text(&statistics(visit, &place)),
        ClusterQuery::NurseryConfiguration => {
            body.text(&nursery::configuration(&visit.cluster, &nodes(visit, &place)));
        }
        ClusterQuery::DropMaster if place.members.len() == 1 => {
            return Err(ArakoonRefusal::not_supported(ALONE));
        }
        ClusterQuery::OnSlave(_) if is_master(&place) => return Err(on_master_refusal()),
        ClusterQuery::OnSlave(Some(refusal)) => return Err(refusal.clone()),
        // The connection drops the mastership before it looks here. A slave has no mastership to
        // drop, and keeps its files in order by itself.
        ClusterQuery::DropMaster | ClusterQuery::OnSlave(None) => {}
    }
    Ok(body)
}

fn is_master(place: &BucketPlacement) -> bool {
    place.master.as_ref() == Some(&place.me)
}

/// Returns the role in the words that Arakoon's tools look for.
fn state(role: &str) -> &'static str {
    match role {
        "master" => "Stable_master",
        "follower" => "Slave_steady_state",
        _ => "Election_suggest",
    }
}

/// Returns true if enough members are connected to make progress. A single node can once it has
/// applied an entry.
fn progress(place: &BucketPlacement) -> bool {
    match place.members.len() {
        1 => place.applied.0 > 0,
        _ => place.expect_progress_possible,
    }
}

/// Returns the addresses of the group's members from the directory. A single node returns the
/// address that the client connected to.
fn nodes(visit: &ArakoonConnection, place: &BucketPlacement) -> Vec<ClientAddress> {
    let here = || ClientAddress::at(&place.me, &visit.local.to_string());
    if place.members.len() == 1 {
        return here().into_iter().collect();
    }
    let known = visit.shared.node.cluster().members;
    let named = |name: &str| {
        let found = known.iter().find(|status| status.member.name == name)?;
        ClientAddress::at(name, &found.member.client)
    };
    let reached = |name: &str| named(name).or_else(|| here().filter(|_| name == place.me));
    place.members.iter().filter_map(|member| reached(&member.name)).collect()
}

fn statistics(visit: &ArakoonConnection, place: &BucketPlacement) -> Vec<u8> {
    let node = &visit.shared.node;
    let samples = node.samples();
    let sample = |name: &str| Sample::value_of(&samples, name);
    let entries = sample("credenza_log_entries_total");
    let average = if entries > 0.0 { sample("credenza_updates_total") / entries } else { 0.0 };
    let resident = sample("process_resident_memory_bytes") / 1024.0;
    let store = node.status().store;
    let around = Surroundings {
        now: visit.shared.clock.since_1970().as_secs_f64(),
        harvest: NumberSeries::of_average(entries as u64, average),
        memory_kib: ((store.memory_bytes + store.cached_bytes) as f64 / 1024.0, resident as i32),
        place,
    };
    visit.statistics.lock().unwrap_or_else(PoisonError::into_inner).write(&around)
}
