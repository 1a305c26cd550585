//! Operations of the native HTTP interface, with what `docs/run/access.md` says that each needs.
//!
//! `$b` is the bucket, `$t` its type, `$k` the key, `$p` the prefix; `callers.rs` has all of them.
//! `+` before a row: the key is written first. `-`: any login suffices; `open`: none is needed.

/// Operations on a consistent bucket, tried at each place.
pub const DATA: &str = r#"
GET /v1/buckets/$b/keys/$k                                      | read:key
HEAD /v1/buckets/$b/keys/$k                                     | read:key
PUT /v1/buckets/$b/keys/$k v                                    | write:key
DELETE /v1/buckets/$b/keys/$k                                   | write:key
POST /v1/buckets/$b/update {"op":"set","key":"$k","value":"v"}  | write:key
POST $u/update {"op":"set_if","key":"$k","value":"v","when":"absent"} | write:key read:key
POST $u/update {"op":"set_if_version","key":"$k","value":"v","version":1} | write:key read:key
POST /v1/buckets/$b/update {"op":"delete","key":"$k"}           | write:key
POST $u/update {"op":"test_and_set","key":"$k","expected":null,"wanted":"v"} | write:key read:key
POST /v1/buckets/$b/update {"op":"replace","key":"$k","wanted":"1"} | write:key read:key
POST /v1/buckets/$b/update {"op":"confirm","key":"$k","value":"1"} | write:key
POST /v1/buckets/$b/update {"op":"assert","key":"$k","expected":"1"} | read:key
POST /v1/buckets/$b/update {"op":"assert_exists","key":"$k"}    | read:key
POST /v1/buckets/$b/update {"op":"assert_range","prefix":"$p","keys":["$k"]} | list:range
POST /v1/buckets/$b/update {"op":"assert_version","key":"$k","version":1} | read:key
POST /v1/buckets/$b/update {"op":"delete_prefix","prefix":"$p"} | write:range list:range
POST /v1/buckets/$b/update {"op":"add","key":"$k","delta":1}    | write:key read:key
POST /v1/buckets/$b/update {"op":"add_float","key":"$k","delta":1.5} | write:key read:key
POST /v1/buckets/$b/update {"op":"append","key":"$k","value":"1"} | write:key
POST /v1/buckets/$b/update {"op":"set_range","key":"$k","offset":0,"value":"1"} | write:key
POST /v1/buckets/$b/update {"op":"rename","from":"$k","to":"p-2"} | read:key write:key write:second
POST /v1/buckets/$b/update {"op":"copy","from":"$k","to":"p-2"} | read:key write:second
POST /v1/buckets/$b/update {"op":"expire","key":"$k","ttl_ms":100000} | write:key
POST /v1/buckets/$b/update {"op":"nop"}                         | write:any
POST /v1/buckets/$b/update {"op":"get","key":"$k"}              | read:key
POST $u/sequence [$write,{"op":"get","key":"q-1"}] | write:key read:outside
POST $u/sequence [$write,{"op":"sequence","steps":[$replace]}] | write:key write:second read:second
POST $u/sequence {"steps":[$write,$empty],"mode":"each_alone"} | write:key write:range list:range
POST /v1/buckets/$b/import $chunk                               | write:key
POST /v1/buckets/$b/multi_get {"keys":["$k","p-2"]}             | read:key read:second
POST /v1/buckets/$b/read {"op":"get","key":"$k"}                | read:key
POST /v1/buckets/$b/read {"op":"exists","keys":["$k"]}          | read:key
POST /v1/buckets/$b/read {"op":"multi_get","keys":["$k"],"require_all":true} | read:key
POST /v1/buckets/$b/read {"op":"range","prefix":"$p"}           | list:range read:range
POST /v1/buckets/$b/read {"op":"range","prefix":"$p","want":"keys"} | list:range
POST /v1/buckets/$b/read {"op":"key_count"}                     | list:all
POST /v1/buckets/$b/read {"op":"assert","key":"$k","expected":"1"} | read:key
POST /v1/buckets/$b/read {"op":"assert_exists","key":"$k"}      | read:key
GET /v1/buckets/$b/range?prefix=$p                              | list:range read:range
GET /v1/buckets/$b/range?prefix=$p&want=keys                    | list:range
GET /v1/buckets/$b/range?from=p-                                | list:all read:all
GET /v1/buckets/$b/range?from=p-&to=p-9&reverse=true            | list:second read:second
GET /v1/buckets/$b/stream?prefix=$p                             | list:range read:range
GET /v1/buckets/$b/count                                        | list:all
GET /v1/buckets/$b/keys?prefix=$p                               | list:all
GET /v1/buckets/$b/index/missing?equals=1                       | list:all read:all
GET /v1/buckets/$b/index/missing/stream?equals=1                | list:all read:all
GET /v1/buckets/$b/feed                                         | list:all
GET /v1/buckets/$b/feed?values=true                             | list:all read:all
GET /v1/buckets/$b/feed/stream                                  | list:all
POST $u/indexes {"name":"matrix","path":"$","type":"int"}       | own:all
GET /v1/buckets/$b/indexes                                      | read:any
GET /v1/buckets/$b/indexes/missing                              | read:any
DELETE /v1/buckets/$b/indexes/matrix                            | own:all
POST /v1/buckets/$b/delete_prefix {"prefix":"$p"}               | write:range list:range
+POST /v1/buckets/$b/empty_prefix?confirm=$b {"prefix":"$p"}    | list:range write:range
POST /v1/buckets/$b/clear?confirm=$b                            | own:all
POST /v1/sessions/$b                                            | write:any
DELETE /v1/sessions/$b/1                                        | write:any
GET /v1/buckets/$b                                              | read:any
PUT /v1/buckets/$b                                              | own:all
PATCH /v1/buckets/$b {"sync":"sync"}                            | own:all
PATCH /v1/buckets/$b {"audit":"off"}                            | own:all secure:cluster
PUT /v1/types/$t                                                | own:type
PATCH /v1/types/$t {"sync":"sync"}                              | own:type
PATCH /v1/types/$t {"audit":"off"}                              | own:type secure:cluster
DELETE /v1/types/$t                                             | own:type
"#;

