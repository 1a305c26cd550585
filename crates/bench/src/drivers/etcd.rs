//! etcd, version 3 of its interface, over gRPC.
