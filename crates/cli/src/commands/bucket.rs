//! `credenza bucket`: creates, shows, changes and drops buckets.

use super::NodeArguments;
use super::empty_prefix::EmptyPrefix;
use super::moves::{self, Move};
use super::parse_bucket;
use super::properties;
use crate::output::{self, printable_text};
use api::{BucketReply, KeyCount};
use base::properties::{CONSISTENCY, COUNTED, PROMISE};
use base::{BucketName, Kind, Part};
use client::{Client, HttpCall, confirm};
use hyper::Method;
use program::{Failure, Outcome};
use serde::Serialize;
use serde_json::{Map, Value};

pub const EXAMPLES: &str = "\
Examples:
  credenza bucket create users
  credenza bucket create log sync=interval ttl_ms=86400000
  credenza bucket create fruit --consistency available     is named available/fruit
  credenza type create events ttl_ms=86400000 && credenza bucket create events/web
  credenza bucket create ledger --replicas 5       in the group of 5 voters with the fewest buckets
  credenza bucket create carts --group 2
  credenza bucket list
  credenza bucket describe users
  credenza bucket alter users value_bytes_max=65536
  credenza bucket alter users counted=true         keeps counts: counting is immediate from then on
  credenza bucket alter users audit=writes         records writes of its keys: `credenza audit tail`
  credenza bucket count users
  credenza bucket move users --group 2             to another group, while it is used
  credenza bucket status users                     where it lives, and how far its move is
  credenza bucket clear users                      empties it at once, whatever its size
  credenza bucket empty-prefix users old/ --yes    any number of keys, in parts, while others write
  credenza bucket drop users --yes";

/// `credenza bucket`.
#[derive(clap::Subcommand)]
pub enum BucketCommand {
    /// Make a bucket
    #[command(after_help = properties::bucket_properties_help())]
    Create(Create),
    /// Show all buckets
    #[command(alias = "ls")]
    List(NodeArguments),
    /// Show a bucket's properties
    #[command(alias = "show")]
    Describe(BucketArguments),
    /// Show how many keys a bucket has
    Count(BucketArguments),
    /// Change a bucket's properties
    #[command(after_help = properties::bucket_properties_help())]
    Alter(BucketChange),
    /// Move a bucket to another group, while it is used
    Move(Move),
    /// Show where a bucket lives, and how far its move is
    Status(BucketArguments),
    /// Delete all keys of a bucket
    Clear(DestroyArguments),
    /// Delete all keys under a prefix, in parts; keys added meanwhile may stay
    EmptyPrefix(EmptyPrefix),
    /// Drop a bucket with all its keys
    #[command(aliases = ["delete", "rm"])]
    Drop(DestroyArguments),
}

/// Arguments: one bucket.
#[derive(clap::Args)]
pub struct BucketArguments {
    /// `type/bucket`, or `bucket` of the type `default`
    #[arg(value_parser = parse_bucket)]
    bucket: BucketName,
    #[command(flatten)]
    node: NodeArguments,
}

/// Arguments: one bucket and its properties.
#[derive(clap::Args)]
pub struct BucketChange {
    #[command(flatten)]
    target: BucketArguments,
    /// Properties, `sync=interval`, say; all are listed below
    #[arg(value_name = "NAME=VALUE")]
    properties: Vec<String>,
}

/// Arguments of the creation of a bucket.
#[derive(clap::Args)]
pub struct Create {
    #[command(flatten)]
    change: BucketChange,
    /// Make it in this group
    #[arg(long, value_name = "GROUP")]
    group: Option<u32>,
    /// Make it in the group of so many voters that has the fewest buckets; with --group: only if
    /// that one has so many
    #[arg(long, value_name = "VOTERS")]
    replicas: Option<u32>,
    /// `consistent` or `available`, as the property `consistency`; `available` makes it of the type
    /// `available`
    #[arg(long, value_name = "MODE", alias = PROMISE)]
    consistency: Option<String>,
}

/// Arguments of a command that deletes data.
#[derive(clap::Args)]
pub struct DestroyArguments {
    #[command(flatten)]
    target: BucketArguments,
    /// Do it; without this, only the number of keys is shown
    #[arg(long)]
    yes: bool,
}