/// Operations on an available bucket, tried at each place.
pub const AVAILABLE: &str = r#"
GET /v1/buckets/$b/siblings/$k                                  | read:key
PUT /v1/buckets/$b/siblings/$k v                                | write:key
DELETE /v1/buckets/$b/siblings/$k                               | write:key
GET /v1/buckets/$b/datatypes/$k                                 | read:key
POST /v1/buckets/$b/datatypes/$k {"add":"tea"}                  | write:key read:key
GET /v1/buckets/$b/keys                                         | list:all
GET /v1/buckets/$b/feed                                         | list:all
GET /v1/buckets/$b/keys/$k                                      | read:key
PUT /v1/buckets/$b/keys/$k v                                    | write:key
DELETE /v1/buckets/$b/properties                                | own:all
PATCH /v1/buckets/$b {"audit":"off"}                            | own:all secure:cluster
"#;

/// Operations that are about no bucket, and those that would destroy what the others need.
pub const CLUSTER: &str = r#"
DELETE /v1/buckets/default/dropped?confirm=default/dropped      | own:dropped
GET /v1/buckets                                                 | list:cluster
GET /v1/types                                                   | list:cluster
POST /v1/buckets/default/default/move {"group":99}              | place:cluster
GET /v1/buckets/default/default/move                            | watch:cluster
DELETE /v1/buckets/default/default/move                         | place:cluster
GET /v1/cluster                                                 | watch:cluster
GET /v1/cluster/members                                         | watch:cluster
POST /v1/cluster/members {$node,"lease_ms":1} | place:cluster
PATCH /v1/cluster/members {$node} | place:cluster
DELETE /v1/cluster/members/nobody?confirm=nobody                | place:cluster
POST /v1/cluster/members/nobody/replace                         | place:cluster
PUT /v1/cluster/members/nobody/part {"part":"voter"}            | place:cluster
POST /v1/cluster/tokens {"lifetime_ms":1000}                    | secure:cluster
DELETE /v1/cluster/tokens                                       | secure:cluster
POST /v1/cluster/secret                                         | secure:cluster
POST /v1/cluster/level {"level":1}                              | place:cluster
POST /v1/cluster/groups {"members":["nobody"]}                  | place:cluster
PUT /v1/cluster/groups/99 {"members":[]}                        | place:cluster
DELETE /v1/cluster/groups/99?confirm=99                         | place:cluster
PUT /v1/cluster/groups/99/quorum {"quorum":null}                | place:cluster
POST /v1/cluster/groups/99/transfer {"to":"n1"}                 | place:cluster
POST /v1/cluster/groups/99/verify                               | operate:cluster
GET /v1/cluster/groups/1/values/1                               | secure:cluster
GET /v1/cluster/ring                                            | watch:cluster
PUT /v1/cluster/ring                                            | place:cluster
GET /v1/cluster/ring/plan                                       | watch:cluster
POST /v1/cluster/ring/plan {"change":"leave","node":"nobody"}   | place:cluster
DELETE /v1/cluster/ring/plan                                    | place:cluster
POST /v1/cluster/ring/commit?confirm=1 {"epoch":1}              | place:cluster
POST /v1/cluster/ring/cancel                                    | place:cluster
GET /v1/cluster/ring/transfers                                  | watch:cluster
GET /v1/access                                                  | secure:cluster
PUT /v1/access {"on":true}                                      | secure:cluster
POST /v1/access/init                                            | secure:cluster
POST /v1/access/check {"user":"nobody","verb":"read","scope":"cluster"} | secure:cluster
PUT /v1/access/users/made {"roles":[]}                          | secure:cluster
PATCH /v1/access/users/missing {"enabled":true}                 | secure:cluster
DELETE /v1/access/users/missing?confirm=missing                 | secure:cluster
PUT /v1/access/users/missing/password {"password":null}         | secure:cluster
PUT /v1/access/users/missing/quota {"operations":5}             | secure:cluster
POST /v1/access/users/missing/tokens {"label":"x"}              | secure:cluster
DELETE /v1/access/users/missing/tokens/x                        | secure:cluster
PUT /v1/access/roles/made {"grants":[]}                         | secure:cluster
DELETE /v1/access/roles/missing?confirm=missing                 | secure:cluster
POST /v1/admin/checkpoint {"target":"matrix"}                   | operate:cluster
GET /v1/admin/checkpoints                                       | watch:cluster
DELETE /v1/admin/checkpoints/missing?confirm=missing            | operate:cluster
POST /v1/admin/reload                                           | operate:cluster
GET /v1/admin/slow-requests                                     | watch:cluster
GET /v1/admin/hot-keys                                          | watch:cluster
DELETE /v1/admin/slow-requests                                  | operate:cluster
GET /v1/admin/log-levels                                        | watch:cluster
PUT /v1/admin/log-levels {"other":"info"}                       | operate:cluster
GET /status                                                     | watch:cluster
GET /metrics                                                    | watch:cluster
GET /live                                                       | open
GET /ready                                                      | open
GET /openapi.json                                               | open
"#;

