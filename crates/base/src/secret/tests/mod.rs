//! Tests of the cluster's secret, and of the memory of all secrets.

mod wiping;

use super::*;

#[test]
fn cluster_secret_hex_round_trips_and_debug_hides_secret() {
    let secret = ClusterSecret::new(std::array::from_fn(|index| index as u8 * 7));
    assert_eq!(ClusterSecret::from_hex(&secret.to_hex()).as_ref(), Ok(&secret));
    assert_eq!(format!("{secret:?}"), "ClusterSecret");
    assert_eq!(format!("{:?}", secret.derive_key("test")), "DerivedKey");
    let long = format!("{}0", *secret.to_hex());
    for bad in ["", "ab", &long, &long.replace('0', "g")[..64], &"é".repeat(32)] {
        let refused = ClusterSecret::from_hex(bad).expect_err("no secret");
        assert!(bad.is_empty() || !refused.text().contains(bad));
    }
}

#[test]
fn mac_depends_on_secret_bytes_and_part_boundaries() {
    let (one, other) = (ClusterSecret::new([1; 32]), ClusterSecret::new([2; 32]));
    let mac = one.mac(&[b"hello", b"welcome"]);
    assert!(one.verifies(&[b"hello", b"welcome"], &mac));
    assert!(!other.verifies(&[b"hello", b"welcome"], &mac));
    for parts in [&[&b"hellow"[..], b"elcome"][..], &[b"hello"], &[b"hello", b"welcomf"]] {
        assert!(!one.verifies(parts, &mac), "{parts:?}");
    }
    let (this, that) = (one.derive_key("this"), one.derive_key("that"));
    assert_ne!(this.mac(&[b"hello"]), that.mac(&[b"hello"]));
    assert_ne!(this.mac(&[b"hello"]), other.derive_key("this").mac(&[b"hello"]));
}
