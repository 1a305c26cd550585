//! Properties of buckets and bucket types under Riak's names.

use super::answer::RiakResponse;
use super::path::client_name;
use super::request::RiakRequest;
use crate::strict_json;
use base::properties::{CONSISTENCY, Changes, PROPERTIES, PropertyShape};
use base::{BucketName, Consistency, DataType, Properties, Quorum};
use serde_json::{Map, Value, json};

const FORM: &str =
    "bucket PUT must be a JSON object of the form:\n{\"props\":{...bucket properties...}}";

/// Properties of features that do not exist here. Only the value that disables them is accepted.
const UNSUPPORTED: [&str; 6] =
    ["precommit", "postcommit", "search_index", "consistent", "backend", "repl"];

/// Returns the constant value of a property that Riak can set and Credenza can't. A request may
/// name this value but not change it.
fn constant_value(name: &str) -> Option<Value> {
    let fun = |module: &str, name: &str| json!({ "mod": module, "fun": name });
    Some(match name {
        "small_vclock" | "big_vclock" => 50.into(),
        "young_vclock" => 20.into(),
        "old_vclock" => 86_400.into(),
        "chash_keyfun" => fun("riak_core_util", "chash_std_keyfun"),
        "linkfun" => fun("riak_kv_wm_link_walker", "mapreduce_linkfun"),
        "sync_on_write" => "backend".into(),
        "active" => true.into(),
        _ => return None,
    })
}

/// Parses the changes in a request, to a bucket of this name or to a type (`None`). The refusal
/// has an error for each property with a wrong value.
pub(super) fn changes(
    request: &RiakRequest,
    bucket: Option<&[u8]>,
) -> Result<Changes, RiakResponse> {
    let kind = request.text("content-type").unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return Err(RiakResponse::text(415, "properties must be application/json\n"));
    }
    let document = match strict_json::parse(&request.body) {
        Err(error) if error.is_data() => return Err(RiakResponse::text(400, format!("{error}\n"))),
        document => document.ok(),
    };
    let props = document.as_ref().and_then(|document| document.get("props")?.as_object());
    let props = props.ok_or_else(|| RiakResponse::text(400, FORM))?;
    changes_of(props, bucket).map_err(refused)
}

/// Returns the changes that a document of properties makes to a bucket of this name or to a type
/// (`None`). Errors: an error for each property with a wrong value.
pub(super) fn changes_of(
    props: &Map<String, Value>,
    bucket: Option<&[u8]>,
) -> Result<Changes, Map<String, Value>> {
    let (mut changes, mut errors) = (Changes::new(), Map::new());
    for (name, value) in props {
        let parsed = match (name.as_str(), bucket) {
            ("name", Some(bucket_name)) => check_name(value, bucket_name),
            ("dvv_enabled", _) => check_dvv_enabled(value, props),
            // The answer about a type contains its claimant, and clients may send it back.
            ("claimant", None) if value.is_string() => Ok(None),
            _ => property_text(name, value),
        };
        match parsed {
            Ok(Some(text)) => changes.push((name.clone(), text)),
            Ok(None) => {}
            Err(text) => drop(errors.insert(name.clone(), text.into())),
        }
    }
    if errors.is_empty() { Ok(changes) } else { Err(errors) }
}

fn refused(errors: Map<String, Value>) -> RiakResponse {
    RiakResponse::with_body(400, "application/json", Value::Object(errors).to_string())
}

/// Renders a refusal of the node as a document: the property that the text names, preferably one of
/// the changed ones, and the text.
pub(super) fn refusal(text: &str, changed: &[String]) -> RiakResponse {
    let is_name = |name: &&str| PROPERTIES.iter().any(|property| property.name == *name);
    let mut quoted = text.split('`').skip(1).step_by(2).filter(is_name);
    let changed_name =
        quoted.clone().find(|quoted_name| changed.iter().any(|name| name == quoted_name));
    let is_separator = |c: char| !c.is_ascii_lowercase() && c != '_';
    let name =
        changed_name.or_else(|| quoted.next()).or_else(|| text.split(is_separator).find(is_name));
    refused(Map::from_iter([(name.unwrap_or("error").into(), text.into())]))
}

type PropertyText = Result<Option<String>, String>;

/// Checks the property `name`: it is listed with the others, and may only be sent back unchanged.
fn check_name(value: &Value, bucket_name: &[u8]) -> PropertyText {
    let is_same = value.as_str() == Some(&*String::from_utf8_lossy(bucket_name));
    if is_same { Ok(None) } else { Err("read_only".into()) }
}

