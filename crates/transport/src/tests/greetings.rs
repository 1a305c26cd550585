//! Laws of the greetings: they are decoded, even with bytes appended by later versions, and other
//! bytes are refused without a panic.

use crate::handshake::{ENVELOPE_BYTES, Greeting, Hello, LinkKeys, PeerIdentity, Received};
use crate::incarnation::Incarnation;
use crate::refusal::Refusal;
use crate::versions::{VERSIONS, Versions};
use base::codec::checksum;
use base::limits::PEER_LIVES_MAX;
use base::{ClusterId, ClusterSecret, IncarnationId, NodeId};
use proptest::prelude::*;
use std::collections::BTreeSet;

pub(super) fn identity(node: u64, incarnation: u64, process: u64, nonce: u64) -> PeerIdentity {
    PeerIdentity {
        cluster: ClusterId(0xC1),
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        process,
        nonce,
        name: format!("node{node}"),
        address: format!("10.0.0.{node}:7712"),
        incarnations: Vec::new(),
    }
}

pub(super) fn read(bytes: &[u8], supported: Versions) -> Result<Greeting, Refusal> {
    receive(bytes, supported).map(|received| received.greeting)
}

pub(super) fn receive(bytes: &[u8], supported: Versions) -> Result<Received, Refusal> {
    let (envelope, body) = bytes.split_first_chunk::<ENVELOPE_BYTES>().expect("an envelope");
    let length = Greeting::body_bytes(envelope)?;
    let body = body.get(..length).ok_or(Refusal::Malformed("torn"))?;
    Greeting::decode(envelope, body, supported)
}

/// Returns the greeting with bytes appended to the known fields, as a later version would.
fn longer(bytes: &[u8], more: &[u8]) -> Vec<u8> {
    let body = [&bytes[ENVELOPE_BYTES..], more].concat();
    let length = (body.len() as u32).to_le_bytes();
    [&bytes[..8], &length[..], &checksum(&body, 0).to_le_bytes()[..], &body[..]].concat()
}

/// Returns the greeting without fields added later.
fn older(mut greeting: Greeting) -> Greeting {
    if let Greeting::Hello(Hello { identity, .. }) | Greeting::Welcome { identity, .. } =
        &mut greeting
    {
        identity.incarnations.clear();
    }
    greeting
}

fn any_greeting() -> impl Strategy<Value = Greeting> {
    let identities =
        (1u64.., any::<u64>(), any::<u64>(), any::<u64>(), "[a-zé]{0,30}", "[a-z.:0-9]{0,80}");
    let incarnation_id =
        (any::<u64>(), 1u64..).prop_map(|(number, token)| IncarnationId { number, token });
    // At least one: without incarnations a greeting ends before them, as in versions before MACs.
    let incarnations = prop::collection::vec(incarnation_id, 1..=PEER_LIVES_MAX);
    let identities = (identities, incarnations).prop_map(
        |((node, incarnation, process, nonce, name, address), incarnations)| PeerIdentity {
            name,
            address,
            incarnations,
            ..identity(node, incarnation, process, nonce)
        },
    );
    let hello =
        (identities.clone(), 1u64.., any::<u64>()).prop_map(|(identity, target, previous)| {
            Greeting::Hello(Hello {
                versions: VERSIONS,
                identity,
                target: NodeId(target),
                previous,
            })
        });
    let welcome = (identities, any::<u16>())
        .prop_map(|(identity, version)| Greeting::Welcome { version, identity });
    let refused = (any::<u8>(), "[ -\\[\\]-~]{0,512}")
        .prop_map(|(code, text)| Greeting::Refused { code, text });
    prop_oneof![hello, welcome, any::<u64>().prop_map(|link| Greeting::Go { link }), refused]
}

