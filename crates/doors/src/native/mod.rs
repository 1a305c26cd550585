//! The native HTTP/JSON door.
