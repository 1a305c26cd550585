//! Sessions: the verbs of one call, counted and charged, for both engines.
//!
//! Functions that an engine calls must live forever, so they can't hold a borrowed host. The
//! session is lent to them by a scoped variable of the thread ([`lend`], [`with`]).

use crate::cursor::{CursorRange, CursorTable, RANGE_KEYS, RowCursor};
use crate::error::{CallUsage, FunctionError, HostError, cut};
use crate::host::{CallMode, FunctionHost};
use crate::limits::{
    BYTES_PER_FUEL, CallLimits, FunctionLimit, LOG_LINE_BYTES_MAX, LOG_LINES_MAX, VERB_FUEL,
};
use bytes::Bytes;
use scoped_tls_hkt::scoped_thread_local;
use std::fmt;

scoped_thread_local!(static mut SESSION: for<'a> &'a mut (dyn Verbs + 'a));

/// Runs an engine while the functions that it calls find the session by [`with`].
pub(crate) fn lend<R>(session: &mut Session<'_>, run: impl FnOnce() -> R) -> R {
    SESSION.set(session, run)
}

/// Runs a verb on the session of the call. No verb runs an engine, so calls do not nest.
pub(crate) fn with<R>(verb: impl FnOnce(&mut dyn Verbs) -> R) -> R {
    SESSION.with(|session| verb(session))
}

/// Mark of a call that has ended: the session holds the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallEnd;

impl fmt::Display for CallEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the call has ended")
    }
}

/// Result of a verb.
pub(crate) type VerbResult<T> = Result<T, CallEnd>;

/// Verbs of functions, as the engines call them.
pub(crate) trait Verbs {
    /// Ends the call. The first reason counts.
    fn end(&mut self, error: FunctionError) -> CallEnd;
    /// Returns the fuel that is left.
    fn fuel(&self) -> u64;
    /// Takes over the fuel that is left from the engine's count.
    fn set_fuel(&mut self, fuel: u64);
    /// Charges a verb that does not reach the host.
    fn charge(&mut self, bytes: usize) -> VerbResult<()>;
    fn input(&mut self) -> VerbResult<Option<Bytes>>;
    fn get(&mut self, key: &[u8]) -> VerbResult<Option<Bytes>>;
    fn exists(&mut self, key: &[u8]) -> VerbResult<bool>;
    fn set(&mut self, key: &[u8], value: &[u8], expiry_ms: Option<u64>) -> VerbResult<()>;
    fn delete(&mut self, key: &[u8]) -> VerbResult<bool>;
    fn add(&mut self, key: &[u8], delta: i64) -> VerbResult<i64>;
    fn append(&mut self, key: &[u8], suffix: &[u8]) -> VerbResult<u64>;
    /// Opens a cursor, and returns its number.
    fn open(&mut self, range: &CursorRange<'_>) -> VerbResult<u32>;
    /// Steps to the next row of a cursor, and returns true if there is one.
    fn next(&mut self, cursor: u32) -> VerbResult<bool>;
    fn key(&mut self, cursor: u32) -> VerbResult<Bytes>;
    fn value(&mut self, cursor: u32) -> VerbResult<Bytes>;
    fn close(&mut self, cursor: u32) -> VerbResult<()>;
    fn group_time_ms(&mut self) -> VerbResult<u64>;
    /// Returns the session's name and the number, big-endian, of the request.
    fn request(&mut self) -> VerbResult<Option<Bytes>>;
    fn output(&mut self, bytes: &[u8]) -> VerbResult<()>;
    fn log(&mut self, line: &[u8]) -> VerbResult<()>;
    /// Keeps bytes that WebAssembly takes by its next `take`.
    fn offer(&mut self, bytes: Bytes);
    /// Returns the bytes that were offered last.
    fn take(&mut self) -> Bytes;
}

/// State of one call.
pub(crate) struct Session<'h> {
    host: &'h mut dyn FunctionHost,
    input: Option<Bytes>,
    mode: CallMode,
    limits: CallLimits,
    fuel: u64,
    host_calls: u32,
    log_lines: u32,
    cursors: CursorTable,
    offered: Bytes,
    output: Option<Vec<u8>>,
    ended: Option<FunctionError>,
}

