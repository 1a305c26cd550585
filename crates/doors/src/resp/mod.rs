//! RESP: Redis' language, the fast native one.

use crate::{Connection, Shared, Shutdown};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;

/// Serves one connection until it ends or the doors close.
pub(crate) async fn serve(mut connection: Connection, _shared: Arc<Shared>, _shutdown: Shutdown) {
    let _ = connection.stream.write_all(b"-ERR RESP is not served yet\r\n").await;
}
