//! Properties of buckets, between their message and the document that Riak's HTTP interface has for
//! them, which says what each property means.

use crate::messages::{RpbBucketProps, RpbCommitHook, RpbModFun};
use crate::options::{number, quorum};
use base::Quorum;
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// Names of `repl` by its number.
const REPL: [&str; 4] = ["false", "realtime", "fullsync", "true"];

fn text(bytes: &Bytes) -> Value {
    String::from_utf8_lossy(bytes).into()
}

fn function(function: &RpbModFun) -> Value {
    json!({ "mod": text(&function.module), "fun": text(&function.function) })
}

fn hooks(hooks: &[RpbCommitHook]) -> Value {
    let hook = |hook: &RpbCommitHook| match (&hook.modfun, &hook.name) {
        (Some(found), _) => function(found),
        (None, name) => json!({ "name": text(&name.clone().unwrap_or_default()) }),
    };
    hooks.iter().map(hook).collect()
}

/// Returns the document of the properties that a message sets.
pub fn to_json(props: &RpbBucketProps) -> Map<String, Value> {
    let mut document = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        document.extend(value.map(|value| (name.to_string(), value)));
    };
    let p = props;
    set("n_val", p.n_val.map(Value::from));
    for (name, flag) in [
        ("allow_mult", p.allow_mult),
        ("last_write_wins", p.last_write_wins),
        ("basic_quorum", p.basic_quorum),
        ("notfound_ok", p.notfound_ok),
        ("consistent", p.consistent),
        ("write_once", p.write_once),
        // Riak lists `search`, so clients send back that it is off.
        ("search", p.search.filter(|search| *search)),
    ] {
        set(name, flag.map(Value::from));
    }
    for (name, list, has) in [
        ("precommit", &p.precommit, p.has_precommit),
        ("postcommit", &p.postcommit, p.has_postcommit),
    ] {
        set(name, (has == Some(true) || !list.is_empty()).then(|| hooks(list)));
    }
    set("chash_keyfun", p.chash_keyfun.as_ref().map(function));
    set("linkfun", p.linkfun.as_ref().map(function));
    for (name, value) in [
        ("old_vclock", p.old_vclock),
        ("young_vclock", p.young_vclock),
        ("big_vclock", p.big_vclock),
        ("small_vclock", p.small_vclock),
        ("hll_precision", p.hll_precision),
    ] {
        set(name, value.map(Value::from));
    }
    for (name, value) in
        [("pr", p.pr), ("r", p.r), ("w", p.w), ("pw", p.pw), ("dw", p.dw), ("rw", p.rw)]
    {
        let to_value = |quorum| match quorum {
            Quorum::Number(number) => Value::from(number),
            word => word.to_string().into(),
        };
        set(name, quorum(value).map(to_value));
    }
    for (name, value) in
        [("backend", &p.backend), ("search_index", &p.search_index), ("datatype", &p.datatype)]
    {
        set(name, value.as_ref().map(text));
    }
    let repl = |number: i32| match number {
        0 => Value::from(false),
        number => usize::try_from(number).ok().and_then(|at| REPL.get(at).copied()).into(),
    };
    set("repl", p.repl.map(repl));
    document
}

/// Returns the message of a document of properties. Properties that the schema lacks are left out.
pub fn to_rpb_props(document: &Value) -> RpbBucketProps {
    let flag = |name: &str| document.get(name)?.as_bool();
    let count = |name: &str| u32::try_from(document.get(name)?.as_u64()?).ok();
    let word = |name: &str| Some(Bytes::from(document.get(name)?.as_str()?.to_string()));
    let share = |name: &str| match document.get(name)? {
        Value::String(word) => Quorum::parse(word).map(number),
        value => u32::try_from(value.as_u64()?).ok(),
    };
    let function = |name: &str| {
        let part = |part: &str| {
            let found = document.get(name)?.get(part)?.as_str()?;
            Some(Bytes::from(found.to_string()))
        };
        Some(RpbModFun { module: part("mod")?, function: part("fun")? })
    };
    RpbBucketProps {
        n_val: count("n_val"),
        allow_mult: flag("allow_mult"),
        last_write_wins: flag("last_write_wins"),
        has_precommit: document.get("precommit").map(|_| true),
        has_postcommit: document.get("postcommit").map(|_| true),
        chash_keyfun: function("chash_keyfun"),
        linkfun: function("linkfun"),
        old_vclock: count("old_vclock"),
        young_vclock: count("young_vclock"),
        big_vclock: count("big_vclock"),
        small_vclock: count("small_vclock"),
        pr: share("pr"),
        r: share("r"),
        w: share("w"),
        pw: share("pw"),
        dw: share("dw"),
        rw: share("rw"),
        basic_quorum: flag("basic_quorum"),
        notfound_ok: flag("notfound_ok"),
        search: Some(false),
        datatype: word("datatype"),
        consistent: flag("consistent"),
        write_once: flag("write_once"),
        hll_precision: count("hll_precision"),
        ..RpbBucketProps::default()
    }
}
