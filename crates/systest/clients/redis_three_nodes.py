"""Programs that use redis-py on a cluster of which a node dies: run with the nodes' addresses.

Each writes and reads by itself through one node after the other. A call that fails is tried again,
elsewhere, as redis-py's own retry does it; what fails beyond that is a failure of the test. Says
"half" when half is done, and goes on meanwhile until it reads a line, which says that the node is
dead; the other half comes after that. So the node dies while programs are at it, and each of them
must meet it dead.
"""

import itertools
import sys
import threading
import time

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

PROGRAMS = 6
ROUNDS = 300
TRIES = 8
KEYS = 20


class Program:
    def __init__(self, number, addresses):
        self.number = number
        self.clients = [
            redis.Redis(
                host=host,
                port=int(port),
                socket_timeout=15,
                socket_connect_timeout=2,
                retry=Retry(ExponentialBackoff(cap=0.2, base=0.01), 2),
                retry_on_error=[redis.ConnectionError, redis.TimeoutError],
            )
            for host, port in (address.rsplit(":", 1) for address in addresses)
        ]
        self.rounds = 0
        self.retried = 0
        self.longest = 0.0

    def call(self, which, what):
        began = time.monotonic()
        for attempt in range(TRIES):
            try:
                return what(self.clients[(which + attempt) % len(self.clients)])
            except (redis.ConnectionError, redis.TimeoutError, redis.ResponseError) as error:
                # Every call here may be repeated: whether it happened or not, it is the same.
                if attempt + 1 == TRIES:
                    raise
                known = ("UNKNOWN", "NOREPLICAS", "READONLY", "OVERLOADED", "LOADING")
                if isinstance(error, redis.ResponseError):
                    word = str(error).split(" ")[0]
                    assert word in known or isinstance(error, redis.ReadOnlyError), error
                self.retried += 1
                time.sleep(0.05)
            finally:
                self.longest = max(self.longest, time.monotonic() - began)

    def round(self):
        number = self.rounds
        key, value = f"p{self.number}:{number % KEYS}", str(number)
        self.call(number, lambda client: client.set(key, value))
        seen = self.call(number + 1, lambda client: client.get(key))
        assert seen == value.encode(), f"{key}: {seen} after {value} was acknowledged"
        self.rounds += 1

    def check(self):
        for number in range(self.rounds - KEYS, self.rounds):
            key = f"p{self.number}:{number % KEYS}"
            seen = self.call(number, lambda client: client.get(key))
            assert seen == str(number).encode(), f"{key}: {seen}, not {number}"


def start(programs, work):
    """Lets all of them work at once; gives what waits for their end."""
    failures = []

    def one(program):
        try:
            work(program)
        except Exception as error:  # Told by the main thread.
            failures.append(f"program {program.number}: {error!r}")

    threads = [threading.Thread(target=one, args=(program,)) for program in programs]
    for thread in threads:
        thread.start()

    def end():
        for thread in threads:
            thread.join()
        assert not failures, failures

    return end


def main():
    programs = [Program(number, sys.argv[1:]) for number in range(PROGRAMS)]
    half = ROUNDS // 2
    dead = threading.Event()

    def first(program):
        for _ in range(half):
            program.round()

    def second(program):
        for _ in itertools.takewhile(lambda _: not dead.is_set(), itertools.count()):
            program.round()
        for _ in range(half):
            program.round()

    start(programs, first)()
    before = sum(program.retried for program in programs)
    end = start(programs, second)
    print("half", flush=True)
    assert sys.stdin.readline(), "nobody said that the node is dead"
    dead.set()
    end()
    for program in programs:
        program.check()
    calls = sum(2 * program.rounds for program in programs)
    retried = sum(program.retried for program in programs)
    longest = max(program.longest for program in programs)
    assert retried > before, "no call was tried again: nobody met the dead node"
    print(f"{calls} calls, {retried} tried again, longest {longest:.2f} s")


main()
