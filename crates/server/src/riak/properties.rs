//! Properties of buckets and bucket types under Riak's names.

use super::answer::RiakResponse;
use super::path::known_as;
use super::request::RiakRequest;
use base::properties::{CONSISTENCY, Changes, PROPERTIES, PropertyShape};
use base::{BucketName, Consistency, DataType, Properties, Quorum};
use serde_json::{Map, Value, json};

const FORM: &str =
    "bucket PUT must be a JSON object of the form:\n{\"props\":{...bucket properties...}}";

/// Properties of features that do not exist here. Only the value that disables them is accepted.
const NOT_DONE: [&str; 6] =
    ["precommit", "postcommit", "search_index", "consistent", "backend", "repl"];

/// Returns the constant value of a property that Riak can set and Credenza can't. A request may
/// name this value but not change it.
fn fixed(name: &str) -> Option<Value> {
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
/// names each property that can't be changed so.
pub(super) fn changes(asked: &RiakRequest, bucket: Option<&[u8]>) -> Result<Changes, RiakResponse> {
    let kind = asked.text("content-type").unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return Err(RiakResponse::text(415, "properties are application/json\n"));
    }
    let document: Option<Value> = serde_json::from_slice(&asked.body).ok();
    let props = document.as_ref().and_then(|document| document.get("props")?.as_object());
    let props = props.ok_or_else(|| RiakResponse::text(400, FORM))?;
    let (mut changes, mut wrong) = (Changes::new(), Map::new());
    for (name, value) in props {
        let told = match (name.as_str(), bucket) {
            ("name", Some(own)) => own_name(value, own),
            ("dvv_enabled", _) => dots(value, props),
            // The answer about a type shows its claimant, and may be sent back.
            ("claimant", None) if value.is_string() => Ok(None),
            _ => change(name, value),
        };
        match told {
            Ok(Some(text)) => changes.push((name.clone(), text)),
            Ok(None) => {}
            Err(words) => drop(wrong.insert(name.clone(), words.into())),
        }
    }
    if wrong.is_empty() { Ok(changes) } else { Err(refused(wrong)) }
}

fn refused(wrong: Map<String, Value>) -> RiakResponse {
    RiakResponse::with_body(400, "application/json", Value::Object(wrong).to_string())
}

/// Renders a refusal of the node as a document: the property that the text names, preferably one of
/// the changed ones, and the text.
pub(super) fn refusal(words: &str, changed: &[String]) -> RiakResponse {
    let is_name = |word: &&str| PROPERTIES.iter().any(|property| property.name == *word);
    let mut quoted = words.split('`').skip(1).step_by(2).filter(is_name);
    let own = quoted.clone().find(|word| changed.iter().any(|name| name == word));
    let plain = |c: char| !c.is_ascii_lowercase() && c != '_';
    let name = own.or_else(|| quoted.next()).or_else(|| words.split(plain).find(is_name));
    refused(Map::from_iter([(name.unwrap_or("error").into(), words.into())]))
}

type PropertyText = Result<Option<String>, String>;

/// Checks the property `name`: it is shown with the others, and may only be sent back unchanged.
fn own_name(value: &Value, own: &[u8]) -> PropertyText {
    let same = value.as_str() == Some(&*String::from_utf8_lossy(own));
    if same { Ok(None) } else { Err("read_only".into()) }
}

/// Checks `dvv_enabled`: it is true unless the newest write wins, because every version has a dot.
fn dots(value: &Value, props: &Map<String, Value>) -> PropertyText {
    let newest_wins = props.get("last_write_wins") == Some(&Value::Bool(true));
    match value {
        Value::Bool(true) if newest_wins => {
            Err("If last_write_wins is true, dvv_enabled must be false".into())
        }
        Value::Bool(true) => Ok(None),
        Value::Bool(false) if newest_wins => Ok(None),
        Value::Bool(false) => Err("false only where last_write_wins is true".into()),
        _ => Err("not_boolean".into()),
    }
}

