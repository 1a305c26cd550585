//! Limits: what is at a limit is accepted, what is beyond is refused with the right reason.

mod declared_terms;
mod digits;
mod field_names;
mod nesting;
mod paths;
