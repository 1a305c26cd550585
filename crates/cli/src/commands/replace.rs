//! `credenza cluster replace`: another node takes a member's place, in its groups and on the ring.

use super::cluster::MemberTarget;
use super::convergence;
use super::ring::{is_done, waiting_reasons};
use super::wait::until_done;
use crate::output;
use api::{HexId, MemberStatus, Ring, RingTransfers};
use base::Membership;
use client::Client;
use program::Outcome;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(500);

/// Arguments of the replacement of a member.
#[derive(clap::Args)]
pub struct Replace {
    #[command(flatten)]
    member: MemberTarget,
    /// The member that takes it; without this, the next fresh node that joins under the name does
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Replace {
    /// Runs the command, and prints the next steps.
    pub async fn run(self) -> Outcome {
        let mut client = self.member.address.client()?;
        let mut members = client.cluster().await?.members.into_iter();
        let is_staying = |member: &MemberStatus| member.membership != Membership::Leaving;
        let old = members.find(|member| is_staying(member) && member.name == self.member.name);
        let old = old.map(|member| member.node).unwrap_or_default();
        let ring = client.ring().await?;
        client.replace_member(&self.member.name, self.by.clone()).await?;
        output::text(&describe_replacement(
            &self.member.name,
            self.by.as_deref(),
            partition_share(&ring, old),
        ))?;
        if !self.member.wait {
            return Ok(());
        }
        self.wait(&mut client, old).await?;
        convergence::wait_until_converged(&self.member.address).await
    }

    /// Waits until another node has taken the place on the ring.
    async fn wait(&self, client: &mut Client, old: HexId) -> Outcome {
        let poll = async || self.progress(client, old).await;
        until_done((self.member.address.timeout, PAUSE), poll, |waits_for| {
            format!(
                "nothing moves: {waits_for} (it goes on when it can; `credenza cluster status` \
                 and `credenza cluster ring transfers` show how far it is)"
            )
        })
        .await
    }

    /// Returns the progress, and the reason for waiting. `None`: it is complete.
    async fn progress(
        &self,
        client: &mut Client,
        old: HexId,
    ) -> Outcome<Option<(RingTransfers, String)>> {
        let members = client.cluster().await?.members;
        let is_replaceable = |member: &MemberStatus| {
            member.node == old && member.membership == Membership::Replaceable
        };
        if members.iter().any(is_replaceable) {
            let reason = format!("no fresh node called {} has joined yet", self.member.name);
            return Ok(Some((RingTransfers::default(), reason)));
        }
        let transfers = client.transfers().await?;
        let owns_partitions = partition_share(&client.ring().await?, old).0 > 0;
        if !owns_partitions && is_done(&transfers) {
            return Ok(None);
        }
        let reason = format!("its part of the ring goes over: {}", waiting_reasons(&transfers));
        Ok(Some((transfers, reason)))
    }
}

/// Returns the number of partitions whose first owner is a node, and the total number of
/// partitions.
fn partition_share(ring: &Ring, node: HexId) -> (usize, usize) {
    (ring.owners.iter().filter(|owner| **owner == node).count(), ring.owners.len())
}

/// Describes what was done, and the next steps.
fn describe_replacement(name: &str, by: Option<&str>, (part, all): (usize, usize)) -> String {
    let mut text = match by {
        Some(successor) => format!("{successor} takes the place of {name} in its groups"),
        None => format!(
            "the place of {name} is free: the next fresh node called {name} that joins takes it \
             in its groups"
        ),
    };
    if part > 0 {
        text.push_str(&format!(
            ", and on the ring, where {name} has {part} of {all} partitions (`credenza cluster \
             ring transfers` shows how far that is)"
        ));
    }
    if by.is_none() {
        text.push_str(&format!(
            "\nstart it: credenza serve --name {name} --data EMPTY_DIRECTORY --join MEMBER ...\n"
        ));
    } else {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replace_message_names_members_partitions_and_next_command() {
        let ring = Ring { epoch: 1, owners: [1, 2, 1, 3].map(HexId).into() };
        assert_eq!(partition_share(&ring, HexId(1)), (2, 4));
        let text = describe_replacement("n1", Some("n4"), partition_share(&ring, HexId(1)));
        assert!(text.starts_with("n4 takes the place of n1") && text.contains("2 of 4"), "{text}");
        let text = describe_replacement("n9", None, partition_share(&ring, HexId(9)));
        assert!(!text.contains("ring") && text.contains("serve --name n9"), "{text}");
    }
}
