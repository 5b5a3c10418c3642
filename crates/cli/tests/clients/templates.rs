//! The commands of the differential test, one line a shape.
//!
//! `$x` is filled in by kind (see [`crate::generator`]); `[a|b|]` chooses one, perhaps nothing;
//! `{a}` repeats one to four times; inside brackets a comma stands for a space. A line that is
//! there twice is sent twice as often.

/// Strings and counters.
pub const STRINGS: &[&str] = &[
    "SET $s $v",
    "SET $s $v",
    "SET $s $i",
    "SET $s $v [NX|XX]",
    "SET $s $v [NX|XX|] GET",
    "SET $s $v [NX|XX|] [EX,$t|PX,$p|EXAT,$at|PXAT,$pat|KEEPTTL]",
    "SET $s $v [EX,0|PX,-5|EX,abc|EXAT,0|EX,99999999999999999|NX,XX|KEEPTTL,EX,5|EX|BAD]",
    "GET $s",
    "GET $s",
    "GET $s",
    "GETSET $s $v",
    "GETDEL $s",
    "GETEX $s",
    "GETEX $s [EX,$t|PX,$p|EXAT,$at|PXAT,$pat|PERSIST|EX,0|EX,x|BAD]",
    "SETNX $s $v",
    "SETEX $s [$t|0|-1|x] $v",
    "PSETEX $s [$p|0|-1|x] $v",
    "MGET {$s}",
    "MSET {$s,$v}",
    "MSET {$s,$v}",
    "MSETNX {$s,$v}",
    "APPEND $s $v",
    "STRLEN $s",
    "GETRANGE $s $n $n",
    "GETRANGE $s $i $i",
    "SUBSTR $s $n $n",
    "SETRANGE $s [0|1|5|300|-1|x] $v",
    "INCR $s",
    "INCR $s",
    "DECR $s",
    "INCRBY $s $i",
    "INCRBY $s $i",
    "DECRBY $s $i",
    "INCRBYFLOAT $s $d",
    "INCRBYFLOAT $s $d",
];

/// Hashes.
pub const HASHES: &[&str] = &[
    "HSET $h {$f,$v}",
    "HSET $h {$f,$v}",
    "HSET $h $f $i",
    "HSET $h $f",
    "HMSET $h {$f,$v}",
    "HSETNX $h $f $v",
    "HGET $h $f",
    "HGET $h $f",
    "HMGET $h {$f}",
    "HGETALL $h",
    "HGETALL $h",
    "HKEYS $h",
    "HVALS $h",
    "HLEN $h",
    "HEXISTS $h $f",
    "HSTRLEN $h $f",
    "HDEL $h {$f}",
    "HINCRBY $h $f $i",
    "HINCRBY $h $f $i",
    "HINCRBYFLOAT $h $f $d",
    "HRANDFIELD $h",
    "HRANDFIELD $h [1|2|-3|100|0] [WITHVALUES|]",
];

