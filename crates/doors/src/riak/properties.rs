//! Properties of buckets and bucket types, in Riak's words.

use super::answer::Answer;
use super::asked::Asked;
use super::path::known_as;
use base::properties::{Changes, PROPERTIES, Shape};
use base::{BucketName, DataType, Promise, Properties, Quorum};
use serde_json::{Map, Value, json};

const FORM: &str =
    "bucket PUT must be a JSON object of the form:\n{\"props\":{...bucket properties...}}";

/// What Riak has and this house has no use for: whatever is said of it is taken and forgotten,
/// because clients send back all they were shown.
const FORGOTTEN: [&str; 13] = [
    "name",
    "active",
    "claimant",
    "backend",
    "repl",
    "sync_on_write",
    "chash_keyfun",
    "linkfun",
    "dvv_enabled",
    "small_vclock",
    "big_vclock",
    "young_vclock",
    "old_vclock",
];

/// What would have to be done and is not: only nothing can be asked of it.
const NOT_DONE: [&str; 5] = ["precommit", "postcommit", "search_index", "consistent", "write_once"];

/// The changes that a request asks for; what can't be is told by name.
pub(super) fn changes(asked: &Asked) -> Result<Changes, Answer> {
    let kind = asked.text("content-type").unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return Err(Answer::text(415, "properties are application/json\n"));
    }
    let document: Option<Value> = serde_json::from_slice(&asked.body).ok();
    let props = document.as_ref().and_then(|document| document.get("props")?.as_object());
    let props = props.ok_or_else(|| Answer::text(400, FORM))?;
    let (mut changes, mut wrong) = (Changes::new(), Map::new());
    for (name, value) in props {
        match change(name, value) {
            Ok(Some(text)) => changes.push((name.clone(), text)),
            Ok(None) => {}
            Err(words) => drop(wrong.insert(name.clone(), words.into())),
        }
    }
    if wrong.is_empty() { Ok(changes) } else { Err(refused(wrong)) }
}

fn refused(wrong: Map<String, Value>) -> Answer {
    Answer::with_body(400, "application/json", Value::Object(wrong).to_string())
}

/// A refusal of the node, as a document.
pub(super) fn refusal(words: String) -> Answer {
    refused(Map::from_iter([("error".into(), words.into())]))
}

/// A property's text in the house; none: it changes nothing.
fn change(name: &str, value: &Value) -> Result<Option<String>, &'static str> {
    if FORGOTTEN.contains(&name) {
        return Ok(None);
    }
    if NOT_DONE.contains(&name) {
        let nothing = match value {
            Value::Array(all) => all.is_empty(),
            Value::String(text) => text.is_empty() || text == "_dont_index_",
            value => matches!(value, Value::Null | Value::Bool(false)),
        };
        return if nothing { Ok(None) } else { Err("not_supported") };
    }
    let known = PROPERTIES.iter().find(|property| property.name == name && name != "promise");
    let Some(property) = known else { return Err("unknown_property") };
    match (property.shape, value) {
        (Shape::Number(..), Value::Number(number)) if number.is_u64() => Ok(number.to_string()),
        (Shape::Number(..), _) => Err("not_integer"),
        (Shape::Flag, Value::Bool(yes)) => Ok(yes.to_string()),
        (Shape::Flag, _) => Err("not_boolean"),
        (Shape::Quorum, Value::Number(number)) if number.is_u64() => Ok(number.to_string()),
        (Shape::Quorum, Value::String(word)) => match Quorum::parse(word) {
            Some(quorum) => Ok(quorum.to_string()),
            None => Err("not_valid_quorum"),
        },
        (Shape::Quorum, _) => Err("not_valid_quorum"),
        (Shape::Word(_), Value::String(word)) => Ok(word.clone()),
        (Shape::Word(_), _) => Err("not_text"),
    }
    .map(Some)
}

/// A bucket's properties as a document, `props` not yet around them.
pub(super) fn of_bucket(name: &BucketName, properties: &Properties) -> Value {
    let mut props = shown(properties);
    let known = known_as(name);
    props.insert("name".into(), String::from_utf8_lossy(&known).into());
    Value::Object(props)
}

/// A bucket type's properties as a document.
pub(super) fn of_type(properties: &Properties) -> Value {
    let mut props = shown(properties);
    props.insert("active".into(), true.into());
    Value::Object(props)
}

fn shown(properties: &Properties) -> Map<String, Value> {
    let quorum = |quorum: Quorum| match quorum {
        Quorum::Number(number) => json!(number),
        word => json!(word.to_string()),
    };
    let it = &properties.replication;
    let fun = |module: &str, name: &str| json!({ "mod": module, "fun": name });
    let all = json!({
        "allow_mult": it.allow_mult,
        "basic_quorum": it.basic_quorum,
        "big_vclock": 50,
        "chash_keyfun": fun("riak_core_util", "chash_std_keyfun"),
        "dvv_enabled": !it.last_write_wins,
        "dw": quorum(it.dw),
        "last_write_wins": it.last_write_wins,
        "linkfun": fun("riak_kv_wm_link_walker", "mapreduce_linkfun"),
        "n_val": it.n_val,
        "node_confirms": it.node_confirms,
        "notfound_ok": it.notfound_ok,
        "old_vclock": 86_400,
        "postcommit": [],
        "pr": quorum(it.pr),
        "precommit": [],
        "pw": quorum(it.pw),
        "r": quorum(it.r),
        "rw": quorum(it.rw),
        "siblings_max": it.siblings_max,
        "small_vclock": 50,
        "w": quorum(it.w),
        "young_vclock": 20,
    });
    let Value::Object(mut all) = all else { return Map::new() };
    if properties.promise == Promise::Consistent {
        all.insert("consistent".into(), true.into());
    }
    if it.datatype != DataType::None {
        all.insert("datatype".into(), it.datatype.word().into());
    }
    if it.datatype == DataType::Hll {
        all.insert("hll_precision".into(), it.hll_precision.into());
    }
    all
}
