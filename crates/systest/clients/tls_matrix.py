"""Presents certificates at listeners, each in its protocol, by Python's TLS (OpenSSL).

Reads one JSON object: `listeners`, each with `name`, `address`, `alpn`, `request` and `answer` (bytes
in hexadecimal; `answer` is the beginning of one that is served, empty: any), and `certificates`, each
with `name`, `cert` and `key` (null: none). Writes one JSON list: [listener, certificate, verdict,
detail], where the verdict is true if the request was served.
"""

import json
import socket
import ssl
import sys

TIMEOUT_S = 20


def call(listener, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The node's own certificate is not what is tried here.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if listener["alpn"]:
        context.set_alpn_protocols([listener["alpn"]])
    if certificate["cert"]:
        context.load_cert_chain(certificate["cert"], certificate["key"])
    host, port = listener["address"].rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as plain:
        with context.wrap_socket(plain) as stream:
            stream.sendall(bytes.fromhex(listener["request"]))
            expected, answer = bytes.fromhex(listener["answer"]), b""
            while len(answer) < max(len(expected), 1):
                more = stream.recv(4096)
                if not more:
                    break
                answer += more
            return bool(answer) and answer.startswith(expected), repr(answer[:60])


def main():
    task, verdicts = json.load(sys.stdin), []
    for listener in task["listeners"]:
        for certificate in task["certificates"]:
            try:
                served, detail = call(listener, certificate)
            except (OSError, ssl.SSLError) as error:
                served, detail = False, f"{type(error).__name__}: {error}"
            verdicts.append([listener["name"], certificate["name"], served, detail])
    json.dump(verdicts, sys.stdout)


main()
