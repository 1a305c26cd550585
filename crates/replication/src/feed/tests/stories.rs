//! Stories of feeds: what readers are told, one after the other.

use super::*;

/// Returns the events of a page as texts.
fn told(page: &FoundPage) -> Vec<String> {
    let text = |key: &Key| String::from_utf8_lossy(key).into_owned();
    let events = page.events.iter();
    events
        .map(|event| match &event.record {
            Some(IndexRecord::Row(row)) => format!("{}={}", text(&event.key), text(&row.value)),
            _ => format!("-{}", text(&event.key)),
        })
        .collect()
}

fn ready(has_values: bool) -> FedGroup {
    let mut group = FedGroup::new();
    group.begin(has_values);
    group.finish();
    group
}

#[test]
fn last_effect_of_each_key_in_a_value_is_its_event() {
    for (has_values, expected) in [(false, vec!["a=3", "-b"]), (true, vec!["a=3", "-b"])] {
        let mut group = ready(has_values);
        for update in [set("b", "1"), set("a", "2"), set("b", "2"), set("a", "3"), remove("b")] {
            group.update(&update);
        }
        group.apply();
        let page = group.page(PageOrigin::Start, 9).expect("it is ready");
        assert_eq!(told(&page), expected);
        assert!(page.is_level && !page.is_restart);
    }
}

#[test]
fn feeds_of_keys_leave_out_what_was_replaced_and_feeds_of_values_have_every_value() {
    for (has_values, expected) in
        [(false, vec!["-b", "a=2"]), (true, vec!["a=1", "b=1", "-b", "a=2"])]
    {
        let mut group = ready(has_values);
        let begin = group.page(PageOrigin::Now, 9).expect("it is ready");
        for update in [set("a", "1"), set("b", "1"), remove("b"), set("a", "2")] {
            group.update(&update);
            group.apply();
        }
        let page = group.page(PageOrigin::Token(begin.next), 9).expect("it is ready");
        assert_eq!(told(&page), expected);
        let start = group.page(PageOrigin::Start, 9).expect("it is ready");
        assert_eq!(told(&start), ["-b", "a=2"], "whoever comes from the start has what there is");
    }
}

#[test]
fn old_value_whose_delete_was_removed_is_told_to_nobody() {
    let mut group = ready(true);
    group.update(&set("gone", "1"));
    group.update(&set("k", "1"));
    group.apply();
    group.pass(KEEP_MS);
    assert_eq!(group.trim(), 0, "both values live");
    let slow = group.page(PageOrigin::Start, 0).expect("it is ready");
    group.update(&remove("gone"));
    group.apply();
    let soon = group.page(PageOrigin::Start, 0).expect("it is ready");
    group.pass(KEEP_MS);
    assert_eq!(group.trim(), 1, "the delete");
    group.apply();
    assert_eq!(group.entries(), 2, "the value of the removed record waits for the next round");
    let start = group.page(PageOrigin::Start, 9).expect("it is ready");
    assert_eq!((told(&start), start.is_restart), (vec!["k=1".to_string()], false));
    let soon = group.page(PageOrigin::Token(soon.next), 9).expect("it is ready");
    assert_eq!((told(&soon), soon.is_restart), (vec!["k=1".to_string()], false));
    let slow = group.page(PageOrigin::Token(slow.next), 9).expect("it is ready");
    assert_eq!((told(&slow), slow.is_restart), (vec!["k=1".to_string()], true));
}

#[test]
fn builder_adds_what_is_older_than_the_feed_and_each_key_comes_once() {
    let mut group = FedGroup::new();
    (0..600).for_each(|number| group.update(&set(&format!("k{number:03}"), "old")));
    group.apply();
    group.begin(false);
    group.update(&set("k001", "new"));
    group.update(&remove("k002"));
    group.apply();
    assert!(group.page(PageOrigin::Start, 9).is_none(), "it is being built");
    group.finish();
    let mut reader = FeedReader::default();
    reader.read_all(&group);
    assert_eq!((reader.view.len(), reader.restarts), (599, 0));
    assert_eq!(reader.events, 600, "599 keys, and the delete");
}

#[test]
fn expired_rows_are_not_told_and_their_removal_is() {
    let mut group = ready(true);
    let (key, value) = (Key::from("a"), Value::from("1"));
    let expiry = base::request::Expiry::After(20);
    group.update(&Update::Set { key, value, expiry });
    group.apply();
    let start = group.page(PageOrigin::Start, 9).expect("it is ready");
    assert_eq!(told(&start), ["a=1"]);
    group.pass(30);
    group.update(&set("b", "1"));
    group.apply();
    let page = group.page(PageOrigin::Start, 9).expect("it is ready");
    assert_eq!(told(&page), ["b=1"], "nobody is told of a value that has expired");
    group.sweep(9);
    group.apply();
    let page = group.page(PageOrigin::Token(start.next), 9).expect("it is ready");
    assert_eq!(told(&page), ["b=1", "-a"]);
}

#[test]
fn old_deletes_and_dead_entries_go_and_who_was_away_begins_again() {
    let mut group = ready(false);
    group.update(&set("a", "1"));
    group.update(&set("gone", "1"));
    group.apply();
    let mut away = FeedReader::default();
    away.read_all(&group);
    assert_eq!(away.view.len(), 2);
    group.update(&remove("gone"));
    group.apply();
    group.update(&set("a", "2"));
    group.apply();
    assert_eq!(group.trim(), 0, "nothing is old");
    group.pass(KEEP_MS);
    assert_eq!(group.trim(), 3, "two dead puts and the delete");
    group.apply();
    assert_eq!(group.entries(), 1);
    // One who begins now has nothing to forget.
    let start = group.page(PageOrigin::Start, 9).expect("it is ready");
    assert_eq!((told(&start), start.is_restart), (vec!["a=2".to_string()], false));
    let next = group.page(PageOrigin::Token(start.next), 9).expect("it is ready");
    assert!(next.is_level && next.events.is_empty() && !next.is_restart);
    away.read(&group, 9);
    assert_eq!(away.restarts, 1);
    assert_eq!(away.view.keys().collect::<Vec<_>>(), [&Key::from("a")]);
    away.read(&group, 9);
    assert_eq!(away.restarts, 1, "once is enough");
}

