//! Driver of CouchDB's HTTP interface, also that of `pouchdb-server`: documents of one database,
//! and a view that sorts them by the number of one member.

use super::http_reply::{HttpReply, body_json, parse_http_reply};
use super::percent::percent;
use super::sockets::{Parsed, Sockets, WireProtocol, connect, request_once, resolve};
use super::{
    Answer, Call, DocumentCall, Driver, Failure, IntegerRange, QueryPage, QueryRow, Target,
};
use crate::config::{CouchDbConfig, Operation};
use crate::error::BenchError;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::net::{SocketAddr, TcpStream};

/// Number of documents of one `_bulk_docs`.
const BULK_DOCUMENTS: usize = 1_000;
/// Name of the design document and of its view.
const VIEW: &str = "by_number";

/// A server that answered, with its database and its view.
pub struct CouchDbTarget {
    protocol: CouchDb,
    address: SocketAddr,
    version: String,
}

/// The wire protocol.
#[derive(Clone)]
pub struct CouchDb {
    host: String,
    database: String,
}

/// Format of a request's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CouchDbExpectation {
    /// A document, or 404.
    Document,
    /// Success alone.
    Done,
    /// Success, or what is to be made exists: 409 or 412.
    Present,
    /// A list with a success for each document.
    Stored,
    /// Rows of the view, with documents if this is true.
    Rows(bool),
}

impl CouchDbTarget {
    /// Connects once, asks for the version, and makes the database and the view if they are absent.
    pub fn connect(config: &CouchDbConfig) -> Result<CouchDbTarget, BenchError> {
        let address = resolve(&config.address)?;
        let protocol = CouchDb::new(config);
        let mut stream = connect(&protocol, address)?;
        let mut ask = |request: &[u8], expected: CouchDbExpectation| {
            request_once(&protocol, &mut stream, request, &expected, |answer| match answer {
                Ok(Answer::Value(Some(body))) => Ok(body.to_vec()),
                Ok(_) => Ok(Vec::new()),
                Err(failure) => Err(format!("the server refuses: {}", failure.kind)),
            })?
            .map_err(BenchError::unavailable)
        };
        let welcome = ask(&protocol.request("GET", "/", ""), CouchDbExpectation::Document)?;
        let path = format!("/{}", protocol.database);
        ask(&protocol.request("PUT", &path, ""), CouchDbExpectation::Present)?;
        let view = json!({ "views": { VIEW: { "map": map_function(&config.member) } } });
        let path = format!("{path}/_design/{VIEW}");
        ask(&protocol.request("PUT", &path, &view.to_string()), CouchDbExpectation::Present)?;
        Ok(CouchDbTarget { protocol, address, version: version_of(&welcome) })
    }
}

/// Returns the map function of the view: documents without a number in the member are not in it.
fn map_function(member: &str) -> String {
    format!("function (doc) {{ if (typeof doc.{member} === 'number') emit(doc.{member}, null); }}")
}

/// Returns name and version of a server that welcomes with this document.
fn version_of(welcome: &[u8]) -> String {
    let welcome = body_json(welcome).unwrap_or_default();
    let name = match welcome.get("express-pouchdb") {
        Some(_) => "pouchdb-server",
        None => "couchdb",
    };
    format!("{name} {}", welcome["version"].as_str().unwrap_or("of an unknown version"))
}

impl Target for CouchDbTarget {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn supports(&self, operation: Operation) -> Result<(), String> {
        match operation {
            Operation::Get | Operation::GetExisting => Ok(()),
            other => Err(format!("the driver `couchdb` has no `{}`: only gets", other.name())),
        }
    }

    fn bulk_documents(&self) -> usize {
        BULK_DOCUMENTS
    }

