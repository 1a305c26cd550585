//! Repair of a member that finds its log or store damaged. If its log lacks only values, and
//! another member has them, it fetches these and goes on. Otherwise it asks the cluster to free its
//! place, moves its data aside, and joins anew.

use super::join::MemberAccess;
use super::{bootstrap, join};
use base::{Error, Kind, Reason};
use client::{Client, HttpCall};
use hyper::Method;
use node::{DamagedMember, LogRepair, Node};
use program::{Failure, Outcome};
use server::ClusterlessFlag;
use settings::Settings;

/// Printed at once, because without a majority of undamaged members this waits for an operator.
const NOT_FREED: &str = "can't let this damaged member's place be taken yet (that takes a majority \
                       of sound voters; where the others are damaged or lost, too, stop them all \
                       and look with `credenza cluster recover --data DIR` at what each has)";

/// Number of rounds of requests for lost values after a majority of members is available again: the
/// member that has a value may have started only after the last round, or may not have learned yet
/// that the value is decided.
const ROUNDS_WITH_MAJORITY: u32 = 6;

/// Starts the node, damaged or not.
pub async fn start(settings: &Settings, clusterless: &ClusterlessFlag) -> Outcome<Node> {
    resume_rejoin(settings, clusterless).await?;
    bootstrap::join_or_bootstrap(settings, clusterless).await?;
    let damage = match recorded_damage(settings).await? {
        Some(text) => Error::new(Reason::Corrupt, text),
        None => match Node::start(settings.node.clone()).await {
            Err(error) if error.reason == Reason::Corrupt && settings.auto_repair => error,
            started => return started.map_err(join::start_failure),
        },
    };
    if !repair_log(settings, &damage).await? {
        repair(settings, clusterless, damage).await?;
    }
    Node::start(settings.node.clone()).await.map_err(join::start_failure)
}

/// Repairs the log in place. Returns `false` if that is impossible, or if no member had all the
/// values by the time a majority could free this node's place.
async fn repair_log(settings: &Settings, damage: &Error) -> Outcome<bool> {
    let host = settings.node.host();
    let mut log_repair = match join::blocking(move || LogRepair::scan(&host)).await {
        Ok(log_repair) if log_repair.is_possible() => log_repair,
        Ok(_) => return Ok(false),
        Err(why) => {
            tracing::info!(target: "log", %why, "the log can't be mended in its place");
            return Ok(false);
        }
    };
    let (places, values) = (log_repair.damaged_places(), log_repair.lost_entries());
    tracing::error!(
        target: "log", %damage, %places, values, "this member's log is damaged: what it lost is \
         fetched from the others"
    );
    eprintln!("credenza: {}: {values} values are fetched from other members", damage.text());
    if !fetch_lost_values(settings, &mut log_repair).await? {
        return Ok(false);
    }
    let host = settings.node.host();
    join::blocking(move || log_repair.repair(&host)).await?;
    tracing::warn!(
        target: "log", %places, values, "the log is mended, nothing is lost; look after this disk"
    );
    Ok(true)
}

/// Fetches the values that the log lost from any member. Returns `false` if none has all of them,
/// and there is a majority that can free this node's place.
async fn fetch_lost_values(settings: &Settings, log_repair: &mut LogRepair) -> Outcome<bool> {
    let members = log_repair.members.clone();
    let mut clients = join::clients(&members, &MemberAccess::of(settings)?)?;
    let mut rounds_with_majority = 0;
    for attempt in 0_u32.. {
        while let Some((group, index)) = log_repair.next_missing() {
            let path = format!("/v1/cluster/groups/{group}/values/{index}");
            let mut body = None;
            for (member, client) in &mut clients {
                match client.call(HttpCall::new(Method::GET, &path)).await {
                    Ok(answer) => {
                        body = Some(answer.body);
                        break;
                    }
                    Err(error) if attempt % join::ATTEMPTS_PER_MESSAGE == 0 => {
                        tracing::warn!(%member, %group, %index, %error, "does not give it back");
                    }
                    Err(_) => {}
                }
            }
            let Some(value) = body else { break };
            log_repair.add_entry((group, index), value).map_err(join::start_failure)?;
        }
        if log_repair.next_missing().is_none() {
            return Ok(true);
        }
        for (_, client) in &mut clients {
            // An answer means that this member belongs to a majority that decides. A member that
            // requires a token refuses the repair, too, and names the remedy.
            let answer = client.members().await;
            let is_forbidden = |failure: &Failure| failure.reason() == Some(Reason::Forbidden);
            if answer.as_ref().map_or_else(is_forbidden, |_| true) {
                rounds_with_majority += 1;
                break;
            }
        }
        if rounds_with_majority == ROUNDS_WITH_MAJORITY {
            return Ok(false);
        }
        tokio::time::sleep(join::PAUSE).await;
    }
    Ok(false)
}

/// Completes the rejoin that an earlier run began.
async fn resume_rejoin(settings: &Settings, clusterless: &ClusterlessFlag) -> Outcome {
    let node = settings.node.clone();
    let unfinished = join::blocking(move || DamagedMember::pending_join(&node)).await?;
    match unfinished {
        Some((members, part)) => join::join_through(settings, clusterless, &members, part).await,
        None => Ok(()),
    }
}

/// Returns the damage that ended the last run, if other members can help. `None`: no damage, or
/// automatic repair is off.
async fn recorded_damage(settings: &Settings) -> Outcome<Option<String>> {
    if !settings.auto_repair {
        return Ok(None);
    }
    let node = settings.node.clone();
    join::blocking(move || DamagedMember::recorded_damage(&node)).await
}

/// Moves the damaged data aside and joins the cluster again. Fails with the damage if no other
/// member could help.
async fn repair(settings: &Settings, clusterless: &ClusterlessFlag, damage: Error) -> Outcome {
    let node = settings.node.clone();
    // A directory without a readable list of members can't be repaired.
    let Ok(Some(rejoining)) = join::blocking(move || DamagedMember::open(&node)).await else {
        return Err(join::start_failure(damage));
    };
    tracing::error!(
        target: "store", %damage, "this member's data are damaged: it takes no part any more, and \
         asks the others to let its place be taken"
    );
    eprintln!("credenza: {}: fetching everything from the other members", damage.text());
    let members = rejoining.members.clone();
    let access = MemberAccess::of(settings)?;
    let name = &rejoining.name;
    let request = async |member: &mut Client| member.replace_member(name, None).await;
    let result = join::ask_members(&members, &access, NOT_FREED, request).await;
    result.map_err(|failure| {
        let kind = failure.kind().unwrap_or(Kind::Corrupt);
        let words = "no member lets this node's place be taken";
        Failure::new(kind, format!("{}; {words}: {failure}", damage.text()))
    })?;
    let aside = join::blocking(move || rejoining.set_aside()).await?;
    tracing::warn!(
        target: "store", aside = %aside.display(), "the damaged data are set aside: remove them \
         when nobody needs them"
    );
    resume_rejoin(settings, clusterless).await
}

/// Records the damage that ended this run: the next one begins with a repair.
pub fn record_damage(settings: &Settings, node: &Node, error: &Error) {
    let is_member = node.cluster().members.len() > 1;
    if error.reason != Reason::Corrupt || !is_member || !settings.auto_repair {
        return;
    }
    if let Err(error) = DamagedMember::record_damage(&settings.node, &error.text()) {
        tracing::warn!(target: "store", %error, "the damage could not be noted for the next start");
    }
}
