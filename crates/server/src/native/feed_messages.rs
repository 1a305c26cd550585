//! Messages of a stream of a feed, as JSON lines or as server-sent events. Pure.
//!
//! A page becomes its events and a message with the token that stands behind them: `level` if
//! nothing more was decided, else `token`. So a client that was cut off within a page gets that
//! page again, and misses nothing.

use super::errors;
use super::feed::FeedForm;
use super::json::feed;
use base::{Error, FeedPage};
use bytes::Bytes;

/// Messages of one stream, and what its client knows.
pub struct FeedMessages {
    form: FeedForm,
    /// Token behind the last page.
    next: Bytes,
    /// Token that the client got last.
    sent: Bytes,
    /// True if the client knows that nothing more was decided.
    is_level: bool,
}

impl FeedMessages {
    /// Returns the messages of a stream in this form.
    pub fn new(form: FeedForm) -> FeedMessages {
        FeedMessages { form, next: Bytes::new(), sent: Bytes::new(), is_level: false }
    }

    /// Appends what the client does not know yet of a page; nothing if it knows all.
    pub fn append_page(&mut self, out: &mut Vec<u8>, page: &FeedPage) {
        self.next = page.next.clone();
        if page.restart {
            self.append(out, ("restart", None), |out| feed::append_message(out, "restart", None));
        }
        for event in &page.events {
            self.append(out, (event.kind.name(), None), |out| feed::append_event(out, event));
        }
        let has_changes = page.restart || !page.events.is_empty();
        if has_changes || page.level && !self.is_level {
            self.is_level = page.level;
            self.append_token(out);
        }
    }

    /// Appends a sign of life: the token if it is a new one, else what clients skip.
    pub fn append_heartbeat(&mut self, out: &mut Vec<u8>) {
        if self.next != self.sent {
            return self.append_token(out);
        }
        out.extend_from_slice(match self.form {
            FeedForm::Events => b":\n\n",
            FeedForm::Lines | FeedForm::Page => b"\n",
        });
    }

    /// Appends the error that ends the stream.
    pub fn append_error(&self, out: &mut Vec<u8>, error: &Error) {
        self.append(out, ("failure", None), |out| {
            out.push(b'{');
            errors::append_error(out, error);
            out.push(b'}');
        });
    }

    fn append_token(&mut self, out: &mut Vec<u8>) {
        let (name, token) = (if self.is_level { "level" } else { "token" }, self.next.clone());
        self.append(out, (name, Some(&token)), |out| {
            feed::append_message(out, name, Some(&token));
        });
        self.sent = token;
    }

    /// Appends a message with this name, and with an id if it has a token. JSON has no line ends,
    /// so its text is one line.
    fn append(
        &self,
        out: &mut Vec<u8>,
        (name, token): (&str, Option<&[u8]>),
        append_json: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.form == FeedForm::Events {
            if let Some(token) = token {
                out.extend_from_slice(b"id: ");
                out.extend_from_slice(token);
                out.push(b'\n');
            }
            out.extend_from_slice(b"event: ");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\ndata: ");
        }
        append_json(out);
        out.extend_from_slice(match self.form {
            FeedForm::Events => b"\n\n",
            FeedForm::Lines | FeedForm::Page => b"\n",
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::feed::FeedEventKind;
    use base::{FeedEvent, Key, Reason};

    fn page(keys: &[&str], next: &str, level: bool) -> FeedPage {
        let event = |key: &&str| FeedEvent {
            kind: if key.starts_with('-') { FeedEventKind::Delete } else { FeedEventKind::Put },
            key: Key::copy_from_slice(key.as_bytes()),
            version: None,
            record: None,
            again: false,
        };
        let events = keys.iter().map(event).collect();
        FeedPage { events, next: Bytes::copy_from_slice(next.as_bytes()), level, restart: false }
    }

    /// Returns what a stream in this form says of pages; an empty one stands for a heartbeat.
    fn said(form: FeedForm, pages: &[Option<FeedPage>]) -> String {
        let (mut messages, mut out) = (FeedMessages::new(form), Vec::new());
        for page in pages {
            match page {
                Some(page) => messages.append_page(&mut out, page),
                None => messages.append_heartbeat(&mut out),
            }
        }
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn pages_become_lines_and_a_quiet_feed_says_nothing() {
        let restart = FeedPage { restart: true, ..page(&["b"], "t3", false) };
        let pages = [
            Some(page(&[], "t1", true)),
            Some(page(&[], "t1", true)),
            Some(page(&["a", "-b"], "t2", false)),
            Some(page(&[], "t2", true)),
            Some(restart),
        ];
        let expected = "{\"event\":\"level\",\"token\":\"t1\"}\n\
                        {\"event\":\"put\",\"key\":\"a\"}\n\
                        {\"event\":\"delete\",\"key\":\"-b\"}\n\
                        {\"event\":\"token\",\"token\":\"t2\"}\n\
                        {\"event\":\"level\",\"token\":\"t2\"}\n\
                        {\"event\":\"restart\"}\n\
                        {\"event\":\"put\",\"key\":\"b\"}\n\
                        {\"event\":\"token\",\"token\":\"t3\"}\n";
        assert_eq!(said(FeedForm::Lines, &pages), expected);
    }

    #[test]
    fn server_sent_event_with_a_token_has_it_as_id() {
        let pages = [Some(page(&["a"], "t1", true)), None, Some(page(&[], "t2", true)), None];
        let expected = "event: put\ndata: {\"event\":\"put\",\"key\":\"a\"}\n\n\
                        id: t1\nevent: level\ndata: {\"event\":\"level\",\"token\":\"t1\"}\n\n\
                        :\n\n\
                        id: t2\nevent: level\ndata: {\"event\":\"level\",\"token\":\"t2\"}\n\n";
        assert_eq!(said(FeedForm::Events, &pages), expected);
        let lines = [Some(page(&[], "t1", true)), None];
        assert_eq!(said(FeedForm::Lines, &lines), "{\"event\":\"level\",\"token\":\"t1\"}\n\n");
    }

    #[test]
    fn last_message_of_a_broken_stream_is_its_error() {
        let error = Error::new(Reason::NoSuchBucket, "gone\nfor good");
        let mut out = Vec::new();
        FeedMessages::new(FeedForm::Events).append_error(&mut out, &error);
        let text = String::from_utf8(out).expect("text");
        let begin = "event: failure\ndata: {\"error\":{\"reason\":\"no_such_bucket\"";
        assert!(text.starts_with(begin) && text.ends_with("}}\n\n"), "{text}");
        assert_eq!(text.lines().count(), 3, "no line end of the text: {text}");
    }
}
