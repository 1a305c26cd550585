//! `credenza index`: creates, shows and drops the declared indexes of a bucket.

use super::index_query::IndexQueryCommand;
use super::wait::until_done;
use super::{IndexArguments, NodeArguments, parse_bucket};
use crate::output::{self, printable_text};
use api::{IndexReply, NewIndex};
use base::index::IndexState;
use base::{BucketName, Kind, Reason};
use client::Client;
use indicatif::{ProgressBar, ProgressStyle};
use program::{Failure, Outcome};
use std::time::Duration;

/// Pause between two queries of the progress, which nodes report in intervals of seconds.
const PAUSE: Duration = Duration::from_millis(200);

pub const EXAMPLES: &str = "\
Examples:
  credenza index create users by-age --path '$.age' --type int --wait
  credenza index create users by-mail --path '$.mail' --type string --unique --strict
  credenza index create log by-tag --path '$.tags[*]' --type string --format msgpack
  credenza index list users
  credenza index status users by-age               its state, and how far its build is
  credenza index status users by-age --follow      until it is ready
  credenza index query users by-age --from 18 --to 30
  credenza index query users by-mail --equals ada@example.org --records
  credenza index query users by-mail --prefix ada --terms --reverse --limit 10
  credenza index query users by-age --limit 0 --json    all of them, a JSON object a line
  credenza index query available/users by-age --r all --timeout-ms 2000
  credenza index query available/users by-age --partial    what the nodes that answer have
  credenza index drop users by-age                 the records stay

An index is built while the bucket is used, and answers queries once it is `ready`. A value whose
node at the path is absent or of another type is not in the index; with --strict it is refused.";

/// `credenza index`.
#[derive(clap::Subcommand)]
pub enum IndexCommand {
    /// Make an index of the values of a bucket, which is then built
    Create(CreateIndex),
    /// Show the indexes of a bucket
    #[command(alias = "ls")]
    List(ListIndexes),
    /// Show an index, its state and the progress of its build
    #[command(aliases = ["describe", "show"])]
    Status(IndexStatus),
    /// Show the keys, terms or records that an index finds, in the order of their terms
    Query(IndexQueryCommand),
    /// Drop an index; records stay as they are
    #[command(aliases = ["delete", "rm"])]
    Drop(DropIndex),
}

/// `credenza index create`.
#[derive(clap::Args)]
pub struct CreateIndex {
    #[command(flatten)]
    target: IndexArguments,
    /// JSONPath to what is indexed in a value: `$.age`, `$.tags[*]` (RFC 9535, without filters)
    #[arg(long)]
    path: String,
    /// Type of what is indexed
    #[arg(long = "type", value_name = "TYPE")]
    #[arg(value_parser = ["int", "float", "string", "bytes", "bool"])]
    value_type: String,
    /// Format of the values
    #[arg(long, default_value = "json", value_parser = ["json", "msgpack"])]
    format: String,
    /// Refuse a write that gives two keys the same term; only in a consistent bucket
    #[arg(long)]
    unique: bool,
    /// Refuse a value without a term
    #[arg(long)]
    strict: bool,
    /// Wait until it is ready
    #[arg(long)]
    wait: bool,
}

/// `credenza index list`.
#[derive(clap::Args)]
pub struct ListIndexes {
    /// `type/bucket`, or `bucket` of the type `default`
    #[arg(value_parser = parse_bucket)]
    bucket: BucketName,
    #[command(flatten)]
    node: NodeArguments,
}

/// `credenza index status`.
#[derive(clap::Args)]
pub struct IndexStatus {
    #[command(flatten)]
    target: IndexArguments,
    /// Show the progress until it is ready
    #[arg(long)]
    follow: bool,
}

/// `credenza index drop`.
#[derive(clap::Args)]
pub struct DropIndex {
    #[command(flatten)]
    target: IndexArguments,
    /// Wait until its entries are removed, so that its name is free
    #[arg(long)]
    wait: bool,
}

impl IndexCommand {
    /// Runs the command.
    pub async fn run(self) -> Outcome {
        match self {
            IndexCommand::Create(create) => create.run().await,
            IndexCommand::List(list) => list.run().await,
            IndexCommand::Status(status) => status.run().await,
            IndexCommand::Query(query) => query.run().await,
            IndexCommand::Drop(drop) => drop.run().await,
        }
    }
}

impl CreateIndex {
    async fn run(self) -> Outcome {
        let IndexArguments { bucket, name, node } = &self.target;
        let mut client = node.address.client()?;
        let index = NewIndex {
            name: name.clone(),
            path: self.path.clone(),
            r#type: self.value_type.clone(),
            format: self.format.clone(),
            unique: self.unique,
            strict: self.strict,
        };
        let mut created = client.create_index(bucket, &index).await?;
        if self.wait {
            created = self.target.follow(&mut client, false).await?;
        } else if created.done.is_some() {
            eprintln!("it is being built: `credenza index status {bucket} {name} --follow`");
        }
        if node.json { output::json(&created) } else { Ok(()) }
    }
}

