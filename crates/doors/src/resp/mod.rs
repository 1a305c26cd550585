//! Redis' tongue, the fast native door.
