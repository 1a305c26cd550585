//! `credenza datatype`: shows and changes counters, sets, maps and HyperLogLogs.

use super::BucketAddress;
use crate::args::Encoding;
use crate::output;
use base::codec::printable;
use client::{HttpCall, encode};
use hyper::Method;
use program::{Failure, Outcome};
use serde_json::{Value, json};

pub const EXAMPLES: &str = "\
Examples:
  credenza type create tallies consistency=available datatype=counter
  credenza datatype increment home -b tallies/web       a counter: one more
  credenza datatype increment home -5 -b tallies/web
  credenza datatype decrement home 2 -b tallies/web
  credenza datatype add ann tea milk -b carts/web       a set, or a HyperLogLog
  credenza datatype remove ann tea -b carts/web
  credenza datatype increment ann --field visits_counter -b people/web
  credenza datatype assign ann Ann --field name_register -b people/web
  credenza datatype enable ann --field paid_flag -b people/web
  credenza datatype disable ann --field paid_flag -b people/web
  credenza datatype remove-field ann paid_flag -b people/web
  credenza datatype update ann '{\"update\":{\"tags_set\":{\"add\":\"x\"}}}' -b people/web
  credenza datatype get ann -b people/web

A bucket holds the data type of its bucket type (`credenza type create --help`). A field of a map is
named NAME_TYPE, TYPE being counter, set, gset, register, flag, map or hll; --field that is given
several times names a field of a map within a map.

Exit code 1 of `get`: there is no such key.";

/// `credenza datatype`.
#[derive(clap::Subcommand)]
pub enum Datatype {
    /// Show the value of a key
    Get(TypeGet),
    /// Add to a counter
    Increment(CounterChange),
    /// Subtract from a counter
    Decrement(CounterChange),
    /// Add elements to a set or a HyperLogLog
    Add(Elements),
    /// Remove elements from a set
    Remove(Elements),
    /// Write a register of a map
    Assign(Assign),
    /// Switch a flag of a map on
    Enable(Flag),
    /// Switch a flag of a map off
    Disable(Flag),
    /// Remove fields from a map
    RemoveField(RemoveField),
    /// Apply any operation, as JSON
    Update(Update),
}

/// Arguments: a key and its bucket.
#[derive(clap::Args)]
pub struct TypeTarget {
    /// The key
    key: String,
    #[command(flatten)]
    address: BucketAddress,
    /// Context of what was read (`credenza datatype get --json` shows it): a remove takes away that
    /// and no more
    #[arg(long, value_name = "CONTEXT", allow_hyphen_values = true)]
    context: Option<String>,
}

/// Arguments: a field of a map, by the path of maps that contain it.
#[derive(clap::Args)]
pub struct FieldPath {
    /// Change this field of a map
    #[arg(long = "field", value_name = "NAME_TYPE")]
    fields: Vec<String>,
}

/// Arguments of the display of a value.
#[derive(clap::Args)]
pub struct TypeGet {
    /// The key
    key: String,
    #[command(flatten)]
    address: BucketAddress,
}

/// Arguments of a change of a counter.
#[derive(clap::Args)]
pub struct CounterChange {
    #[command(flatten)]
    target: TypeTarget,
    /// By so much
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    by: i64,
    #[command(flatten)]
    parent: FieldPath,
}

/// Arguments of a change of a set.
#[derive(clap::Args)]
pub struct Elements {
    #[command(flatten)]
    target: TypeTarget,
    /// The elements
    #[arg(required = true, value_name = "ELEMENT")]
    elements: Vec<String>,
    #[command(flatten)]
    parent: FieldPath,
}

/// Arguments of a write to a register.
#[derive(clap::Args)]
pub struct Assign {
    #[command(flatten)]
    target: TypeTarget,
    /// The value
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// The register
    #[arg(long = "field", value_name = "NAME_TYPE", required = true)]
    fields: Vec<String>,
}

/// Arguments of a change of a flag.
#[derive(clap::Args)]
pub struct Flag {
    #[command(flatten)]
    target: TypeTarget,
    /// The flag
    #[arg(long = "field", value_name = "NAME_TYPE", required = true)]
    fields: Vec<String>,
}

/// Arguments of the removal of fields.
#[derive(clap::Args)]
pub struct RemoveField {
    #[command(flatten)]
    target: TypeTarget,
    /// The fields
    #[arg(required = true, value_name = "NAME_TYPE")]
    names: Vec<String>,
    #[command(flatten)]
    parent: FieldPath,
}

