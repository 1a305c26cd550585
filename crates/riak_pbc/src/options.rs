//! Options of requests: quorums and timeouts in numbers.

use crate::messages::*;
use base::{FetchOptions, Quorum, StoreOptions};

/// Numbers that stand for words.
const ONE: u32 = u32::MAX - 1;
const QUORUM: u32 = u32::MAX - 2;
const ALL: u32 = u32::MAX - 3;
const DEFAULT: u32 = u32::MAX - 4;

/// Refusal of `node_confirms` that is no number of nodes.
const CONFIRMS_TEXT: &str = "node_confirms must be a number of nodes";

/// Returns a quorum. `None`: the bucket's property applies. More replicas than any key has become
/// 255, which the node refuses.
pub(crate) fn quorum(number: Option<u32>) -> Option<Quorum> {
    Some(match number? {
        DEFAULT => return None,
        ONE => Quorum::One,
        QUORUM => Quorum::Quorum,
        ALL => Quorum::All,
        number => Quorum::Number(u8::try_from(number).unwrap_or(u8::MAX)),
    })
}

/// Returns a quorum as the number of a message.
pub(crate) fn number(quorum: Quorum) -> u32 {
    match quorum {
        Quorum::One => ONE,
        Quorum::Quorum => QUORUM,
        Quorum::All => ALL,
        Quorum::Number(number) => number.into(),
    }
}

/// Returns a number of nodes. `None`: the bucket's property applies. `quorum` and `all` are no
/// numbers of nodes and are refused.
pub(crate) fn confirms(number: Option<u32>) -> Result<Option<u8>, &'static str> {
    match quorum(number) {
        None => Ok(None),
        Some(Quorum::One) => Ok(Some(1)),
        Some(Quorum::Number(number)) => Ok(Some(number)),
        Some(Quorum::Quorum | Quorum::All) => Err(CONFIRMS_TEXT),
    }
}

/// Returns a timeout in milliseconds. `None`: no timeout, also if it is 0.
pub fn timeout_ms(timeout: Option<u32>) -> Option<u64> {
    timeout.filter(|timeout| *timeout > 0).map(u64::from)
}

/// Options of a read in a message.
pub trait ReadOptions {
    /// Returns them. Errors: the text of a refusal.
    fn read_options(&self) -> Result<FetchOptions, &'static str>;
}

/// Options of a write in a message.
pub trait WriteOptions {
    /// Returns them. Errors: the text of a refusal.
    fn write_options(&self) -> Result<StoreOptions, &'static str>;
}

impl ReadOptions for RpbGetReq {
    fn read_options(&self) -> Result<FetchOptions, &'static str> {
        Ok(FetchOptions {
            r: quorum(self.r),
            pr: quorum(self.pr),
            node_confirms: confirms(self.node_confirms)?,
            basic_quorum: self.basic_quorum,
            notfound_ok: self.notfound_ok,
            timeout_ms: timeout_ms(self.timeout),
        })
    }
}

impl ReadOptions for DtFetchReq {
    fn read_options(&self) -> Result<FetchOptions, &'static str> {
        Ok(FetchOptions {
            r: quorum(self.r),
            pr: quorum(self.pr),
            node_confirms: confirms(self.node_confirms)?,
            basic_quorum: self.basic_quorum,
            notfound_ok: self.notfound_ok,
            timeout_ms: timeout_ms(self.timeout),
        })
    }
}

impl ReadOptions for RpbCounterGetReq {
    fn read_options(&self) -> Result<FetchOptions, &'static str> {
        Ok(FetchOptions {
            r: quorum(self.r),
            pr: quorum(self.pr),
            node_confirms: confirms(self.node_confirms)?,
            basic_quorum: self.basic_quorum,
            notfound_ok: self.notfound_ok,
            timeout_ms: None,
        })
    }
}

impl ReadOptions for RpbDelReq {
    fn read_options(&self) -> Result<FetchOptions, &'static str> {
        Ok(FetchOptions {
            r: quorum(self.r).or(quorum(self.rw)),
            pr: quorum(self.pr),
            timeout_ms: timeout_ms(self.timeout),
            ..FetchOptions::default()
        })
    }
}

impl WriteOptions for RpbDelReq {
    fn write_options(&self) -> Result<StoreOptions, &'static str> {
        Ok(StoreOptions {
            w: quorum(self.w).or(quorum(self.rw)),
            dw: quorum(self.dw),
            pw: quorum(self.pw),
            timeout_ms: timeout_ms(self.timeout),
            ..StoreOptions::default()
        })
    }
}

impl WriteOptions for RpbPutReq {
    fn write_options(&self) -> Result<StoreOptions, &'static str> {
        if self.asis == Some(true) {
            return Err("asis is not supported: every write gets a new dot");
        }
        Ok(StoreOptions {
            w: quorum(self.w),
            dw: quorum(self.dw),
            pw: quorum(self.pw),
            node_confirms: confirms(self.node_confirms)?,
            timeout_ms: timeout_ms(self.timeout),
            return_body: self.return_body == Some(true) || self.return_head == Some(true),
        })
    }
}

impl WriteOptions for DtUpdateReq {
    fn write_options(&self) -> Result<StoreOptions, &'static str> {
        Ok(StoreOptions {
            w: quorum(self.w),
            dw: quorum(self.dw),
            pw: quorum(self.pw),
            node_confirms: confirms(self.node_confirms)?,
            timeout_ms: timeout_ms(self.timeout),
            return_body: self.return_body == Some(true),
        })
    }
}

impl WriteOptions for RpbCounterUpdateReq {
    fn write_options(&self) -> Result<StoreOptions, &'static str> {
        Ok(StoreOptions {
            w: quorum(self.w),
            dw: quorum(self.dw),
            pw: quorum(self.pw),
            node_confirms: confirms(self.node_confirms)?,
            timeout_ms: None,
            return_body: self.returnvalue == Some(true),
        })
    }
}