proptest! {
    #[test]
    fn greeting_round_trips_and_ignores_fields_of_later_versions(
        greeting in any_greeting(),
        mac: [u8; 32],
        more in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let unsigned = greeting.encode();
        prop_assert_eq!(read(&unsigned, VERSIONS), Ok(greeting.clone()));
        let (bytes, signed) = greeting.encode_signed(|_| mac);
        let received = Received { greeting, signed, mac: Some(mac) };
        prop_assert_eq!(receive(&bytes, VERSIONS), Ok(received.clone()));
        // A version after MACs appends after the MAC, or after the mark of its absence.
        prop_assert_eq!(receive(&longer(&bytes, &more), VERSIONS), Ok(received.clone()));
        let none = longer(&unsigned, &[&[0], &more[..]].concat());
        prop_assert_eq!(read(&none, VERSIONS), Ok(received.greeting));
    }

    #[test]
    fn greeting_with_a_flipped_bit_is_rejected(
        greeting in any_greeting(),
        at: usize,
        bit in 0u8..8,
    ) {
        let mut bytes = greeting.encode();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        prop_assert!(read(&bytes, VERSIONS).is_err());
    }

    #[test]
    fn truncated_greeting_is_rejected(greeting in any_greeting(), cut: usize) {
        let bytes = greeting.encode();
        let body = bytes.len() - ENVELOPE_BYTES;
        // A greeting that ends before its incarnations is one of an older version.
        prop_assume!(cut % body + ENVELOPE_BYTES != older(greeting).encode().len());
        let torn = longer(&bytes[..ENVELOPE_BYTES + cut % body], &[]);
        prop_assert!(read(&torn, VERSIONS).is_err());
    }

    #[test]
    fn greeting_with_truncated_mac_is_rejected(
        greeting in any_greeting(),
        mac: [u8; 32],
        cut in 1..33_usize,
    ) {
        let (bytes, _) = greeting.encode_signed(|_| mac);
        let torn = longer(&bytes[..bytes.len() - cut], &[]);
        prop_assert!(read(&torn, VERSIONS).is_err());
    }

    #[test]
    fn arbitrary_bytes_are_rejected_as_greeting(
        bytes in prop::collection::vec(any::<u8>(), 20..300),
    ) {
        prop_assert!(read(&bytes, VERSIONS).is_err());
        // In a valid envelope random bytes may decode by chance; only a panic is wrong.
        let _ = read(&longer(&[b"CRDZPEER", &bytes[..12]].concat(), &bytes), VERSIONS);
    }
}

#[test]
fn bond_is_equal_on_both_sides_and_unique_per_connection() {
    let (one, two) = (identity(1, 5, 50, 500), identity(2, 6, 60, 600));
    let link_keys = LinkKeys::new(&one, &two, None);
    assert_eq!(link_keys, LinkKeys::new(&one.clone(), &two.clone(), None));
    assert_ne!(link_keys.dialler_salt, link_keys.dialled_salt);
    let others = [
        LinkKeys::new(&two, &one, None),
        LinkKeys::new(&identity(1, 5, 50, 501), &two, None),
        LinkKeys::new(&one, &identity(2, 6, 60, 601), None),
        LinkKeys::new(&one, &identity(2, 7, 60, 600), None),
        LinkKeys::new(&identity(3, 5, 50, 500), &two, None),
    ];
    for other in others {
        assert_ne!(link_keys.link, other.link);
        assert_ne!(link_keys.dialler_salt, other.dialler_salt);
        assert_ne!(link_keys.dialled_salt, other.dialled_salt);
    }
    // Under a secret, the greetings reveal the link's id and no salt.
    let secrets = [1, 2].map(|byte| ClusterSecret::new([byte; 32]));
    let [keyed, other] = secrets.each_ref().map(|secret| LinkKeys::new(&one, &two, Some(secret)));
    assert_eq!(keyed.link, link_keys.link);
    let salts = [link_keys, keyed, other]
        .map(|link_keys| [link_keys.dialler_salt, link_keys.dialled_salt])
        .concat();
    assert_eq!(salts.iter().collect::<BTreeSet<_>>().len(), 6, "{salts:?}");
}

#[test]
fn highest_common_protocol_version_is_negotiated() {
    let versions = |lowest, highest| Versions { lowest, highest };
    for (local, remote, common) in [
        (versions(1, 1), versions(1, 1), Some(1)),
        (versions(1, 3), versions(2, 5), Some(3)),
        (versions(2, 5), versions(1, 3), Some(3)),
        (versions(1, 2), versions(3, 4), None),
        (versions(3, 4), versions(1, 2), None),
    ] {
        assert_eq!(local.common(remote), common);
    }
}
