//! Tests of settings: precedence, refusals, and the docs page.

use super::*;
use crate::file::parse_file;
use std::fs;

fn none(_: &str) -> Option<String> {
    None
}

fn flags(texts: &[(&'static str, &str)]) -> Flags {
    let texts = texts.iter().map(|(key, text)| (*key, text.to_string())).collect();
    Flags { texts, ..Flags::default() }
}

fn in_file(text: &str, name: &str) -> Flags {
    let path =
        std::env::temp_dir().join(format!("credenza-settings-{}-{name}", std::process::id()));
    fs::write(&path, text).expect("a file in the temporary directory");
    Flags { config: Some(path), ..Flags::default() }
}

#[test]
fn flag_overrides_environment_then_file_then_default() {
    let variable = |name: &str| (name == "CREDENZA_NAME").then(|| "environment".to_string());
    let mut all = in_file("name = \"file\"\nthreads = 3\n", "precedence");
    assert_eq!(all.settings(&none).map(|s| s.node.name).ok(), Some("file".into()));
    assert_eq!(all.settings(&variable).map(|s| s.node.name).ok(), Some("environment".into()));
    all.texts.push(("name", "flag".into()));
    let settings = all.settings(&variable).expect("all good");
    assert_eq!((settings.node.name.as_str(), settings.threads), ("flag", 3));
    let origins: Vec<_> =
        all.resolve(&variable).expect("good").effective.into_iter().map(|f| f.origin).collect();
    assert!(origins.contains(&Origin::Flag) && origins.contains(&Origin::Default));
    fs::remove_file(all.config.expect("set above")).expect("written above");
}

/// Command line of nothing but flags.
#[derive(clap::Parser)]
struct FlagLine {
    #[command(flatten)]
    flags: Flags,
}

#[test]
fn repeated_flag_takes_its_last_value() {
    let words = ["serve", "--node", "a", "--insecure", "--name=b", "--insecure=off"];
    let line = <FlagLine as clap::Parser>::try_parse_from(words).map_err(|error| error.to_string());
    let settings = line.expect("no conflict").flags.settings(&none).expect("good");
    assert_eq!((settings.node.name.as_str(), settings.server.insecure), ("b", false));
}

#[test]
fn listen_address_accepts_port_flag_and_localhost() {
    let listens = |words: &[&str]| {
        let line = <FlagLine as clap::Parser>::try_parse_from([&["serve"], words].concat());
        let flags = line.map_err(|error| error.to_string())?.flags;
        let settings = flags.settings(&none).map_err(|failure| failure.to_string())?;
        Ok::<_, String>(settings.server.listen.to_string())
    };
    assert_eq!(listens(&["--port", "8001"]), Ok("127.0.0.1:8001".into()));
    assert_eq!(listens(&["--listen", "localhost:8002"]), Ok("127.0.0.1:8002".into()));
    for wrong in [
        &["--port", "70000"][..],
        &["--port", "8001", "--listen", "127.0.0.1:8002"],
        &["--listen", "localhost"],
        &["--listen", "localhost:x"],
        &["--listen", "7711"],
    ] {
        assert!(listens(wrong).is_err(), "{wrong:?}");
    }
    let said = listens(&["--listen", "7711"]).expect_err("no address");
    assert!(said.contains("localhost:7711"), "{said}");
    for flag in ["--data-dir", "--data", "--dir"] {
        let line = <FlagLine as clap::Parser>::try_parse_from(["serve", flag, "x"]);
        let settings = line.ok().and_then(|line| line.flags.settings(&none).ok());
        assert_eq!(settings.map(|settings| settings.node.data_dir), Some("x".into()), "{flag}");
    }
}

#[test]
fn arakoon_config_overrides_only_defaults() {
    let text = "[global]\ncluster = a\ncluster_id = ricky\nquorum = 1\n[a]\nip = 127.0.0.1\n\
                client_port = 4000\nhome = /srv/a\nlog_level = debug\n";
    let file = in_file(text, "arakoon").config;
    let mut all = in_file("log_level = \"warn\"\n", "beside-arakoon");
    all.arakoon_config = file.clone();
    let settings = all.settings(&none).expect("good");
    assert_eq!(settings.node.name, "a");
    assert_eq!(settings.node.data_dir, Path::new("/srv/a/credenza"));
    assert_eq!(settings.server.arakoon_clusters, ["ricky"]);
    let client_port: SocketAddr = "127.0.0.1:4000".parse().expect("an address");
    assert_eq!((settings.server.listen, settings.server.arakoon_listen.len()), (client_port, 0));
    let mut with_listen = all.clone();
    with_listen.texts.push(("listen", "127.0.0.1:7711".into()));
    let server = with_listen.settings(&none).expect("good").server;
    assert_eq!((server.listen.port(), server.arakoon_listen), (7711, vec![client_port]));
    assert_eq!(settings.levels, "warn".parse().expect("levels"), "our own file wins");
    assert_eq!(settings.warnings.len(), 1, "{:?}", settings.warnings);
    assert!(settings.warnings[0].contains(":4: `quorum`"), "{:?}", settings.warnings);
    all.texts.push(("data_dir", "elsewhere".into()));
    assert_eq!(all.settings(&none).map(|s| s.node.data_dir).ok(), Some("elsewhere".into()));
    all.texts.push(("name", "b".into()));
    let said = all.settings(&none).map(|_| ()).expect_err("no such node").to_string();
    assert!(said.contains(":2: there is no node `b`"), "{said}");
    for path in [file, all.config].into_iter().flatten() {
        fs::remove_file(path).expect("written above");
    }
}

#[test]
fn unknown_config_key_is_refused_with_line_and_suggestion() {
    let (line, what) =
        parse_file("name = \"a\"\n\nlog_bites = 3\n").map(|_| ()).expect_err("unknown");
    assert_eq!(line, 3);
    assert!(what.contains("`log_bites`") && what.contains("`log_b"), "{what}");
    let (line, _) = parse_file("name = \"a\"\nname = \"b\"\n").map(|_| ()).expect_err("twice");
    assert_eq!(line, 2);
    let (line, what) = parse_file("\nlisten = [1]\n").map(|_| ()).expect_err("a list");
    assert_eq!((line, what.contains("listen")), (2, true));
    assert!(parse_file("[log]\nlevel = 1\n").is_err());
}

#[test]
fn former_setting_name_is_refused_with_the_current_name() {
    let said = parse_file("threads = 1\ndata = \"d\"\n").map(|_| ()).expect_err("a former name");
    assert_eq!(said.0, 2);
    assert!(said.1.contains("setting `data` is now called `data_dir`"), "{}", said.1);
    for (variable, said) in [
        (
            "CREDENZA_FOUND_WITH",
            "variable CREDENZA_FOUND_WITH is now called CREDENZA_BOOTSTRAP_PEERS",
        ),
        ("CREDENZA_DATA", "variable CREDENZA_DATA is now called CREDENZA_DATA_DIR"),
    ] {
        let environment = |name: &str| (name == variable).then(|| "x".to_string());
        let refused = flags(&[]).settings(&environment).map(|_| ()).expect_err("refused");
        assert_eq!(refused.to_string(), said);
    }
}

#[test]
fn invalid_value_error_names_its_source_and_setting() {
    let text = |result: Outcome<Settings>| result.map(|_| ()).expect_err("refused").to_string();
    assert_eq!(
        text(flags(&[("listen", "7711")]).settings(&none)),
        "--listen: `7711`: expected an address such as 127.0.0.1:7711 or localhost:7711"
    );
    let bad = in_file("\nmemory_bytes_max = \"1 elephant\"\n", "bad");
    let said = text(bad.settings(&none));
    assert!(said.contains(":2: memory_bytes_max: `1 elephant`"), "{said}");
    fs::remove_file(bad.config.expect("set above")).expect("written above");
    let said = text(flags(&[("segment_bytes", "1GiB")]).settings(&none));
    assert!(said.contains("log_bytes_max"), "{said}");
}

#[test]
fn default_settings_are_valid_and_equal_node_defaults() {
    let settings = flags(&[]).settings(&none).expect("defaults are good");
    assert!(settings.server.listen.ip().is_loopback());
    let defaults = NodeSettings::default();
    let memory_bytes_max = settings.node.memory_bytes_max;
    assert!(memory_bytes_max <= defaults.memory_bytes_max, "less on a small machine, never more");
    let client_address = settings.server.listen.to_string();
    let defaults = NodeSettings { memory_bytes_max, client_address, ..defaults };
    assert_eq!(format!("{:?}", settings.node), format!("{defaults:?}"));
}

#[test]
fn settings_docs_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/run/settings.md");
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page::page(),
        "stale: credenza settings --markdown > docs/run/settings.md"
    );
}

