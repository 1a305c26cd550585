//! `credenza type`: creates, shows, changes and drops bucket types.

use super::bucket::{as_object, plain};
use super::properties;
use crate::client::{Address, Client, HttpCall, encode};
use crate::output;
use hyper::Method;
use program::{Failure, Outcome};
use serde_json::{Value, json};

pub const EXAMPLES: &str = "\
Examples:
  credenza type create events sync=interval ttl_ms=86400000
  credenza type create carts consistency=available datatype=set
  credenza bucket create events/web                a bucket with these properties
  credenza type list
  credenza type alter events ttl_ms=0              buckets made before keep theirs
  credenza type drop events                        only when it has no buckets";

/// Properties shown in the list of types.
const SHOWN: [&str; 6] =
    ["consistency", "datatype", "sync", "key_bytes_max", "value_bytes_max", "ttl_ms"];

/// `credenza type`.
#[derive(clap::Subcommand)]
pub enum Type {
    /// Make a bucket type
    #[command(after_help = properties::of_types())]
    Create(BucketTypeChange),
    /// Show all bucket types
    #[command(alias = "ls")]
    List(TypeList),
    /// Change what buckets made later begin with
    #[command(after_help = properties::of_types())]
    Alter(BucketTypeChange),
    /// Drop a type that has no buckets
    #[command(aliases = ["delete", "rm"])]
    Drop(TypeArguments),
}

/// Speaks of all types.
#[derive(clap::Args)]
pub struct TypeList {
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Speaks of one type.
#[derive(clap::Args)]
pub struct TypeArguments {
    /// The type's name
    name: String,
    #[command(flatten)]
    list: TypeList,
}

/// Speaks of one type and its properties.
#[derive(clap::Args)]
pub struct BucketTypeChange {
    #[command(flatten)]
    one: TypeArguments,
    /// Properties, `datatype=set`, say; all are listed below
    #[arg(value_name = "NAME=VALUE")]
    properties: Vec<String>,
}

impl Type {
    /// Runs the command.
    pub async fn run(self) -> Outcome {
        match self {
            Type::Create(change) => {
                let body = as_object(&change.properties)?;
                change.one.send(|path| HttpCall::json(Method::PUT, path, body)).await
            }
            Type::Alter(change) if change.properties.is_empty() => {
                Err(Failure::invalid("name what to change: `sync=interval`, say"))
            }
            Type::Alter(change) => {
                let body = as_object(&change.properties)?;
                change.one.send(|path| HttpCall::json(Method::PATCH, path, body)).await
            }
            Type::Drop(one) => one.send(|path| HttpCall::new(Method::DELETE, path)).await,
            Type::List(list) => list.show().await,
        }
    }
}

impl TypeArguments {
    async fn send(self, call: impl FnOnce(String) -> HttpCall) -> Outcome {
        let path = format!("/v1/types/{}", encode(self.name.as_bytes()));
        let answer = Client::new(&self.list.address)?.call(call(path)).await?;
        if self.list.json {
            output::json(&json!({ "index": answer.index }))?;
        }
        Ok(())
    }
}

impl TypeList {
    async fn show(self) -> Outcome {
        let call = HttpCall::new(Method::GET, "/v1/types");
        let mut answer = Client::new(&self.address)?.call(call).await?.json()?;
        let types = answer["types"].take();
        if self.json {
            return output::json(&types);
        }
        let rows = types.as_array().into_iter().flatten().map(|kind: &Value| {
            let mut row = vec![plain(&kind["name"])];
            row.extend(SHOWN.map(|name| match &kind["properties"][name] {
                Value::Null => "-".into(),
                value => plain(value),
            }));
            row
        });
        let head: Vec<&str> = std::iter::once("type").chain(SHOWN).collect();
        output::table(&head, rows.collect())
    }
}