/// Arguments of an operation in JSON.
#[derive(clap::Args)]
pub struct Update {
    #[command(flatten)]
    target: TypeTarget,
    /// The operation as JSON (docs/use/types.md); `-` reads it from standard input
    #[arg(allow_hyphen_values = true)]
    operation: String,
}

impl Datatype {
    /// Runs the command, and prints the new value.
    pub async fn run(self) -> Outcome {
        let (target, operation) = match self {
            Datatype::Get(arguments) => return arguments.run().await,
            Datatype::Increment(CounterChange { target, by, parent }) => {
                (target, nested(&parent.fields, json!({ "increment": by })))
            }
            Datatype::Decrement(CounterChange { target, by, parent }) => {
                (target, nested(&parent.fields, json!({ "decrement": by })))
            }
            Datatype::Add(Elements { target, elements, parent }) => {
                (target, nested(&parent.fields, json!({ "add_all": elements })))
            }
            Datatype::Remove(Elements { target, elements, parent }) => {
                (target, nested(&parent.fields, json!({ "remove_all": elements })))
            }
            Datatype::Assign(Assign { target, value, fields }) => {
                (target, nested(&fields, json!({ "assign": value })))
            }
            Datatype::Enable(Flag { target, fields }) => (target, nested(&fields, json!("enable"))),
            Datatype::Disable(Flag { target, fields }) => {
                (target, nested(&fields, json!("disable")))
            }
            Datatype::RemoveField(RemoveField { target, names, parent }) => {
                (target, nested(&parent.fields, json!({ "remove": names })))
            }
            Datatype::Update(Update { target, operation }) => {
                let text = Encoding::default().value(&operation)?;
                let invalid =
                    |error| Failure::invalid(format!("the operation is no JSON: {error}"));
                (target, serde_json::from_slice(&text).map_err(invalid)?)
            }
        };
        target.change(operation).await
    }
}

/// Returns an operation on a field of a map within a map, the outermost first; without fields, on
/// the value itself.
fn nested(fields: &[String], operation: Value) -> Value {
    fields.iter().rev().fold(operation, |inner, field| json!({ "update": { field: inner } }))
}

fn path(address: &BucketAddress, key: &str) -> String {
    address.path(&format!("/datatypes/{}", encode(key.as_bytes())))
}

impl TypeGet {
    async fn run(self) -> Outcome {
        let call = HttpCall::new(Method::GET, path(&self.address, &self.key));
        match self.address.client()?.call_key(call).await? {
            Some(answer) => show(&answer.read()?, self.address.json),
            None => {
                if self.address.json {
                    output::text("null\n")?;
                }
                Err(Failure::negative("there is no such key"))
            }
        }
    }
}

impl TypeTarget {
    async fn change(self, mut operation: Value) -> Outcome {
        if let Some(context) = self.context {
            match &mut operation {
                Value::Object(fields) => drop(fields.insert("context".into(), context.into())),
                _ => {
                    return Err(Failure::invalid("--context needs an operation that is an object"));
                }
            }
        }
        let path = path(&self.address, &self.key);
        let call = HttpCall::new(Method::POST, path).with_json(&operation);
        show(&self.address.client()?.call(call).await?.read()?, self.address.json)
    }
}

/// Prints a value: a number, one element a line, or a map as JSON.
fn show(reply: &Value, as_json: bool) -> Outcome {
    if as_json { output::json(reply) } else { output::text(&render_value(&reply["value"])) }
}

fn render_value(value: &Value) -> String {
    match value {
        Value::Array(elements) => elements.iter().map(render_value).collect(),
        Value::String(text) => format!("{}\n", printable(text.as_bytes())),
        other => format!("{other:#}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_field_update_is_wrapped_in_its_parent_map_updates() {
        let fields = ["home_map".to_string(), "visits_counter".to_string()];
        let inner = json!({ "update": { "visits_counter": { "increment": 2 } } });
        assert_eq!(
            nested(&fields, json!({ "increment": 2 })),
            json!({ "update": { "home_map": inner } })
        );
        assert_eq!(nested(&[], json!("enable")), json!("enable"));
    }

    #[test]
    fn datatype_value_prints_each_element_on_its_own_line() {
        assert_eq!(render_value(&json!(-5)), "-5\n");
        assert_eq!(render_value(&json!(["milk", "a\tb"])), "milk\na\\x09b\n");
        assert_eq!(render_value(&json!([])), "");
        assert_eq!(render_value(&json!({ "n_counter": 1 })), "{\n  \"n_counter\": 1\n}\n");
    }
}
