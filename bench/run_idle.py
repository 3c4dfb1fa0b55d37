#!/usr/bin/env python3
"""The memory that an idle keep-alive connection takes of a server: Sluice, h2o and nginx, one worker each, one after the other.

Each connection makes one request and then stays. The figure is the growth of VmRSS divided by the number of connections, without
TLS and over TLS 1.3. The kernel's memory (sockets, epoll) is not counted: it is the same for all. Memory that a server allocates
for connections at its start (nginx) is in `rss_before_kib`.
usage: run_idle.py [--connections N] [--only NAME,NAME] [--skip-tls]
"""
import argparse
import socket
import ssl
import time

from harness import folder, tell
from http_servers import SERVERS, make_certificate, make_site

BODY = 1500
REQUEST = b"GET /page.html HTTP/1.1\r\nHost: localhost\r\n\r\n"


def ask(connection):
    connection.sendall(REQUEST)
    got = b""
    while b"\r\n\r\n" not in got or len(got) < got.index(b"\r\n\r\n") + 4 + BODY:
        more = connection.recv(65536)
        if not more:
            raise SystemExit(f"a connection was closed: {got[:200]}")
        got += more
    if not got.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"not a good answer: {got[:200]}")


def connect(port, context):
    connection = socket.create_connection(("127.0.0.1", port), 10)
    return context.wrap_socket(connection) if context else connection


def rest_kib(program):
    """VmRSS after the server has finished its work for the last request."""
    time.sleep(0.5)
    return program.rss_kib()


def measure(program, port, count, context):
    for _ in range(20):
        connection = connect(port, context)
        ask(connection)
        connection.close()
    before = rest_kib(program)
    connections = []
    for _ in range(count):
        connections.append(connect(port, context))
        ask(connections[-1])
    grown = rest_kib(program) - before
    for connection in connections[:: max(1, count // 100)]:  # they must still be open
        ask(connection)
    for connection in connections:
        connection.close()
    return before, grown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--only", default="sluice,h2o,nginx")
    parser.add_argument("--skip-tls", action="store_true")
    args = parser.parse_args()

    where = folder()
    make_site(where, page=BODY)
    make_certificate(where)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    for case, tls in (("clear", None), ("tls", context)):
        if tls and args.skip_tls:
            continue
        mine = None
        for name in args.only.split(","):
            program = SERVERS[name](where, core=None)
            before, grown = measure(program, program.tls_port if tls else program.port, args.connections, tls)
            program.stop()
            each = 1024 * grown / args.connections
            mine = mine or each
            tell(bench="idle", case=case, server=name, connections=args.connections, rss_before_kib=before, grown_kib=grown,
                 bytes_per_connection=round(each), **{f"ratio_of_{args.only.split(',')[0]}": round(mine / each, 3)})


if __name__ == "__main__":
    main()
