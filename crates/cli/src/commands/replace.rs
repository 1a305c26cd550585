//! `credenza cluster replace`: another node takes a member's place, in its groups and on the ring.

use super::cluster::Named;
use super::ring::{is_done, waits};
use super::settle;
use super::wait::until_done;
use crate::client::Client;
use crate::output;
use api::{HexId, MemberStatus, Ring, RingTransfers};
use base::Membership;
use program::Outcome;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(500);

/// Takes a member's place.
#[derive(clap::Args)]
pub struct Replace {
    #[command(flatten)]
    named: Named,
    /// The member that takes it; without this, the next fresh node that joins under the name does
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Replace {
    /// Runs the command, and prints the next steps.
    pub async fn run(self) -> Outcome {
        let mut client = self.named.address.client()?;
        let mut members = client.cluster().await?.members.into_iter();
        let stays = |member: &MemberStatus| member.membership != Membership::Leaving;
        let old = members.find(|member| stays(member) && member.name == self.named.name);
        let old = old.map(|member| member.node).unwrap_or_default();
        let ring = client.ring().await?;
        client.replace_member(&self.named.name, self.by.clone()).await?;
        output::text(&told(&self.named.name, self.by.as_deref(), part(&ring, old)))?;
        if !self.named.wait {
            return Ok(());
        }
        self.wait(&mut client, old).await?;
        settle::settle(&self.named.address).await
    }

    /// Waits until another node has taken the place on the ring.
    async fn wait(&self, client: &mut Client, old: HexId) -> Outcome {
        let look = async || self.look(client, old).await;
        until_done((self.named.address.timeout, PAUSE), look, |waits_for| {
            format!(
                "nothing moves: {waits_for} (it goes on when it can; `credenza cluster status` \
                 and `credenza cluster ring transfers` show how far it is)"
            )
        })
        .await
    }

    /// Returns the progress, and the reason for waiting. `None`: it is complete.
    async fn look(
        &self,
        client: &mut Client,
        old: HexId,
    ) -> Outcome<Option<(RingTransfers, String)>> {
        let members = client.cluster().await?.members;
        let free = |member: &MemberStatus| {
            member.node == old && member.membership == Membership::Replaceable
        };
        if members.iter().any(free) {
            let text = format!("no fresh node called {} has joined yet", self.named.name);
            return Ok(Some((RingTransfers::default(), text)));
        }
        let transfers = client.transfers().await?;
        let names_old = part(&client.ring().await?, old).0 > 0;
        if !names_old && is_done(&transfers) {
            return Ok(None);
        }
        let text = format!("its part of the ring goes over: {}", waits(&transfers));
        Ok(Some((transfers, text)))
    }
}

/// Returns the number of partitions that a node is the first owner of, and the number of all.
fn part(ring: &Ring, node: HexId) -> (usize, usize) {
    (ring.owners.iter().filter(|owner| **owner == node).count(), ring.owners.len())
}

/// Describes what was done, and the next steps.
fn told(name: &str, by: Option<&str>, (part, all): (usize, usize)) -> String {
    let mut text = match by {
        Some(by) => format!("{by} takes the place of {name} in its groups"),
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
    fn it_says_whose_place_is_taken_where_and_what_to_do_next() {
        let ring = Ring { epoch: 1, owners: [1, 2, 1, 3].map(HexId).into() };
        assert_eq!(part(&ring, HexId(1)), (2, 4));
        let text = told("n1", Some("n4"), part(&ring, HexId(1)));
        assert!(text.starts_with("n4 takes the place of n1") && text.contains("2 of 4"), "{text}");
        let text = told("n9", None, part(&ring, HexId(9)));
        assert!(!text.contains("ring") && text.contains("serve --name n9"), "{text}");
    }
}
