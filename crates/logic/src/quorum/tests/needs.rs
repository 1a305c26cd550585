//! Examples of quorum sizes.

use crate::quorum::{Excess, FetchNeeds, FetchWish, StoreNeeds, StoreWish};
use base::{Quorum, Share};

const FETCH: FetchWish = FetchWish {
    r: Quorum::Quorum,
    pr: Quorum::Number(0),
    node_confirms: 0,
    basic_quorum: false,
    notfound_ok: true,
};
const STORE: StoreWish =
    StoreWish { w: Quorum::Quorum, dw: Quorum::Quorum, pw: Quorum::Number(0), node_confirms: 0 };

#[test]
fn words_are_of_the_replicas_there_are() {
    let defaults =
        FetchNeeds { r: 2, pr: 0, node_confirms: 0, nothing_at: None, notfound_ok: true };
    assert_eq!(FETCH.needs(3, 5), Ok(defaults));
    assert_eq!(STORE.needs(3, 5), Ok(StoreNeeds { w: 2, dw: 2, pw: 0, node_confirms: 0 }));
    let all = FetchWish { r: Quorum::All, pr: Quorum::One, basic_quorum: true, ..FETCH };
    let five = FetchNeeds { r: 5, pr: 1, nothing_at: Some(3), ..defaults };
    assert_eq!(all.needs(5, 9), Ok(five));
}

#[test]
fn a_single_node_answers_alone_but_is_not_two_machines() {
    let all = FetchWish { r: Quorum::All, pr: Quorum::Number(3), ..FETCH };
    let needs = all.needs(3, 1).expect("allowed");
    assert_eq!((needs.r, needs.pr), (1, 1));
    let both = StoreWish { w: Quorum::Number(2), node_confirms: 2, ..STORE };
    let needs = both.needs(3, 1).expect("allowed");
    assert_eq!((needs.w, needs.dw, needs.node_confirms), (1, 1, 2));
    assert_eq!(FETCH.needs(3, 2).map(|needs| needs.r), Ok(2));
}

#[test]
fn nothing_is_not_enough() {
    let none = StoreWish { w: Quorum::Number(0), dw: Quorum::Number(0), ..STORE };
    assert_eq!(none.needs(3, 3), Ok(StoreNeeds { w: 1, dw: 1, pw: 0, node_confirms: 0 }));
    let none = FetchWish { r: Quorum::Number(0), ..FETCH };
    assert_eq!(none.needs(3, 3).map(|needs| needs.r), Ok(1));
}

#[test]
fn more_than_a_key_has_copies_is_refused_by_name() {
    let much = Quorum::Number(4);
    let wish = StoreWish { w: much, dw: Quorum::All, pw: much, node_confirms: 4 };
    let refused = wish.needs(3, 9).expect_err("too much");
    assert_eq!(refused.to_string(), "w, pw, node_confirms can't be more than n_val, which is 3");
    let wish = FetchWish { pr: much, ..FETCH };
    assert_eq!(wish.needs(3, 9), Err(Excess { shares: vec![Share::Pr], n: 3 }));
}