    fn driver(&self, clients: usize) -> Result<Box<dyn Driver>, BenchError> {
        Ok(Box::new(Sockets::connect(self.protocol.clone(), self.address, clients)?))
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

impl CouchDb {
    /// Returns the protocol for a database.
    pub fn new(config: &CouchDbConfig) -> CouchDb {
        CouchDb { host: config.address.clone(), database: config.database.clone() }
    }

    /// Returns a request with a body of JSON, which may be empty.
    fn request(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        let (host, length) = (&self.host, body.len());
        let text = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        text.into_bytes()
    }

    fn get(&self, path: &str, out: &mut Vec<u8>) {
        let (host, database) = (&self.host, &self.database);
        let text = format!("GET /{database}/{path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        out.extend_from_slice(text.as_bytes());
    }

    fn query(&self, range: &IntegerRange<'_>, out: &mut Vec<u8>) {
        let mut path = format!("_design/{VIEW}/_view/{VIEW}?limit={}", range.rows_max);
        if let Some(low) = range.low {
            path.push_str(&format!("&startkey={low}"));
        }
        if let Some(high) = range.high {
            path.push_str(&format!("&endkey={high}&inclusive_end=false"));
        }
        if range.wants_documents {
            path.push_str("&include_docs=true");
        }
        self.get(&path, out);
    }
}

/// Returns the body of `_bulk_docs`: each document with its key as its first member.
fn bulk_body(rows: &[(Vec<u8>, Vec<u8>)]) -> String {
    let documents = rows.iter().map(|(key, document)| {
        let key = Value::from(String::from_utf8_lossy(key).into_owned());
        let document = String::from_utf8_lossy(document);
        let members = document.strip_prefix('{').unwrap_or("}");
        let comma = if members.trim_start().starts_with('}') { "" } else { "," };
        format!("{{\"_id\":{key}{comma}{members}")
    });
    format!("{{\"docs\":[{}]}}", documents.collect::<Vec<_>>().join(","))
}

impl WireProtocol for CouchDb {
    type Expected = CouchDbExpectation;

    fn encode(&self, call: &Call<'_>, out: &mut Vec<u8>) -> CouchDbExpectation {
        match call {
            Call::Get(key) => {
                self.get(&percent(key).to_string(), out);
                CouchDbExpectation::Document
            }
            Call::Document(DocumentCall::Query(range)) => {
                self.query(range, out);
                CouchDbExpectation::Rows(range.wants_documents)
            }
            Call::Document(DocumentCall::Bulk(rows)) => {
                let path = format!("/{}/_bulk_docs", self.database);
                out.extend_from_slice(&self.request("POST", &path, &bulk_body(rows)));
                CouchDbExpectation::Stored
            }
            // Unreachable: `supports` refuses all other operations.
            _ => CouchDbExpectation::Done,
        }
    }

    fn parse<'a>(&self, input: &'a [u8], expected: &CouchDbExpectation) -> Parsed<'a> {
        use CouchDbExpectation::{Document, Done, Present, Rows, Stored};
        let reply = match parse_http_reply(input, false) {
            None => return Parsed::Partial,
            Some(Err(_)) => return Parsed::Broken,
            Some(Ok(reply)) => reply,
        };
        let answer = match (reply.status, expected) {
            (404, Document) => Ok(Answer::Value(None)),
            (200, Document) => Ok(Answer::Value(Some(reply.body))),
            (200..=299, Done | Present) | (409 | 412, Present) => Ok(Answer::Done),
            (200..=299, Stored) => stored(&reply).ok_or_else(unexpected).map(Answer::Count),
            (200..=299, Rows(wants_documents)) => {
                page_of(&reply, *wants_documents).ok_or_else(unexpected).map(Answer::Page)
            }
            (status, _) => Err(Failure::refused(status.to_string())),
        };
        Parsed::Reply(reply.bytes, answer)
    }

    fn handshake(&self, _stream: &mut TcpStream) -> Result<(), BenchError> {
        Ok(())
    }
}

fn unexpected() -> Failure {
    Failure::refused("unexpected_reply")
}

/// Returns the number of documents that were stored. `None`: malformed.
fn stored(reply: &HttpReply<'_>) -> Option<u64> {
    let results = body_json(&reply.whole_body()?)?;
    let is_stored = |result: &&Value| result["ok"] == Value::Bool(true);
    Some(results.as_array()?.iter().filter(is_stored).count() as u64)
}

/// Returns the rows of a view: of documents without the members that CouchDB adds. `None`:
/// malformed.
fn page_of(reply: &HttpReply<'_>, wants_documents: bool) -> Option<QueryPage<'static>> {
    let mut body = body_json(&reply.whole_body()?)?;
    let rows = body.get_mut("rows")?.as_array_mut()?.iter_mut().map(|row| {
        let key = row.get("id")?.as_str()?.as_bytes().to_vec();
        let document = match wants_documents {
            true => Some(Cow::Owned(plain_document(row.get_mut("doc")?)?)),
            false => None,
        };
        Some(QueryRow { key: Cow::Owned(key), document })
    });
    let rows = rows.collect::<Option<Vec<_>>>()?;
    Some(QueryPage { rows, after: None })
}

fn plain_document(document: &mut Value) -> Option<Vec<u8>> {
    let members = document.as_object_mut()?;
    members.retain(|name, _| !name.starts_with('_'));
    serde_json::to_vec(&*members).ok()
}
