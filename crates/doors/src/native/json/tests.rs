//! JSON, both ways.
