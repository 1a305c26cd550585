"""Programs that use redis-py on a cluster of which a node dies: run with the nodes' addresses.

Each writes and reads by itself through one node after the other. A call that fails is tried again,
elsewhere, as redis-py's own retry does it; what fails beyond that is a failure of the test. Says
"half" when half is done, and waits for a line before it goes on.
"""

import sys
import threading
import time

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

PROGRAMS = 6
ROUNDS = 300
TRIES = 8


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

    def run(self, first, last):
        for number in range(first, last):
            key, value = f"p{self.number}:{number % 20}", str(number)
            self.call(number, lambda client: client.set(key, value))
            seen = self.call(number + 1, lambda client: client.get(key))
            assert seen == value.encode(), f"{key}: {seen} after {value} was acknowledged"


def together(programs, first, last):
    failures = []

    def one(program):
        try:
            program.run(first, last)
        except Exception as error:  # Told by the main thread.
            failures.append(f"program {program.number}: {error!r}")

    threads = [threading.Thread(target=one, args=(program,)) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def main():
    programs = [Program(number, sys.argv[1:]) for number in range(PROGRAMS)]
    together(programs, 0, ROUNDS // 2)
    print("half", flush=True)
    # The node dies while they are at it.
    together(programs, ROUNDS // 2, ROUNDS)
    for program in programs:
        for number in range(ROUNDS - 20, ROUNDS):
            key = f"p{program.number}:{number % 20}"
            seen = program.call(number, lambda client: client.get(key))
            assert seen == str(number).encode(), f"{key}: {seen}, not {number}"
    retried = sum(program.retried for program in programs)
    longest = max(program.longest for program in programs)
    print(f"{PROGRAMS * ROUNDS * 2} calls, {retried} tried again, longest {longest:.2f} s")


main()
