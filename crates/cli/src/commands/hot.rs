//! `credenza hot`: the keys that most requests of a node concern.

use super::NodeArguments;
use crate::output;
use api::HotKey;
use base::codec::printable;
use program::Outcome;
use program::units::show_count;

pub const EXAMPLES: &str = "\
Examples:
  credenza hot                                     the most frequent first
  credenza hot --json | jq '.keys[] | select(.share_permille > 500)'

A node samples one request of 64, and lists the keys with more than a 64th of the reads or writes
of a busy bucket. A minute later a request counts an eighth. Ask the masters: each node counts what
passes through it. A key is hidden (-) from users who may not read it; its digest is that of the
log.";

const HEAD: [&str; 6] = ["a second", "share %", "of", "bucket", "key digest", "key"];

/// `credenza hot`.
#[derive(clap::Args)]
pub struct Hot {
    #[command(flatten)]
    node: NodeArguments,
}

impl Hot {
    /// Prints the keys.
    pub async fn run(self) -> Outcome {
        let hot = self.node.address.client()?.hot_keys().await?;
        if self.node.json {
            return output::json(&hot);
        }
        output::table(&HEAD, hot.keys.iter().map(row).collect())
    }
}

fn row(key: &HotKey) -> Vec<String> {
    let shown = match &key.key {
        None => "-".to_string(),
        Some(begin) if begin.0.len() as u64 == key.key_bytes => printable(&begin.0),
        Some(begin) => format!("{}... ({} bytes)", printable(&begin.0), key.key_bytes),
    };
    vec![
        show_count(key.per_second),
        format!("{}.{}", key.share_permille / 10, key.share_permille % 10),
        output::printable_text(&key.access),
        output::printable_text(&key.bucket),
        output::printable_text(&key.key_digest),
        shown,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Blob;

    #[test]
    fn hot_key_is_a_row_with_its_share_and_a_dash_for_a_hidden_key() {
        let mut key = HotKey {
            bucket: "default/carts".into(),
            access: "reads".into(),
            key_bytes: 5,
            share_permille: 731,
            per_second: 12_000,
            ..HotKey::default()
        };
        assert_eq!(row(&key)[..4], ["12,000", "73.1", "reads", "default/carts"]);
        assert_eq!(row(&key)[5], "-");
        key.key = Some(Blob::from(&b"alice"[..]));
        assert_eq!(row(&key)[5], "alice");
        key.key_bytes = 300;
        assert_eq!(row(&key)[5], "alice... (300 bytes)");
    }
}
