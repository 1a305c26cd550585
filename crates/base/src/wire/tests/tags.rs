//! Examples of rows with tags and of the update that writes them, which older versions of the
//! protocol lack.

use super::examples::ExampleData;
use crate::reply::{Body, Entry, Page, Row};
use crate::request::{Call, Expiry, TaggedSet, Update, When};
use crate::{Tags, Version};
use bytes::Bytes;

fn tags(data: &ExampleData) -> Tags {
    let second = (Bytes::from_static(b"b_bin"), data.values[1].clone());
    Tags(vec![(Bytes::from_static(b"a_int"), Bytes::from_static(b"7")), second])
}

/// Update that writes tags.
pub fn calls(data: &ExampleData) -> Vec<Call> {
    let ([key, _], [value, _], [ms, version]) =
        (data.keys.clone(), data.values.clone(), data.numbers);
    let when = if data.flag { When::Unchanged(Version(version)) } else { When::Always };
    let set = TaggedSet { key, value, expiry: Expiry::After(ms), when, tags: tags(data) };
    vec![Call::Update(Update::SetTagged(Box::new(set)))]
}

/// Rows with tags, alone and beside one without.
pub fn bodies(data: &ExampleData) -> Vec<Body> {
    let [version, ms] = data.numbers;
    let row = |tags| Row {
        value: data.values[0].clone(),
        version: Version(version),
        expires_in_ms: data.flag.then_some(ms),
        tags,
    };
    let tagged = row(Some(Box::new(tags(data))));
    let [first, second] = data.keys.clone();
    let entries = vec![
        Entry { key: first, row: Some(tagged.clone()) },
        Entry { key: second, row: Some(row(None)) },
    ];
    vec![Body::Row(Some(tagged)), Body::Page(Page { entries, more: data.flag })]
}
