"""Riak's own Python client inside TLS, with a certificate and a password.

Usage: riak_tls.py PORT CA CERT KEY USER PASSWORD

The client is of 2016. What Python has taken from its standard library since then is given back to it
below; the client itself is unchanged.
"""

import collections
import collections.abc
import ssl
import sys
import types

vars(collections).update({name: getattr(collections.abc, name) for name in collections.abc.__all__})
collections.namedtuple = lambda *words, verbose=False, made=collections.namedtuple, **more: made(*words, **more)

import riak
import riak.transports.http
from riak.security import SecurityCreds


def wrap(sock, keyfile, certfile, cert_reqs, ca_certs, ciphers, server_hostname):
    """The public constructor that `ssl.SSLSocket` had until Python 3.7."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca_certs)
    if certfile:
        context.load_cert_chain(certfile, keyfile)
    return context.wrap_socket(sock, server_hostname=server_hostname)


riak.transports.http.ssl = types.SimpleNamespace(SSLSocket=wrap, CERT_REQUIRED=ssl.CERT_REQUIRED)


def connect(port, ca, files, user, password):
    cert, key = files
    credentials = SecurityCreds(
        username=user, password=password, cacert_file=ca, cert_file=cert, pkey_file=key
    )
    return riak.RiakClient(protocol="http", host="127.0.0.1", http_port=port, credentials=credentials)


def must_fail(what, act):
    try:
        act()
    except (riak.RiakError, OSError, ConnectionError):
        return
    sys.exit(f"{what} is served")


def main():
    port, ca, cert, key, user, password = sys.argv[1:]
    port = int(port)
    client = connect(port, ca, (cert, key), user, password)
    assert client.ping()
    bucket = client.bucket("fruit")
    bucket.new("fig", data={"state": "ripe"}).store()
    assert bucket.get("fig").data == {"state": "ripe"}
    large = "x" * 300_000
    bucket.new("large", data=large).store()
    assert bucket.get("large").data == large
    bucket.get("fig").delete()
    assert not bucket.get("fig").exists
    must_fail("a wrong password", lambda: connect(port, ca, (cert, key), user, "wrong").bucket("fruit").get("large"))
    must_fail("a client without a certificate", lambda: connect(port, ca, (None, None), user, password).bucket("fruit").get("large"))
    print("done")


main()
