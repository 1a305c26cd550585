//! Unknown words, with the suggestions for them; and synonyms of words.

use super::{fails, fresh, http, output, tool};
use systest::rigs::Scratch;
use systest::server::{Server, Setup};

#[test]
fn a_bucket_that_is_not_there_is_answered_with_the_one_that_is_near() {
    let (_scratch, server) = fresh("near-bucket");
    tool(&server, &["bucket", "create", "users"]);
    for words in [&["get", "a"][..], &["put", "a", "1"], &["keys"], &["export"]] {
        let said = fails(&server, &[words, &["-b", "usres"]].concat(), 2);
        assert!(said.contains("is `default/users` meant?"), "{words:?}: {said}");
        assert!(said.contains("credenza bucket list"), "{words:?}: {said}");
    }
    let said = fails(&server, &["get", "a", "-b", "cellar"], 2);
    assert!(said.contains("credenza bucket list") && !said.contains("meant"), "{said}");
    let said = fails(&server, &["bucket", "create", "nothing/x"], 2);
    assert!(said.contains("credenza type list"), "{said}");
}

#[test]
fn a_refusal_over_http_lists_what_there_is() {
    let (_scratch, server) = fresh("alternatives");
    let mut connection = http(&server);
    let mut ask = |method: &str, path: &str, body: &str| {
        let json = [("content-type", "application/json")];
        let answer = connection.ask_with(method, path, &json, body.as_bytes()).expect("answers");
        (answer.status, answer.text())
    };
    let key = "/v1/buckets/default/default/keys/a";
    let (status, said) = ask("POST", key, "1");
    assert!(status == 405 && said.contains("GET, PUT, DELETE, HEAD"), "{status} {said}");
    let steps = "/v1/buckets/default/default/sequence";
    let (status, said) = ask("POST", steps, r#"[{"op": "adds", "key": "a"}]"#);
    assert!(status == 400 && said.contains("there are set, ") && said.contains(" add,"), "{said}");
    let (status, said) = ask("PUT", "/v1/types/t", r#"{"consistency": "eventual"}"#);
    assert!(status == 400 && said.contains("consistent") && said.contains("available"), "{said}");
    let kind = r#"{"consistency": "available", "datatype": "list"}"#;
    let (status, said) = ask("PUT", "/v1/types/t", kind);
    assert!(status == 400 && said.contains("counter, set, gset, map or hll"), "{said}");
    let long = "x".repeat(8 * 1024 * 1024 + 1);
    let (status, said) = ask("PUT", key, &long);
    assert_eq!(status, 413, "{said}");
    assert!(said.contains("8388608") && said.contains("value_bytes_max"), "{said}");
}

#[test]
fn other_words_mean_the_same() {
    let (_scratch, server) = fresh("other-words");
    tool(&server, &["set", "a", "1"]);
    tool(&server, &["set", "b", "2"]);
    assert_eq!(tool(&server, &["ls"]), "a\nb\n");
    assert_eq!(tool(&server, &["scan"]), tool(&server, &["range"]));
    tool(&server, &["del", "a"]);
    tool(&server, &["rm", "b"]);
    assert_eq!(tool(&server, &["ls"]), "");
    let shown = tool(&server, &["bucket", "show", "default"]);
    assert_eq!(shown, tool(&server, &["bucket", "describe", "default"]));
    assert_eq!(tool(&server, &["bucket", "ls"]), tool(&server, &["bucket", "list"]));
    tool(&server, &["backup", "monday"]);
    tool(&server, &["checkpoint", "rm", "monday"]);
}

#[test]
fn help_lists_properties_with_their_values_and_shows_an_example() {
    for (words, example) in [
        (["type", "create"], "credenza type create carts consistency=available datatype=set"),
        (["bucket", "create"], "credenza bucket create users"),
    ] {
        let done = output(systest::server::tool(&[&words[..], &["--help"]].concat()));
        let help = String::from_utf8_lossy(&done.stdout).into_owned();
        for word in
            ["Examples:", example, "consistency=consistent|available", "siblings_max=1..1000"]
        {
            assert!(help.contains(word), "{words:?}: `{word}` is not there: {help}");
        }
    }
}

#[test]
fn a_misspelt_variable_is_warned_of() {
    let (_scratch, server) = fresh("misspelt");
    let mut command = server.tool(&["keys"]);
    command.env("CREDENZA_BUKET", "users");
    let done = output(command);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && said.contains("is CREDENZA_BUCKET meant?"), "{said}");
    let scratch = Scratch::new("misspelt-serve");
    let setup = Setup::on(&scratch.join("data")).env("CREDENZA_LISTN", "127.0.0.1:1");
    let server = Server::must(&setup);
    assert!(server.said().contains("is CREDENZA_LISTEN meant?"), "{}", server.said());
}