impl BucketCommand {
    /// Runs the command.
    pub async fn run(self) -> Outcome {
        match self {
            BucketCommand::Create(create) => create.send().await,
            BucketCommand::Move(moving) => moving.run().await,
            BucketCommand::Status(target) => moves::status(&target.bucket, &target.node).await,
            BucketCommand::Alter(change) if change.properties.is_empty() => {
                Err(Failure::invalid("name what to change: `sync=interval`, say"))
            }
            BucketCommand::Alter(change) => change.send(Method::PATCH).await,
            BucketCommand::List(node) => list(&node).await,
            BucketCommand::Describe(target) => target.show().await,
            BucketCommand::Count(target) => target.count().await,
            BucketCommand::Clear(arguments) => arguments.destroy(Method::POST, "/clear").await,
            BucketCommand::EmptyPrefix(empty) => empty.run().await,
            BucketCommand::Drop(arguments) => arguments.destroy(Method::DELETE, "").await,
        }
    }
}

/// A bucket of the list, with its counts if it keeps them.
#[derive(Serialize)]
struct ListedBucket {
    #[serde(flatten)]
    bucket: BucketReply,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

impl ListedBucket {
    /// Asks for the counts of a counted bucket. There are none of a bucket whose group does not
    /// answer, or that was dropped meanwhile: the others are listed.
    async fn new(bucket: BucketReply, client: &mut Client) -> ListedBucket {
        let is_counted = bucket.properties.text(COUNTED).as_deref() == Some("true");
        let count = match is_counted {
            true => client.get(format!("/v1/buckets/{}/count", bucket.name)).await.ok(),
            false => None::<KeyCount>,
        };
        let keys = count.as_ref().map(|count| count.count);
        ListedBucket { bucket, keys, bytes: count.and_then(|count| count.bytes) }
    }
}

async fn list(node: &NodeArguments) -> Outcome {
    let mut client = node.address.client()?;
    let mut buckets: Vec<BucketReply> = Vec::new();
    loop {
        let after = buckets.last().map(|last| last.name.as_str());
        let page = client.bucket_page(after).await?.buckets;
        if page.is_empty() {
            break;
        }
        buckets.extend(page);
    }
    let mut listed = Vec::with_capacity(buckets.len());
    for bucket in buckets {
        listed.push(ListedBucket::new(bucket, &mut client).await);
    }
    if node.json {
        return output::json(&listed);
    }
    // Without counts there is nothing to show in these columns.
    let is_counted = listed.iter().any(|listed| listed.keys.is_some());
    let counts: &[&str] = if is_counted { &["keys", "bytes"] } else { &[] };
    let row = |listed: &ListedBucket| {
        let ListedBucket { bucket, keys, bytes } = listed;
        let moves = bucket.moves_to.as_ref().map(|to| format!(" -> {}", to.group));
        let group = format!("{}{}", bucket.group, moves.unwrap_or_default());
        let property =
            |name: &str| printable_text(&bucket.properties.text(name).unwrap_or_default());
        let properties = [CONSISTENCY, "sync", "ttl_ms"].map(property);
        let counts = [keys, bytes].map(|number| number.map_or("-".into(), |it| it.to_string()));
        let cells = [printable_text(&bucket.name), group].into_iter().chain(properties);
        cells.chain(counts.into_iter().filter(|_| is_counted)).collect()
    };
    let rows = listed.iter().map(row).collect();
    let head = [&["bucket", "group", CONSISTENCY, "sync", "ttl_ms"], counts].concat();
    output::table(&head, rows)?;
    let kind = BucketName::AVAILABLE;
    eprintln!("available buckets are not listed: each exists once named, as {kind}/NAME");
    Ok(())
}

impl BucketArguments {
    fn path(&self, rest: &str) -> String {
        format!("/v1/buckets/{}{rest}", self.bucket)
    }

    async fn count(&self) -> Outcome {
        let count: KeyCount = self.node.address.client()?.get(self.path("/count")).await?;
        match self.node.json {
            true => output::json(&count),
            false => output::text(&format!("{}\n", count.count)),
        }
    }

