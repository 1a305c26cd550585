//! Laws of terms: their bytes order as their values, and have one form.

use super::{any_term, cases, telling_bytes};
use crate::{Term, TermKind, TermValue};
use base::Reason;
use proptest::prelude::*;
use std::cmp::Ordering;

/// Compares decimal texts as numbers, digit by digit.
fn compare_decimals(one: &str, other: &str) -> Ordering {
    let parts = |text: &str| {
        let is_negative = text.starts_with('-');
        let digits = text.trim_start_matches(['-', '+']).trim_start_matches('0').to_string();
        (is_negative && !digits.is_empty(), digits)
    };
    let ((one_negative, one), (other_negative, other)) = (parts(one), parts(other));
    let amounts = one.len().cmp(&other.len()).then_with(|| one.cmp(&other));
    match (one_negative, other_negative) {
        (false, false) => amounts,
        (true, true) => amounts.reverse(),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

fn decimal() -> impl Strategy<Value = String> {
    prop_oneof!["[-+]?[0-9]{1,4}", "-?[0-9]{1,40}", "-?[1-9][0-9]{300}"]
}

/// Returns numbers, most of them near each other or near a limit.
fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -3_i64..3, Just(i64::MIN), Just(i64::MAX)]
}

fn float() -> impl Strategy<Value = f64> {
    let near = prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::MIN_POSITIVE),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(5e-324),
        Just(-5e-324),
        Just(f64::MAX),
    ];
    let any_bits = any::<u64>().prop_map(f64::from_bits);
    prop_oneof![near, any_bits].prop_filter("NaN has no order", |number| !number.is_nan())
}

