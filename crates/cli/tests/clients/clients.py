"""What a Python program does with a Redis server, done through redis-py."""

import argparse
import threading

import redis


def connect(options):
    common = dict(host="localhost", port=options.port, protocol=options.protocol,
                  decode_responses=True, socket_timeout=60)
    if options.ca:
        common.update(ssl=True, ssl_ca_certs=options.ca)
    return redis.Redis(password=options.password, **common), common


def strings(r):
    assert r.set("name", "Ada") is True
    assert r.get("name") == "Ada"
    assert r.set("name", "Bob", nx=True) is None
    assert r.set("name", "Bob", get=True) == "Ada"
    assert r.getdel("name") == "Bob" and r.get("name") is None
    assert r.mset({"a": 1, "b": 2}) and r.mget("a", "b", "c") == ["1", "2", None]
    assert r.incr("a", 9) == 10 and r.incrbyfloat("b", 0.5) == 2.5
    assert r.append("a", "x") == 3 and r.strlen("a") == 3 and r.getrange("a", 0, 0) == "1"
    blob = "\x00\r\n" * 300
    assert r.set("blob", blob) and r.get("blob") == blob
    assert r.set("short", "x", ex=1000) and 990 < r.ttl("short") <= 1000
    assert r.delete("a", "b", "blob", "short") == 4


def hashes(r):
    assert r.hset("h", mapping={"x": 1, "y": 2, "z": "three"}) == 3
    assert r.hgetall("h") == {"x": "1", "y": "2", "z": "three"}
    assert r.hincrby("h", "x", 4) == 5 and r.hmget("h", "x", "none") == ["5", None]
    assert sorted(r.hkeys("h")) == ["x", "y", "z"] and r.hlen("h") == 3
    assert dict(r.hscan_iter("h")) == r.hgetall("h")
    assert r.hdel("h", "x", "y", "z") == 3 and not r.exists("h")


def sorted_sets(r):
    assert r.zadd("z", {"a": 1, "b": 2.5, "c": -1}) == 3
    assert r.zrange("z", 0, -1) == ["c", "a", "b"]
    scored = r.zrange("z", 0, -1, withscores=True)
    assert [tuple(pair) for pair in scored] == [("c", -1.0), ("a", 1.0), ("b", 2.5)], scored
    assert r.zscore("z", "b") == 2.5 and r.zincrby("z", 1, "b") == 3.5
    assert r.zrangebyscore("z", "(1", "+inf") == ["b"] and r.zcount("z", -1, 1) == 2
    assert r.zrevrank("z", "b") == 0 and r.zrem("z", "a", "none") == 1
    assert [tuple(p) for p in r.zpopmin("z", 1)] == [("c", -1.0)] and r.zcard("z") == 1
    assert r.delete("z") == 1


def errors(r):
    r.set("text", "abc")
    for wrong in (lambda: r.incr("text"), lambda: r.hget("text", "f"),
                  lambda: r.execute_command("SET", "text"),
                  lambda: r.execute_command("NOSUCH")):
        try:
            wrong()
        except redis.ResponseError:
            continue
        raise AssertionError("an error was due")
    r.delete("text")


def pipelines(r):
    with r.pipeline(transaction=False) as p:
        for n in range(500):
            p.set(f"p:{n}", n)
        for n in range(500):
            p.get(f"p:{n}")
        replies = p.execute()
    assert replies[:500] == [True] * 500
    assert replies[500:] == [str(n) for n in range(500)]
    assert set(r.scan_iter("p:*")) == {f"p:{n}" for n in range(500)}
    assert r.delete(*(f"p:{n}" for n in range(500))) == 500
    with r.pipeline(transaction=True) as p:
        assert p.incr("n").incr("n").get("n").execute() == [1, 2, "2"]
    r.delete("n")


def increment(r, times):
    """Adds one by optimistic locking, as the documentation of redis-py shows it."""
    for _ in range(times):
        with r.pipeline() as p:
            while True:
                try:
                    p.watch("shared")
                    value = int(p.get("shared") or 0)
                    p.multi()
                    p.set("shared", value + 1)
                    p.execute()
                    break
                except redis.WatchError:
                    continue


def optimistic(r, threads=6, times=5):
    r.delete("shared")
    work = [threading.Thread(target=increment, args=(r, times)) for _ in range(threads)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert r.get("shared") == str(threads * times), r.get("shared")
    r.delete("shared")


def passwords(common):
    for wrong in (None, "wrong"):
        try:
            redis.Redis(password=wrong, **common).get("x")
        except (redis.AuthenticationError, redis.ResponseError):
            continue
        raise AssertionError("let in without the password")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--protocol", type=int, default=2)
    parser.add_argument("--password")
    parser.add_argument("--ca")
    options = parser.parse_args()
    r, common = connect(options)
    for part in (strings, hashes, sorted_sets, errors, pipelines, optimistic):
        part(r)
        print(part.__name__, "ok")
    if options.password:
        passwords(common)
        print("passwords ok")


main()
