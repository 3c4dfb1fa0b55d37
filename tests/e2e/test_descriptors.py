"""Clients cannot take the descriptors that the admin listener needs, and clients of that listener cannot keep others out."""
import contextlib
import re
import resource
import socket
import time

import pytest

DESCRIPTORS = 160
PATIENCE = 60


def hold(stack, port, count, sends=b""):
    held = []
    for _ in range(count):
        one = stack.enter_context(socket.socket())
        one.connect(("127.0.0.1", port))
        with contextlib.suppress(ConnectionError):
            one.sendall(sends)
        held.append(one)
    return held


@pytest.mark.parametrize("sends", [b"", b"GET /page.html HTTP/1.1\r\nHost: a\r\n"], ids=["silent", "half-sent"])
def test_the_admin_listener_answers_where_clients_have_all_descriptors(sluice, site, sends):
    (site / "page.html").write_bytes(b"page")
    server = sluice(f'[[files]]\npath = "/"\nroot = "{site}"', limits={"nofile": DESCRIPTORS})
    with contextlib.ExitStack() as stack:
        held = hold(stack, server.port, 2 * DESCRIPTORS, sends)
        end = time.monotonic() + PATIENCE
        while "no file descriptors left" not in server.log:
            assert time.monotonic() < end, server.log
            time.sleep(0.02)
        for _ in range(20):
            assert server.admin("/livez") == (200, "live\n")
            assert server.admin("/readyz")[0] == 200
        refused = int(re.search(r"^sluice_connections_refused_total (\d+)", server.admin("/metrics")[1], re.M).group(1))
        assert refused >= 1
        for one in held:
            one.close()
    end = time.monotonic() + PATIENCE
    while "are accepted again" not in server.log:
        assert time.monotonic() < end, server.log
        with contextlib.suppress(OSError):
            assert server.get("/page.html").body == b"page"
        time.sleep(0.02)
    assert server.log.count("no file descriptors left") == 1


def test_idle_clients_of_the_admin_listener_make_room(sluice, site):
    server = sluice(f'[[files]]\npath = "/"\nroot = "{site}"')
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most[1], most[1]))
    try:
        with contextlib.ExitStack() as stack:
            hold(stack, server.admin_port, 3000)
            for _ in range(20):
                assert server.admin("/livez") == (200, "live\n")
            # A client that has sent half a request makes room, too.
            hold(stack, server.admin_port, 200, b"GET /livez HTTP/1.1\r\nHost: a\r\n")
            for _ in range(20):
                assert server.admin("/livez") == (200, "live\n")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)


@pytest.mark.parametrize("sends", [b"GET /met", b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"], ids=["head", "body"])
def test_half_sent_requests_of_the_admin_listener_make_room(sluice, site, sends):
    server = sluice(f'[[files]]\npath = "/"\nroot = "{site}"', limits={"nofile": 300})
    with contextlib.ExitStack() as stack:
        hold(stack, server.admin_port, 400, sends)
        for _ in range(20):
            assert server.admin("/livez") == (200, "live\n")
