//! `credenza type`: creates, shows, changes and drops bucket types.

use super::NodeArguments;
use super::bucket::properties_object;
use super::properties;
use crate::output::{self, printable_text};
use client::{HttpCall, encode};
use hyper::Method;
use program::{Failure, Outcome};
use serde_json::json;

pub const EXAMPLES: &str = "\
Examples:
  credenza type create events sync=interval ttl_ms=86400000
  credenza type create carts consistency=available datatype=set
  credenza bucket create events/web                a bucket with these properties
  credenza type list
  credenza type alter events ttl_ms=0              buckets made before keep theirs
  credenza type drop events                        only when it has no buckets";

/// Properties shown in the list of types.
const LISTED_PROPERTIES: [&str; 6] =
    ["consistency", "datatype", "sync", "key_bytes_max", "value_bytes_max", "ttl_ms"];

/// `credenza type`.
#[derive(clap::Subcommand)]
pub enum Type {
    /// Make a bucket type
    #[command(after_help = properties::type_properties_help())]
    Create(BucketTypeChange),
    /// Show all bucket types
    #[command(alias = "ls")]
    List(NodeArguments),
    /// Change what buckets made later begin with
    #[command(after_help = properties::type_properties_help())]
    Alter(BucketTypeChange),
    /// Drop a type that has no buckets
    #[command(aliases = ["delete", "rm"])]
    Drop(TypeArguments),
}

/// Arguments: one bucket type.
#[derive(clap::Args)]
pub struct TypeArguments {
    /// The type's name
    name: String,
    #[command(flatten)]
    node: NodeArguments,
}

/// Arguments: one bucket type and its properties.
#[derive(clap::Args)]
pub struct BucketTypeChange {
    #[command(flatten)]
    target: TypeArguments,
    /// Properties, `datatype=set`, say; all are listed below
    #[arg(value_name = "NAME=VALUE")]
    properties: Vec<String>,
}

impl Type {
    /// Runs the command.
    pub async fn run(self) -> Outcome {
        match self {
            Type::Create(change) => {
                let body = properties_object(&change.properties)?;
                change.target.send(|path| HttpCall::json(Method::PUT, path, body)).await
            }
            Type::Alter(change) if change.properties.is_empty() => {
                Err(Failure::invalid("name what to change: `sync=interval`, say"))
            }
            Type::Alter(change) => {
                let body = properties_object(&change.properties)?;
                change.target.send(|path| HttpCall::json(Method::PATCH, path, body)).await
            }
            Type::Drop(arguments) => {
                arguments.send(|path| HttpCall::new(Method::DELETE, path)).await
            }
            Type::List(node) => list(&node).await,
        }
    }
}

impl TypeArguments {
    async fn send(self, call: impl FnOnce(String) -> HttpCall) -> Outcome {
        let path = format!("/v1/types/{}", encode(self.name.as_bytes()));
        let answer = self.node.address.client()?.call(call(path)).await?;
        if self.node.json {
            output::json(&json!({ "index": answer.index }))?;
        }
        Ok(())
    }
}

async fn list(node: &NodeArguments) -> Outcome {
    let types = node.address.client()?.types().await?.types;
    if node.json {
        return output::json(&types);
    }
    let row = |kind: &api::BucketType| {
        let value =
            |name| kind.properties.text(name).map_or("-".into(), |text| printable_text(&text));
        std::iter::once(printable_text(&kind.name)).chain(LISTED_PROPERTIES.map(value)).collect()
    };
    let head: Vec<&str> = std::iter::once("type").chain(LISTED_PROPERTIES).collect();
    output::table(&head, types.iter().map(row).collect())
}
