//! What holds for this front-end as a whole: the worked examples, conversations, errors, and bytes
//! that mean nothing.

mod conversations;
mod encoding;
mod errors;
mod examples;
mod guest;
mod limits;
mod malformed;
mod parts;
