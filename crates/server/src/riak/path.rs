//! Paths of Riak's HTTP interface.

use crate::http::percent::{PlusMeaning, append_encoded, decode};
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

/// Bucket in a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathBucket {
    pub(super) name: BucketName,
    /// Name of the bucket as clients write it, percent-decoded.
    pub(super) client_name: Bytes,
    /// True if the path named a bucket type other than `default`.
    pub(super) has_type: bool,
    pub(super) style: Style,
}

impl PathBucket {
    /// Returns the path of the bucket, the beginning of links and locations.
    pub(super) fn path(&self) -> String {
        let mut path = match (self.style, self.has_type) {
            (Style::Old, _) => "/riak/".to_string(),
            (Style::New, false) => "/buckets/".to_string(),
            (Style::New, true) => format!("/types/{}/buckets/", self.name.kind()),
        };
        append_encoded(&mut path, &self.client_name);
        path
    }

    /// Returns the path of a key in the bucket.
    pub(super) fn key_path(&self, key: &[u8]) -> String {
        let mut path = self.path();
        path.push_str(if self.style == Style::Old { "/" } else { "/keys/" });
        append_encoded(&mut path, key);
        path
    }

    /// Returns the path of a data type in the bucket.
    pub(super) fn datatype_path(&self, key: &[u8]) -> String {
        let mut path = self.path() + "/datatypes/";
        append_encoded(&mut path, key);
        path
    }
}

/// Field and terms in the path of an index query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexPath {
    /// Name of the field, in lower case.
    pub(super) field: Bytes,
    /// One term, or a lower and an upper one. None, which only `$bucket` allows.
    pub(super) terms: Vec<Bytes>,
}

/// Resource of a path.
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
    /// The keys of a bucket; on the old paths also its properties.
    Keys(PathBucket),
    /// The value of a key.
    Object(PathBucket, Key),
    /// The properties of a bucket.
    Properties(PathBucket),
    /// The properties of a bucket type.
    TypeProperties { kind: String },
    /// The data type of a key; without a key, for a request that generates one.
    Datatype(PathBucket, Option<Key>),
    /// A legacy counter.
    Counter(PathBucket, Key),
    /// The keys that an index finds.
    Index(PathBucket, IndexPath),
    /// The owners of a key (`preflist`).
    Owners(PathBucket, Key),
    /// A feature of Riak that is not served.
    Unsupported(Feature),
}

/// A feature of Riak that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feature {
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
            Feature::LinkWalking => {
                "Link walking is not supported. Read the object, and follow the links of its \
                 `Link` header with a GET of each.\n"
            }
            Feature::MapReduce => {
                "MapReduce is not supported. Read the objects, and map and reduce them in the \
                 client.\n"
            }
            Feature::Search => "Search is not supported.\n",
        }
    }
}

/// Largest number of terms in the path of an index query.
const TERMS_MAX: usize = 2;

/// First path segments of Riak's paths.
pub(crate) const FIRST_SEGMENTS: [&str; 8] =
    ["riak", "buckets", "types", "ping", "stats", "mapred", "search", "solr"];

/// Returns true if a path is one of Riak's, by its first segment.
pub(crate) fn is_riak_path(path: &str) -> bool {
    let first = path.split('/').find(|segment| !segment.is_empty());
    first.is_none_or(|first| FIRST_SEGMENTS.contains(&first))
}

