"""Socket activation: a parent that keeps the clients' port open, as systemd does, restarts a node while
clients connect; nobody's connection is refused.

    activation.py PROGRAM DATA PORT

Prints `connections=N answered=N refused=N restarts=N`.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

RESTARTS = 3


def start(program, data, listener):
    """Starts the node with the socket as descriptor 3, as sd_listen_fds(3) describes."""
    port = listener.getsockname()[1]
    serve = [program, "serve", "--data", data, "--listen", f"127.0.0.1:{port}"]

    def pass_socket():
        os.dup2(listener.fileno(), 3)
        os.set_inheritable(3, True)

    words = ["sh", "-c", 'export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"', "sh", *serve]
    return subprocess.Popen(words, preexec_fn=pass_socket, close_fds=False, stderr=subprocess.DEVNULL)


def ask(port, counts):
    """Opens a connection and waits for an answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            counts["connections"] += 1
            client.sendall(b"PING\r\n")
            if client.recv(64).startswith(b"+PONG"):
                counts["answered"] += 1
    except ConnectionRefusedError:
        counts["refused"] += 1
    except OSError:
        pass  # A connection that was accepted just before the stop may end.


def main():
    """Restarts the node under load."""
    program, data, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(4096)
    port = listener.getsockname()[1]
    counts = {"connections": 0, "answered": 0, "refused": 0}
    stopped = threading.Event()

    def load():
        while not stopped.is_set():
            ask(port, counts)
            time.sleep(0.01)

    node = start(program, data, listener)
    client = threading.Thread(target=load)
    client.start()
    try:
        for _ in range(RESTARTS):
            time.sleep(2)
            node.send_signal(signal.SIGTERM)
            node.wait(timeout=60)
            node = start(program, data, listener)
        time.sleep(2)
    finally:
        stopped.set()
        client.join(timeout=60)
        node.send_signal(signal.SIGTERM)
        node.wait(timeout=60)
    print(" ".join(f"{name}={count}" for name, count in counts.items()), f"restarts={RESTARTS}")


if __name__ == "__main__":
    main()