/// Operations of Riak's interface, tried at each place of an available bucket. `$n` is the bucket's
/// name without its type.
pub const RIAK: &str = r#"
GET /buckets/$n/keys/$k                                         | read:key
HEAD /buckets/$n/keys/$k                                        | read:key
GET /riak/$n/$k                                                 | read:key
GET /types/available/buckets/$n/keys/$k                         | read:key
PUT /buckets/$n/keys/$k v                                       | write:key
POST /buckets/$n/keys/$k v                                      | write:key
PUT /riak/$n/$k v                                               | write:key
PUT /buckets/$n/keys/$k?returnbody=true v                       | write:key read:key
POST /buckets/$n/keys v                                         | write:random
+DELETE /buckets/$n/keys/$k                                     | read:key write:key
GET /buckets/$n/keys?keys=true                                  | list:all
GET /buckets/$n/keys?keys=stream                                | list:all
GET /riak/$n?keys=true                                          | read:any list:all
GET /buckets?buckets=true                                       | list:type
GET /buckets/$n/props                                           | read:any
PUT /buckets/$n/props {"props":{"allow_mult":true}}             | own:all
PUT /buckets/$n/props {"props":{"audit":"off"}}                 | own:all secure:cluster
DELETE /buckets/$n/props                                        | own:all
GET /types/available/props                                      | list:cluster
PUT /types/available/props {"props":{"allow_mult":true}}        | own:type
GET /types/available/buckets/$n/datatypes/$k                    | read:key
POST /types/available/buckets/$n/datatypes/$k {"add":"tea"}     | write:key
POST /types/available/buckets/$n/datatypes/$k?returnbody=true {"add":"tea"} | write:key read:key
POST /types/available/buckets/$n/datatypes {"add":"tea"}        | write:random
GET /buckets/$n/counters/$k                                     | read:key
POST /buckets/$n/counters/$k 1                                  | write:key
GET /buckets/$n/keys/$k/preflist                                | read:key
GET /buckets/$n/index/a_bin/b                                   | list:all read:all
GET /buckets/$n/index/a_int/1/9?stream=true                     | list:all read:all
GET /types/available/buckets/$n/index/%24bucket/x               | list:all read:all
POST /mapred {}                                                 | -
GET /stats                                                      | -
GET /ping                                                       | open
"#;