/// Sorted sets. What is in order of members (`LEX`) is asked of sets in which all have one score:
/// of others Redis promises nothing.
pub const SORTED_SETS: &[&str] = &[
    "ZADD $z {$d,$m}",
    "ZADD $z {$d,$m}",
    "ZADD $z {$i,$m}",
    "ZADD $z [NX|XX|GT|LT|CH|XX,GT|XX,LT,CH|NX,CH] {$d,$m}",
    "ZADD $z [NX|XX|GT|LT|CH|] INCR $d $m",
    "ZADD $z [NX,XX|GT,LT|NX,GT|INCR,1,a|BAD] {$d,$m}",
    "ZADD $z $d $m $d",
    "ZADD $x {0,$m}",
    "ZADD $x {0,$m}",
    "ZREM $x $m",
    "SET $w 1",
    "ZRANGEBYLEX $w - +",
    "ZREMRANGEBYLEX $w - +",
    "ZLEXCOUNT $w - +",
    "ZREM $z {$m}",
    "ZSCORE $z $m",
    "ZMSCORE $z {$m}",
    "ZCARD $z",
    "ZCOUNT $z $b $b",
    "ZLEXCOUNT $x $l $l",
    "ZINCRBY $z $d $m",
    "ZINCRBY $z $d $m",
    "ZRANK $z $m",
    "ZREVRANK $z $m",
    "ZRANGE $z $n $n [WITHSCORES|REV|REV,WITHSCORES|]",
    "ZRANGE $z 0 -1 WITHSCORES",
    "ZRANGE $z $b $b BYSCORE [REV|] [LIMIT,$n,$n|] [WITHSCORES|]",
    "ZRANGE $x $l $l BYLEX [REV|] [LIMIT,$n,$n|]",
    "ZRANGE $z $n $n [LIMIT,0,1|BYLEX|BYSCORE|BYSCORE,BYLEX|BYLEX,WITHSCORES|BAD]",
    "ZREVRANGE $z $n $n [WITHSCORES|]",
    "ZRANGEBYSCORE $z $b $b [WITHSCORES|] [LIMIT,$n,$n|]",
    "ZREVRANGEBYSCORE $z $b $b [WITHSCORES|] [LIMIT,$n,$n|]",
    "ZRANGEBYLEX $x $l $l [LIMIT,$n,$n|]",
    "ZREVRANGEBYLEX $x $l $l [LIMIT,$n,$n|]",
    "ZREMRANGEBYRANK $z $n $n",
    "ZREMRANGEBYSCORE $z $b $b",
    "ZREMRANGEBYLEX $x $l $l",
    "ZPOPMIN $z [1|2|0|-1|]",
    "ZPOPMAX $z [1|2|0|x|]",
    "ZRANDMEMBER $z",
    "ZRANDMEMBER $z [1|2|-3|100|0] [WITHSCORES|]",
];

/// Keys of any type: existence, names, expiry.
pub const KEY_SPACE: &[&str] = &[
    "DEL {$k}",
    "DEL $k",
    "UNLINK {$k}",
    "EXISTS {$k}",
    "EXISTS $k $k",
    "TOUCH {$k}",
    "TYPE $k",
    "TYPE $k",
    "RENAME $s $s",
    "RENAME $h $h",
    "RENAME $z $z",
    "RENAMENX [$s,$s|$h,$h|$z,$z]",
    "COPY $s $s [REPLACE|]",
    "COPY $h $h [REPLACE|DB,0|BAD|]",
    "COPY $z $z",
    "KEYS $g",
    "EXPIRE $k $t",
    "EXPIRE $k $t [NX|XX|GT|LT|NX,XX|GT,LT|BAD]",
    "EXPIRE $k [0|-1|x|9223372036854775807]",
    "PEXPIRE $k $p [NX|XX|GT|LT|]",
    "EXPIREAT $k [$at|1|x]",
    "PEXPIREAT $k [$pat|1]",
    "TTL $k",
    "TTL $k",
    "PTTL $k",
    "EXPIRETIME $k",
    "PEXPIRETIME $k",
    "PERSIST $k",
];

/// What concerns the connection alone.
pub const CONNECTION: &[&str] =
    &["PING", "PING $v", "ECHO $v", "SELECT 0", "SELECT x", "NOSUCH a b", "get $s", "Echo"];

/// Words of a transaction sent at the wrong moment.
pub const MISPLACED: &[&str] = &["EXEC", "DISCARD", "UNWATCH", "WATCH", "EXEC 1", "MULTI 1"];

/// Cursors: the line, which word is the cursor, and whether elements come in pairs.
pub const CURSORS: &[(&str, usize, bool)] = &[
    ("SCAN 0 MATCH $g", 1, false),
    ("SCAN 0 MATCH $g COUNT 7", 1, false),
    ("SCAN 0 MATCH $g TYPE [string|hash|zset]", 1, false),
    ("HSCAN $h 0", 2, true),
    ("HSCAN $h 0 COUNT 3 MATCH f*", 2, true),
    ("ZSCAN $z 0", 2, true),
    ("ZSCAN $z 0 MATCH m1*", 2, true),
];

/// Commands above that the server under test does not offer.
pub const NOT_OFFERED: &[&str] = &["HRANDFIELD", "ZRANDMEMBER"];