impl<'h> Session<'h> {
    pub fn new(
        host: &'h mut dyn FunctionHost,
        input: Option<Bytes>,
        mode: CallMode,
        limits: CallLimits,
    ) -> Session<'h> {
        Session {
            host,
            input,
            mode,
            limits,
            fuel: limits.fuel,
            host_calls: 0,
            log_lines: 0,
            cursors: CursorTable::default(),
            offered: Bytes::new(),
            output: None,
            ended: None,
        }
    }

    pub fn usage(&self) -> CallUsage {
        CallUsage { fuel: self.limits.fuel - self.fuel, host_calls: self.host_calls }
    }

    /// Returns the reason for which the call has ended, if it has.
    pub fn take_ended(&mut self) -> Option<FunctionError> {
        self.ended.take()
    }

    pub fn take_output(&mut self) -> Option<Vec<u8>> {
        self.output.take()
    }

    /// Charges the start of an engine.
    pub fn start(&mut self, fuel: u64) -> Result<(), FunctionError> {
        match self.burn(fuel) {
            Ok(()) => Ok(()),
            Err(CallEnd) => {
                Err(self.take_ended().unwrap_or_else(|| FunctionError::trapped("ended")))
            }
        }
    }

    fn exceed(&mut self, limit: FunctionLimit) -> CallEnd {
        self.end(FunctionError::exceeded(limit, &self.limits))
    }

    fn burn(&mut self, fuel: u64) -> VerbResult<()> {
        if self.ended.is_some() {
            return Err(CallEnd);
        }
        match self.fuel.checked_sub(fuel) {
            Some(left) => {
                self.fuel = left;
                Ok(())
            }
            None => {
                self.fuel = 0;
                Err(self.exceed(FunctionLimit::Fuel))
            }
        }
    }

    /// Counts and charges a call of the host with so many bytes of arguments.
    fn reach(&mut self, bytes: usize) -> VerbResult<()> {
        self.charge(bytes)?;
        if self.host_calls == self.limits.host_calls {
            return Err(self.exceed(FunctionLimit::HostCalls));
        }
        self.host_calls += 1;
        Ok(())
    }

    /// Charges bytes that the host answered.
    fn pay(&mut self, bytes: usize) -> VerbResult<()> {
        self.burn(bytes as u64 / BYTES_PER_FUEL)
    }

    fn must_write(&mut self, verb: &str) -> VerbResult<()> {
        match self.mode {
            CallMode::Write => Ok(()),
            CallMode::Read => {
                let text = format!("`{verb}` in a call that only reads: call it as an update");
                Err(self.end(FunctionError::trapped(text)))
            }
        }
    }

    fn check<T>(&mut self, result: Result<T, HostError>) -> VerbResult<T> {
        result.map_err(|error| self.end(FunctionError::Host(error)))
    }

    fn cursor(&mut self, number: u32) -> VerbResult<&mut RowCursor> {
        if self.cursors.get_mut(number).is_none() {
            let text = format!("no cursor {number} is open");
            return Err(self.end(FunctionError::trapped(text)));
        }
        self.cursors.get_mut(number).ok_or(CallEnd)
    }
}

