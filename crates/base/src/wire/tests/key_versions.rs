//! Examples of key versions, and of the assertion about an absent key, which older versions of the
//! protocol lack.

use super::examples::ExampleData;
use crate::reply::Body;
use crate::request::{Call, Read, ReadLevel, Update};
use crate::{Absence, BucketId, GroupId, KeyVersion, Version};

fn absence(data: &ExampleData) -> Absence {
    let [one, two] = data.numbers;
    Absence { group: GroupId(two as u32), bucket: BucketId(one as u32), since: Version(two) }
}

/// Read of key versions, and the assertion that it leads to.
pub fn calls(data: &ExampleData) -> Vec<Call> {
    let (key, absence) = (data.keys[0].clone(), absence(data));
    vec![
        Call::Read(Read::KeyVersions(data.keys.to_vec()), ReadLevel::Consistent),
        Call::Update(Update::AssertAbsentSince { key, absence }),
    ]
}

/// Versions of keys, present and absent.
pub fn bodies(data: &ExampleData) -> Vec<Body> {
    let present = KeyVersion::Present(Version(data.numbers[0]));
    vec![Body::KeyVersions(vec![present, KeyVersion::Absent(absence(data))])]
}
