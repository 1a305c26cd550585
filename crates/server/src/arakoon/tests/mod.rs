//! Tests of this front-end: worked examples, conversations, errors and malformed bytes.

mod client;
mod conversations;
mod encoding;
mod errors;
mod examples;
mod limits;
mod malformed;
mod parts;
