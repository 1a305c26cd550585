//! Configs of Basho Bench, read unchanged: translates its keys and applies its defaults.

use super::erlang::{Located, Term};
use super::items::{Item, Items, TomlValue};
use std::collections::BTreeMap;

/// Keys that have the same name and meaning in both tools.
const SHARED_KEYS: [&str; 10] = [
    "concurrent",
    "duration",
    "operations",
    "report_interval",
    "rng_seed",
    "shutdown_on_error",
    "test_dir",
    "value_generator",
    "value_generator_source_size",
    "value_generator_blob_file",
];
/// Keys about Erlang and its processes, which have no effect here.
const IGNORED_KEYS: [&str; 8] = [
    "code_paths",
    "source_dir",
    "log_level",
    "stats",
    "remote_nodes",
    "disable_sequential_int_progress_report",
    "http_raw_disconnect_frequency",
    "sequential_int_state_dir",
];
/// Basho Bench's defaults, where they differ from this tool's.
const DEFAULTS: &str = "\
mode = [\"rate_per_worker\", 5]
driver = \"riak\"
";
const RIAK_DEFAULTS: &str = "\
riak_path = \"/riak/test\"
operation_timeout = \"5s\"
";

/// Converts the terms of a config to settings.
pub fn from_terms(mut terms: BTreeMap<String, Located>) -> Result<Items, String> {
    let mut items = Items::parse("Basho Bench's defaults", DEFAULTS)?;
    for key in SHARED_KEYS {
        if let Some(term) = terms.remove(key) {
            items.set(key, term.item());
        }
    }
    for key in IGNORED_KEYS {
        terms.remove(key);
    }
    if let Some(mode) = terms.remove("mode") {
        items.set("mode", mode_of(&mode));
    }
    if let Some(keys) = terms.remove("key_generator") {
        items.set("key_generator", keys_of(&keys));
    }
    if let Some(driver) = terms.remove("driver") {
        items.set("driver", driver_of(&driver)?);
    }
    let mut riak = riak_settings(&mut terms)?;
    // Keys of a driver that is not used have no effect in Basho Bench either.
    if items.has_text("driver", "riak") {
        riak.merge(items);
        items = riak;
    }
    for hook in ["pre_hook", "post_hook", "distribute_work"] {
        let is_no_op = |term: &Located| matches!(term.atom(), Some("no_op" | "false"));
        if terms.get(hook).is_some_and(is_no_op) {
            terms.remove(hook);
        }
    }
    match terms.first_key_value() {
        Some((key, term)) => Err(term.error(format!("the key `{key}` is not known here"))),
        None => Ok(items),
    }
}

/// Converts the mode: `{rate, N}` is the rate of each worker.
fn mode_of(mode: &Located) -> Item {
    match &mode.term {
        Term::Tuple(parts) => match &parts[..] {
            [rate, each] if rate.atom() == Some("rate") && each.atom() != Some("max") => {
                let name = rate.at(TomlValue::Text("rate_per_worker".into()));
                mode.at(TomlValue::List(vec![name, each.item()]))
            }
            _ => mode.item(),
        },
        _ => mode.item(),
    }
}

/// Converts a key generator. A text or bytes instead of a generator is a constant key.
fn keys_of(term: &Located) -> Item {
    let (Term::Tuple(parts) | Term::List(parts)) = &term.term else {
        return match &term.term {
            Term::Text(_) => {
                let name = term.at(TomlValue::Text("constant".into()));
                term.at(TomlValue::List(vec![name, term.item()]))
            }
            _ => term.item(),
        };
    };
    let name = parts.first().and_then(Located::atom).unwrap_or_default();
    let plain_parts = match name {
        "file_line_bin" | "valgen" | "function" => parts.len(),
        "to_str" | "to_binstr" => 2,
        _ => 1,
    };
    let part = |(index, part): (usize, &Located)| {
        if index < plain_parts { part.item() } else { keys_of(part) }
    };
    term.at(TomlValue::List(parts.iter().enumerate().map(part).collect()))
}

fn driver_of(driver: &Located) -> Result<Item, String> {
    let name = match driver.atom() {
        Some("basho_bench_driver_http_raw") => "riak",
        Some("basho_bench_driver_null") => "null",
        _ => {
            let message = "of Basho Bench's drivers basho_bench_driver_http_raw and \
                         basho_bench_driver_null are here; `--set driver=riak` takes the first of \
                         them";
            return Err(driver.error(message));
        }
    };
    Ok(driver.at(TomlValue::Text(name.into())))
}

/// Converts the keys of the driver http_raw.
fn riak_settings(terms: &mut BTreeMap<String, Located>) -> Result<Items, String> {
    let mut items = Items::parse("Basho Bench's defaults", RIAK_DEFAULTS)?;
    let port = terms.remove("http_raw_port");
    let port = match port.as_ref().map(|term| &term.term) {
        None => 8098,
        Some(Term::Integer(port)) => *port,
        Some(_) => return Err("http_raw_port wants a number".into()),
    };
    let ips = terms.remove("http_raw_ips");
    let addresses = match &ips {
        None => vec![format!("127.0.0.1:{port}")],
        Some(ips) => addresses_of(ips, port)?,
    };
    let text = |text: String| Item::new("http_raw_ips".into(), 1, TomlValue::Text(text));
    let list = TomlValue::List(addresses.into_iter().map(text).collect());
    items.set("riak_addresses", Item::new("http_raw_ips".into(), 1, list));
    for (old_key, new_key) in [("http_raw_path", "riak_path"), ("http_raw_params", "riak_query")] {
        if let Some(term) = terms.remove(old_key) {
            items.set(new_key, term.item());
        }
    }
    if let Some(term) = terms.remove("http_raw_request_timeout") {
        let Term::Integer(milliseconds) = term.term else {
            return Err(term.error("wants a number of milliseconds"));
        };
        items.set("operation_timeout", term.at(TomlValue::Text(format!("{milliseconds}ms"))));
    }
    match terms.remove("http_use_ssl") {
        Some(term) if term.atom() != Some("false") => Err(term.error("TLS is not spoken here")),
        _ => Ok(items),
    }
}

/// Converts addresses: `"10.0.0.1"`, `{10,0,0,1}`, `{"name", Port}` and `{"name", [Port, ..]}`.
fn addresses_of(ips: &Located, port: i64) -> Result<Vec<String>, String> {
    let Term::List(list) = &ips.term else { return Err(ips.error("wants a list of addresses")) };
    let mut addresses = Vec::new();
    for entry in list {
        let error = || entry.error("wants an address, or {address, port}");
        let host_of = |term: &Located| match &term.term {
            Term::Text(name) => Some(name.clone()),
            Term::Atom(name) => Some(name.clone()),
            Term::Tuple(parts) if parts.len() == 4 => {
                let number = |part: &Located| match part.term {
                    Term::Integer(number) => Some(number.to_string()),
                    _ => None,
                };
                Some(parts.iter().map(number).collect::<Option<Vec<_>>>()?.join("."))
            }
            _ => None,
        };
        match &entry.term {
            Term::Tuple(parts) if parts.len() == 2 => {
                let name = host_of(&parts[0]).ok_or_else(error)?;
                let single_port = std::slice::from_ref(&parts[1]);
                let ports =
                    if let Term::List(ports) = &parts[1].term { &ports[..] } else { single_port };
                for port in ports {
                    let Term::Integer(port) = port.term else { return Err(error()) };
                    addresses.push(format!("{name}:{port}"));
                }
            }
            _ => addresses.push(format!("{}:{port}", host_of(entry).ok_or_else(error)?)),
        }
    }
    Ok(addresses)
}
