//! Codec of messages and configurations: they read back, nothing else does, and the bytes of
//! version 1 stay. `CREDENZA_KEEP=golden cargo test -p logic wire` writes the golden bytes if they
//! are missing.

use crate::consensus::{
    Body, Configuration, LeaseTerm, LogSummary, Member, Message, ProbeReply, Tear,
};
use base::codec::Reader;
use base::{Ballot, ConfigurationId, LogIndex, Millis, NodeId, Part};
use proptest::prelude::*;
use std::fmt::Write;
use std::path::Path;

/// Numbers of the golden bytes.
const GOLDEN: [u64; 5] = [0x11, 0x22, 0x33, 0x44, 0x55];

/// One of each body, made from five numbers and two booleans.
fn bodies(n: [u64; 5], (yes, no): (bool, bool)) -> Vec<Body> {
    let [one, two, three, four, five] = n.map(LogIndex);
    let ballot = Ballot { round: n[3], node: NodeId(n[4]) };
    let log = LogSummary { ballot, last: one, decided: two };
    let (after, last) = (one, LogIndex(one.0.saturating_add(1 + two.0 % 64)));
    vec![
        Body::Probe { round: n[0] },
        Body::Probed {
            round: n[0],
            reply: ProbeReply { must_abstain: yes, is_candidate: no, log },
        },
        Body::Prepare { released: ballot },
        Body::Promise { log },
        Body::Refused { promised: ballot },
        Body::Fetch { after: one },
        Body::Fetched { after, last },
        Body::Behind,
        Body::Adopt { from: one, last: two },
        Body::Accept { after, last, decided: three },
        Body::Accepted { last: four },
        Body::Staged { last: five },
        Body::Gap { last: one },
        Body::Decide { last: two },
        heartbeat(n, yes.then_some(LeaseTerm::Whole), LogIndex(0)),
        granted(n, no.then_some(LeaseTerm::Whole), false),
        Body::HandOver,
        Body::Outdated,
        Body::Straggling { decided: one },
        Body::Learn { after, last, end: three },
        Body::Ended,
    ]
}

/// Returns a time that a clock may show.
fn time(n: u64) -> Millis {
    Millis(n & (u64::MAX >> 1))
}

fn heartbeat(n: [u64; 5], lease: Option<LeaseTerm>, saved_by_all: LogIndex) -> Body {
    let (beat, sent, decided) = (n[0], time(n[1]), LogIndex(n[2]));
    Body::Heartbeat { beat, sent, lease, decided, saved_by_all }
}

fn granted(n: [u64; 5], lease: Option<LeaseTerm>, is_full: bool) -> Body {
    Body::Granted { beat: n[0], sent: time(n[1]), lease, is_full }
}

/// Messages to and from witnesses, about torn logs, and about entries that may be lost.
fn later_bodies(n: [u64; 5], (yes, no): (bool, bool)) -> Vec<Body> {
    let ballot = Ballot { round: n[3], node: NodeId(n[4]) };
    let log = LogSummary { ballot, last: LogIndex(n[0]), decided: LogIndex(n[1]) };
    vec![
        heartbeat(n, yes.then_some(LeaseTerm::Whole), LogIndex(n[3].max(1))),
        granted(n, no.then_some(LeaseTerm::Whole), true),
        Body::TornPromise { log, tear: Tear(n[2]) },
        Body::LogEnd { tear: Tear(n[0]), last: LogIndex(n[1]) },
        Body::Sent { last: LogIndex(n[1]) },
    ]
}

/// Messages about half a lease.
fn half_lease_bodies(n: [u64; 5]) -> Vec<Body> {
    let half = Some(LeaseTerm::Half);
    vec![heartbeat(n, half, LogIndex(0)), granted(n, half, false)]
}

fn message(configuration: u32, ballot: Ballot, body: Body) -> Message {
    Message { configuration: ConfigurationId(configuration), ballot, body }
}

fn encode(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    bytes
}

fn members(parts: &[Part]) -> Vec<Member> {
    let nodes = (1..).map(|node| NodeId(node * 7));
    nodes.zip(parts).map(|(node, part)| Member { node, part: *part }).collect()
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![Just(Part::Voter), Just(Part::Witness), Just(Part::Learner)]
}

