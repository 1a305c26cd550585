//! Examples of quorum sizes.

use crate::quorum::{FetchNeeds, FetchQuorums, QuorumError, StoreNeeds, StoreQuorums};
use base::{Quorum, Share};

const FETCH: FetchQuorums = FetchQuorums {
    r: Quorum::Quorum,
    pr: Quorum::Number(0),
    node_confirms: 0,
    basic_quorum: false,
    notfound_ok: true,
};
const STORE: StoreQuorums =
    StoreQuorums { w: Quorum::Quorum, dw: Quorum::Quorum, pw: Quorum::Number(0), node_confirms: 0 };

#[test]
fn symbolic_quorums_resolve_against_n_val() {
    let defaults =
        FetchNeeds { r: 2, pr: 0, node_confirms: 0, notfound_quorum: None, notfound_ok: true };
    assert_eq!(FETCH.needs(3, 5), Ok(defaults));
    assert_eq!(STORE.needs(3, 5), Ok(StoreNeeds { w: 2, dw: 2, pw: 0, node_confirms: 0 }));
    let all = FetchQuorums { r: Quorum::All, pr: Quorum::One, basic_quorum: true, ..FETCH };
    let five = FetchNeeds { r: 5, pr: 1, notfound_quorum: Some(3), ..defaults };
    assert_eq!(all.needs(5, 9), Ok(five));
}

#[test]
fn quorum_needs_are_capped_by_node_count_except_node_confirms() {
    let all = FetchQuorums { r: Quorum::All, pr: Quorum::Number(3), ..FETCH };
    let needs = all.needs(3, 1).expect("allowed");
    assert_eq!((needs.r, needs.pr), (1, 1));
    let both = StoreQuorums { w: Quorum::Number(2), node_confirms: 2, ..STORE };
    let needs = both.needs(3, 1).expect("allowed");
    assert_eq!((needs.w, needs.dw, needs.node_confirms), (1, 1, 2));
    assert_eq!(FETCH.needs(3, 2).map(|needs| needs.r), Ok(2));
}

#[test]
fn zero_quorum_is_raised_to_single_replica() {
    let none = StoreQuorums { w: Quorum::Number(0), dw: Quorum::Number(0), ..STORE };
    assert_eq!(none.needs(3, 3), Ok(StoreNeeds { w: 1, dw: 1, pw: 0, node_confirms: 0 }));
    let none = FetchQuorums { r: Quorum::Number(0), ..FETCH };
    assert_eq!(none.needs(3, 3).map(|needs| needs.r), Ok(1));
}

#[test]
fn quorum_above_n_val_is_rejected_with_its_name() {
    let too_many = Quorum::Number(4);
    let wish = StoreQuorums { w: too_many, dw: Quorum::All, pw: too_many, node_confirms: 4 };
    let refused = wish.needs(3, 9).expect_err("too much");
    assert_eq!(refused.to_string(), "w, pw, node_confirms can't be more than n_val, which is 3");
    let wish = FetchQuorums { pr: too_many, ..FETCH };
    assert_eq!(wish.needs(3, 9), Err(QuorumError { shares: vec![Share::Pr], n: 3 }));
}
