//! Counter of the messages of a stream of JSON lines.

/// Begin of a message, before its name.
const MESSAGE: &[u8; 10] = b"{\"event\":\"";
/// Most bytes that are kept of a line that has not ended yet: a message is known by its first few,
/// an error is shown so far.
const LINE_BYTES_KEPT: usize = 512;

/// Counter of the messages of one stream.
#[derive(Debug, Default)]
pub struct FeedLines {
    /// Number of events: puts and deletes.
    pub events: u64,
    /// True if the last message said that nothing more was decided.
    pub is_level: bool,
    /// Line that is no message: the error that ends the stream. `None`: there was none.
    pub error: Option<String>,
    /// Begin of the line that has not ended yet.
    partial: Vec<u8>,
}

impl FeedLines {
    /// Counts the messages that end in the next piece of the stream.
    pub fn count(&mut self, mut data: &[u8]) {
        while let Some(end) = data.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = data.split_at(end);
            data = rest.get(1..).unwrap_or_default();
            if self.partial.is_empty() {
                self.count_line(line);
                continue;
            }
            self.keep(line);
            let mut partial = std::mem::take(&mut self.partial);
            self.count_line(&partial);
            partial.clear();
            self.partial = partial;
        }
        self.keep(data);
    }

    fn keep(&mut self, data: &[u8]) {
        let room = LINE_BYTES_KEPT.saturating_sub(self.partial.len());
        self.partial.extend_from_slice(data.get(..room).unwrap_or(data));
    }

    /// Counts a whole line. The first letter of a message's name tells it from the others: `put`,
    /// `delete`; `level`; `token`, `restart`. An empty line is a heartbeat.
    fn count_line(&mut self, line: &[u8]) {
        match line.strip_prefix(MESSAGE) {
            Some([b'p' | b'd', ..]) => {
                self.events += 1;
                self.is_level = false;
            }
            Some([b'l', ..]) => self.is_level = true,
            Some(_) => self.is_level = false,
            None if line.is_empty() => {}
            None => {
                let begin = line.get(..LINE_BYTES_KEPT).unwrap_or(line);
                self.error = Some(String::from_utf8_lossy(begin).into_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "{\"event\":\"put\",\"key\":\"a\",\"version\":3}\n\
                          \n\
                          {\"event\":\"delete\",\"key\":\"{\\\"event\\\":\\\"level\"}\n\
                          {\"event\":\"token\",\"token\":\"t1\"}\n\
                          {\"event\":\"restart\"}\n\
                          {\"event\":\"put\",\"key\":\"b\"}\n\
                          {\"event\":\"level\",\"token\":\"t2\"}\n";

    fn count(pieces: &[&[u8]]) -> FeedLines {
        let mut lines = FeedLines::default();
        pieces.iter().for_each(|piece| lines.count(piece));
        lines
    }

    #[test]
    fn events_are_counted_and_other_messages_are_not() {
        let whole = STREAM.as_bytes();
        for cut in 0..whole.len() {
            let (first, second) = whole.split_at(cut);
            let lines = count(&[first, second]);
            assert_eq!((lines.events, lines.is_level, lines.error), (3, true, None), "{cut}");
        }
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(count(&bytes).events, 3);
    }

    #[test]
    fn stream_is_level_until_its_next_event() {
        let mut lines = count(&[STREAM.as_bytes()]);
        lines.count(b"\n");
        assert!(lines.is_level, "a heartbeat is no message");
        lines.count(b"{\"event\":\"put\",\"key\":\"c\"}");
        assert!(lines.is_level, "the line has not ended");
        lines.count(b"\n");
        assert_eq!((lines.events, lines.is_level), (4, false));
    }

    #[test]
    fn line_that_is_no_message_is_the_error_of_the_stream() {
        let error = "{\"error\":{\"reason\":\"no_such_bucket\"}}";
        let lines = count(&[STREAM.as_bytes(), error.as_bytes(), b"\n"]);
        assert_eq!(lines.error.as_deref(), Some(error));
    }

    #[test]
    fn long_line_in_pieces_is_one_event_and_takes_no_memory() {
        let (begin, rest) = (b"{\"event\":\"put\",\"key\":\"a\",\"value\":\"", [b'v'; 4_096]);
        let lines = count(&[begin, &rest, &rest, b"\"}\n{\"event\":\"l"]);
        assert_eq!((lines.events, lines.is_level, lines.error), (1, false, None));
        let mut lines = count(&[begin, &rest]);
        assert_eq!(lines.partial.len(), LINE_BYTES_KEPT);
        lines.count(b"\"}\n{\"event\":\"level\"}\n");
        assert_eq!((lines.events, lines.is_level), (1, true));
    }
}
