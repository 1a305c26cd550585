//! Summary of a page of a feed, read from its raw bytes.

/// Begin of an event in a page. Texts of JSON have no plain quotation marks, so that it stands
/// nowhere else.
const EVENT: &[u8; 10] = b"{\"event\":\"";
/// Name of the page's token, with the begin of its text.
const TOKEN: &[u8; 9] = b"\"token\":\"";

/// Summary of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct PageSummary {
    /// Number of events.
    pub events: u64,
    /// Token of the next page; it needs no escape in a query.
    pub token: String,
    /// True if nothing more was decided when the page was read.
    pub is_level: bool,
}

/// Returns the summary of a page. `None`: the body is no page.
pub fn summarize_page(body: &[u8]) -> Option<PageSummary> {
    // The token stands behind the events: the last one is found from the end.
    let at = body.windows(TOKEN.len()).rposition(|window| window == TOKEN)?;
    let tail = std::str::from_utf8(body.get(at + TOKEN.len()..)?).ok()?;
    let (token, marks) = tail.split_once('"')?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_token = !token.is_empty() && token.bytes().all(is_plain);
    is_token.then(|| PageSummary {
        events: count_events(body),
        token: token.into(),
        is_level: marks.contains("\"level\":true"),
    })
}

fn count_events(body: &[u8]) -> u64 {
    let (mut count, mut rest) = (0, body);
    while let Some(at) = rest.iter().position(|byte| *byte == b'{') {
        let object = rest.get(at..).unwrap_or_default();
        match object.strip_prefix(EVENT) {
            Some(behind) => (count, rest) = (count + 1, behind),
            None => rest = object.get(1..).unwrap_or_default(),
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(body: &str) -> Option<(u64, String, bool)> {
        let page = summarize_page(body.as_bytes())?;
        Some((page.events, page.token, page.is_level))
    }

    #[test]
    fn page_is_summarized_without_parsing_its_events() {
        let body = r#"{"events":[{"event":"put","key":"a","value":"{\"event\":\"put\""},
            {"event":"delete","key":{"base64":"/w=="},"version":4},
            {"event":"put","key":"\"token\":\"x\"","context":"","siblings":[{"value":"v"}]}],
            "token":"AQ-_9","level":false,"restart":false,"index":7}"#;
        assert_eq!(summary(body), Some((3, "AQ-_9".into(), false)));
        let last = r#"{"events":[],"token":"AQ","level":true,"restart":false}"#;
        assert_eq!(summary(last), Some((0, "AQ".into(), true)));
    }

    #[test]
    fn body_without_a_plain_token_is_no_page() {
        for body in [
            "",
            "{}",
            r#"{"error":{"reason":"feed_off"}}"#,
            r#"{"events":[],"token":"","level":true}"#,
            r#"{"events":[],"token":"a&b","level":true}"#,
            r#"{"events":[],"token":"AQ"#,
        ] {
            assert_eq!(summary(body), None, "{body}");
        }
    }
}