proptest! {
    #[test]
    fn message_round_trips_and_its_prefixes_are_malformed(
        configuration in any::<u32>(),
        round in any::<u64>(),
        numbers in any::<[u64; 5]>(),
        answers in any::<(bool, bool)>(),
    ) {
        let mut numbers = numbers;
        numbers[0] >>= 1;
        let ballot = Ballot { round, node: NodeId(numbers[4]) };
        let all =
            [bodies(numbers, answers), later_bodies(numbers, answers), half_lease_bodies(numbers)];
        for body in all.concat() {
            let message = message(configuration, ballot, body);
            let mut bytes = encode(&message);
            for length in 0..bytes.len() {
                prop_assert!(Message::read(&mut Reader::new(&bytes[..length])).is_err());
            }
            bytes.extend(b"values");
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(Message::read(&mut reader), Ok(message));
            prop_assert_eq!(reader.rest(), b"values");
        }
    }

    #[test]
    fn arbitrary_message_bytes_are_rejected_or_reencode_identically(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        number in 0..27_u8,
    ) {
        let mut bytes = bytes;
        if let Some(body_number) = bytes.get_mut(20) {
            *body_number = number;
        }
        let mut reader = Reader::new(&bytes);
        if let Ok(message) = Message::read(&mut reader) {
            let used = bytes.len() - reader.rest().len();
            prop_assert_eq!(encode(&message), &bytes[..used]);
            let values = message.body.entry_range();
            prop_assert!(values.is_none_or(|(after, last)| after < last));
        }
        let mut reader = Reader::new(&bytes);
        if let Ok(configuration) = Configuration::read(&mut reader) {
            prop_assert!(!configuration.members().is_empty());
        }
    }

    #[test]
    fn configuration_round_trips_and_its_prefixes_are_malformed(
        id in any::<u32>(),
        parts in prop::collection::vec(part(), 0..9),
    ) {
        let Ok(configuration) = Configuration::new(ConfigurationId(id), members(&parts)) else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        configuration.write(&mut bytes);
        for length in 0..bytes.len() {
            prop_assert!(Configuration::read(&mut Reader::new(&bytes[..length])).is_err());
        }
        prop_assert_eq!(Configuration::read(&mut Reader::new(&bytes)), Ok(configuration));
    }
}

#[test]
fn impossible_counts_members_and_ranges_are_malformed() {
    let too_many = [&[0; 4][..], &u32::MAX.to_le_bytes()].concat();
    assert!(
        Configuration::read(&mut Reader::new(&too_many)).is_err(),
        "nothing is allocated for it"
    );
    let no_members = [0; 8];
    assert!(Configuration::read(&mut Reader::new(&no_members)).is_err(), "nobody may lead");
    let empty = Body::Accept { after: LogIndex(5), last: LogIndex(5), decided: LogIndex(0) };
    let backwards = Body::Learn { after: LogIndex(5), last: LogIndex(4), end: LogIndex(9) };
    for body in [empty, backwards] {
        let bytes = encode(&message(0, Ballot::default(), body));
        assert!(Message::read(&mut Reader::new(&bytes)).is_err(), "{body:?}");
    }
}

#[test]
fn version_1_consensus_bytes_match_golden_file() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systest/golden/consensus-v1.txt");
    let ballot = Ballot { round: 0x0102_0304, node: NodeId(0xA1) };
    let mut text = String::new();
    for body in bodies(GOLDEN, (true, false)) {
        let message = message(7, ballot, body);
        let bytes = encode(&message);
        assert_eq!(Message::read(&mut Reader::new(&bytes)), Ok(message));
        let name = format!("{body:?}");
        let name = name.split([' ', '{']).next().unwrap_or("").to_lowercase();
        writeln!(text, "{name} {}", hexadecimal(&bytes)).expect("a string takes all");
    }
    let all = members(&[Part::Voter, Part::Witness, Part::Learner]);
    let configuration = Configuration::new(ConfigurationId(9), all).expect("sound");
    let mut bytes = Vec::new();
    configuration.write(&mut bytes);
    assert_eq!(Configuration::read(&mut Reader::new(&bytes)), Ok(configuration));
    writeln!(text, "configuration {}", hexadecimal(&bytes)).expect("a string takes all");
    let later = [later_bodies(GOLDEN, (true, false)), half_lease_bodies(GOLDEN)].concat();
    let names = [
        "heartbeat-kept",
        "granted-full",
        "torn-promise",
        "level",
        "sent",
        "heartbeat-half",
        "granted-half",
    ];
    for (name, body) in names.into_iter().zip(later) {
        let message = message(7, ballot, body);
        let bytes = encode(&message);
        assert_eq!(Message::read(&mut Reader::new(&bytes)), Ok(message));
        writeln!(text, "{name} {}", hexadecimal(&bytes)).expect("a string takes all");
    }
    if std::env::var("CREDENZA_KEEP").is_ok_and(|mode| mode == "golden") && !golden.exists() {
        std::fs::write(&golden, &text).expect("the kept bytes can be written");
    }
    let golden = std::fs::read_to_string(&golden).expect("the kept bytes are there");
    assert_eq!(text, golden, "what was once said between nodes is never changed");
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
