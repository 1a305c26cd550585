//! Tests of whole command lines of `credenza`: complaints about their words, and the option that
//! all commands take.

use crate::{CommandLine, renames};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;

fn error_line(line: &str) -> String {
    let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    let error = CommandLine::try_parse_from(&words).err().expect("it can't be read");
    program::format_usage_error(&error, &words, CommandLine::command(), renames::rename_hint)
}

#[test]
fn command_line_error_is_a_single_line_with_its_suggestion() {
    for (line, expected) in [
        ("credenza gett a", &["unrecognized subcommand 'gett'", "'get'", "credenza --help"][..]),
        ("credenza get --hexx a", &["argument '--hexx' found; ", "'--hex'", "get --help"]),
        (
            "credenza put a",
            &["required arguments were not provided: <VALUE>; usage: credenza put [OPTIONS]"],
        ),
        ("credenza get a --hex --base64", &["'--hex' cannot be used with '--base64'"]),
        ("credenza cluster move-mastr n1", &["'move-master'", "credenza cluster --help"]),
        ("credenza cluster leave n3", &["there is `credenza cluster ring leave`"]),
        ("credenza list", &["`credenza bucket list`", "`credenza type list`"]),
        ("credenza dev --nodes 9", &["invalid value '9' for '--nodes <NODES>': 9 is not in"]),
        ("credenza get a b", &["unexpected argument 'b' found"]),
    ] {
        let said = error_line(line);
        for word in expected {
            assert!(said.contains(word), "{line}: `{word}` is not said: {said}");
        }
        assert!(!said.contains('\n') && !said.contains("error:"), "{line}: {said}");
    }
}

#[test]
fn former_command_or_flag_is_refused_with_the_current_name() {
    for (line, expected) in [
        ("credenza check data", "`credenza check` is now called `credenza verify` (see"),
        ("credenza cluster transfer n2", "is now called `credenza cluster move-master`"),
        ("credenza cluster ring --give-out", "is now called `credenza cluster ring init`"),
        ("credenza cluster ring double", "is now called `credenza cluster ring resize`"),
        ("credenza cluster ring halve", "is now called `credenza cluster ring resize`"),
        ("credenza group place 1 n1", "`credenza group place` is now called `credenza group m"),
        ("credenza serve --found-with h:1", "flag --found-with is now called --bootstrap-peers"),
        ("credenza serve --repair=off", "the flag --repair is now called --auto-repair"),
        ("credenza settings --interval-ms 5s", "--interval-ms is now called --sync-interval-ms"),
        ("credenza cluster join h:1 --hosts h", "--hosts is now called --allowed-hosts"),
        ("credenza get a --repair", "unexpected argument '--repair' found"),
    ] {
        let said = error_line(line);
        assert!(said.contains(expected), "{line}: {said}");
    }
}

#[test]
fn every_command_accepts_the_json_flag() {
    let mut command = CommandLine::command();
    command.build();
    fn check(command: &clap::Command) {
        let accepts_json =
            command.get_arguments().any(|argument| argument.get_long() == Some("json"));
        assert!(
            accepts_json,
            "{} does not take --json",
            command.get_bin_name().unwrap_or_default()
        );
        for subcommand in
            command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help")
        {
            check(subcommand);
        }
    }
    check(&command);
    for line in ["credenza --json get a", "credenza get a --json", "credenza serve --json"] {
        let line = CommandLine::try_parse_from(line.split(' ')).expect("it is taken");
        assert!(line.json);
    }
    assert!(!CommandLine::try_parse_from(["credenza", "get", "a"]).expect("fine").json);
}
