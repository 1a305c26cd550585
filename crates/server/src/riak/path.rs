//! Paths of Riak's HTTP interface.

use crate::http::percent::{Plus, decode, encode_onto};
use base::BucketName;
use base::Key;
use bytes::Bytes;

/// Bucket type of paths that name no type.
pub(super) const TYPE: &str = "available";

/// Generation of paths that a client uses. Links and locations in answers use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `/riak/B/K`.
    Old,
    /// `/buckets/B/keys/K`, also under `/types/T`.
    New,
}

/// Bucket that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathBucket {
    pub(super) name: BucketName,
    /// Name of the bucket as the client knows it.
    pub(super) bytes: Bytes,
    /// True if the path named a bucket type other than `default`.
    pub(super) typed: bool,
    pub(super) style: Style,
}

impl PathBucket {
    /// Returns the path of the bucket, the beginning of links and locations.
    pub(super) fn path(&self) -> String {
        let mut path = match (self.style, self.typed) {
            (Style::Old, _) => "/riak/".to_string(),
            (Style::New, false) => "/buckets/".to_string(),
            (Style::New, true) => format!("/types/{}/buckets/", self.name.kind()),
        };
        encode_onto(&mut path, &self.bytes);
        path
    }

    /// Returns the path of a key in the bucket.
    pub(super) fn key_path(&self, key: &[u8]) -> String {
        let mut path = self.path();
        path.push_str(if self.style == Style::Old { "/" } else { "/keys/" });
        encode_onto(&mut path, key);
        path
    }

    /// Returns the path of a data type in the bucket.
    pub(super) fn datatype_path(&self, key: &[u8]) -> String {
        let mut path = self.path() + "/datatypes/";
        encode_onto(&mut path, key);
        path
    }
}

/// Resource that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// `/ping`.
    Ping,
    /// `/stats`.
    Statistics,
    /// `/`: the list of resources.
    Root,
    /// The buckets of a type.
    Buckets { kind: String },
    /// The keys of a bucket; with the old paths, its properties, too.
    Keys(PathBucket),
    /// The value of a key.
    Object(PathBucket, Key),
    /// The properties of a bucket.
    Properties(PathBucket),
    /// The properties of a bucket type.
    TypeProperties { kind: String },
    /// The data type of a key; without a key, the place to create one.
    Datatype(PathBucket, Option<Key>),
    /// A legacy counter.
    Counter(PathBucket, Key),
    /// The owners of a key (`preflist`).
    Owners(PathBucket, Key),
    /// A feature of Riak that is not served.
    Unserved(Feature),
}

/// A feature of Riak that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feature {
    /// Secondary indexes: `/buckets/B/index/F/V`.
    Indexes,
    /// Link walking: links behind a key's path.
    LinkWalking,
    /// MapReduce: `/mapred`.
    MapReduce,
    /// Search: `/search` and `/solr`.
    Search,
}

impl Feature {
    /// Returns the text of the refusal.
    pub(super) fn refusal(self) -> &'static str {
        match self {
            Feature::Indexes => {
                "Queries of secondary indexes are not served here. Index entries are kept and \
                 given back with their object.\n"
            }
            Feature::LinkWalking => {
                "Link walking is not served here. Read the object, and follow the links of its \
                 `Link` header with a GET of each.\n"
            }
            Feature::MapReduce => {
                "MapReduce is not served here. Read the objects, and map and reduce them in the \
                 client.\n"
            }
            Feature::Search => "Search is not served here.\n",
        }
    }
}

/// First path segments of Riak's paths.
pub(crate) const FIRST_SEGMENTS: [&str; 8] =
    ["riak", "buckets", "types", "ping", "stats", "mapred", "search", "solr"];

/// Returns true if a path is one of Riak's, by its first segment.
pub(crate) fn is_riaks(path: &str) -> bool {
    let first = path.split('/').find(|segment| !segment.is_empty());
    first.is_none_or(|first| FIRST_SEGMENTS.contains(&first))
}

