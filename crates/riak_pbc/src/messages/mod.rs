//! Messages of Riak's schema (`riak.proto`, `riak_kv.proto`, `riak_dt.proto`), with its names.
//!
//! A field that the schema requires and a client leaves out is empty, zero or `None` after
//! decoding: whoever reads the message refuses it.
//!
//! Promises: numbers, types and names of fields are those of the schema.
//! Never: interprets a field.
//! Read next: `object.rs`, `datatypes.rs`.

/// Declares messages: number, name, type and prost's kind of each field.
macro_rules! messages {
    ($(
        $(#[doc = $doc:literal])*
        $message:ident { $($tag:tt $field:ident: $type:ty [$($kind:tt)*];)* }
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub struct $message {
            $(
                #[doc = concat!("Field ", $tag, ": `", stringify!($field), "` of the schema.")]
                #[prost($($kind)*, tag = $tag)]
                pub $field: $type,
            )*
        }
    )*};
}

mod bucket;
mod datatypes;
mod index;
mod object;
mod session;

pub use bucket::*;
pub use datatypes::*;
pub use index::*;
pub use object::*;
pub use session::*;
