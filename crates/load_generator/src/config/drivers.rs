//! Drivers that a run may use, and the settings of each.

use super::items::{Item, Items};
use base::BucketName;
use std::path::PathBuf;

/// The drivers' names in configs.
const NAMES: [&str; 8] = ["resp", "http", "riak", "arakoon", "couchdb", "embedded", "etcd", "null"];

/// Driver of a run: the kind of server, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum DriverConfig {
    /// No server: measures the cost of the load tool itself.
    Null,
    /// A server that speaks RESP: Credenza, Redis.
    Resp(RespConfig),
    /// Credenza's native HTTP front-end.
    Http(HttpConfig),
    /// Riak, or any server with its HTTP interface.
    Riak(RiakConfig),
    /// Arakoon, or any server with its client protocol.
    Arakoon(ArakoonConfig),
    /// CouchDB, or a server with its HTTP interface.
    CouchDb(CouchDbConfig),
    /// A node in this process.
    Embedded(EmbeddedConfig),
    /// etcd, version 3 of its interface.
    Etcd(EtcdConfig),
}

/// Settings of `resp`.
#[derive(Clone, Debug, PartialEq)]
pub struct RespConfig {
    /// `host:port` each; clients take them in turn.
    pub addresses: Vec<String>,
    /// Bucket of the keys; Credenza only. `None`: the server's default.
    pub bucket: Option<BucketName>,
    /// Number of the database that is selected on every connection.
    pub database: u64,
    /// Password for authentication. `None`: no authentication.
    pub password: Option<String>,
    /// Name of the index that is queried; Credenza only. `None`: no queries.
    pub index: Option<String>,
}

/// Settings of `http`.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpConfig {
    /// `host:port`.
    pub address: String,
    /// Bucket of the keys.
    pub bucket: BucketName,
    /// Query of reads, such as `consistency=dirty`; empty: none.
    pub read_query: String,
}

/// Settings of `riak`.
#[derive(Clone, Debug, PartialEq)]
pub struct RiakConfig {
    /// `host:port` each; clients take them in turn.
    pub addresses: Vec<String>,
    /// Path of a key without the key: `/buckets/NAME/keys`, `/types/TYPE/buckets/NAME/keys`,
    /// `/riak/NAME`.
    pub path: String,
    /// Query of all requests, such as `timeout=500`; empty: none.
    pub query: String,
    /// Query of reads, such as `r=2`.
    pub read_query: String,
    /// Query of writes, such as `w=2`.
    pub write_query: String,
    /// Member of JSON documents whose number a put sends as a tag: the tag's name is this and
    /// `_int`. `None`: no tag.
    pub tag: Option<String>,
}

/// Settings of `arakoon`.
#[derive(Clone, Debug, PartialEq)]
pub struct ArakoonConfig {
    /// `host:port` of the master.
    pub address: String,
    /// The cluster's id.
    pub cluster: String,
}

/// Settings of `couchdb`.
#[derive(Clone, Debug, PartialEq)]
pub struct CouchDbConfig {
    /// `host:port`.
    pub address: String,
    /// Database of the documents; created if it does not exist.
    pub database: String,
    /// Member of the documents by which the view is sorted; the view is created if it does not
    /// exist.
    pub member: String,
}

/// Settings of `embedded`.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddedConfig {
    /// The data directory; created if it does not exist.
    pub data: PathBuf,
    /// Bucket of the keys; created if it does not exist.
    pub bucket: BucketName,
    /// Properties that the bucket is created with, or that are changed at the start.
    pub properties: Vec<(String, String)>,
}

/// Settings of `etcd`.
#[derive(Clone, Debug, PartialEq)]
pub struct EtcdConfig {
    /// Addresses of the cluster's members, `http://host:port` each.
    pub endpoints: Vec<String>,
    /// Most connections that the clients share.
    pub connections: usize,
    /// True if reads are linearizable; otherwise they are serializable.
    pub linearizable: bool,
}

impl DriverConfig {
    /// Reads `driver` and its keys.
    pub(super) fn read(items: &mut Items) -> Result<DriverConfig, String> {
        let driver = items.need("a run", "driver", |item| match item.text()? {
            name if NAMES.contains(&name) => Ok(name.to_string()),
            _ => Err(item.error(format!("wants one of {}", NAMES.join(", ")))),
        })?;
        let text = |item: &Item| item.text().map(str::to_string);
        let address = "127.0.0.1:7711".to_string();
        Ok(match driver.as_str() {
            "resp" => DriverConfig::Resp(RespConfig {
                addresses: items.read("resp_address", vec![address], text_or_texts)?,
                bucket: items.read("resp_bucket", None, |item| bucket_of(item).map(Some))?,
                database: items.read("resp_database", 0, |item| item.integer(0, 1 << 20))?,
                password: items.read("resp_password", None, |item| text(item).map(Some))?,
                index: items.read("resp_index", None, |item| text(item).map(Some))?,
            }),
            "http" => DriverConfig::Http(HttpConfig {
                address: items.read("http_address", address, text)?,
                bucket: items.read("http_bucket", BucketName::default(), bucket_of)?,
                read_query: items.read("http_read_query", String::new(), text)?,
            }),
            "riak" => DriverConfig::Riak(RiakConfig {
                addresses: items.read("riak_addresses", vec![address], non_empty_texts)?,
                path: items.read("riak_path", "/buckets/test/keys".into(), path_of)?,
                query: items.read("riak_query", String::new(), text)?,
                read_query: items.read("riak_read_query", String::new(), text)?,
                write_query: items.read("riak_write_query", String::new(), text)?,
                tag: items.read("riak_tag", None, |item| plain_name(item).map(Some))?,
            }),
            "arakoon" => DriverConfig::Arakoon(ArakoonConfig {
                address: items.read("arakoon_address", address, text)?,
                cluster: items.need("the driver `arakoon`", "arakoon_cluster", text)?,
            }),
            "couchdb" => DriverConfig::CouchDb(CouchDbConfig {
                address: items.read("couchdb_address", "127.0.0.1:5984".into(), text)?,
                database: items.need("the driver `couchdb`", "couchdb_database", plain_name)?,
                member: items.need("the driver `couchdb`", "couchdb_member", plain_name)?,
            }),
            "embedded" => DriverConfig::Embedded(EmbeddedConfig {
                data: items.need("the driver `embedded`", "embedded_data", |item| {
                    item.text().map(PathBuf::from)
                })?,
                bucket: items.read("embedded_bucket", BucketName::default(), bucket_of)?,
                properties: items.read("embedded_properties", Vec::new(), properties_of)?,
            }),
            "etcd" => DriverConfig::Etcd(EtcdConfig {
                endpoints: items.read(
                    "etcd_endpoints",
                    vec!["http://127.0.0.1:2379".to_string()],
                    Item::texts,
                )?,
                connections: items.read("etcd_connections", 16, |item| item.integer(1, 1_000))?
                    as usize,
                linearizable: items.read("etcd_linearizable", true, Item::boolean)?,
            }),
            _ => DriverConfig::Null,
        })
    }