impl Verbs for Session<'_> {
    fn end(&mut self, error: FunctionError) -> CallEnd {
        self.ended.get_or_insert(error);
        CallEnd
    }

    fn fuel(&self) -> u64 {
        self.fuel
    }

    fn set_fuel(&mut self, fuel: u64) {
        self.fuel = fuel;
    }

    fn charge(&mut self, bytes: usize) -> VerbResult<()> {
        self.burn(VERB_FUEL + bytes as u64 / BYTES_PER_FUEL)
    }

    fn input(&mut self) -> VerbResult<Option<Bytes>> {
        self.charge(self.input.as_ref().map_or(0, Bytes::len))?;
        Ok(self.input.clone())
    }

    fn get(&mut self, key: &[u8]) -> VerbResult<Option<Bytes>> {
        self.reach(key.len())?;
        let value = self.host.get(key);
        let value = self.check(value)?;
        self.pay(value.as_ref().map_or(0, Bytes::len))?;
        Ok(value)
    }

    fn exists(&mut self, key: &[u8]) -> VerbResult<bool> {
        self.reach(key.len())?;
        let is_there = self.host.exists(key);
        self.check(is_there)
    }

    fn set(&mut self, key: &[u8], value: &[u8], expiry_ms: Option<u64>) -> VerbResult<()> {
        self.must_write("set")?;
        self.reach(key.len() + value.len())?;
        let done = self.host.set(key, value, expiry_ms);
        self.check(done)
    }

    fn delete(&mut self, key: &[u8]) -> VerbResult<bool> {
        self.must_write("delete")?;
        self.reach(key.len())?;
        let was_there = self.host.delete(key);
        self.check(was_there)
    }

    fn add(&mut self, key: &[u8], delta: i64) -> VerbResult<i64> {
        self.must_write("add")?;
        self.reach(key.len() + size_of::<i64>())?;
        let sum = self.host.add(key, delta);
        self.check(sum)
    }

    fn append(&mut self, key: &[u8], suffix: &[u8]) -> VerbResult<u64> {
        self.must_write("append")?;
        self.reach(key.len() + suffix.len())?;
        let length = self.host.append(key, suffix);
        let length = self.check(length)?;
        // The value is read and written as a whole.
        self.pay(usize::try_from(length).unwrap_or(usize::MAX))?;
        Ok(length)
    }

    fn open(&mut self, range: &CursorRange<'_>) -> VerbResult<u32> {
        self.charge(range.low.len() + range.high.len())?;
        if range.flags >= 2 * RANGE_KEYS {
            let text = format!("a range has no flags {:#x}", range.flags);
            return Err(self.end(FunctionError::trapped(text)));
        }
        match self.cursors.insert(RowCursor::new(range)) {
            Some(number) => Ok(number as u32),
            None => Err(self.exceed(FunctionLimit::Cursors)),
        }
    }

    fn next(&mut self, cursor: u32) -> VerbResult<bool> {
        if self.cursor(cursor)?.needs_page() {
            self.reach(0)?;
            let Some(open) = self.cursors.get_mut(cursor) else { return Err(CallEnd) };
            let bytes = open.read_page(self.host);
            let bytes = self.check(bytes)?;
            self.pay(bytes)?;
        } else {
            self.charge(0)?;
        }
        Ok(self.cursor(cursor)?.step())
    }

    fn key(&mut self, cursor: u32) -> VerbResult<Bytes> {
        self.charge(0)?;
        Ok(self.cursor(cursor)?.row.key.clone())
    }

    fn value(&mut self, cursor: u32) -> VerbResult<Bytes> {
        self.charge(0)?;
        Ok(self.cursor(cursor)?.row.value.clone())
    }

    fn close(&mut self, cursor: u32) -> VerbResult<()> {
        self.charge(0)?;
        self.cursors.remove(cursor);
        Ok(())
    }

    fn group_time_ms(&mut self) -> VerbResult<u64> {
        self.reach(0)?;
        let time = self.host.group_time_ms();
        self.check(time)
    }

    fn request(&mut self) -> VerbResult<Option<Bytes>> {
        self.reach(0)?;
        let name = self.host.request();
        let Some(name) = self.check(name)? else { return Ok(None) };
        self.pay(name.session.len())?;
        let mut bytes = name.session.to_vec();
        bytes.extend_from_slice(&name.number.to_be_bytes());
        Ok(Some(bytes.into()))
    }

    fn output(&mut self, bytes: &[u8]) -> VerbResult<()> {
        self.charge(bytes.len())?;
        if bytes.len() > self.limits.output_bytes {
            return Err(self.exceed(FunctionLimit::Output));
        }
        self.output = Some(bytes.to_vec());
        Ok(())
    }

    fn log(&mut self, line: &[u8]) -> VerbResult<()> {
        self.charge(line.len())?;
        if self.log_lines < LOG_LINES_MAX {
            self.log_lines += 1;
            let front = &line[..line.len().min(LOG_LINE_BYTES_MAX)];
            let text = String::from_utf8_lossy(front).into_owned();
            self.host.log(&cut(text, LOG_LINE_BYTES_MAX));
        }
        Ok(())
    }

    fn offer(&mut self, bytes: Bytes) {
        self.offered = bytes;
    }

    fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.offered)
    }
}
