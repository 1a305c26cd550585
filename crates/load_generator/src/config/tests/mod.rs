//! Settings are read as documented, and what is wrong is named with its line.

mod published;

use super::*;
use crate::generators::{KeyGenerator, KeyShape, Numbers, ValueGenerator};
use std::time::Duration;

fn read(text: &str) -> Result<Config, String> {
    Config::read(Items::parse("a.toml", text)?)
}

#[test]
fn documented_configs_parse_and_documentation_names_every_key() {
    let text = include_str!("../../../../../docs/use/bench.md");
    let blocks: Vec<_> =
        text.split("```toml\n").skip(1).filter_map(|rest| rest.split_once("```")).collect();
    assert_eq!(blocks.len(), 2);
    for (block, _) in blocks {
        let config = read(block).expect("whole");
        assert!(config.concurrent > 3);
    }
    let source = [include_str!("../run.rs"), include_str!("../drivers.rs")].concat();
    let keys: Vec<_> = source
        .split(".read(")
        .chain(source.split(".need("))
        .filter_map(|rest| rest.split('"').nth(1).filter(|_| rest.trim_start().starts_with('"')))
        .collect();
    assert!(keys.len() > 20, "{keys:?}");
    // The first argument of `need` is the key's owner, which has several words.
    for key in keys.into_iter().filter(|key| !key.contains(' ')) {
        assert!(text.contains(&format!("`{key}`")), "docs/use/bench.md does not name `{key}`");
    }
}

#[test]
fn ported_config_reads_as_in_basho_bench() {
    let config = read(
        r#"
        mode = ["rate_per_worker", 1]
        duration = 30
        concurrent = 1000
        report_interval = 10
        driver = "http"
        http_address = "10.0.0.1:8098"
        key_generator = ["int_to_str", ["pareto_int", 5000]]
        value_generator = ["fixed_bin", 800]
        operations = [["get", 95], ["update", 5]]
        rng_seed = [42, 23, 12]
        "#,
    )
    .expect("whole");
    assert_eq!(config.mode, Mode::Rate(1000.0));
    assert_eq!(config.duration, Some(Duration::from_secs(1800)));
    assert_eq!(config.report_interval, Duration::from_secs(10));
    let numbers = Numbers::Pareto { count: 5000 };
    let keys = KeyGenerator::Number { numbers, shape: KeyShape::Decimal };
    assert_eq!(config.key_generator, keys);
    assert_eq!(config.value_generator, ValueGenerator::Fixed { bytes: 800 });
    assert_eq!(config.operations[1].operation, Operation::Update);
    let default = read("driver = 'null'").expect("defaults");
    assert_eq!((config.rng_seed, default.concurrent), (default.rng_seed, 3));
    assert_eq!(default.operations.iter().map(|o| o.weight).collect::<Vec<_>>(), [4, 4, 1]);
}

#[test]
fn durations_accept_a_unit_suffix_and_default_to_minutes() {
    let duration = |text: &str| {
        read(&format!("driver = 'null'\nduration = {text}")).map(|config| config.duration)
    };
    assert_eq!(duration("'90s'"), Ok(Some(Duration::from_secs(90))));
    assert_eq!(duration("'1.5h'"), Ok(Some(Duration::from_secs(5400))));
    assert_eq!(duration("'250ms'"), Ok(Some(Duration::from_millis(250))));
    assert_eq!(duration("0.5"), Ok(Some(Duration::from_secs(30))));
    assert_eq!(duration("'infinity'"), Ok(None));
    for bad in ["'5 days'", "-1", "true", "'s'", "'nan s'"] {
        let error = duration(bad).expect_err(bad);
        assert!(error.starts_with("a.toml:2: `duration` wants a time"), "{error}");
    }
}

