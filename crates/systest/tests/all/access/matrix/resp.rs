//! Commands of Redis' protocol, with what `docs/run/access.md` says that each needs.
//!
//! A row is a conversation: commands with `;` between them, of which the one behind `!` is judged.
//! Variables and needs are those of `http.rs`; `$s` is a time in ten minutes, seconds since 1970,
//! `$m` the same in milliseconds.

/// Commands on the connection's bucket, tried at each place.
pub const DATA: &str = r#"
!GET $k                                   | read:key
!SET $k v                                 | write:key
!SET $k v NX                              | write:key read:key
!SET $k v GET                             | write:key read:key
!SETNX $k v                               | write:key read:key
!SETEX $k 100 v                           | write:key
!PSETEX $k 100000 v                       | write:key
!GETSET $k v                              | write:key read:key
!GETDEL $k                                | write:key read:key
!GETEX $k                                 | read:key
!GETEX $k PERSIST                         | write:key read:key
!MGET $k p-2                              | read:key read:second
!MSET $k v p-2 v                          | write:key write:second
!MSETNX $k v                              | write:key read:key
!APPEND $k 1                              | write:key
!STRLEN $k                                | read:key
!GETRANGE $k 0 1                          | read:key
!SUBSTR $k 0 1                            | read:key
!SETRANGE $k 0 1                          | write:key
!INCR $k                                  | write:key read:key
!DECR $k                                  | write:key read:key
!INCRBY $k 1                              | write:key read:key
!DECRBY $k 1                              | write:key read:key
!INCRBYFLOAT $k 1                         | write:key read:key
!DEL $k                                   | write:key
!DEL $k p-2                               | write:key write:second
!UNLINK $k                                | write:key
!EXISTS $k                                | read:key
!TOUCH $k                                 | read:key
!TYPE $k                                  | read:key
!KEYS $p*                                 | list:range
!KEYS *                                   | list:all
!SCAN 0 MATCH $p*                         | list:range
!SCAN 0                                   | list:all
!RANDOMKEY                                | list:all
!RENAME $k p-2                            | read:key write:key write:second
!RENAMENX $k p-2                          | read:key write:key write:second
!COPY $k p-3 REPLACE                      | read:key write:second
!EXPIRE $k 100                            | write:key
!PEXPIRE $k 100000                        | write:key
!EXPIREAT $k $s                           | write:key
!PEXPIREAT $k $m                          | write:key
!TTL $k                                   | read:key
!PTTL $k                                  | read:key
!EXPIRETIME $k                            | read:key
!PEXPIRETIME $k                           | read:key
!PERSIST $k                               | write:key
!OBJECT ENCODING $k                       | read:key
!OBJECT REFCOUNT $k                       | read:key
!MEMORY USAGE $k                          | read:key
MULTI; SET $k v; GET $k; !EXEC            | write:key read:key
MULTI; SET p-2 v; DEL $k; !EXEC           | write:second write:key
!WATCH $k; UNWATCH                        | read:key
!DBSIZE                                   | list:all
!FLUSHDB                                  | own:all
!FLUSHALL                                 | own:all
!SAVE                                     | read:any
!BGSAVE                                   | read:any
!CREDENZA.BUCKET $b                       | read:any
!CREDENZA.CREATE $b                       | own:all
!CREDENZA.ALTER $b sync sync              | own:all
!CREDENZA.ALTER $b audit off              | own:all secure:cluster
!CREDENZA.DESCRIBE $b                     | read:any
!CREDENZA.SEQUENCE 3 SET $k v 2 GET $k    | write:key read:key
!CREDENZA.SEQUENCE 3 SET $k v 4 CREDENZA.SEQUENCE 2 GET q-1 | write:key read:outside
!CREDENZA.TAS $k ABSENT ABSENT            | write:key read:key
!CREDENZA.CONFIRM $k v                    | write:key
!CREDENZA.ASSERT $k EXISTS                | read:key
!CREDENZA.RANGE [p- (p.                   | list:second read:second
!CREDENZA.RANGE - + KEYS                  | list:all
!CREDENZA.PREFIX $p                       | list:range read:range
!CREDENZA.PREFIX $p KEYS                  | list:range
!CREDENZA.INDEX RANGE missing - +         | list:all read:all
!CREDENZA.FEED $b                         | list:all
!CREDENZA.FEED $b VALUES                  | list:all read:all
!CREDENZA.INDEX CREATE matrix PATH $.a TYPE int | own:all
!CREDENZA.INDEX LIST                      | read:any
!CREDENZA.INDEX STATUS missing            | read:any
!CREDENZA.INDEX DROP matrix               | own:all
!CREDENZA.DELPREFIX $p                    | write:range list:range
!CREDENZA.FETCH $k                        | read:key
!CREDENZA.STORE $k v                      | write:key
!CREDENZA.REMOVE $k                       | write:key
!CREDENZA.SESSION OPEN                    | write:any
!CREDENZA.SESSION CLOSE 1                 | write:any
CREDENZA.SESSION USE 1; !CREDENZA.RETRY 1 SET $k v | write:key
"#;

/// Commands that are about no bucket, and those that would destroy what the others need.
pub const CLUSTER: &str = r#"
!CREDENZA.DROP default/dropped            | own:dropped
!CREDENZA.BUCKETS                         | list:cluster
!CLIENT LIST                              | watch:cluster
!CLIENT KILL ID 9999999999                | operate:cluster
!CONFIG RESETSTAT                         | operate:cluster
!SLOWLOG GET                              | watch:cluster
!SLOWLOG LEN                              | watch:cluster
!SLOWLOG RESET                            | operate:cluster
!SLOWLOG HELP                             | -
!PING                                     | -
!ECHO x                                   | -
!SELECT 0                                 | -
!HELLO 2                                  | -
!CLIENT ID                                | -
!CLIENT INFO                              | -
!CLIENT GETNAME                           | -
!CLIENT SETNAME matrix                    | -
!CLIENT SETINFO lib-name matrix           | -
!CLIENT GETREDIR                          | -
!CLIENT REPLY ON                          | -
!CLIENT NO-EVICT OFF                      | -
!CLIENT NO-TOUCH OFF                      | -
!CLIENT TRACKING OFF                      | -
!CLIENT TRACKINGINFO                      | -
!CLIENT UNPAUSE                           | -
!CLIENT HELP                              | -
!ACL WHOAMI                               | -
!ACL HELP                                 | -
!MULTI; DISCARD                           | -
MULTI; !DISCARD                           | -
!UNWATCH                                  | -
!OBJECT HELP                              | -
!MEMORY HELP                              | -
!INFO                                     | -
!TIME                                     | -
!LASTSAVE                                 | -
!ROLE                                     | -
!WAIT 0 0                                 | -
!COMMAND                                  | -
!COMMAND COUNT                            | -
!COMMAND DOCS get                         | -
!COMMAND GETKEYS GET k                    | -
!COMMAND INFO get                         | -
!COMMAND LIST                             | -
!COMMAND HELP                             | -
!CONFIG GET maxmemory                     | -
!CONFIG SET maxmemory 1                   | -
!CONFIG REWRITE                           | -
!CONFIG HELP                              | -
!CREDENZA.BUCKET                          | -
!CREDENZA.CONSISTENCY                     | -
!CREDENZA.INDEX                           | -
!CREDENZA.INDEX HELP                      | -
!CREDENZA.SESSION USE 1                   | -
!CREDENZA.SESSION HELP                    | -
"#;

/// Commands that log in or end the connection: everybody may send them.
pub const OPEN: [&str; 3] = ["auth", "quit", "reset"];
