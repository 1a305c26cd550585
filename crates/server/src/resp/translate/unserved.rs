//! Commands of Redis 7 that are not served, by the type or feature they work on. Their refusal says
//! that the command is not misspelt.

/// Types and features that are not served, each with its commands.
const FAMILIES: [(&str, &str); 10] = [
    (
        "lists",
        "BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH LINDEX LINSERT LLEN LMOVE LMPOP LPOP LPOS \
         LPUSH LPUSHX LRANGE LREM LSET LTRIM RPOP RPOPLPUSH RPUSH RPUSHX",
    ),
    (
        "hashes",
        "HDEL HEXISTS HGET HGETALL HINCRBY HINCRBYFLOAT HKEYS HLEN HMGET HMSET HRANDFIELD \
         HSCAN HSET HSETNX HSTRLEN HVALS",
    ),
    (
        "sets",
        "SADD SCARD SDIFF SDIFFSTORE SINTER SINTERCARD SINTERSTORE SISMEMBER SMEMBERS \
         SMISMEMBER SMOVE SPOP SRANDMEMBER SREM SSCAN SUNION SUNIONSTORE",
    ),
    (
        "sorted sets",
        "BZMPOP BZPOPMAX BZPOPMIN ZADD ZCARD ZCOUNT ZDIFF ZDIFFSTORE ZINCRBY ZINTER \
         ZINTERCARD ZINTERSTORE ZLEXCOUNT ZMPOP ZMSCORE ZPOPMAX ZPOPMIN ZRANDMEMBER ZRANGE \
         ZRANGEBYLEX ZRANGEBYSCORE ZRANGESTORE ZRANK ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK \
         ZREMRANGEBYSCORE ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE \
         ZUNION ZUNIONSTORE",
    ),
    (
        "streams",
        "XACK XADD XAUTOCLAIM XCLAIM XDEL XGROUP XINFO XLEN XPENDING XRANGE XREAD \
         XREADGROUP XREVRANGE XSETID XTRIM",
    ),
    (
        "publish and subscribe",
        "PSUBSCRIBE PUBLISH PUBSUB PUNSUBSCRIBE SPUBLISH SSUBSCRIBE SUBSCRIBE SUNSUBSCRIBE \
         UNSUBSCRIBE",
    ),
    ("scripts and functions", "EVAL EVALSHA EVALSHA_RO EVAL_RO FCALL FCALL_RO FUNCTION SCRIPT"),
    ("bits and subsequences", "BITCOUNT BITFIELD BITFIELD_RO BITOP BITPOS GETBIT LCS SETBIT"),
    (
        "HyperLogLogs and places",
        "GEOADD GEODIST GEOHASH GEOPOS GEORADIUS GEORADIUSBYMEMBER GEOSEARCH GEOSEARCHSTORE \
         PFADD PFCOUNT PFDEBUG PFMERGE PFSELFTEST",
    ),
    (
        "Redis' own replication, persistence and modules",
        "BGREWRITEAOF CLUSTER DUMP FAILOVER LATENCY MIGRATE MODULE MONITOR PSYNC REPLCONF \
         REPLICAOF RESTORE SLAVEOF SORT SORT_RO SWAPDB SYNC",
    ),
];

/// Returns the type or feature of a Redis command that is not served. `None`: the command is
/// served, or Redis does not have it.
pub fn family(name: &[u8]) -> Option<&'static str> {
    let contains =
        |names: &str| names.split(' ').any(|listed| listed.as_bytes().eq_ignore_ascii_case(name));
    FAMILIES.iter().find(|(_, names)| contains(names)).map(|(family, _)| *family)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::translate::table;

    #[test]
    fn unserved_command_family_contains_no_served_command() {
        for name in FAMILIES.iter().flat_map(|(_, names)| names.split(' ')) {
            assert!(table::find(name.as_bytes()).is_none(), "{name} is served");
            assert!(family(name.to_ascii_lowercase().as_bytes()).is_some(), "{name}");
        }
        assert_eq!(family(b"NOSUCH"), None);
        assert_eq!(family(b"GET"), None);
    }
}
