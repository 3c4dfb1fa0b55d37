#!/usr/bin/env python3
"""Message services over real sockets: the echo and the broadcast service of examples/services beside bare epoll loops that do the
same without sessions (floor_frames.cc). One worker on core 0, the client on core 1, in turns.

echo       100 connections, one frame each in flight; bodies of 64, 512 and 4,096 bytes
pipelined  the same with 16 frames in flight, as CPU time per message beside the floor with one in flight
broadcast  one client speaks, 9,000 hear: CPU time per delivery, with 16 frames at a time
idle       memory of an idle session, beside its socket: plain, with TLS, and a WebSocket
slow       how long deliveries take while one of 100 clients does not read, beside the same without it
page       the micro benchmarks, beside the stored ones

usage: run_msg.py [--rounds N] [--seconds S] [--cases CASE,CASE] [--page]
  --page   stores the micro benchmarks and writes their page (msg_page.py)
"""
import argparse
import json
import socket
import ssl
import struct
import subprocess
import time

import msg_page
from harness import BUILD, Program, folder, free_port, median, tell
from http_servers import make_certificate

CASES = ("echo", "pipelined", "broadcast", "idle", "slow", "page")
SERVER_CORE, CLIENT_CORE = 0, 1


def service(name, *more):
    port, websocket = free_port(), free_port()
    if name == "broadcast":
        more = (f"127.0.0.1:{websocket}",)
    program = Program("sluice", [BUILD / f"examples/example_{name}", f"127.0.0.1:{port}", *more], port, SERVER_CORE)
    program.websocket = websocket
    return program


def floor(mode):
    port = free_port()
    return Program("floor", [BUILD / "bench/floor_frames", port, mode], port, SERVER_CORE)


def load(program, mode, connections, size, in_flight, seconds):
    """The client's figures, and the program's CPU time per message in microseconds."""
    before = program.cpu_seconds()
    run = subprocess.run(["taskset", "-c", str(CLIENT_CORE), BUILD / "bench/frames_load", str(program.port), mode,
                          *map(str, (connections, size, in_flight, seconds))], capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{program.name}: {run.stderr}")
    figures = json.loads(run.stdout)
    return figures | {"cpu_us": (program.cpu_seconds() - before) * 1e6 / figures["messages"]}


def compare(case, programs, rounds, loads):
    """Each load in turn on each program; returns the medians of CPU time by program and load."""
    runs = {}
    for number in range(rounds + 1):  # the first one warms up
        for program in (programs if number % 2 else programs[::-1]):
            for name, arguments in loads.items():
                run = load(program, *arguments)
                if number:
                    runs.setdefault((program.name, name), []).append(run)
    middle = {}
    for (program, name), of_load in runs.items():
        middle[program, name] = median(run["cpu_us"] for run in of_load)
        tell(bench="msg", case=case, load=name, server=program, rounds=rounds, cpu_us=round(middle[program, name], 3),
             messages_s=round(median(run["messages"] / run["seconds"] for run in of_load)),
             **{key: round(median(run[key] for run in of_load), 1) for key in of_load[0] if key.startswith("p")})
    return middle


def goal(case, what, ratio, most):
    tell(bench="msg", case=case, what=what, ratio=round(ratio, 3), goal=most, met=ratio <= most)


def echo(rounds, seconds):
    loads = {str(size): ("echo", 100, size, 1, seconds) for size in (64, 512, 4096)}
    middle = compare("echo", [service("echo"), floor("echo")], rounds, loads)
    for name in loads:
        goal("echo", f"CPU time per message to the floor's, {name} bytes", middle["sluice", name] / middle["floor", name], 1.3)


def pipelined(rounds, seconds):
    loads = {f"{size}x{depth}": ("echo", 100, size, depth, seconds) for size in (64, 512, 4096) for depth in (1, 16)}
    middle = compare("pipelined", [service("echo"), floor("echo")], rounds, loads)
    for size in (64, 512, 4096):
        goal("pipelined", f"CPU time per message, 16 in flight, to the floor's with one, {size} bytes",
             middle["sluice", f"{size}x16"] / middle["floor", f"{size}x1"], 0.4)


def broadcast(rounds, seconds):
    loads = {f"{size}": ("hear", 9000, size, 16, seconds) for size in (64, 512)}
    middle = compare("broadcast", [service("broadcast"), floor("broadcast")], rounds, loads)
    for name in loads:
        goal("broadcast", f"CPU time per delivery to the floor's, {name} bytes", middle["sluice", name] / middle["floor", name],
             1.25)


def idle(rounds, seconds):
    where = folder()
    make_certificate(where)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    frame = struct.pack(">BBIIH", 1, 1, 0xFFFFFF00, 0, 0) + b"\0\0\0\7"  # a correlated ping

    def plain(port):
        return socket.create_connection(("127.0.0.1", port))

    def tls(port):
        return context.wrap_socket(plain(port))

    def websocket(port):
        made = plain(port)
        made.sendall(b"GET /room HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
        assert made.recv(1000).startswith(b"HTTP/1.1 101")
        return made

    for case, open_one, message, program in (
            ("plain", plain, frame, service("echo")),
            ("tls", tls, frame, service("echo", where / "cert.pem", where / "key.pem")),
            ("websocket", websocket, b"\x82" + bytes([0x80 | len(frame)]) + bytes(4) + frame, service("broadcast"))):
        sessions = []

        def grow(count):
            for _ in range(count):
                sessions.append(open_one(program.websocket if case == "websocket" else program.port))
                sessions[-1].sendall(message)
                assert frame in sessions[-1].recv(100)
            time.sleep(0.5)
            return program.rss_kib()

        before = grow(500)
        grown = grow(4000) - before
        for session in sessions:
            session.close()
        program.stop()
        each = round(grown * 1024 / 4000)
        goal = {"goal": 1024, "met": each <= 1024} if case == "plain" else {}
        tell(bench="msg", case="idle", session=case, bytes_per_session=each, **goal)


def slow(rounds, seconds):
    program = service("broadcast")
    runs = {False: [], True: []}
    for number in range(2 * rounds):
        stalled = number % 2 == 1
        with socket.socket() as silent:
            if stalled:
                silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                silent.connect(("127.0.0.1", program.port))
            runs[stalled].append(load(program, "hear", 100, 512, 16, seconds))
    for key in ("p50_us", "p99_us", "cpu_us"):
        without, beside = (median(run[key] for run in runs[stalled]) for stalled in (False, True))
        tell(bench="msg", case="slow", what=f"{key} of the others", without=round(without, 2), beside=round(beside, 2),
             ratio=round(beside / without, 3))
    program.stop()


def page(rounds, seconds):
    msg_page.compare(*msg_page.measure())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    for case in args.cases.split(","):
        if case not in CASES:
            parser.error(f"no case {case}")
        if case == "page" and args.page:
            msg_page.write()
        else:
            globals()[case](args.rounds, args.seconds)


if __name__ == "__main__":
    main()
