//! Tests of the answer to every error reason, and of the connection's state after it.

use crate::arakoon::errors::{AfterAnswer, ArakoonRefusal, too_many_clients_answer};
use crate::arakoon::frame::FrameFault;
use base::codec::printable;
use base::{Error, Reason};
use std::collections::BTreeMap;

/// Formats the code, the message and the connection's state as one line.
fn describe(refusal: &ArakoonRefusal) -> String {
    let mut bytes = Vec::new();
    refusal.write(&mut bytes);
    let code = u32::from_le_bytes(*bytes.first_chunk().expect("a code"));
    let text = bytes.get(8..).map(printable).unwrap_or_default();
    let length = bytes.get(4..8).map(|length| length[0] as usize);
    assert!(length.is_none_or(|length| length == bytes.len() - 8), "a short message is whole");
    let then = if refusal.after == AfterAnswer::Close { "ends" } else { "stays" };
    format!("{code:02x} {text} | {then}")
}

#[test]
fn error_reason_maps_to_code_message_and_connection_state() {
    let expected: BTreeMap<Reason, &str> = [
        (Reason::Malformed, "ff malformed: k | stays"),
        (Reason::TooLarge, "26 k | stays"),
        (Reason::NotANumber, "ff not_a_number: k | stays"),
        (Reason::NoSuchBucket, "06 Wrong cluster | ends"),
        (Reason::NoSuchType, "06 Wrong cluster | ends"),
        (Reason::NotSupported, "20 k | stays"),
        (Reason::SessionExpired, "ff session_expired: k | stays"),
        (Reason::RequestExpired, "ff request_expired: k | stays"),
        (Reason::RetryMismatch, "ff retry_mismatch: k | stays"),
        (Reason::Forbidden, "ff forbidden: k | stays"),
        (Reason::Unauthenticated, "ff unauthenticated: k | stays"),
        (Reason::NotFound, "05 k | stays"),
        (Reason::AssertionFailed, "07 k | stays"),
        (Reason::AlreadyExists, "ff already_exists: k | stays"),
        (Reason::Changed, "ff changed: k | stays"),
        (Reason::Overloaded, "ff overloaded: k | stays"),
        (Reason::OutOfSpace, "ff out_of_space: k | stays"),
        (Reason::TooMany, "ff too_many: k | stays"),
        (Reason::NotMaster, "04 k | ends"),
        (Reason::NoQuorum, "04 None | ends"),
        (Reason::StaleReplica, "80 store not fresh enough | stays"),
        (Reason::ShuttingDown, "10 closing socket | ends"),
        (Reason::NotBootstrapped, "10 closing socket | ends"),
        (Reason::Moved, "04 k | ends"),
        (Reason::NoLongerMaster, "21 k | stays"),
        (Reason::DeadlinePassed, "21 k | stays"),
        (Reason::Corrupt, "ff corrupt: k | ends"),
        (Reason::StoreFailed, "ff store_failed: k | ends"),
        (Reason::Siblings, "ff siblings: k | stays"),
        (Reason::TooManySiblings, "ff too_many_siblings: k | stays"),
        (Reason::ReadQuorumUnmet, "ff read_quorum_unmet: k | stays"),
        (Reason::WriteQuorumUnmet, "21 k | stays"),
        (Reason::InDoubt, "21 k | stays"),
        (Reason::StartFailed, "ff start_failed: k | stays"),
        (Reason::InUse, "ff in_use: k | stays"),
        (Reason::MetadataChanged, "ff metadata_changed: k | stays"),
        (Reason::Quota, "ff quota: k | stays"),
        (Reason::NoSuchIndex, "ff no_such_index: k | stays"),
        (Reason::IndexBuilding, "ff index_building: k | stays"),
        (Reason::IndexFailed, "ff index_failed: k | stays"),
        (Reason::FeedOff, "ff feed_off: k | stays"),
        (Reason::FeedBuilding, "ff feed_building: k | stays"),
        (Reason::MalformedToken, "ff malformed_token: k | stays"),
        (Reason::Starting, "10 closing socket | ends"),
    ]
    .into();
    for reason in Reason::ALL {
        let refusal = ArakoonRefusal::from(&Error::new(reason, "k"));
        assert_eq!(describe(&refusal), expected[&reason], "{reason:?}");
    }
}

#[test]
fn unknown_function_name_is_escaped_as_in_arakoon() {
    let refusal = ArakoonRefusal::no_such_function(b"a\"b\\c\n\xff");
    let mut bytes = Vec::new();
    refusal.write(&mut bytes);
    let text = String::from_utf8_lossy(&bytes[8..]).into_owned();
    assert_eq!(text, r#"User function "a\"b\\c\n\255" could not be found"#);
}

#[test]
fn frame_fault_maps_to_error_code_and_ends_the_connection() {
    let cases = [
        (FrameFault::NoMagic, "01  | ends"),
        (FrameFault::Unknown(0x47), "05 47: command not found | ends"),
        (FrameFault::Malformed, "ff unknown failure | ends"),
    ];
    for (fault, wanted) in cases {
        assert_eq!(describe(&fault.into()), wanted);
    }
    let large = describe(&FrameFault::TooLarge("frame_bytes_max", 7).into());
    assert!(large.starts_with("26 ") && large.contains("7 (frame_bytes_max) | ends"), "{large}");
    let mut bytes = Vec::new();
    ArakoonRefusal::from(FrameFault::NoMagic).write(&mut bytes);
    assert_eq!(bytes, [1, 0, 0, 0], "no message at all");
    assert_eq!(
        printable(&too_many_clients_answer()),
        "\\xfe\\x00\\x00\\x00\\x10\\x00\\x00\\x00too many clients"
    );
}