#[test]
fn peer_address_is_advertised_or_refused_with_a_remedy() {
    let peers = |texts: &[(&'static str, &str)]| flags(texts).settings(&none);
    let settings = peers(&[("peer_listen", "127.0.0.1:7712"), ("join", "n1:7711")]).expect("good");
    let address = settings.node.peers.expect("it takes peers");
    assert_eq!(address.advertise, "127.0.0.1:7712");
    assert_eq!(settings.node.client_address, "127.0.0.1:7711");
    let open = [("peer_listen", "0.0.0.0:7712"), ("insecure", "on"), ("peer_advertise", "n2:7712")];
    let address = peers(&open).expect("good").node.peers.expect("it takes peers");
    assert_eq!((address.listen.port(), address.advertise.as_str()), (7712, "n2:7712"));
    let within = peers(&[("peer_networks", "10.1.0.0/16,fd00::/8")]).expect("good");
    assert_eq!(within.node.peer_networks.to_string(), "10.1.0.0/16,fd00::/8");
    for (texts, remedy) in [
        (&open[..2], "peer_advertise"),
        (&[open[0], open[2]][..], "insecure"),
        (&[("join", "n1:7711")][..], "peer_listen"),
        (&[("join", "n1")][..], "HOST:PORT"),
        (&[("join_as", "leader")][..], "learner"),
        (&[("lease_ms", "1ms")][..], "100ms"),
        (&[("peer_networks", "10.1.0.0/8")][..], "10.1.0.0/16"),
    ] {
        let said = peers(texts).map(|_| ()).expect_err("refused").to_string();
        assert!(said.contains(remedy), "{said}");
    }
}

/// Lines that a settings file may have, and pieces that change them.
const LINES: [&str; 8] = [
    "listen = \"127.0.0.1:7711\"",
    "segment_bytes = \"8MiB\"",
    "lease_ms = 600",
    "insecure = true",
    "preferred_masters = \"a,b\"",
    "peer_listen = \"[::1]:7712\"",
    "log_level = \"server=debug,info\"",
    "join_as = \"witness\"",
];
const PIECES: [&str; 12] =
    ["", "\"", "\\", "=", "\n", "[", "#", "-1", "99999999999999999999", "\u{e9}", ",", "'''"];

/// Any file is read or refused, with a line that it has, and whatever it sets is checked.
#[test]
fn settings_file_changed_at_random_is_read_or_refused_with_its_line() {
    let mut chance = sim::Chance::new(23);
    let (mut read, mut accepted) = (0, 0);
    for _ in 0..20_000 {
        let count = 1 + chance.index(3);
        let mut text: String =
            (0..count).map(|_| format!("{}\n", LINES[chance.index(LINES.len())])).collect();
        for _ in 0..chance.below(3) {
            let bounds: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
            let from = chance.index(bounds.len());
            let end = bounds.get(from + chance.index(4)).copied().unwrap_or(text.len());
            text.replace_range(bounds[from]..end, PIECES[chance.index(PIECES.len())]);
        }
        match parse_file(&text) {
            Ok(found) => {
                read += 1;
                let row = |name: &str| TABLE.iter().find(|row| row.name == name).expect("known");
                let texts = found.into_iter().map(|found| (row(&found.name).name, found.text));
                let all = Flags { texts: texts.collect(), ..Flags::default() };
                accepted += usize::from(all.settings(&none).is_ok());
            }
            Err((line, _)) => assert!((1..=text.lines().count() + 1).contains(&line), "{text:?}"),
        }
    }
    assert!(accepted > 1_000 && read > accepted && read < 20_000, "{accepted} of {read}");
}

#[test]
fn live_settings_are_rows_of_the_table() {
    for name in LIVE {
        let row = TABLE.iter().find(|row| row.name == *name);
        assert_eq!(row.map(|row| row.reload()), Some("live"), "{name}");
    }
    assert!(TABLE.iter().any(|row| row.reload() == "restart"));
}

#[test]
fn settings_with_paths_or_addresses_are_local_and_none_of_them_is_live() {
    for name in LOCAL {
        assert!(TABLE.iter().any(|row| row.name == *name), "{name} is no setting");
        assert!(!LIVE.contains(name), "a request may cause a reload: {name}");
    }
    for row in TABLE {
        let is_place = local::PLACEHOLDERS.contains(&row.value);
        assert!(!is_place || row.is_local(), "{} is not in LOCAL", row.name);
        let names_place = ["_file", "_dir", "_listen", "_hosts", "tls"];
        let is_guarded = names_place.iter().any(|part| row.name.contains(part));
        // Bounds, which name no place.
        let bounds =
            ["tls_session_ms_max", "audit_files_max", "audit_file_bytes_max", "open_files"];
        let is_exempt = bounds.contains(&row.name);
        assert!(!is_guarded || is_exempt || row.is_local(), "{} is not in LOCAL", row.name);
    }
}

/// Names of properties are the only keys that requests change at run time, beside log levels.
#[test]
fn no_property_of_a_bucket_has_the_name_of_a_local_setting() {
    let defaults = base::Properties::default();
    for name in LOCAL {
        for text in ["none", "on", "/tmp/x", "127.0.0.1:1"] {
            let change = vec![(name.to_string(), text.to_string())];
            assert!(defaults.with(&change).is_err(), "{name}={text}");
        }
        assert!(defaults.texts().iter().all(|(known, _)| known != name), "{name}");
    }
}