/// Parses a path. Segments are decoded after the split, so a key may contain `%2F`. Returns `None`
/// if the path is not one of Riak's, and an error text if a name in it is invalid.
pub(super) fn parse_path(path: &str) -> Option<Result<Resource, &'static str>> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let (kind, rest) = match &segments[..] {
        ["types", kind, rest @ ..] => (Some(*kind), rest),
        rest => (None, rest),
    };
    let bucket = |name: &str, style| bucket(kind, name, style);
    let kind_or_default = kind.unwrap_or(TYPE);
    Some(match (kind, rest) {
        (None, []) => Ok(Resource::Root),
        (None, ["stats"]) => Ok(Resource::Statistics),
        (None, ["ping"]) => Ok(Resource::Ping),
        (None, ["riak"]) | (_, ["buckets"]) => {
            Ok(Resource::Buckets { kind: kind_or_default.into() })
        }
        (None, ["riak", name]) => bucket(name, Style::Old).map(Resource::Keys),
        (None, ["riak", name, key]) => object(bucket(name, Style::Old), key),
        (_, ["buckets", name, "keys"]) => bucket(name, Style::New).map(Resource::Keys),
        (_, ["buckets", name, "keys", key]) => object(bucket(name, Style::New), key),
        (_, ["buckets", name, "keys", key, "preflist"]) => {
            with_key(bucket(name, Style::New), key, Resource::Owners)
        }
        (_, ["buckets", name, "props"]) => bucket(name, Style::New).map(Resource::Properties),
        (Some(_), ["props"]) => Ok(Resource::TypeProperties { kind: kind_or_default.into() }),
        (Some(_), ["buckets", name, "datatypes"]) => {
            bucket(name, Style::New).map(|bucket| Resource::Datatype(bucket, None))
        }
        (Some(_), ["buckets", name, "datatypes", key]) => {
            let to_resource = |bucket, key| Resource::Datatype(bucket, Some(key));
            with_key(bucket(name, Style::New), key, to_resource)
        }
        (None, ["buckets", name, "counters", key]) => {
            with_key(bucket(name, Style::New), key, Resource::Counter)
        }
        (_, ["buckets", name, "index", field, terms @ ..]) if terms.len() <= TERMS_MAX => {
            index(bucket(name, Style::New), field, terms)
        }
        (None, ["riak", _, _, ..]) | (_, ["buckets", _, "keys", _, ..]) => {
            Ok(Resource::Unsupported(Feature::LinkWalking))
        }
        (None, ["mapred", ..]) => Ok(Resource::Unsupported(Feature::MapReduce)),
        (None, ["search" | "solr", ..]) => Ok(Resource::Unsupported(Feature::Search)),
        _ => return None,
    })
}

fn object(bucket: Result<PathBucket, &'static str>, key: &str) -> Result<Resource, &'static str> {
    with_key(bucket, key, Resource::Object)
}

fn with_key(
    bucket: Result<PathBucket, &'static str>,
    key: &str,
    to_resource: impl FnOnce(PathBucket, Key) -> Resource,
) -> Result<Resource, &'static str> {
    let key = decode(key, PlusMeaning::Blank)
        .ok_or("a % in a key must be followed by two hexadecimal digits")?;
    Ok(to_resource(bucket?, key))
}

fn index(
    bucket: Result<PathBucket, &'static str>,
    field: &str,
    terms: &[&str],
) -> Result<Resource, &'static str> {
    let decode = |text: &str| {
        let text = decode(text, PlusMeaning::Blank);
        text.ok_or("a % in a field or term must be followed by two hexadecimal digits")
    };
    let field = decode(field)?.to_ascii_lowercase().into();
    let terms = terms.iter().map(|term| decode(term)).collect::<Result<_, _>>()?;
    Ok(Resource::Index(bucket?, IndexPath { field, terms }))
}

/// Refusal of a bucket's name.
const INVALID_NAME: &str = "a bucket's name has at most 255 bytes, counted percent-encoded";

fn bucket(kind: Option<&str>, name: &str, style: Style) -> Result<PathBucket, &'static str> {
    let client_name = decode(name, PlusMeaning::Blank).ok_or(INVALID_NAME)?;
    bucket_of(kind, client_name, style)
}

/// Returns the bucket of this type that clients call by this name. Without a type it is that of
/// paths without one.
pub(super) fn bucket_of(
    kind: Option<&str>,
    client_name: Bytes,
    style: Style,
) -> Result<PathBucket, &'static str> {
    let mut encoded = String::new();
    // Encode a leading dot: as part of a path it could name a directory.
    let rest = client_name.strip_prefix(b".");
    encoded.push_str(if rest.is_some() { "%2E" } else { "" });
    append_encoded(&mut encoded, rest.unwrap_or(&client_name));
    // Riak's type `default` is the type of paths without one.
    let stored_kind = kind.filter(|kind| *kind != "default").unwrap_or(TYPE);
    let full = BucketName::new(stored_kind, &encoded).map_err(|_| INVALID_NAME)?;
    let has_type = kind.is_some_and(|kind| kind != "default");
    Ok(PathBucket { name: full, client_name, has_type, style })
}

/// Returns a bucket's name as its clients write it, percent-decoded.
pub(super) fn client_name(name: &BucketName) -> Bytes {
    decode(name.name(), PlusMeaning::Plus)
        .unwrap_or_else(|| Bytes::copy_from_slice(name.name().as_bytes()))
}