/// Builds the term that a decoded value stands for, from the value alone.
fn term_of(value: &TermValue) -> Option<Term> {
    match value {
        TermValue::TagInteger(text) => Term::tag_integer(text.as_bytes()).ok(),
        TermValue::TagBytes(bytes) => Term::tag_bytes(bytes).ok(),
        TermValue::Int(number) => Some(Term::int(*number)),
        TermValue::Float(number) => Term::float(*number),
        TermValue::String(text) => Some(Term::string(text)),
        TermValue::Bytes(bytes) => Some(Term::bytes(bytes)),
        TermValue::Bool(value) => Some(Term::bool(*value)),
        TermValue::CutString(..) | TermValue::CutBytes(..) => None,
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn tag_integers_order_as_numbers(one in decimal(), other in decimal()) {
        let terms = [&one, &other].map(|text| Term::tag_integer(text.as_bytes()).expect("digits"));
        prop_assert_eq!(terms[0].cmp(&terms[1]), compare_decimals(&one, &other));
    }

    #[test]
    fn declared_integers_order_as_numbers(one in integer(), other in integer()) {
        prop_assert_eq!(Term::int(one).cmp(&Term::int(other)), one.cmp(&other));
    }

    #[test]
    fn floats_order_as_numbers(one in float(), other in float()) {
        let terms = [one, other].map(|number| Term::float(number).expect("not NaN"));
        prop_assert_eq!(Some(terms[0].cmp(&terms[1])), one.partial_cmp(&other));
    }

    #[test]
    fn strings_and_bytes_order_as_their_bytes(one in telling_bytes(), other in telling_bytes()) {
        let order = one.cmp(&other);
        prop_assert_eq!(Term::bytes(&one).cmp(&Term::bytes(&other)), order);
        let tags = [&one, &other].map(|bytes| Term::tag_bytes(bytes).expect("short"));
        prop_assert_eq!(tags[0].cmp(&tags[1]), order);
        let texts = [one, other].map(|bytes| bytes.into_iter().map(char::from).collect::<String>());
        let terms = [&texts[0], &texts[1]].map(|text| Term::string(text));
        prop_assert_eq!(terms[0].cmp(&terms[1]), texts[0].cmp(&texts[1]));
    }

    #[test]
    fn cut_strings_are_equal_if_whole_and_order_by_their_fronts(
        front in prop::collection::vec(0_u8..2, 1_000),
        ends in prop::collection::vec(prop::collection::vec(0_u8..2, 0..60), 2),
        changed in 0_usize..2_000,
    ) {
        let mut strings = [&ends[0], &ends[1]].map(|end| [&front[..], end].concat());
        if let Some(byte) = strings[1][..1_000].get_mut(changed) {
            *byte ^= 1;
        }
        let [one, other] = &strings;
        let terms = [one, other].map(|bytes| Term::bytes(bytes));
        prop_assert_eq!(terms[0] == terms[1], one == other);
        if one[..1_000] != other[..1_000] {
            prop_assert_eq!(terms[0].cmp(&terms[1]), one.cmp(other));
        }
        if one.len().max(other.len()) <= 1_024 {
            prop_assert_eq!(terms[0].cmp(&terms[1]), one.cmp(other));
        }
    }

    #[test]
    fn terms_round_trip_and_tell_their_end(term in any_term(), behind in telling_bytes()) {
        prop_assert_eq!(Term::decode(term.as_bytes()), Ok(term.clone()));
        let bytes = [term.as_bytes(), &behind].concat();
        prop_assert_eq!(Term::take(&bytes), Ok((term.clone(), &behind[..])));
        for end in 0..term.as_bytes().len() {
            prop_assert!(Term::take(&term.as_bytes()[..end]).is_err(), "cut at {}", end);
        }
        if let Some(same) = term_of(&term.value()) {
            prop_assert_eq!(&same, &term);
            prop_assert_eq!(Term::parse(term.kind(), &term.text()), Ok(same));
        }
    }

    #[test]
    fn bytes_that_decode_have_one_form(
        kind in 0_u8..9,
        rest in prop_oneof![telling_bytes(), prop::collection::vec(any::<u8>(), 0..24)],
    ) {
        let bytes = [&[kind], &rest[..]].concat();
        if let Ok((term, behind)) = Term::take(&bytes) {
            prop_assert_eq!(term.as_bytes().len() + behind.len(), bytes.len());
            if let Some(same) = term_of(&term.value()) {
                prop_assert_eq!(same, term);
            }
        }
    }
}

#[test]
fn integers_have_one_term_for_each_number() {
    let term = |text: &str| Term::tag_integer(text.as_bytes());
    for (one, other) in [("0", "-0"), ("7", "+007"), ("-12", "-0012"), ("0", "000")] {
        assert_eq!(term(one), term(other), "{one} {other}");
    }
    for text in ["", "-", "+", " 1", "1 ", "1.5", "1e3", "--1", "x", "٣"] {
        let error = term(text).expect_err("no integer");
        assert_eq!(error.reason, Reason::NotANumber, "{text:?}");
    }
}

#[test]
fn zero_has_one_float_term_and_nan_has_none() {
    assert_eq!(Term::float(0.0), Term::float(-0.0));
    assert_eq!(Term::float(f64::NAN), None);
    assert_eq!(Term::float(-f64::NAN), None);
}

#[test]
fn texts_of_queries_are_parsed_by_kind() {
    let parse = |kind, text: &str| Term::parse(kind, text.as_bytes());
    assert_eq!(parse(TermKind::Int, "-9223372036854775808"), Ok(Term::int(i64::MIN)));
    assert_eq!(parse(TermKind::Float, "1e3"), Ok(Term::float(1000.0).expect("a number")));
    assert_eq!(parse(TermKind::Float, "7"), Ok(Term::float(7.0).expect("a number")));
    assert_eq!(parse(TermKind::Bool, "true"), Ok(Term::bool(true)));
    assert_eq!(parse(TermKind::String, ""), Ok(Term::string("")));
    for (kind, text) in [
        (TermKind::Int, "9223372036854775808"),
        (TermKind::Int, "1.0"),
        (TermKind::Float, "nan"),
        (TermKind::Float, "seven"),
        (TermKind::TagInteger, "seven"),
    ] {
        let error = parse(kind, text).expect_err("refused");
        assert_eq!(error.reason, Reason::NotANumber, "{text}");
        assert!(!error.text().contains(text), "values stay out of errors: {error}");
    }
    assert!(parse(TermKind::Bool, "1").is_err());
    assert!(Term::parse(TermKind::String, b"\xff").is_err(), "a string is UTF-8");
    assert_eq!(Term::parse(TermKind::Bytes, b"\xff"), Ok(Term::bytes(b"\xff")));
}