/// Returns the new value of a property as text. `None`: the request changes nothing.
fn change(name: &str, value: &Value) -> PropertyText {
    if let Some(only) = fixed(name) {
        let same = only == *value;
        return if same { Ok(None) } else { Err(format!("is {only} for all")) };
    }
    if NOT_DONE.contains(&name) {
        let nothing = match value {
            Value::Array(all) => all.is_empty(),
            Value::String(text) => text.is_empty() || text == "_dont_index_",
            value => matches!(value, Value::Null | Value::Bool(false)),
        };
        return if nothing { Ok(None) } else { Err("not_supported".into()) };
    }
    let known = PROPERTIES.iter().find(|property| property.name == name && name != CONSISTENCY);
    let Some(property) = known else { return Err("unknown_property".into()) };
    of_shape(property.shape, value).map(Some).map_err(String::from)
}

fn of_shape(shape: PropertyShape, value: &Value) -> Result<String, &'static str> {
    match (shape, value) {
        (PropertyShape::Number(..), Value::Number(number)) if number.is_u64() => {
            Ok(number.to_string())
        }
        (PropertyShape::Number(..), _) => Err("not_integer"),
        (PropertyShape::Flag, Value::Bool(yes)) => Ok(yes.to_string()),
        (PropertyShape::Flag, _) => Err("not_boolean"),
        (PropertyShape::Quorum, Value::Number(number)) if number.is_u64() => Ok(number.to_string()),
        (PropertyShape::Quorum, Value::String(word)) => match Quorum::parse(word) {
            Some(quorum) => Ok(quorum.to_string()),
            None => Err("not_valid_quorum"),
        },
        (PropertyShape::Quorum, _) => Err("not_valid_quorum"),
        (PropertyShape::Word(_), Value::String(word)) => Ok(word.clone()),
        (PropertyShape::Word(_), _) => Err("not_text"),
    }
}

/// Returns a bucket's properties as a document, without the outer `props`.
pub(super) fn of_bucket(name: &BucketName, properties: &Properties) -> Value {
    let mut props = shown(properties);
    let known = known_as(name);
    props.insert("name".into(), String::from_utf8_lossy(&known).into());
    Value::Object(props)
}

/// Returns a bucket type's properties as a document, without the outer `props`.
pub(super) fn of_type(properties: &Properties, claimant: &str) -> Value {
    let mut props = shown(properties);
    props.insert("active".into(), true.into());
    props.insert("claimant".into(), claimant.into());
    Value::Object(props)
}

/// Constant properties that Riak shows with the others.
const SHOWN: [&str; 6] =
    ["big_vclock", "chash_keyfun", "linkfun", "old_vclock", "small_vclock", "young_vclock"];

fn shown(properties: &Properties) -> Map<String, Value> {
    let quorum = |quorum: Quorum| match quorum {
        Quorum::Number(number) => json!(number),
        word => json!(word.to_string()),
    };
    let it = &properties.replication;
    let all = json!({
        "allow_mult": it.allow_mult,
        "basic_quorum": it.basic_quorum,
        "dvv_enabled": !it.last_write_wins,
        "dw": quorum(it.dw),
        "last_write_wins": it.last_write_wins,
        "n_val": it.n_val,
        "node_confirms": it.node_confirms,
        "notfound_ok": it.notfound_ok,
        "postcommit": [],
        "pr": quorum(it.pr),
        "precommit": [],
        "pw": quorum(it.pw),
        "r": quorum(it.r),
        "rw": quorum(it.rw),
        "siblings_max": it.siblings_max,
        "w": quorum(it.w),
    });
    let Value::Object(mut all) = all else { return Map::new() };
    for name in SHOWN {
        all.extend(fixed(name).map(|value| (name.to_string(), value)));
    }
    if it.write_once {
        all.insert("write_once".into(), true.into());
    }
    if properties.consistency == Consistency::Consistent {
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
