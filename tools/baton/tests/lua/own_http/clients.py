"""Asks the server of clients.lua by http.client and urllib: clients.py PORT."""

import http.client
import sys
import urllib.error
import urllib.parse
import urllib.request

PORT = int(sys.argv[1])
BODY = bytes(range(256)) * 8000


def digest(method, body):
    return f"{method} {len(body)} {sum(body) % 65536}"


def equal(got, wanted):
    if got != wanted:
        raise SystemExit(f"got {got!r}, expected {wanted!r}")


def parts():
    for start in range(0, len(BODY), 50000):
        yield BODY[start : start + 50000]


def ask(connection, method, path, *arguments, **options):
    connection.request(method, path, *arguments, **options)
    reply = connection.getresponse()
    return reply, reply.read()


def one_connection():
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    reply, body = ask(connection, "GET", "/fields?q=x", headers={"X-One": "1"})
    equal((reply.status, reply.version, body), (201, 11, b"x 1"))
    equal(reply.getheader("x-two"), "two")
    reply, body = ask(connection, "GET", "/parts")
    equal(reply.getheader("transfer-encoding"), "chunked")
    equal(body.count(b"part"), 5)
    reply, body = ask(connection, "HEAD", "/files/digits.txt")
    equal((reply.getheader("content-length"), body), ("10", b""))
    reply, body = ask(connection, "PUT", "/body", BODY)
    equal(body.decode(), digest("PUT", BODY))
    reply, body = ask(connection, "POST", "/body", parts(), encode_chunked=True)
    equal(body.decode(), digest("POST", BODY))
    reply, body = ask(connection, "GET", "/files/digits.txt", headers={"Range": "bytes=3-5"})
    equal((reply.status, reply.getheader("content-range"), body), (206, "bytes 3-5/10", b"345"))
    reply, body = ask(connection, "GET", "/files/none")
    equal(reply.status, 404)
    connection.close()


def connection_each():
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    base = f"http://127.0.0.1:{PORT}"
    with opener.open(base + "/text", timeout=60) as reply:
        equal(reply.read(), b"soup " * 2000)
    form = urllib.parse.urlencode({"name": "Anna", "what": "a&b ü"}).encode()
    with opener.open(base + "/form", form, timeout=60) as reply:
        equal(reply.read().decode(), "Anna/a&b ü")
    request = urllib.request.Request(base + "/body", BODY, method="DELETE")
    with opener.open(request, timeout=60) as reply:
        equal(reply.read().decode(), digest("DELETE", BODY))
    try:
        opener.open(base + "/none", timeout=60)
        raise SystemExit("404 expected")
    except urllib.error.HTTPError as failure:
        equal(failure.code, 404)
        failure.close()


one_connection()
connection_each()
print("all is well")
