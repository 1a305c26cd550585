//! Commands of Arakoon's protocol, with what each needs. The protocol has no login: its listener's
//! user gets one role after the other, and each command has a connection of its own.
//!
//! A row is a command's code, its arguments and its needs. Of the arguments `c` is the read level
//! "consistent", `i:N` a number, `l:N` a long one, `f` a flag, `k` the key, `p` the prefix,
//! `t:TEXT` a text, `n` none, `s:TEXT` a text that is there, `[` a list of as many texts as follow,
//! `seq` a sequence that sets the key.

use super::model::{MatrixTarget, MatrixUser, may, may_enter};
use super::{MatrixReport, Row};
use std::net::SocketAddr;
use systest::access::AccessVerdict;
use systest::client::Arakoon;

/// All commands. The mastership is dropped last.
pub const COMMANDS: &str = r#"
01 t:systest cluster            | -
02                              | -
07 c k                          | read:key
08 c k                          | read:key
09 k t:v                        | write:key
0a k                            | write:key
0b c s:p- f s:p-9 f i:-1        | list:second
0c c p i:-1                     | list:range
0d k n n                        | write:key read:key
0e l:0                          | -
0f c n f n f i:-1               | list:all read:all
10 seq                          | write:key
11 c [ k                        | read:key
12                              | -
14 i:1                          | -
15 t:none n                     | read:any
16 c k n                        | read:key
17 n n n n                      | read:any
18                              | read:any
19 routing                      | read:any
1a                              | list:all
1b                              | -
1c k t:v                        | write:key
1d n i:0                        | list:all read:all
1e                              | read:any
1f cluster i:0                  | read:any
20                              | read:any
21 cluster t: cluster           | read:any
22 n n n n seq                  | write:key
23 c n f n f i:-1               | list:all read:all
24 seq                          | write:key
25                              | -
26                              | -
27 p                            | write:range list:range
28                              | -
29 c k                          | read:key
31 c [ k                        | read:key
32                              | -
33 k s:v                        | write:key read:key
40 l:0                          | -
41                              | write:any
42                              | -
43                              | -
44 i:1                          | -
45 c t:none                     | read:any
46 l:0                          | -
13                              | watch:cluster
30                              | place:cluster
"#;

fn text(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend((text.len() as i32).to_le_bytes());
    bytes.extend(text);
}

/// Returns the bytes of a row's arguments.
fn arguments(words: &str, cluster: &str, target: &MatrixTarget) -> Vec<u8> {
    let mut bytes = Vec::new();
    let words: Vec<_> = words.split(' ').filter(|word| !word.is_empty()).collect();
    for (at, word) in words.iter().enumerate() {
        let (kind, rest) = word.split_once(':').unwrap_or((word, ""));
        let number = || rest.parse::<i64>().expect("a number");
        match kind {
            "c" => bytes.push(0),
            "f" => bytes.push(1),
            "n" => bytes.push(0),
            "i" => bytes.extend((number() as i32).to_le_bytes()),
            "l" => bytes.extend(number().to_le_bytes()),
            "k" => text(&mut bytes, target.key.as_bytes()),
            "p" => text(&mut bytes, target.prefix.as_bytes()),
            "t" => text(&mut bytes, rest.as_bytes()),
            "s" => {
                bytes.push(1);
                text(&mut bytes, rest.as_bytes());
            }
            "[" => bytes.extend((words.len() as i32 - at as i32 - 1).to_le_bytes()),
            "cluster" => text(&mut bytes, cluster.as_bytes()),
            "routing" => {
                // A leaf: every key belongs to this cluster.
                let mut routing = vec![1];
                text(&mut routing, cluster.as_bytes());
                text(&mut bytes, &routing);
            }
            "seq" => {
                let mut sequence = Vec::new();
                [5_i32, 1, 1].iter().for_each(|word| sequence.extend(word.to_le_bytes()));
                text(&mut sequence, target.key.as_bytes());
                text(&mut sequence, b"v");
                text(&mut bytes, &sequence);
            }
            other => panic!("no argument is a `{other}`"),
        }
    }
    bytes
}

/// Sends a command on a connection of its own.
fn ask(listener: SocketAddr, cluster: &str, row: &Row, target: &MatrixTarget) -> AccessVerdict {
    let (code, words) = row.text.split_once(' ').unwrap_or((row.text, ""));
    let code = u32::from_str_radix(code, 16).expect("a code");
    let answer = Arakoon::connect(listener, cluster)
        .map_err(Into::into)
        .and_then(|mut client| client.request(code, &arguments(words, cluster, target)));
    AccessVerdict::of_arakoon(&answer)
}

/// Tries all commands with the rights of one role, which the listener's user has.
pub fn try_role(
    listener: SocketAddr,
    user: &MatrixUser,
    (cluster, target): (&str, &MatrixTarget),
    report: &mut MatrixReport,
) {
    for row in Row::parse_all(COMMANDS) {
        let is_allowed = may_enter(user, target) && may(user, &row.needs, target);
        let mut verdict = ask(listener, cluster, &row, target);
        // Who may not enter the bucket is not answered at all: the connection ends.
        if !may_enter(user, target) && matches!(verdict, AccessVerdict::Unavailable(_)) {
            verdict = AccessVerdict::Forbidden;
        }
        report.judge(("Arakoon", user.name), (&row, target), is_allowed, &verdict);
    }
}

/// Returns the codes of all rows.
pub fn codes() -> Vec<u32> {
    let code = |row: Row| u32::from_str_radix(row.text.split(' ').next()?, 16).ok();
    Row::parse_all(COMMANDS).into_iter().filter_map(code).collect()
}

#[test]
fn arguments_are_those_of_arakoons_protocol() {
    let target = MatrixTarget { bucket: "arakoon/m", key: "k", prefix: "p" };
    assert_eq!(arguments("c k", "m", &target), [0, 1, 0, 0, 0, b'k']);
    assert_eq!(arguments("[ k t:v", "m", &target)[..4], [2, 0, 0, 0]);
    assert_eq!(arguments("i:-1", "m", &target), [0xff; 4]);
    assert_eq!(arguments("s:v", "m", &target), [1, 1, 0, 0, 0, b'v']);
}