    /// Returns its name in configs.
    pub fn name(&self) -> &'static str {
        match self {
            DriverConfig::Null => "null",
            DriverConfig::Resp(_) => "resp",
            DriverConfig::Http(_) => "http",
            DriverConfig::Riak(_) => "riak",
            DriverConfig::Arakoon(_) => "arakoon",
            DriverConfig::CouchDb(_) => "couchdb",
            DriverConfig::Embedded(_) => "embedded",
            DriverConfig::Etcd(_) => "etcd",
        }
    }

    /// Returns the setting that names the server, and its value. `None`: the server is in this
    /// process.
    fn server(&self) -> Option<(&'static str, String)> {
        match self {
            DriverConfig::Null | DriverConfig::Embedded(_) => None,
            DriverConfig::Resp(config) => Some(("resp_address", config.addresses.join(", "))),
            DriverConfig::Http(config) => Some(("http_address", config.address.clone())),
            DriverConfig::Riak(config) => Some(("riak_addresses", config.addresses.join(", "))),
            DriverConfig::Arakoon(config) => Some(("arakoon_address", config.address.clone())),
            DriverConfig::CouchDb(config) => Some(("couchdb_address", config.address.clone())),
            DriverConfig::Etcd(config) => Some(("etcd_endpoints", config.endpoints.join(", "))),
        }
    }

    /// Returns the server's addresses. `None`: the server is in this process.
    pub fn addresses(&self) -> Option<String> {
        self.server().map(|(_, addresses)| addresses)
    }

    /// Returns the setting that names the server.
    pub fn setting(&self) -> Option<&'static str> {
        self.server().map(|(setting, _)| setting)
    }

    /// Returns true if a client may have several requests in flight.
    pub fn pipelines(&self) -> bool {
        !matches!(self, DriverConfig::Etcd(_))
    }

    /// Returns how the bucket is reached over Credenza's HTTP, for what only that has: feeds.
    /// `None`: the driver's server has no such front-end.
    pub fn http(&self) -> Option<HttpConfig> {
        match self {
            DriverConfig::Http(config) => Some(config.clone()),
            // One port speaks both.
            DriverConfig::Resp(config) => Some(HttpConfig {
                address: config.addresses.first()?.clone(),
                bucket: config.bucket.clone().unwrap_or_default(),
                read_query: String::new(),
            }),
            _ => None,
        }
    }

    /// Returns true if the driver can query an index of documents.
    pub fn has_index(&self) -> bool {
        match self {
            DriverConfig::Resp(config) => config.index.is_some(),
            DriverConfig::CouchDb(_) => true,
            _ => false,
        }
    }
}

fn bucket_of(item: &Item) -> Result<BucketName, String> {
    BucketName::parse(item.text()?).map_err(|error| item.error(error.text()))
}

/// Reads a name that needs no escape in a path, a header or a text of JSON.
fn plain_name(item: &Item) -> Result<String, String> {
    let name = item.text()?;
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    match name.bytes().all(is_plain) && !name.is_empty() {
        true => Ok(name.into()),
        false => Err(item.error("wants a name of a-z, 0-9 and _")),
    }
}

fn properties_of(item: &Item) -> Result<Vec<(String, String)>, String> {
    let entries = item.table()?.rest().into_iter();
    entries.map(|(name, item)| Ok((name, item.text()?.to_string()))).collect()
}

fn non_empty_texts(item: &Item) -> Result<Vec<String>, String> {
    match item.texts()? {
        texts if texts.is_empty() => Err(item.error("wants at least one")),
        texts => Ok(texts),
    }
}

/// Reads a text, or a list of texts.
fn text_or_texts(item: &Item) -> Result<Vec<String>, String> {
    match item.text() {
        Ok(text) => Ok(vec![text.to_string()]),
        Err(_) => non_empty_texts(item),
    }
}

fn path_of(item: &Item) -> Result<String, String> {
    let path = item.text()?.trim_end_matches('/');
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'?' && byte != b'#';
    if path.starts_with('/') && path.bytes().all(is_plain) {
        return Ok(path.into());
    }
    Err(item.error("wants a path such as \"/buckets/test/keys\""))
}