/// Checks `dvv_enabled`: it is true unless the newest write wins, because every version has a dot.
fn check_dvv_enabled(value: &Value, props: &Map<String, Value>) -> PropertyText {
    let newest_wins = props.get("last_write_wins") == Some(&Value::Bool(true));
    match value {
        Value::Bool(true) if newest_wins => {
            Err("If last_write_wins is true, dvv_enabled must be false".into())
        }
        Value::Bool(true) => Ok(None),
        Value::Bool(false) if newest_wins => Ok(None),
        Value::Bool(false) => Err("may be false only if last_write_wins is true".into()),
        _ => Err("not_boolean".into()),
    }
}

/// Returns the new value of a property as text. `None`: the request changes nothing.
fn property_text(name: &str, value: &Value) -> PropertyText {
    if let Some(constant) = constant_value(name) {
        let is_same = constant == *value;
        return if is_same { Ok(None) } else { Err(format!("must be {constant} in every bucket")) };
    }
    if UNSUPPORTED.contains(&name) {
        let is_disabled = match value {
            Value::Array(list) => list.is_empty(),
            Value::String(text) => text.is_empty() || text == "_dont_index_",
            value => matches!(value, Value::Null | Value::Bool(false)),
        };
        return if is_disabled { Ok(None) } else { Err("not_supported".into()) };
    }
    let found = PROPERTIES.iter().find(|property| property.name == name && name != CONSISTENCY);
    let Some(property) = found else { return Err("unknown_property".into()) };
    value_text(property.shape, value).map(Some).map_err(String::from)
}

fn value_text(shape: PropertyShape, value: &Value) -> Result<String, &'static str> {
    match (shape, value) {
        (PropertyShape::Number(..), Value::Number(number)) if number.is_u64() => {
            Ok(number.to_string())
        }
        (PropertyShape::Number(..), _) => Err("not_integer"),
        (PropertyShape::Flag, Value::Bool(flag)) => Ok(flag.to_string()),
        (PropertyShape::Flag, _) => Err("not_boolean"),
        (PropertyShape::Quorum, Value::Number(number)) if number.is_u64() => Ok(number.to_string()),
        (PropertyShape::Quorum, Value::String(name)) => match Quorum::parse(name) {
            Some(quorum) => Ok(quorum.to_string()),
            None => Err("not_valid_quorum"),
        },
        (PropertyShape::Quorum, _) => Err("not_valid_quorum"),
        (PropertyShape::Word(_), Value::String(name)) => Ok(name.clone()),
        (PropertyShape::Word(_), _) => Err("not_text"),
    }
}

/// Returns a bucket's properties as a document, without the outer `props`.
pub(super) fn bucket_document(name: &BucketName, properties: &Properties) -> Value {
    let mut props = to_json(properties);
    let found = client_name(name);
    props.insert("name".into(), String::from_utf8_lossy(&found).into());
    Value::Object(props)
}

/// Returns a bucket type's properties as a document, without the outer `props`.
pub(super) fn type_document(properties: &Properties, claimant: &str) -> Value {
    let mut props = to_json(properties);
    props.insert("active".into(), true.into());
    props.insert("claimant".into(), claimant.into());
    Value::Object(props)
}

/// Constant properties that Riak lists with the others.
const LISTED_CONSTANTS: [&str; 6] =
    ["big_vclock", "chash_keyfun", "linkfun", "old_vclock", "small_vclock", "young_vclock"];

fn to_json(properties: &Properties) -> Map<String, Value> {
    let quorum = |quorum: Quorum| match quorum {
        Quorum::Number(number) => json!(number),
        named => json!(named.to_string()),
    };
    let replication = &properties.replication;
    let fields = json!({
        "allow_mult": replication.allow_mult,
        "basic_quorum": replication.basic_quorum,
        "dvv_enabled": !replication.last_write_wins,
        "dw": quorum(replication.dw),
        "last_write_wins": replication.last_write_wins,
        "n_val": replication.n_val,
        "node_confirms": replication.node_confirms,
        "notfound_ok": replication.notfound_ok,
        "postcommit": [],
        "pr": quorum(replication.pr),
        "precommit": [],
        "pw": quorum(replication.pw),
        "r": quorum(replication.r),
        "rw": quorum(replication.rw),
        "siblings_max": replication.siblings_max,
        "w": quorum(replication.w),
    });
    let Value::Object(mut fields) = fields else { return Map::new() };
    for name in LISTED_CONSTANTS {
        fields.extend(constant_value(name).map(|value| (name.to_string(), value)));
    }
    if replication.write_once {
        fields.insert("write_once".into(), true.into());
    }
    if properties.consistency == Consistency::Consistent {
        fields.insert("consistent".into(), true.into());
    }
    if replication.datatype != DataType::None {
        fields.insert("datatype".into(), replication.datatype.name().into());
    }
    if replication.datatype == DataType::Hll {
        fields.insert("hll_precision".into(), replication.hll_precision.into());
    }
    fields
}
