//! Configs of Basho Bench are read as they were published, and mean what they meant there.

use super::super::*;
use crate::generators::{Digest, KeyGenerator, KeyShape, Numbers, ValueGenerator};
use std::time::Duration;

fn items(text: &str) -> Result<Items, String> {
    convert_terms(read_erlang("old.config", text)?)
}

fn config(text: &str) -> Result<Config, String> {
    Config::read(items(text)?)
}

#[test]
fn published_basho_bench_config_is_read_unmodified() {
    let text = include_str!("../../../published/httpraw.config");
    assert!(is_erlang(text));
    assert!(!is_erlang("# TOML\ndriver = \"null\""));
    let config = config(text).expect("whole");
    assert_eq!(config.mode, Mode::Max);
    assert_eq!(config.duration, Some(Duration::from_secs(60)));
    assert_eq!(
        (config.concurrent, config.value_generator),
        (3, ValueGenerator::Fixed { bytes: 10_000 })
    );
    assert_eq!(config.operations.len(), 1);
    assert_eq!(config.operations[0].operation, Operation::Update);
    let numbers = Numbers::Uniform { start: 1, count: 100_000 };
    assert_eq!(config.key_generator, KeyGenerator::Number { numbers, shape: KeyShape::Decimal });
    assert_eq!(
        config.driver,
        DriverConfig::Riak(RiakConfig {
            addresses: vec!["127.0.0.1:8098".into()],
            path: "/riak/test".into(),
            query: String::new(),
            read_query: String::new(),
            write_query: String::new(),
            tag: None,
        })
    );
}

#[test]
fn published_config_with_unknown_operations_fails_with_line_number() {
    let text = include_str!("../../../published/null_test.config");
    let error = config(text).expect_err("its operations exist nowhere else");
    let expected = "old.config:29: `operations` wants an operation: one of get";
    assert!(error.starts_with(expected), "{error}");
    let mut merged = items(text).expect("the terms are whole");
    merged.merge(Items::parse("later", "operations = [['put', 1]]").expect("whole"));
    let config = Config::read(merged).expect("whole");
    let inner = KeyGenerator::Number {
        numbers: Numbers::Partitioned { start: 0, count: 40_000_000 },
        shape: KeyShape::BigEndian { bytes: 4 },
    };
    let joined = Box::new([KeyGenerator::Constant(b"seed1"[..].into()), inner]);
    let digest = KeyGenerator::Digest(Digest::Md5, Box::new(KeyGenerator::Joined(joined)));
    assert_eq!(config.key_generator, digest);
}

#[test]
fn erlang_terms_keep_their_basho_bench_meaning() {
    let config = config(
        "%% a comment with {braces}.\n\
         {mode, {rate, 1}}.   {duration, 30}. {concurrent, 1000}. {report_interval, 10}.\n\
         {driver, basho_bench_driver_http_raw}.\n\
         {http_raw_ips, [\"10.0.0.1\", {10,0,0,2}, {\"10.0.0.3\", [81, 82]}]}.\n\
         {http_raw_path, \"/buckets/test/keys\"}. {http_raw_request_timeout, 2500}.\n\
         {key_generator, {int_to_str, {pareto_int, 5000}}}.\n\
         {value_generator, {fixed_bin, 800}}. {rng_seed, {42, 16#17, 12}}.\n\
         {operations, [{get, 95}, {label, update, 5}]}. {source_dir, 'foo bar'}.\n",
    )
    .expect("whole");
    assert_eq!(config.mode, Mode::Rate(1000.0));
    assert_eq!(config.operation_timeout, Duration::from_millis(2500));
    let DriverConfig::Riak(riak) = config.driver else { panic!("{:?}", config.driver) };
    let expected = ["10.0.0.1:8098", "10.0.0.2:8098", "10.0.0.3:81", "10.0.0.3:82"];
    assert_eq!(riak.addresses, expected);
    assert_eq!(config.operations[1].label, "label");
    let plain = self::config("{driver, basho_bench_driver_null}.").expect("defaults");
    assert_eq!((plain.mode, plain.concurrent), (Mode::Rate(15.0), 3));
    assert_eq!(plain.rng_seed, config.rng_seed);
}

#[test]
fn erlang_config_errors_name_their_line() {
    for (text, expected) in [
        ("{mode, max", "old.config:1: wants `}`"),
        ("{mode, max}", "old.config:1: wants `.`"),
        ("{mode, max}.\n{a, \"text}.", "old.config:2: wants a \" at the end"),
        ("{mode}.", "old.config:1: wants {key, value}."),
        ("{a, b}.\n\n{driver, basho_bench_driver_riakc_pb}.", "old.config:3: of Basho Bench's"),
        ("{driver, basho_bench_driver_null}.\n{flight, 3}.", "old.config:2: the key `flight`"),
        ("{pre_hook, {m, f}}.", "old.config:1: the key `pre_hook`"),
        (
            "{key_generator, {int_to_bin, {uniform_int, 9}}}.",
            "old.config:1: `int_to_bin` was taken",
        ),
        (
            "{key_generator, {function, m, f, []}}.",
            "old.config:1: `key_generator` wants a generator",
        ),
        ("{http_raw_ips, [7]}.", "old.config:1: wants an address"),
        ("{http_use_ssl, true}.", "old.config:1: TLS is not spoken"),
        ("{a, {{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{1", "old.config:1: too many terms"),
    ] {
        let error = config(text).expect_err(text);
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn tpcw_mixes_have_the_tpcw_operation_shares() {
    let weights = |name: &str| {
        let text = format!("driver = 'null'\noperations = '{name}'");
        let config = Config::read(Items::parse("a.toml", &text).expect("whole")).expect("whole");
        config.operations.iter().map(|weighted| weighted.weight).collect::<Vec<_>>()
    };
    // Gets, puts, updates; each mix is a whole hundred percent.
    assert_eq!(weights("tpcw_browsing"), [9565, 82, 353]);
    assert_eq!(weights("tpcw_shopping"), [8151, 300, 1549]);
    assert_eq!(weights("tpcw_ordering"), [5059, 1286, 3655]);
    let invalid = Items::parse("a.toml", "driver = 'null'\noperations = 'tpcw'").expect("whole");
    let error = Config::read(invalid).expect_err("no such mix");
    assert!(error.starts_with("a.toml:2: `operations` wants a list, or a mix"), "{error}");
}
