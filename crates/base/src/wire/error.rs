//! Codec of errors: the number of the reason, then the detail. The kind follows from the reason.
//!
//! A number never changes its meaning. A node of an older version cannot read an answer that holds
//! a newer number, and treats the request as one that may have happened.

use super::WireResult;
use super::fields::{FieldReader, FieldWriter};
use crate::codec::Malformed;
use crate::limits::PEER_DETAIL_BYTES_MAX;
use crate::{Error, Reason};

pub(super) fn put<W: FieldWriter>(error: &Error, out: &mut W) {
    out.u8(number(error.reason)).bytes(truncated_detail(&error.detail));
}

pub(super) fn take(from: &mut FieldReader<'_>) -> WireResult<Error> {
    let reason = reason(from.u8("reason")?).ok_or(Malformed("reason"))?;
    Ok(Error { reason, detail: from.bytes(PEER_DETAIL_BYTES_MAX, "detail")? })
}

/// Returns the beginning of a detail, cut at a character boundary if it is text.
fn truncated_detail(detail: &[u8]) -> &[u8] {
    if detail.len() <= PEER_DETAIL_BYTES_MAX {
        return detail;
    }
    let is_continuation = |offset: &usize| detail[*offset] & 0b1100_0000 == 0b1000_0000;
    let excess =
        (0..4).find(|excess| !is_continuation(&(PEER_DETAIL_BYTES_MAX - excess))).unwrap_or(0);
    &detail[..PEER_DETAIL_BYTES_MAX - excess]
}

fn number(reason: Reason) -> u8 {
    use Reason::*;
    match reason {
        Malformed => 0,
        TooLarge => 1,
        NotANumber => 2,
        NoSuchBucket => 3,
        NoSuchType => 4,
        NotSupported => 5,
        SessionExpired => 6,
        RequestExpired => 7,
        Forbidden => 8,
        NotFound => 9,
        AssertionFailed => 10,
        AlreadyExists => 11,
        Changed => 12,
        Overloaded => 13,
        OutOfSpace => 14,
        TooMany => 15,
        NotMaster => 16,
        NoQuorum => 17,
        StaleReplica => 18,
        ShuttingDown => 19,
        Moved => 20,
        NoLongerMaster => 21,
        DeadlinePassed => 22,
        Corrupt => 23,
        StoreFailed => 24,
        Siblings => 25,
        TooManySiblings => 26,
        ReadQuorumUnmet => 27,
        WriteQuorumUnmet => 28,
        NotBootstrapped => 29,
        RetryMismatch => 30,
        InDoubt => 31,
        StartFailed => 32,
        InUse => 33,
        MetadataChanged => 34,
        Starting => 35,
        Unauthenticated => 36,
        Quota => 37,
        NoSuchIndex => 38,
        IndexBuilding => 39,
        IndexFailed => 40,
        FeedOff => 41,
        FeedBuilding => 42,
        MalformedToken => 43,
    }
}

fn reason(number: u8) -> Option<Reason> {
    use Reason::*;
    Some(match number {
        0 => Malformed,
        1 => TooLarge,
        2 => NotANumber,
        3 => NoSuchBucket,
        4 => NoSuchType,
        5 => NotSupported,
        6 => SessionExpired,
        7 => RequestExpired,
        8 => Forbidden,
        9 => NotFound,
        10 => AssertionFailed,
        11 => AlreadyExists,
        12 => Changed,
        13 => Overloaded,
        14 => OutOfSpace,
        15 => TooMany,
        16 => NotMaster,
        17 => NoQuorum,
        18 => StaleReplica,
        19 => ShuttingDown,
        20 => Moved,
        21 => NoLongerMaster,
        22 => DeadlinePassed,
        23 => Corrupt,
        24 => StoreFailed,
        25 => Siblings,
        26 => TooManySiblings,
        27 => ReadQuorumUnmet,
        28 => WriteQuorumUnmet,
        29 => NotBootstrapped,
        30 => RetryMismatch,
        31 => InDoubt,
        32 => StartFailed,
        33 => InUse,
        34 => MetadataChanged,
        35 => Starting,
        36 => Unauthenticated,
        37 => Quota,
        38 => NoSuchIndex,
        39 => IndexBuilding,
        40 => IndexFailed,
        41 => FeedOff,
        42 => FeedBuilding,
        43 => MalformedToken,
        _ => return None,
    })
}