#[test]
fn reader_at_the_start_is_not_sent_back_by_what_went_before_it_came() {
    let mut group = ready(false);
    for number in 0..4 {
        group.update(&set(&format!("k{number}"), "1"));
        group.apply();
    }
    group.update(&set("gone", "1"));
    group.update(&remove("gone"));
    group.apply();
    let first = group.page(PageOrigin::Start, 1).expect("it is ready");
    group.pass(KEEP_MS);
    assert_eq!(group.trim(), 1);
    group.apply();
    let second = group.page(PageOrigin::Token(first.next), 1).expect("it is ready");
    assert_eq!((told(&second), second.is_restart), (vec!["k1".to_string() + "=1"], false));
    // A delete of what it has seen, and is not told of.
    group.update(&remove("k0"));
    group.apply();
    group.pass(KEEP_MS);
    assert!(group.trim() > 0);
    group.apply();
    let third = group.page(PageOrigin::Token(second.next), 1).expect("it is ready");
    assert!(third.is_restart);
}

#[test]
fn token_of_another_feed_or_ahead_of_the_log_begins_again() {
    let mut group = ready(false);
    group.update(&set("a", "1"));
    group.apply();
    let now = group.page(PageOrigin::Now, 9).expect("it is ready");
    assert!(now.events.is_empty() && now.is_level);
    let restarts = |token| {
        let page = group.page(PageOrigin::Token(token), 9).expect("it is ready");
        assert_eq!(page.events.len(), usize::from(page.is_restart));
        page.is_restart
    };
    assert!(!restarts(now.next));
    let making = FeedMaking { index: LogIndex(77), ..now.next.making };
    assert!(restarts(ConsistentToken { making, ..now.next }));
    let ahead =
        FeedPosition { index: LogIndex(now.next.position.index.0 + 1), ..now.next.position };
    assert!(restarts(ConsistentToken { position: ahead, ..now.next }));
}

#[test]
fn page_ends_with_the_event_that_reaches_its_bytes() {
    let mut group = ready(true);
    for number in 0..4 {
        group.update(&set(&format!("k{number}"), &"x".repeat(100)));
        group.apply();
    }
    let bytes_of_one = 2 + 100 + base::limits::ROW_OVERHEAD_BYTES;
    for (bytes_max, events) in [(1, 1), (bytes_of_one, 1), (bytes_of_one + 1, 2), (1 << 20, 4)] {
        let origin = PageOrigin::Start;
        let query = PageQuery { origin, events_max: 9, bytes_max, has_values: true, decided: None };
        let answer = read_page(&*group.trees.snapshot(), (GROUP, FED), &query).expect("memory");
        let FeedAnswer::Page(page) = answer else { panic!("it is ready: {answer:?}") };
        assert_eq!((page.events.len(), page.is_level), (events, events == 4));
    }
}

#[test]
fn page_passes_over_a_bounded_number_of_dead_entries() {
    let mut group = ready(false);
    for number in 0..5_000 {
        group.update(&set("a", &number.to_string()));
        group.queue.close();
    }
    // Each check reads the whole feed.
    group.apply_with(|_| ());
    let first = group.page(PageOrigin::Start, 9).expect("it is ready");
    assert!(first.events.is_empty() && !first.is_level, "it ends early");
    let second = group.page(PageOrigin::Token(first.next), 9).expect("it is ready");
    assert_eq!((told(&second), second.is_level), (vec!["a=4999".to_string()], true));
}

#[test]
fn signal_of_a_feed_changes_with_its_entries_and_ends_with_it() {
    let mut group = ready(false);
    group.feeds.notify_readers();
    let mut signal = group.feeds.watch(FED).expect("it has a feed");
    assert!(group.feeds.watch(PLAIN).is_none());
    let write = |group: &mut FedGroup, id| {
        let written = group.write(|overlay| evaluate(overlay, &bucket(id), &set("k", "1")));
        written.map(|_| ()).expect("it is sound");
        group.apply();
        group.feeds.notify_readers();
    };
    write(&mut group, PLAIN);
    assert!(!signal.has_changed().expect("it goes on"));
    write(&mut group, FED);
    assert!(signal.has_changed().expect("it goes on"));
    signal.mark_unchanged();
    group.write(|overlay| overlay.end_feed(FED)).expect("memory");
    group.finish();
    assert!(signal.has_changed().is_err(), "the feed is gone");
}

#[test]
fn step_for_an_ended_feed_removes_nothing_of_the_next_one() {
    let mut group = ready(false);
    group.write(|overlay| overlay.end_feed(FED)).expect("memory");
    group.apply();
    let first = group.feeds.find(FED).expect("it is being removed");
    assert!(group.step(), "the last step");
    // Neither of the following is applied yet, nor is the removal.
    group.begin(false);
    group.update(&set("k", "1"));
    group.write(|overlay| overlay.end_feed(FED)).expect("memory");
    group.write(|overlay| build::step(overlay, FED, &first)).expect("memory");
    group.apply();
    assert_eq!(group.entries(), 1, "its own removal comes later");
    group.finish();
    assert_eq!((group.entries(), group.feeds.find(FED)), (0, None));
}
