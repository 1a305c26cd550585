//! Tests of this front-end as a whole: worked examples, conversations, errors and malformed bytes.

mod conversations;
mod encoding;
mod errors;
mod examples;
mod guest;
mod limits;
mod malformed;
mod parts;