#[test]
fn config_errors_name_file_line_and_key() {
    for (text, expected) in [
        (
            "driver = 'null'\n\nconcurent = 3",
            "a.toml:3: there is no key `concurent` here, is `concurrent` meant?",
        ),
        ("driver = 'null'\nconcurrent = 0", "a.toml:2: `concurrent` wants a whole number from 1"),
        ("driver = 'null'\nconcurrent = '3'", "a.toml:2: `concurrent` wants a whole number"),
        ("driver = 'mysql'", "a.toml:1: `driver` wants one of resp"),
        ("concurrent = 3", "a run needs the key `driver`"),
        ("driver = 'null'\nmode = 'fast'", "a.toml:2: `mode` wants \"max\""),
        ("driver = 'null'\nmode = ['rate', 0]", "a.toml:2: `mode` wants a number above 0"),
        ("driver = 'null'\noperations = [['get', 1],\n['fly', 1]]", "a.toml:3: `operations` wants"),
        ("driver = 'null'\noperations = [['get', 0]]", "a.toml:2: `operations` wants at least one"),
        (
            "driver = 'null'\noperations = [['get', 1], ['get', 2]]",
            "a.toml:2: `operations` wants a",
        ),
        ("driver = 'null'\nkey_generator = ['uuid']", "a.toml:2: `key_generator` wants a key"),
        (
            "driver = 'null'\nkey_generator = ['fixed_width', 5, 'key', ['uniform_int', 1000]]",
            "a.toml:2: `key_generator` wants a width of at least 7",
        ),
        (
            "driver = 'null'\nkey_generator = ['int_to_bin_bigendian', 8, ['uniform_int', 1000]]",
            "a.toml:2: `key_generator` wants more bits",
        ),
        ("driver = 'null'\nvalue_generator = ['uniform_bin', 9, 8]", "a.toml:2: `value_generator`"),
        ("driver = 'null'\nverify = true\nvalue_generator = ['fixed_bin', 9]", "with `verify`"),
        (
            "driver = 'null'\nverify = true\nvalue_generator = ['coupon', 9]",
            "with `verify` a value needs",
        ),
        ("driver = 'null'\nvalue_generator = ['coupon', 0]", "a.toml:2: `value_generator` wants a"),
        ("driver = 'riak'\nriak_tag = 'a-b'", "a.toml:2: `riak_tag` wants a name of a-z"),
        ("driver = 'couchdb'\ncouchdb_database = 'c'", "the driver `couchdb` needs the key"),
        ("driver = 'etcd'\npipeline = 2", "the driver `etcd` has no pipeline"),
        ("driver = 'null'\nx = 1979-05-27", "a.toml:2: a date"),
        ("driver = 'null'\nx = = 1", "a.toml:2: "),
        ("driver = 'http'\nhttp_bucket = 'a b'", "a.toml:2: a bucket name"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn key_generator_setting_determines_the_key_shape() {
    let config = read("driver='null'\nkey_generator=['fixed_width', 20, 'k', ['uniform_int', 9]]");
    let shape_of = |config: Result<Config, String>| match config.expect("whole").key_generator {
        KeyGenerator::Number { shape, .. } => shape,
        other => panic!("no number: {other:?}"),
    };
    let shape = KeyShape::FixedWidth { width: 20, prefix: "k".into() };
    assert_eq!(shape_of(config), shape);
    let config =
        read("driver='null'\nkey_generator=['int_to_bin_bigendian', ['sequential_int', 9]]");
    assert_eq!(shape_of(config), KeyShape::BigEndian { bytes: 4 });
}

#[test]
fn merged_config_overrides_keys_hides_password_and_round_trips() {
    let mut items = Items::parse("a.toml", "driver = 'null'\nconcurrent = 3").expect("whole");
    let overrides =
        "concurrent = 4\nresp_password = 'secret'\noperations = [['a \"b\"', 'get', 1]]";
    items.merge(Items::parse("b.toml", overrides).expect("whole"));
    let text = items.text();
    assert!(!text.contains("secret"), "{text}");
    let reread = read(&text).expect("reads back");
    assert_eq!((reread.concurrent, reread.operations[0].label.as_str()), (4, "a \"b\""));
}
