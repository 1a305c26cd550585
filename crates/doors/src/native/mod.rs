//! The native door: HTTP and JSON, readable, everything.

use crate::{Connection, Shared, Shutdown};
use std::sync::Arc;

/// Serves one connection until it ends or the doors close.
pub(crate) async fn serve(_connection: Connection, _shared: Arc<Shared>, _shutdown: Shutdown) {}