/// Parses a path. Segments are decoded after the split, so a key may contain `%2F`. Returns `None`
/// if the path is not one of Riak's, and an error text if a name in it is invalid.
pub(super) fn read(path: &str) -> Option<Result<Resource, &'static str>> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let (kind, rest) = match &segments[..] {
        ["types", kind, rest @ ..] => (Some(*kind), rest),
        rest => (None, rest),
    };
    let bucket = |name: &str, style| bucket(kind, name, style);
    let known = kind.unwrap_or(TYPE);
    Some(match (kind, rest) {
        (None, []) => Ok(Resource::Root),
        (None, ["stats"]) => Ok(Resource::Statistics),
        (None, ["ping"]) => Ok(Resource::Ping),
        (None, ["riak"]) | (_, ["buckets"]) => Ok(Resource::Buckets { kind: known.into() }),
        (None, ["riak", name]) => bucket(name, Style::Old).map(Resource::Keys),
        (None, ["riak", name, key]) => object(bucket(name, Style::Old), key),
        (_, ["buckets", name, "keys"]) => bucket(name, Style::New).map(Resource::Keys),
        (_, ["buckets", name, "keys", key]) => object(bucket(name, Style::New), key),
        (_, ["buckets", name, "keys", key, "preflist"]) => {
            named(bucket(name, Style::New), key, Resource::Owners)
        }
        (_, ["buckets", name, "props"]) => bucket(name, Style::New).map(Resource::Properties),
        (Some(_), ["props"]) => Ok(Resource::TypeProperties { kind: known.into() }),
        (Some(_), ["buckets", name, "datatypes"]) => {
            bucket(name, Style::New).map(|bucket| Resource::Datatype(bucket, None))
        }
        (Some(_), ["buckets", name, "datatypes", key]) => {
            let place = |bucket, key| Resource::Datatype(bucket, Some(key));
            named(bucket(name, Style::New), key, place)
        }
        (None, ["buckets", name, "counters", key]) => {
            named(bucket(name, Style::New), key, Resource::Counter)
        }
        (_, ["buckets", _, "index", ..]) => Ok(Resource::Unserved(Feature::Indexes)),
        (None, ["riak", _, _, ..]) | (_, ["buckets", _, "keys", _, ..]) => {
            Ok(Resource::Unserved(Feature::LinkWalking))
        }
        (None, ["mapred", ..]) => Ok(Resource::Unserved(Feature::MapReduce)),
        (None, ["search" | "solr", ..]) => Ok(Resource::Unserved(Feature::Search)),
        _ => return None,
    })
}

fn object(bucket: Result<PathBucket, &'static str>, key: &str) -> Result<Resource, &'static str> {
    named(bucket, key, Resource::Object)
}

fn named(
    bucket: Result<PathBucket, &'static str>,
    key: &str,
    place: impl FnOnce(PathBucket, Key) -> Resource,
) -> Result<Resource, &'static str> {
    let key = decode(key, Plus::Blank).ok_or("a key's % stands before two hexadecimal digits")?;
    Ok(place(bucket?, key))
}

fn bucket(kind: Option<&str>, name: &str, style: Style) -> Result<PathBucket, &'static str> {
    const WRONG: &str = "a bucket's name has at most 255 bytes, counted percent-encoded";
    let bytes = decode(name, Plus::Blank).ok_or(WRONG)?;
    let mut inside = String::new();
    // Encode a leading dot: where names become paths it could name a directory.
    let rest = bytes.strip_prefix(b".");
    inside.push_str(if rest.is_some() { "%2E" } else { "" });
    encode_onto(&mut inside, rest.unwrap_or(&bytes));
    // Riak's type `default` is the type of paths without one.
    let known = kind.filter(|kind| *kind != "default").unwrap_or(TYPE);
    let full = BucketName::new(known, &inside).map_err(|_| WRONG)?;
    let typed = kind.is_some_and(|kind| kind != "default");
    Ok(PathBucket { name: full, bytes, typed, style })
}

/// Returns a bucket's name as its clients know it.
pub(super) fn known_as(name: &BucketName) -> Bytes {
    decode(name.name(), Plus::Plus)
        .unwrap_or_else(|| Bytes::copy_from_slice(name.name().as_bytes()))
}
