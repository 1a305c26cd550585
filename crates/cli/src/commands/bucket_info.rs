//! Description of a bucket: the properties that decide which requests it accepts.

use super::BucketAddress;
use client::Client;
use program::{Failure, Outcome};

/// A bucket as a node describes it.
pub struct BucketInfo {
    /// True if it is available: its rows are replicated one by one, and may have siblings.
    pub is_available: bool,
}

impl BucketInfo {
    /// Asks the node. Fails if there is no such bucket, or if it holds data types: their values are
    /// changed and never written as a whole, so a file of records can't hold them.
    pub async fn of(address: &BucketAddress, client: &mut Client) -> Outcome<BucketInfo> {
        let properties = client.bucket(&address.bucket).await?.properties;
        match properties.text("datatype").as_deref() {
            None | Some("none") => {}
            Some(kind) => {
                return Err(Failure::invalid(format!(
                    "the bucket {} holds data types ({kind}), which no file of records can hold: \
                     read them one by one with `credenza datatype get KEY`",
                    address.bucket
                )));
            }
        }
        Ok(BucketInfo {
            is_available: properties.text("consistency").as_deref() == Some("available"),
        })
    }
}
