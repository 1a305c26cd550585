"""What a program that uses redis-py expects of a server; run with the port to talk to."""

import sys
import threading
import time

import redis


def strings(client):
    assert client.set("name", "credenza")
    assert client.get("name") == b"credenza"
    assert client.set("name", "other", nx=True) is None
    assert client.set("name", "other", xx=True, get=True) == b"credenza"
    assert client.getset("name", "third") == b"other"
    assert client.append("name", "!") == 6
    assert client.strlen("name") == 6
    assert client.getrange("name", 0, 2) == b"thi"
    assert client.setrange("name", 1, "H") == 6
    assert client.getdel("name") == b"tHird!"
    assert client.get("name") is None
    assert client.mset({"a": 1, "b": 2})
    assert client.msetnx({"b": 3, "c": 3}) is False
    assert client.mget("a", "b", "c") == [b"1", b"2", None]
    assert client.exists("a", "b", "c", "a") == 3
    assert client.delete("a", "b", "c") == 2


def numbers(client):
    assert client.incr("n") == 1
    assert client.incrby("n", 41) == 42
    assert client.decr("n") == 41
    assert abs(client.incrbyfloat("f", 1.5) - 1.5) < 1e-9
    client.set("word", "not a number")
    try:
        client.incr("word")
        raise AssertionError("a word was counted")
    except redis.ResponseError as error:
        assert "integer" in str(error)


def pipelines(client):
    with client.pipeline(transaction=False) as pipe:
        for n in range(1000):
            pipe.set(f"p{n:04}", n)
        for n in range(1000):
            pipe.get(f"p{n:04}")
        answers = pipe.execute()
    assert answers[:1000] == [True] * 1000
    assert answers[1000:] == [str(n).encode() for n in range(1000)]


def transactions(client):
    with client.pipeline(transaction=True) as pipe:
        pipe.set("t", 1)
        pipe.incr("t")
        pipe.get("t")
        assert pipe.execute() == [True, 2, b"2"]
    with client.pipeline() as pipe:
        pipe.watch("t")
        client.set("t", "changed meanwhile")
        pipe.multi()
        pipe.set("t", "overwritten")
        try:
            pipe.execute()
            raise AssertionError("a watched key changed and nobody said so")
        except redis.WatchError:
            pass
    assert client.get("t") == b"changed meanwhile"


def counted_together(port):
    """Many threads add by WATCH and MULTI: nothing is lost, nothing is counted twice."""

    def add():
        own = redis.Redis(port=port)
        for _ in range(25):
            while True:
                with own.pipeline() as pipe:
                    try:
                        pipe.watch("together")
                        now = int(pipe.get("together") or 0)
                        pipe.multi()
                        pipe.set("together", now + 1)
                        pipe.execute()
                        break
                    except redis.WatchError:
                        continue

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int(redis.Redis(port=port).get("together")) == 100


def expiry(client):
    client.set("short", "x", px=200)
    assert 0 < client.pttl("short") <= 200
    client.set("kept", "x", ex=1000)
    client.set("kept", "y", keepttl=True)
    assert 990 <= client.ttl("kept") <= 1000
    assert client.persist("kept") and client.ttl("kept") == -1
    assert client.expire("kept", 500) and client.ttl("kept") > 490
    assert client.ttl("nowhere") == -2
    until = time.monotonic() + 20
    while client.get("short") is not None:
        assert time.monotonic() < until, "a row outlives its time"
        time.sleep(0.02)


def scanning(client):
    wanted = {f"p{n:04}".encode() for n in range(1000)}
    assert set(client.scan_iter(match="p????", count=37)) == wanted
    assert {key for key in client.scan_iter(match="p000*")} == {f"p000{n}".encode() for n in range(10)}
    size = client.dbsize()
    assert size == len(set(client.scan_iter(count=1000)))
    assert client.unlink(*wanted) == 1000
    assert client.dbsize() == size - 1000


def surroundings(client):
    assert client.ping()
    assert client.echo("hello") == b"hello"
    assert client.type("word") == b"string"
    assert client.type("nowhere") == b"none"
    assert isinstance(client.info(), dict) and client.info()
    assert client.rename("word", "renamed") and client.get("renamed") == b"not a number"
    try:
        client.execute_command("NOSUCHCOMMAND", "x")
        raise AssertionError("an unknown command was taken")
    except redis.ResponseError as error:
        assert "unknown command" in str(error)


def siblings(port, protocol):
    """What an available bucket keeps side by side is read, settled and deleted with contexts."""

    def chosen(connection):
        connection.on_connect()
        connection.send_command("CREDENZA.BUCKET", "available/fruit")
        assert connection.read_response() in (b"OK", "OK")

    own = {"port": port, "protocol": protocol, "redis_connect_func": chosen}
    client = redis.Redis(**own)
    say = client.execute_command
    fig = f"fig{protocol}"
    say("CREDENZA.STORE", fig, "ripe")
    say("CREDENZA.STORE", fig, b"\r\n\xff")
    try:
        client.get(fig)
        raise AssertionError("one value was answered where there are two")
    except redis.ResponseError as error:
        assert "SIBLINGS" in str(error) and "CREDENZA.FETCH" in str(error)
    context, values = say("CREDENZA.FETCH", fig, "R", "QUORUM")
    assert isinstance(context, bytes) and sorted(values) == [b"\r\n\xff", b"ripe"]
    other = redis.Redis(decode_responses=True, **own)
    seen, _ = other.execute_command("CREDENZA.FETCH", fig, NEVER_DECODE=True)
    assert seen == context, "whoever asks has seen the same"
    after = say("CREDENZA.STORE", fig, "sweet", "CONTEXT", context, "W", "ALL")
    assert say("CREDENZA.FETCH", fig) == [after, [b"sweet"]] and client.get(fig) == b"sweet"
    say("CREDENZA.STORE", fig, "late", "CONTEXT", context)
    say("CREDENZA.REMOVE", fig, "CONTEXT", after)
    context, values = say("CREDENZA.FETCH", fig)
    assert sorted(value for value in values if value is not None) == [b"late"], values
    assert say("CREDENZA.REMOVE", fig, "CONTEXT", context)
    assert client.get(fig) is None and say("CREDENZA.REMOVE", fig) is None
    with client.pipeline(transaction=False) as pipe:
        for n in range(200):
            pipe.execute_command("CREDENZA.STORE", f"{fig}.{n}", n)
            pipe.execute_command("CREDENZA.FETCH", f"{fig}.{n}")
        answers = pipe.execute()
    assert [found[1] for found in answers[1::2]] == [[str(n).encode()] for n in range(200)]
    client.delete(*(f"{fig}.{n}" for n in range(200)))


def main():
    port = int(sys.argv[1])
    for protocol in (2, 3):
        client = redis.Redis(port=port, protocol=protocol)
        for part in (strings, numbers, pipelines, transactions, expiry, scanning, surroundings):
            try:
                part(client)
            except Exception:
                print(f"in {part.__name__}, RESP{protocol}:", file=sys.stderr)
                raise
        for key in list(client.scan_iter()):
            client.delete(key)
        siblings(port, protocol)
    counted_together(port)


main()
