//! The real binary as a user meets it: first start, both front-ends, the command line, real input.
//!
//! Promises: every test has its own server and data directory, on loopback.
//! Never: reaches into the node; every check is one that a user could make.
//! Read next: `first_start.rs`, then `real_input.rs`.

mod access_file;
mod admission;
mod alternatives;
mod arakoon;
mod arakoon_three;
mod audit;
mod available_files;
mod available_tool;
mod buckets;
mod checkpoint;
mod clients;
mod cluster;
mod commands;
mod copies;
mod counted;
mod crash_log;
mod defaults;
mod feeds;
mod first_start;
mod foreign_suites;
mod founding;
mod groups;
mod health;
mod http_page;
mod idle;
mod indexes;
mod limits;
mod limits_http;
mod limits_many;
mod local_settings;
mod logging;
mod mistakes;
mod offline;
mod once;
mod operations;
mod published_load;
mod readme;
mod ready;
mod real_input;
mod redis_tools;
mod repair;
mod riak;
mod secure_cluster;
mod service;
mod strangers;
mod tables;
mod three_nodes;
mod times;
mod tls;
mod transfer;
mod typed;
mod typed_pages;
mod verdict;

use std::process::{Command, Output};
use systest::client::{Http, HttpResponse, Resp, encode_key};
use systest::environment::Scratch;
use systest::server::{Server, Setup};

/// Starts a server on its own data directory, with the product's defaults.
fn start_server(name: &str) -> (Scratch, Server) {
    start_server_with(name, &[])
}

/// Starts such a server with these flags, each with its value.
fn start_server_with(name: &str, args: &[&str]) -> (Scratch, Server) {
    let scratch = Scratch::new(name);
    let server = Server::must_start(&Setup::new(&scratch.join("data")).with_args(args));
    (scratch, server)
}

/// Opens a RESP connection.
fn resp(server: &Server) -> Resp {
    Resp::connect(server.address).expect("the server listens")
}

/// Opens an HTTP connection.
fn http(server: &Server) -> Http {
    Http::connect(server.address).expect("the server listens")
}

/// Returns the path of a key of the default bucket.
fn key_path(key: &[u8]) -> String {
    format!("/v1/buckets/default/default/keys/{}", encode_key(key))
}

/// Puts through HTTP; returns any answer.
fn put(client: &mut Http, key: &[u8], value: &[u8]) -> HttpResponse {
    let headers = [("content-type", "application/octet-stream")];
    client.request_with_headers("PUT", &key_path(key), &headers, value).expect("the server answers")
}

/// Gets through HTTP; returns any answer.
fn get(client: &mut Http, key: &[u8]) -> HttpResponse {
    client.request("GET", &key_path(key), b"").expect("the server answers")
}

/// Runs a command; returns its output and exit status.
fn output(mut command: Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs the command line tool, which must succeed; returns its stdout.
fn tool(server: &Server, args: &[&str]) -> String {
    let result = output(server.tool(args));
    let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
    assert!(result.status.success(), "credenza {}: {stderr}", args.join(" "));
    String::from_utf8_lossy(&result.stdout).into_owned()
}

/// Runs the command line tool, which must fail with this exit code; returns its stderr.
fn must_fail(server: &Server, args: &[&str], code: i32) -> String {
    let result = output(server.tool(args));
    let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
    assert_eq!(result.status.code(), Some(code), "credenza {}: {stderr}", args.join(" "));
    stderr
}
