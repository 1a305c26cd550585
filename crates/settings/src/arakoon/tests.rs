//! Tests of whole configurations.

use super::*;

const ONE: &str = "\
# made by a tool
[global]
cluster = arakoon_0
cluster_id = ricky
lease_period = 10

[log]
client_protocol = debug

[batch]
max_entries = 100

[arakoon_0]
ip = 127.0.0.1, ::1
client_port = 4_000
messaging_port = 4010
home = /srv/arakoon/ricky
log_level = notice
log_config = log
batched_transaction_config = batch
fsync = false
colour = red
";

fn translated(text: &str, node: Option<&str>) -> Result<Configuration, IniError> {
    configure(text, node, None)
}

fn translation_error(text: &str, node: Option<&str>) -> IniError {
    translated(text, node).expect_err("it can't be mapped")
}

#[test]
fn mappable_keys_become_settings_and_other_keys_warn_once() {
    let configuration = translated(ONE, Some("arakoon_0")).expect("it can be mapped");
    let settings: Vec<_> = configuration
        .settings
        .iter()
        .map(|setting| (setting.name, setting.text.as_str(), setting.line))
        .collect();
    assert_eq!(
        settings,
        [
            ("name", "arakoon_0", 13),
            ("arakoon_clusters", "ricky", 4),
            ("listen", "127.0.0.1:4000", 14),
            ("arakoon_listen", "[::1]:4000", 14),
            ("data_dir", "/srv/arakoon/ricky/credenza", 17),
            ("log_level", "info", 18),
        ]
    );
    let warnings: Vec<_> = configuration
        .warnings
        .iter()
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        warnings,
        [
            "5: `lease_period`",
            "16: `messaging_port`",
            "19: `log_config`",
            "20: `batched_transaction_config`",
            "21: `fsync`",
            "22: `colour`",
        ]
    );
    assert_eq!(translated(ONE, None), Ok(configuration), "the only node needs no name");
}

/// Returns the listener settings that a file gives, with `listen` set elsewhere or not.
fn listeners(text: &str, node: &str, listen: Option<&str>) -> Vec<(&'static str, String)> {
    let configuration = configure(text, Some(node), listen).expect("it can be mapped");
    let is_listener =
        |setting: &&IniSetting| setting.name.contains("listen") || setting.name == "advertise";
    let all = configuration
        .settings
        .iter()
        .filter(|setting| setting.name != "peer_listen")
        .filter(is_listener);
    all.map(|setting| (setting.name, setting.text.clone())).collect()
}

