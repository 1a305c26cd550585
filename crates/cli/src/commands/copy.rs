//! `credenza copy`: a bucket becomes the copy of another one, and follows it.

use super::feed::{note, patience};
use super::{NodeArguments, parse_bucket};
use crate::output;
use crate::signals::wait_for_interruption;
use base::BucketName;
use client::Address;
use feed_client::{ClusterClient, Copier, CopyCounts, CopyMode, SiblingsRule};
use program::{Failure, Outcome};
use serde_json::json;
use std::path::PathBuf;
use std::pin::pin;

pub const EXAMPLES: &str = "\
Examples:
  credenza copy users users-copy                   every key, then end
  credenza copy users users-copy                   again: the changes since
  credenza copy users users-copy --follow          and every change from then on
  credenza copy users users --to-cluster n4.example:7711 --follow
  credenza copy users old-users --overwrite        keys that `users` lacks are removed
  credenza copy available/carts carts --newest     of siblings the newest value

The source needs a feed: `credenza bucket alter users feed=keys`. The target keeps how far the copy
is under the key `credenza/copy/SOURCE`, written with the records that it covers: a copy that was
killed goes on there when the command is run again. Deletes are copied, and so are times to live of
a consistent bucket. If the source no longer keeps what happened since, it is compared with the
target: keys that it lacks are removed. Indexes, properties, and metadata of Riak's clients are not
copied.";

/// `credenza copy`.
#[derive(clap::Args)]
pub struct CopyCommand {
    /// The bucket that is copied
    #[arg(value_parser = parse_bucket)]
    source: BucketName,
    /// The bucket that becomes its copy; nobody else writes to it
    #[arg(value_parser = parse_bucket)]
    target: BucketName,
    /// Go on with every change, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Address of a node of the target's cluster, if it is another one
    #[arg(long, value_name = "HOST:PORT")]
    to_cluster: Option<String>,
    /// File with an API token for that cluster; by default the login of the source's
    #[arg(long, value_name = "FILE", requires = "to_cluster")]
    to_token_file: Option<PathBuf>,
    /// Take a target that has keys; those that the source lacks are removed
    #[arg(long)]
    overwrite: bool,
    /// Copy the newest of siblings, where the target holds one value of each key
    #[arg(long)]
    newest: bool,
    #[command(flatten)]
    node: NodeArguments,
}

impl CopyCommand {
    /// Copies until the target is level, or until interrupted.
    pub async fn run(self) -> Outcome {
        if self.source == self.target && self.to_cluster.is_none() {
            let text = format!("`{}` is no copy of itself: name another target", self.source);
            return Err(Failure::invalid(text));
        }
        let mut interruption = pin!(wait_for_interruption());
        let mut copier = tokio::select! {
            biased;
            ended = &mut interruption => return ended,
            opened = self.open() => opened?,
        };
        let mut is_level = false;
        loop {
            let page = tokio::select! {
                biased;
                ended = &mut interruption => {
                    ended?;
                    break;
                }
                page = copier.copy_page(is_level) => page?,
            };
            if page && !self.follow {
                break;
            }
            if page && !is_level {
                note(&format!("level: `{}` has all changes so far", self.target));
            }
            is_level = page;
        }
        self.report(copier.counts())
    }

    async fn open(&self) -> Outcome<Copier> {
        let address = &self.node.address;
        let mut source = ClusterClient::new(address, patience(self.follow), note)?;
        source.learn_nodes().await?;
        let mut target = ClusterClient::new(&self.target_address(), patience(self.follow), note)?;
        target.learn_nodes().await?;
        let rule = if self.newest { SiblingsRule::Newest } else { SiblingsRule::Stop };
        let mode = CopyMode { overwrites: self.overwrite, siblings: rule };
        Copier::open((source, self.source.clone()), (target, self.target.clone()), mode).await
    }

    /// Returns the address of the target's cluster: reached as the source's is, unless it says so
    /// itself.
    fn target_address(&self) -> Address {
        let address = &self.node.address;
        let Some(to) = &self.to_cluster else { return address.clone() };
        let is_encrypted = address.url.starts_with("https://") && !to.contains("://");
        let url = if is_encrypted { format!("https://{to}") } else { to.clone() };
        let login = match &self.to_token_file {
            Some(file) => address.login.with_token_file(file.clone()),
            None => address.login.clone(),
        };
        Address { url, login, ..address.clone() }
    }

    fn report(&self, counts: CopyCounts) -> Outcome {
        let CopyCounts { written, deleted, removed } = counts;
        if self.node.json {
            let counts = json!({ "written": written, "deleted": deleted, "removed": removed });
            return output::text(&format!("{counts}\n"));
        }
        let removed = match removed {
            0 => String::new(),
            keys => format!(", {keys} removed that the source lacks"),
        };
        let keys = if written == 1 { "key" } else { "keys" };
        output::text(&format!("{written} {keys} written, {deleted} deleted{removed}\n"))
    }
}
