//! Consensus' messages on their way in: from bytes to an event.

use super::group::{Group, State};
use super::value::read_sign;
use base::codec::{Malformed, Reader};
use base::limits::LOG_RECORD_BYTES_MAX;
use base::{LogIndex, Millis, NodeId};
use bytes::{Buf, Bytes};
use logic::consensus::{Event, Message};

/// While accepted values of this many bytes wait to be applied, more are not taken: the master
/// sends them again later, and memory stays bounded.
const UNAPPLIED_BYTES_MAX: usize = 64 << 20;

impl Group {
    /// A message of another member arrived.
    pub(crate) fn arrived(&self, from: NodeId, payload: Bytes) {
        self.inbox.lock().expect("no one panics while holding it").push((from, payload));
        self.wake.notify_one();
    }

    /// Gives a message to consensus.
    pub(super) fn receive(&self, state: &mut State, from: NodeId, payload: Bytes, now: Millis) {
        let (message, values) = match read(payload) {
            Ok(read) => read,
            Err(Malformed(field)) => {
                let group = self.id.0;
                tracing::warn!(target: "consensus", group, %from, "a bad message: {field}");
                return;
            }
        };
        let overflows = || self.keeping().is_some_and(|keeping| keeping.overflows());
        let full = state.values.waiting_bytes() > UNAPPLIED_BYTES_MAX || overflows();
        if !values.is_empty() && full {
            return;
        }
        let mut signs = Vec::new();
        for (index, value) in &values {
            match read_sign(value) {
                Ok(Some(sign)) => signs.push((*index, sign)),
                Ok(None) => {}
                Err(Malformed(field)) => {
                    let group = self.id.0;
                    tracing::warn!(target: "consensus", group, %from, "a bad stop-sign: {field}");
                    return;
                }
            }
        }
        self.step(state, Event::Received { from, message, signs, now }, &values);
    }
}

type Values = Vec<(LogIndex, Bytes)>;

fn read(mut payload: Bytes) -> Result<(Message, Values), Malformed> {
    let mut reader = Reader::new(&payload);
    let message = Message::read(&mut reader)?;
    let head_bytes = payload.len() - reader.rest().len();
    payload.advance(head_bytes);
    let Some((after, upto)) = message.body.values() else {
        return if payload.is_empty() { Ok((message, Vec::new())) } else { Err(Malformed("end")) };
    };
    let mut values = Vec::new();
    let mut index = after;
    while index < upto {
        let length = Reader::new(&payload).u32("value length")? as usize;
        payload.advance(4);
        if length > LOG_RECORD_BYTES_MAX || length > payload.len() {
            return Err(Malformed("value length"));
        }
        index = index.next();
        values.push((index, payload.split_to(length)));
    }
    if payload.is_empty() { Ok((message, values)) } else { Err(Malformed("end")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::codec::Writer;
    use base::{Ballot, ConfigurationId};
    use logic::consensus::Body;

    fn accept(upto: u64) -> Vec<u8> {
        let (after, upto) = (LogIndex(3), LogIndex(upto));
        let body = Body::Accept { after, upto, decided: LogIndex(2) };
        let ballot = Ballot { round: 7, node: NodeId(1) };
        let mut bytes = Vec::new();
        Message { configuration: ConfigurationId(0), ballot, body }.write(&mut bytes);
        bytes
    }

    #[test]
    fn a_message_brings_exactly_the_values_it_names() {
        let mut bytes = accept(5);
        bytes.put_string(b"one");
        bytes.put_string(b"");
        let (message, values) = read(bytes.clone().into()).expect("well formed");
        assert!(message.body.values().is_some());
        let values: Vec<_> = values.iter().map(|(index, value)| (index.0, &value[..])).collect();
        assert_eq!(values, [(4, &b"one"[..]), (5, &b""[..])]);
        bytes.push(0);
        assert_eq!(read(bytes.into()).expect_err("malformed"), Malformed("end"));
    }

    #[test]
    fn whatever_the_bytes_nothing_panics() {
        let mut bytes = accept(5);
        bytes.put_string(b"one");
        bytes.put_string(b"two");
        for cut in 0..bytes.len() {
            assert!(read(bytes[..cut].to_vec().into()).is_err(), "{cut}");
        }
        let mut long = accept(4);
        long.put_u32(u32::MAX);
        assert_eq!(read(long.into()).expect_err("malformed"), Malformed("value length"));
        let endless = accept(u64::MAX);
        assert!(read(endless.into()).is_err());
    }
}
