//! Unknown words, with the suggestions for them; and synonyms of words.

use super::{http, must_fail, output, start_server, tool};
use systest::environment::Scratch;
use systest::server::{Server, Setup};

#[test]
fn unknown_bucket_error_suggests_the_nearest_name() {
    let (_scratch, server) = start_server("near-bucket");
    tool(&server, &["bucket", "create", "users"]);
    for args in [&["get", "a"][..], &["put", "a", "1"], &["keys"], &["export"]] {
        let stderr = must_fail(&server, &[args, &["-b", "usres"]].concat(), 2);
        assert!(stderr.contains("is `default/users` meant?"), "{args:?}: {stderr}");
        assert!(stderr.contains("credenza bucket list"), "{args:?}: {stderr}");
    }
    let stderr = must_fail(&server, &["get", "a", "-b", "cellar"], 2);
    assert!(stderr.contains("credenza bucket list") && !stderr.contains("meant"), "{stderr}");
    let stderr = must_fail(&server, &["bucket", "create", "nothing/x"], 2);
    assert!(stderr.contains("credenza type list"), "{stderr}");
}

#[test]
fn http_error_lists_the_allowed_alternatives() {
    let (_scratch, server) = start_server("alternatives");
    let mut connection = http(&server);
    let mut request = |method: &str, path: &str, body: &str| {
        let json = [("content-type", "application/json")];
        let answer =
            connection.request_with_headers(method, path, &json, body.as_bytes()).expect("answers");
        (answer.status, answer.text())
    };
    let key = "/v1/buckets/default/default/keys/a";
    let (status, text) = request("POST", key, "1");
    assert!(status == 405 && text.contains("GET, PUT, DELETE, HEAD"), "{status} {text}");
    let steps = "/v1/buckets/default/default/sequence";
    let (status, text) = request("POST", steps, r#"[{"op": "adds", "key": "a"}]"#);
    assert!(
        status == 400 && text.contains("the operations are set, ") && text.contains(" add,"),
        "{text}"
    );
    let (status, text) = request("PUT", "/v1/types/t", r#"{"consistency": "eventual"}"#);
    assert!(status == 400 && text.contains("consistent") && text.contains("available"), "{text}");
    let kind = r#"{"consistency": "available", "datatype": "list"}"#;
    let (status, text) = request("PUT", "/v1/types/t", kind);
    assert!(status == 400 && text.contains("counter, set, gset, map or hll"), "{text}");
    let long = "x".repeat(8 * 1024 * 1024 + 1);
    let (status, text) = request("PUT", key, &long);
    assert_eq!(status, 413, "{text}");
    assert!(text.contains("8388608") && text.contains("value_bytes_max"), "{text}");
}

#[test]
fn command_synonyms_behave_like_their_commands() {
    let (_scratch, server) = start_server("other-words");
    tool(&server, &["set", "a", "1"]);
    tool(&server, &["set", "b", "2"]);
    assert_eq!(tool(&server, &["ls"]), "a\nb\n");
    assert_eq!(tool(&server, &["scan"]), tool(&server, &["range"]));
    tool(&server, &["del", "a"]);
    tool(&server, &["rm", "b"]);
    assert_eq!(tool(&server, &["ls"]), "");
    let output = tool(&server, &["bucket", "show", "default"]);
    assert_eq!(output, tool(&server, &["bucket", "describe", "default"]));
    assert_eq!(tool(&server, &["bucket", "ls"]), tool(&server, &["bucket", "list"]));
    tool(&server, &["backup", "monday"]);
    tool(&server, &["checkpoint", "rm", "monday"]);
}

#[test]
fn help_lists_properties_with_values_and_shows_an_example() {
    for (args, example) in [
        (["type", "create"], "credenza type create carts consistency=available datatype=set"),
        (["bucket", "create"], "credenza bucket create users"),
    ] {
        let result = output(systest::server::tool(&[&args[..], &["--help"]].concat()));
        let help = String::from_utf8_lossy(&result.stdout).into_owned();
        for expected in
            ["Examples:", example, "consistency=consistent|available", "siblings_max=1..1000"]
        {
            assert!(help.contains(expected), "{args:?}: `{expected}` is not there: {help}");
        }
    }
}

#[test]
fn misspelt_environment_variable_logs_a_suggestion() {
    let (_scratch, server) = start_server("misspelt");
    let mut command = server.tool(&["keys"]);
    command.env("CREDENZA_BUKET", "users");
    let result = output(command);
    let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
    assert!(result.status.success() && stderr.contains("is CREDENZA_BUCKET meant?"), "{stderr}");
    let scratch = Scratch::new("misspelt-serve");
    let setup = Setup::new(&scratch.join("data")).env("CREDENZA_LISTN", "127.0.0.1:1");
    let server = Server::must_start(&setup);
    assert!(server.stderr_text().contains("is CREDENZA_LISTEN meant?"), "{}", server.stderr_text());
}
