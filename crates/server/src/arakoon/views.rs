//! Views of the cluster for Arakoon's clients: master, members, and the applied index of each.
//!
//! This module answers every query that depends on other nodes, from one [`node::BucketPlacement`].
//! More members in a group change the content of that placement and nothing else in this front-end.

use super::clusters;
use super::errors::ArakoonRefusal;
use super::nursery::{self, ClientAddress};
use super::serve::ArakoonConnection;
use super::statistics::{NodeFigures, NumberSeries};
use super::translate::{ClusterQuery, on_master_refusal};
use super::values::Wire;
use base::{Error, Reason};
use node::{BucketPlacement, RecordedAct, Sample};
use std::sync::PoisonError;

const DROP_ON_SINGLETON: &str = "drop master not supported for singletons";

/// Returns the body of the answer to a query about the cluster.
pub fn answer_query(
    connection: &ArakoonConnection,
    query: &ClusterQuery,
) -> Result<Vec<u8>, ArakoonRefusal> {
    let (node, principal) = (&connection.shared.node, connection.flow.principal());
    clusters::check_entry(node, principal, &connection.bucket)
        .map_err(|error| ArakoonRefusal::from(&error))?;
    // Whoever drops the mastership decides about that, and records it.
    if *query != ClusterQuery::DropMaster {
        authorize(connection, query)?.done();
    }
    let placement = node.placement(&connection.bucket);
    let placement = placement.map_err(|error| ArakoonRefusal::from(&error))?;
    let mut body = Vec::new();
    match query {
        ClusterQuery::WhoMaster => {
            body.option(placement.master.as_ref().map(|name| name.as_bytes()))
        }
        ClusterQuery::State => body.text(role_text(placement.role).as_bytes()),
        ClusterQuery::Txid => {
            // Written as a read level, so that a client can use it for a read at this index.
            body.push(2);
            body.long(i64::try_from(placement.applied.0).unwrap_or(i64::MAX));
        }
        ClusterQuery::Progress => body.flag(can_progress(&placement)),
        ClusterQuery::Statistics => body.text(&statistics(connection, &placement)),
        ClusterQuery::NurseryConfiguration => {
            body.text(&nursery::configuration(
                &connection.cluster,
                &node_addresses(connection, &placement),
            ));
        }
        ClusterQuery::DropMaster if placement.members.len() == 1 => {
            return Err(ArakoonRefusal::not_supported(DROP_ON_SINGLETON));
        }
        ClusterQuery::SlaveCommand(_) if is_master(&placement) => return Err(on_master_refusal()),
        ClusterQuery::SlaveCommand(Some(refusal)) => return Err(refusal.clone()),
        // The connection drops the mastership after this check. A slave has no mastership to drop,
        // and maintains its files by itself.
        ClusterQuery::DropMaster | ClusterQuery::SlaveCommand(None) => {}
    }
    Ok(body)
}

fn authorize(
    connection: &ArakoonConnection,
    query: &ClusterQuery,
) -> Result<RecordedAct, ArakoonRefusal> {
    let Some(act) = query.act() else { return Ok(RecordedAct::UNRECORDED) };
    let decided = connection.shared.node.authorize(connection.flow.principal(), act);
    decided.map_err(|error| ArakoonRefusal::not_supported(&error.text()))
}

/// Drops the mastership, and returns the body of the answer. A node that is no master succeeds
/// without effect.
pub async fn drop_master(connection: &mut ArakoonConnection) -> Result<Vec<u8>, ArakoonRefusal> {
    let act = authorize(connection, &ClusterQuery::DropMaster)?;
    // Checked first, because the only member refuses to drop its mastership.
    let body = match answer_query(connection, &ClusterQuery::DropMaster) {
        Ok(body) => body,
        Err(refusal) => {
            act.finish::<()>(&Err(Error::new(Reason::NotSupported, DROP_ON_SINGLETON)));
            return Err(refusal);
        }
    };
    let dropped = connection.shared.node.drop_master(&connection.bucket).await;
    act.finish(&dropped);
    dropped.map(|()| body).map_err(|error| ArakoonRefusal::from(&error))
}

fn is_master(placement: &BucketPlacement) -> bool {
    placement.master.as_ref() == Some(&placement.node_name)
}

/// Returns the role under the name that Arakoon's tools expect.
fn role_text(role: &str) -> &'static str {
    match role {
        "master" => "Stable_master",
        "follower" => "Slave_steady_state",
        _ => "Election_suggest",
    }
}

/// Returns true if enough members are connected to make progress. A single node can once it has
/// applied an entry.
fn can_progress(placement: &BucketPlacement) -> bool {
    match placement.members.len() {
        1 => placement.applied.0 > 0,
        _ => placement.expect_progress_possible,
    }
}

/// Returns the addresses of the group's members from the directory. A single node returns the
/// address that the client connected to.
fn node_addresses(
    connection: &ArakoonConnection,
    placement: &BucketPlacement,
) -> Vec<ClientAddress> {
    let local =
        || ClientAddress::parse(&placement.node_name, &connection.local_address.to_string());
    if placement.members.len() == 1 {
        return local().into_iter().collect();
    }
    let members = connection.shared.node.cluster().members;
    let published_address = |name: &str| {
        let found = members.iter().find(|status| status.member.name == name)?;
        ClientAddress::parse(name, &found.member.client)
    };
    let address_of = |name: &str| {
        published_address(name).or_else(|| local().filter(|_| name == placement.node_name))
    };
    placement.members.iter().filter_map(|member| address_of(&member.name)).collect()
}

fn statistics(connection: &ArakoonConnection, placement: &BucketPlacement) -> Vec<u8> {
    let node = &connection.shared.node;
    let samples = node.samples();
    let sample = |name: &str| Sample::value_of(&samples, name);
    let entries = sample("credenza_log_entries_total");
    let average = if entries > 0.0 { sample("credenza_updates_total") / entries } else { 0.0 };
    let resident = sample("process_resident_memory_bytes") / 1024.0;
    let store = node.status().store;
    let figures = NodeFigures {
        now: connection.shared.clock.unix_time().as_secs_f64(),
        harvest: NumberSeries::from_average(entries as u64, average),
        memory_kib: ((store.memory_bytes + store.cached_bytes) as f64 / 1024.0, resident as i32),
        placement,
    };
    connection.statistics.lock().unwrap_or_else(PoisonError::into_inner).write(&figures)
}