    async fn show(&self) -> Outcome {
        let bucket = self.node.address.client()?.bucket(&self.bucket).await?;
        if self.node.json {
            return output::json(&bucket);
        }
        let row = |name: &str, text: String| vec![name.to_string(), text];
        let mut rows = vec![
            row("name", printable_text(&bucket.name)),
            row("id", bucket.id.to_string()),
            row("group", bucket.group.to_string()),
        ];
        rows.extend(bucket.moves_to.map(|to| row("moves to group", to.group.to_string())));
        rows.extend(bucket.properties.texts().map(|(name, text)| row(name, printable_text(&text))));
        output::table(&["property", "value"], rows)
    }
}

/// Returns true if a property, as written on the command line, makes a bucket available.
fn makes_available(property: &str) -> bool {
    let setting = property.split_once('=').filter(|(_, mode)| *mode == "available");
    setting.is_some_and(|(name, _)| [CONSISTENCY, PROMISE].contains(&name))
}

/// Returns properties as a JSON object.
pub fn properties_object(properties: &[String]) -> Outcome<String> {
    let mut object = Map::new();
    for property in properties {
        let (name, value) = property.split_once('=').ok_or_else(|| {
            Failure::invalid(format!("`{property}`: NAME=VALUE is wanted, `sync=interval`, say"))
        })?;
        object.insert(name.into(), value.into());
    }
    Ok(Value::Object(object).to_string())
}

impl Create {
    async fn send(mut self) -> Outcome {
        if let Some(group) = self.group
            && let Some(voters) = self.replicas.take()
        {
            self.check_voters(group, voters).await?;
        }
        let properties = &mut self.change.properties;
        properties.extend(self.consistency.map(|mode| format!("{CONSISTENCY}={mode}")));
        // A bucket of an available type needs no such property, and no other type can have it.
        let (count_before, bucket) = (properties.len(), &mut self.change.target.bucket);
        properties.retain(|property| !makes_available(property));
        if properties.len() < count_before && bucket.kind() == BucketName::DEFAULT {
            *bucket = BucketName::new(BucketName::AVAILABLE, bucket.name())?;
            eprintln!("{bucket}: name it with -b {bucket}");
        }
        properties.extend(self.group.map(|group| format!("group={group}")));
        properties.extend(self.replicas.map(|voters| format!("replicas={voters}")));
        self.change.send(Method::PUT).await
    }

    /// Checks that a group has the requested number of voters.
    async fn check_voters(&self, group: u32, voters: u32) -> Outcome {
        let groups = self.change.target.node.address.client()?.cluster().await?.groups;
        let Some(status) = groups.iter().find(|status| status.group == group) else {
            let text = format!("no group {group}: `credenza group status` lists them");
            return Err(Failure::new(Kind::Invalid, text));
        };
        let votes = status.desired.iter().filter(|member| member.part == Part::Voter).count();
        if votes == voters as usize {
            return Ok(());
        }
        let text = format!(
            "group {group} has {votes} voters, not {voters}: leave out one of --group and \
             --replicas, or `credenza group members {group}` first"
        );
        Err(Failure::new(Kind::Conflict, text))
    }
}

impl BucketChange {
    async fn send(self, method: Method) -> Outcome {
        let body = properties_object(&self.properties)?;
        let call = HttpCall::json(method, self.target.path(""), body);
        let answer = self.target.node.address.client()?.call(call).await?;
        if self.target.node.json {
            output::json(&serde_json::json!({ "index": answer.index }))?;
        }
        Ok(())
    }
}

impl DestroyArguments {
    async fn destroy(self, method: Method, rest: &str) -> Outcome {
        let mut client = self.target.node.address.client()?;
        if !self.yes {
            let KeyCount { count: keys, .. } = client.get(self.target.path("/count")).await?;
            let bucket = &self.target.bucket;
            let message =
                format!("{bucket} holds {keys} keys that would be lost: add --yes to mean it");
            return Err(Failure::invalid(message));
        }
        let path = self.target.path(rest) + &confirm(self.target.bucket.full());
        let answer = client.call(HttpCall::new(method, path)).await?;
        if self.target.node.json {
            output::json(&serde_json::json!({ "index": answer.index }))?;
        }
        Ok(())
    }
}