#[test]
fn single_node_listen_addresses_follow_ip_and_client_port() {
    let listeners_of = |ip: &str, listen| {
        let text = ONE.replacen("ip = 127.0.0.1, ::1", &format!("ip = {ip}"), 1);
        listeners(&text, "arakoon_0", listen)
    };
    let settings = |all: &[(&'static str, &str)]| {
        all.iter().map(|(name, text)| (*name, text.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(listeners_of("127.0.0.1", None), settings(&[("listen", "127.0.0.1:4000")]));
    // Beyond loopback only Arakoon's protocol is served; the others are on loopback.
    for (ip, listen, arakoon) in [
        ("10.0.0.1", "127.0.0.1:4000", "10.0.0.1:4000"),
        ("10.0.0.1, 127.0.0.1", "127.0.0.1:4000", "10.0.0.1:4000"),
        ("10.0.0.1, 10.1.0.1", "127.0.0.1:4000", "10.0.0.1:4000,10.1.0.1:4000"),
        ("fd00::1", "[::1]:4000", "[fd00::1]:4000"),
    ] {
        assert_eq!(
            listeners_of(ip, None),
            settings(&[("listen", listen), ("arakoon_listen", arakoon)]),
            "{ip}"
        );
    }
    // These addresses cover the port on loopback, so `listen` keeps its default.
    for ip in ["0.0.0.0", "::"] {
        assert_eq!(listeners_of(ip, None).len(), 1, "{ip}: {:?}", listeners_of(ip, None));
        assert_eq!(listeners_of(ip, None)[0].0, "arakoon_listen");
    }
    // The other source's value stays, and the node also listens at all addresses of the file.
    let both = "127.0.0.1:4000,[::1]:4000";
    for listen in ["127.0.0.1:7711", "127.0.0.1:0", "10.0.0.1:4000", "no address"] {
        assert_eq!(
            listeners_of("127.0.0.1, ::1", Some(listen)),
            settings(&[("arakoon_listen", both)])
        );
    }
    let second = settings(&[("arakoon_listen", "[::1]:4000")]);
    assert_eq!(
        listeners_of("127.0.0.1, ::1", Some("127.0.0.1:4000")),
        second,
        "it is open already"
    );
    assert_eq!(listeners_of("127.0.0.1, ::1", Some("0.0.0.0:4000")), second);
    assert_eq!(listeners_of("127.0.0.1, ::1", Some("[::]:4000")), []);
}

/// Nodes send requests to each other at the first `ip` and `client_port`, whatever `listen` is.
#[test]
fn cluster_node_is_reachable_at_its_first_ip_despite_listen() {
    let listeners_of = |listen| listeners(THREE, "b", listen);
    let settings = |all: &[(&'static str, &str)]| {
        all.iter().map(|(name, text)| (*name, text.to_string())).collect::<Vec<_>>()
    };
    let (first, second) = ("10.0.0.2:4000", "10.1.0.2:4000");
    assert_eq!(listeners_of(None), settings(&[("listen", first), ("arakoon_listen", second)]));
    for listen in ["127.0.0.1:7711", "0.0.0.0:7711", "10.1.0.2:7711"] {
        let expected = [("advertise", first), ("listen_also", first), ("arakoon_listen", second)];
        assert_eq!(listeners_of(Some(listen)), settings(&expected), "{listen}");
    }
    let expected = [("advertise", first), ("arakoon_listen", second)];
    assert_eq!(listeners_of(Some(first)), settings(&expected), "it is open already");
    assert_eq!(listeners_of(Some("0.0.0.0:4000")), settings(&expected[..1]));
    let expected = [("advertise", first), ("listen_also", first)];
    assert_eq!(listeners_of(Some(second)), settings(&expected));
}

#[test]
fn unmappable_key_is_refused_with_its_line() {
    let cases = [
        ("cluster = arakoon_0", "", 2, "`cluster` is missing"),
        ("cluster = arakoon_0", "cluster = other", 3, "no node `arakoon_0`"),
        ("cluster_id = ricky", "", 2, "`cluster_id` is missing"),
        ("lease_period = 10", "readonly = true", 5, "only reads"),
        ("lease_period = 10", "plugins = nsm", 5, "user functions"),
        ("lease_period = 10", "tls_service = true", 5, "encryption"),
        ("ip = 127.0.0.1, ::1", "ip = localhost", 14, "`localhost` is no address"),
        ("ip = 127.0.0.1, ::1", "ip =", 14, "no address"),
        ("client_port = 4_000", "client_port = 70000", 15, "a port is wanted"),
        ("client_port = 4_000", "", 13, "`client_port` is missing"),
        ("home = /srv/arakoon/ricky", "", 13, "`home` is missing"),
        ("log_level = notice", "log_level = loud", 18, "no level"),
        ("fsync = false", "witness = true", 21, "votes"),
        ("colour = red", "what is this", 22, "neither"),
    ];
    for (before, after, line, expected) in cases {
        let text = ONE.replacen(before, after, 1);
        let (at_line, what) = translation_error(&text, Some("arakoon_0"));
        assert_eq!(at_line, line, "{after}: {what}");
        assert!(what.contains(expected), "{after}: {what}");
    }
    let harmless = ONE.replacen("lease_period = 10", "readonly = False", 1);
    assert!(translated(&harmless, None).is_ok());
}

#[test]
fn config_without_node_name_or_required_section_is_refused() {
    let text = "[global]\ncluster = a, b\ncluster_id = x\n";
    let (line, what) = translation_error(text, None);
    assert_eq!((line, what.contains("--name")), (2, true), "{what}");
    assert_eq!(translation_error("[other]\n", None).0, 1);
    let (line, what) = translation_error("[global]\ncluster = a\ncluster_id = x\n", None);
    assert_eq!((line, what.contains("[a]")), (2, true), "{what}");
}

const THREE: &str = "\
[global]
cluster = a, b, c
cluster_id = ricky
[a]
ip = 10.0.0.1
client_port = 4000
messaging_port = 4010
home = /srv/a
[b]
ip = 10.0.0.2, 10.1.0.2
client_port = 4000
messaging_port = 4010
home = /srv/b
[c]
ip = 10.0.0.3
client_port = 4000
messaging_port = 4010
home = /srv/c
";

#[test]
fn first_listed_node_bootstraps_and_later_nodes_join() {
    let settings_of = |node| {
        let configuration = translated(THREE, Some(node)).expect("it can be mapped");
        let texts = configuration.settings.into_iter().map(|setting| (setting.name, setting.text));
        (texts.collect::<std::collections::BTreeMap<_, _>>(), configuration.warnings)
    };
    let (first, warnings) = settings_of("a");
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!((first["listen"].as_str(), first.get("join")), ("10.0.0.1:4000", None));
    assert_eq!(first["bootstrap_peers"], "10.0.0.2:4000,10.0.0.3:4000");
    assert_eq!(first["peer_listen"], "10.0.0.1:4010");
    assert_eq!(first.get("arakoon_listen"), None, "its clients speak at the main address");
    let (second, warnings) = settings_of("b");
    assert_eq!((second["name"].as_str(), second["listen"].as_str()), ("b", "10.0.0.2:4000"));
    assert_eq!(second["join"], "10.0.0.1:4000,10.0.0.3:4000");
    assert_eq!(second.get("bootstrap_peers"), None);
    assert_eq!(second["arakoon_listen"], "10.1.0.2:4000");
    assert_eq!(second["peer_listen"], "10.0.0.2:4010");
    assert_eq!(warnings.len(), 1, "it has one address for the others: {warnings:?}");
}

#[test]
fn cluster_node_requires_first_node_address_and_messaging_port() {
    let without = THREE.replacen("[a]\nip = 10.0.0.1\nclient_port = 4000\n", "[a]\n", 1);
    let (line, what) = translation_error(&without, Some("b"));
    assert_eq!((line, what.contains("`ip` is missing in [a]")), (4, true), "{what}");
    let without = THREE.replacen("[a]", "[other]", 1);
    let (_, what) = translation_error(&without, Some("b"));
    assert!(what.contains("no section [a]"), "{what}");
    let without = THREE.replace("messaging_port = 4010\n", "");
    let (_, what) = translation_error(&without, Some("b"));
    assert!(what.contains("`messaging_port` is missing in [b]"), "{what}");
    let (line, what) = translation_error(THREE, None);
    assert_eq!((line, what.contains("--name")), (2, true), "{what}");
}

#[test]
fn unknown_section_causes_a_warning() {
    let text = format!("{ONE}[nursery]\ncluster_id = keeper\n");
    let configuration = translated(&text, None).expect("it can be mapped");
    assert!(configuration.warnings.contains(&"23: [nursery] means nothing here".to_string()));
}

#[test]
fn config_stored_in_etcd_is_refused_with_a_remedy() {
    let refused = read(Path::new("etcd://127.0.0.1:2379/ricky"), None, None).expect_err("no file");
    assert!(refused.to_string().contains("write it into one"), "{refused}");
}

#[test]
fn master_keys_map_to_forced_or_preferred_masters() {
    let with = |line: &str| THREE.replacen("cluster_id = ricky", line, 1);
    let master_setting = |lines: &str| {
        let text = with(&format!("cluster_id = ricky\n{lines}"));
        let configuration = translated(&text, Some("a")).expect("it can be mapped");
        assert!(configuration.warnings.is_empty(), "{:?}", configuration.warnings);
        let named = |setting: &&IniSetting| {
            setting.name.ends_with("_master") || setting.name.ends_with("_masters")
        };
        let named: Vec<_> = configuration.settings.iter().filter(named).cloned().collect();
        let [only] = &named[..] else { panic!("one setting: {named:?}") };
        (only.name, only.text.clone(), only.line)
    };
    assert_eq!(master_setting("master = c"), ("forced_master", "c".into(), 4));
    let preferred = master_setting("master = c\npreferred_master = true");
    assert_eq!(preferred, ("preferred_masters", "c".into(), 4));
    let preferred = master_setting("preferred_master = false\npreferred_masters = c, a");
    assert_eq!(preferred, ("preferred_masters", "c,a".into(), 5));
    for (lines, line, expected) in [
        ("master = d", 4, "no node `d`"),
        ("preferred_masters = a, d", 4, "no node `d`"),
        ("master = a, b", 4, "one node"),
        ("master = a\npreferred_masters = b", 5, "say one"),
    ] {
        let text = with(&format!("cluster_id = ricky\n{lines}"));
        let (at, what) = translation_error(&text, Some("a"));
        assert_eq!((at, what.contains(expected)), (line, true), "{lines}: {what}");
    }
    let single_node = ONE.replacen("lease_period = 10", "master = arakoon_0", 1);
    let configuration = translated(&single_node, None).expect("it means nothing to one alone");
    assert!(configuration.warnings[0].starts_with("5: `master`"), "{:?}", configuration.warnings);
}

#[test]
fn learner_and_witness_keys_map_to_join_as() {
    let join_as = |node: &str, second: &str, third: &str| {
        let text = THREE.replacen("[b]\n", &format!("[b]\n{second}"), 1).replacen(
            "[c]\n",
            &format!("[c]\n{third}"),
            1,
        );
        let configuration = translated(&text, Some(node))?;
        let joins = configuration.settings.into_iter().find(|setting| setting.name == "join_as");
        Ok::<_, IniError>(joins.map(|setting| setting.text))
    };
    let (learner, witness) = ("learner = true\n", "witness = TRUE\n");
    assert_eq!(join_as("b", learner, witness), Ok(Some("learner".into())));
    assert_eq!(join_as("c", learner, witness), Ok(Some("witness".into())));
    assert_eq!(join_as("a", learner, witness), Ok(None), "it makes the cluster");
    assert_eq!(join_as("b", "learner = false\nwitness = False\n", witness), Ok(None));
    for (second, third, expected) in [
        ("learner = true\nwitness = true\n", "", "one of both"),
        ("learner = perhaps\n", "", "true or false"),
        (witness, witness, "no more witnesses"),
    ] {
        // The result is the same whichever node reads the file.
        for node in ["a", "b", "c"] {
            let (_, what) = join_as(node, second, third).expect_err(expected);
            assert!(what.contains(expected), "{what}");
        }
    }
    let first = THREE.replacen("[a]\n", "[a]\nwitness = true\n", 1);
    for node in ["a", "b"] {
        let (line, what) = translation_error(&first, Some(node));
        assert_eq!((line, what.contains("name another one first")), (5, true), "{what}");
    }
    let master = THREE
        .replacen("cluster_id = ricky", "cluster_id = ricky\nmaster = c", 1)
        .replacen("[c]\n", "[c]\nwitness = true\n", 1);
    let (line, what) = translation_error(&master, Some("a"));
    assert_eq!((line, what.contains("no master")), (4, true), "{what}");
}

#[test]
fn lease_period_maps_to_lease_ms_and_non_majority_quorum_warns() {
    let with = |lines: &str| {
        let text = THREE.replacen("cluster_id = ricky", &format!("cluster_id = ricky\n{lines}"), 1);
        translated(&text, Some("a"))
    };
    let lease_setting = |text: &str| {
        let found = with(&format!("lease_period = {text}"))?;
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
        Ok::<_, IniError>(found.settings.into_iter().find(|setting| setting.name == "lease_ms"))
    };
    for seconds in ["1", "10", "60"] {
        let setting = lease_setting(seconds).expect("it can be had").expect("it is taken");
        assert_eq!((setting.text, setting.line), (format!("{seconds}s"), 4));
    }
    for text in ["0", "61", "soon", "-1"] {
        let (line, what) = lease_setting(text).expect_err("no such lease");
        assert_eq!((line, what.contains("wanted")), (4, true), "{what}");
    }
    let quorum_warnings =
        |quorum: &str| with(&format!("quorum = {quorum}")).expect("it is taken").warnings;
    assert_eq!(quorum_warnings("2"), Vec::<String>::new());
    for quorum in ["1", "3"] {
        let [only] = &quorum_warnings(quorum)[..] else {
            panic!("one warning: {:?}", quorum_warnings(quorum))
        };
        assert!(only.starts_with("4: `quorum` means nothing here: 2 of 3"), "{only}");
    }
    assert!(with("quorum = most").is_err());
    // With four voters a quorum of three is as safe as two; witnesses alone never are.
    let four = THREE.replacen("cluster = a, b, c", "cluster = a, b, c, d", 1);
    let d = THREE[THREE.find("[c]").expect("a section")..].replacen("[c]", "[d]", 1);
    let four =
        format!("{four}{d}").replacen("cluster_id = ricky", "cluster_id = ricky\nquorum = 2", 1);
    let found = translated(&four, Some("a")).expect("it is taken").warnings;
    assert!(found[0].contains("`credenza group quorum 1 2` sets it"), "{found:?}");
    let witnesses = four.replacen("[b]\n", "[b]\nwitness = true\n", 1).replacen(
        "[c]\n",
        "[c]\nwitness = true\n",
        1,
    );
    let found = translated(&witnesses, Some("a")).expect("it is taken").warnings;
    assert!(found[0].contains("means nothing here"), "{found:?}");
    // For a node without a cluster they have no effect.
    let single_node = ONE.replacen("lease_period = 10", "quorum = 1", 1);
    let found = translated(&single_node, None).expect("it is taken");
    assert!(found.warnings[0].starts_with("5: `quorum` means nothing"), "{:?}", found.warnings);
}
