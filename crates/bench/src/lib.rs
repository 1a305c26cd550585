//! Load: the load tool; it may drive foreign servers.