impl ListIndexes {
    async fn run(self) -> Outcome {
        let indexes = self.node.address.client()?.indexes(&self.bucket).await?.indexes;
        if self.node.json {
            return output::json(&indexes);
        }
        let row = |index: &IndexReply| {
            let cells = [&index.name, &index.state, &index.r#type, &index.format];
            let cells = cells.into_iter().map(|text| printable_text(text));
            cells.chain([rules(index), printable_text(&index.path)]).collect()
        };
        let rows = indexes.iter().map(row).collect();
        output::table(&["index", "state", "type", "format", "rules", "path"], rows)
    }
}

impl IndexStatus {
    async fn run(self) -> Outcome {
        let IndexArguments { bucket, name, node } = &self.target;
        let mut client = node.address.client()?;
        let index = match self.follow {
            true => self.target.follow(&mut client, !node.json).await?,
            false => client.index(bucket, name).await?,
        };
        if node.json {
            return output::json(&index);
        }
        let row = |name: &str, text: String| vec![name.to_string(), text];
        let mut rows = vec![
            row("name", printable_text(&index.name)),
            row("number", index.number.to_string()),
            row("path", printable_text(&index.path)),
            row("type", printable_text(&index.r#type)),
            row("format", printable_text(&index.format)),
            row("rules", rules(&index)),
            row("state", printable_text(&index.state)),
        ];
        rows.extend(index.done.map(|done| row("records done", done.to_string())));
        rows.extend(index.total.map(|total| row("records total", total.to_string())));
        rows.extend(index.cause.map(|cause| row("cause", printable_text(&cause))));
        output::table(&["property", "value"], rows)
    }
}

impl DropIndex {
    async fn run(self) -> Outcome {
        let IndexArguments { bucket, name, node } = &self.target;
        let mut client = node.address.client()?;
        client.drop_index(bucket, name).await?;
        if !self.wait {
            return Ok(());
        }
        let poll = async || match client.index(bucket, name).await {
            Err(failure) if failure.reason() == Some(Reason::NoSuchIndex) => Ok(None),
            Err(failure) => Err(failure),
            Ok(index) => Ok(Some((index.state.clone(), format!("it is {}", index.state)))),
        };
        until_done((node.address.timeout, PAUSE), poll, |waits_for| {
            format!(
                "the entries of the index `{name}` are not removed yet: {waits_for} (it goes on \
                 when the bucket's group has a master: `credenza bucket status {bucket}`)"
            )
        })
        .await
    }
}

impl IndexArguments {
    /// Waits until the index is ready, and shows the progress on a terminal. Returns the index.
    /// `has_lines`: without a terminal, lines take the place of the bar. Fails with a conflict if
    /// it can't be built or is dropped meanwhile.
    async fn follow(&self, client: &mut Client, has_lines: bool) -> Outcome<IndexReply> {
        let IndexArguments { bucket, name, node } = self;
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} records {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(printable_text(name));
        let mut last = IndexReply::default();
        let poll = async || {
            let index = client.index(bucket, name).await?;
            let progress = check_progress(bucket, &index)?;
            if let Some((done, total)) = progress
                && (last.done, last.total) != (index.done, index.total)
            {
                bar.set_length(total.max(done));
                bar.set_position(done);
                if bar.is_hidden() && has_lines {
                    eprintln!("{name}: {done}/{total} records");
                }
            }
            last = index;
            Ok(progress.map(|progress| (progress, format!("it is {}", last.state))))
        };
        let result = until_done((node.address.timeout, PAUSE), poll, |waits_for| {
            format!(
                "the build of the index `{name}` does not get on: {waits_for} (it goes on when it \
                 can; `credenza index status {bucket} {name}` shows how far it is)"
            )
        })
        .await;
        bar.finish_and_clear();
        result.map(|()| last)
    }
}

/// Returns the progress of an index that is being built: records done, and all of them. `None`: it
/// is ready. Fails if it never will be.
fn check_progress(bucket: &BucketName, index: &IndexReply) -> Outcome<Option<(u64, u64)>> {
    let name = &index.name;
    if index.state == IndexState::Ready.name() {
        return Ok(None);
    }
    if index.state == IndexState::Dropping.name() {
        let text = format!("the index `{name}` was dropped: create it again");
        return Err(Failure::new(Kind::Conflict, text));
    }
    if let Some(cause) = &index.cause {
        let text = format!(
            "the index `{name}` could not be built: {}: mend the records, then `credenza index \
             drop {bucket} {name} --wait`, and create it again",
            printable_text(cause)
        );
        return Err(Failure::new(Kind::Conflict, text));
    }
    Ok(Some((index.done.unwrap_or_default(), index.total.unwrap_or_default())))
}

/// Returns the rules that values have to obey; `-` if there are none.
fn rules(index: &IndexReply) -> String {
    let rules = [("unique", index.unique), ("strict", index.strict)];
    let rules: Vec<_> = rules.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect();
    if rules.is_empty() { "-".into() } else { rules.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(state: &str) -> IndexReply {
        IndexReply { name: "by-age".into(), state: state.into(), ..IndexReply::default() }
    }

    #[test]
    fn wait_for_an_index_ends_when_it_is_ready_or_never_will_be() {
        let bucket = BucketName::default();
        let building = IndexReply { done: Some(3), total: Some(9), ..index("building") };
        assert_eq!(check_progress(&bucket, &building).ok(), Some(Some((3, 9))));
        assert_eq!(check_progress(&bucket, &index("ready")).ok(), Some(None));
        let failed = IndexReply { cause: Some("two\tkeys".into()), ..index("failed") };
        for (index, expected) in [
            (
                failed,
                "could not be built: two\\x09keys: mend the records, then `credenza index drop",
            ),
            (index("dropping"), "was dropped: create it again"),
        ] {
            let failure = check_progress(&bucket, &index).expect_err("it never will be ready");
            assert_eq!(failure.exit_code(), 4);
            assert!(failure.to_string().contains(expected), "{failure}");
        }
    }

    #[test]
    fn rules_of_an_index_are_named() {
        let both = IndexReply { unique: true, strict: true, ..index("ready") };
        assert_eq!(rules(&both), "unique strict");
        assert_eq!(rules(&index("ready")), "-");
    }
}
