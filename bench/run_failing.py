#!/usr/bin/env python3
"""Four servers behind a gateway under a fixed rate of requests. One is killed, then another one is stopped (SIGSTOP), then a third
one answers 500, each for a time, with a pause after it in which the server may get requests again. The fourth is always well.
Sluice, nginx and HAProxy take turns in one run, one worker each on core 0; the client and the servers share core 1.

usage: run_failing.py [--seconds S] [--rate N] [--only NAME,NAME] [--retry]

Every request is sent when it is due, whatever the others wait for, and its latency counts from that moment. A quarter of them,
chosen at random, are POSTs, which a gateway may send to a second server only if the first one cannot have seen them. With an S
other than 10, all timeouts, intervals and ejections change in proportion, and so do the "seconds" of the output: each is a tenth
of S. Second 0 begins with the fault.
"""
import argparse
import collections
import ctypes
import gc
import os
import random
import select
import signal
import socket
import struct
import sys
import threading
import time

from harness import Program, folder, free_port, sluice, tell
from percentiles import percentile
from run_gateway import CORE, KEPT, haproxy_with, nginx_with

NAMES = "abcd"
SIZE = 1500
FAULTS = ("killed", "stopped", "answers 500")
WARM_UP, PAUSE = 4, 16  # in tenths of --seconds, like the times in the configurations
POST_BODY = b"p" * 200
GET = b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n\r\n%s" % (len(POST_BODY), POST_BODY)


def serve(port, name):
    """A server that answers with its name, SIZE times. From SIGUSR1 on it answers 500, from SIGUSR2 on 200 again."""
    answers = [f"HTTP/1.1 {status}\r\nContent-Length: {SIZE}\r\n\r\n{name * SIZE}".encode()
               for status in ("200 OK", "500 Internal Server Error")]
    answer = answers[0]

    def change(number, _):
        nonlocal answer
        answer = answers[number == signal.SIGUSR1]

    signal.signal(signal.SIGUSR1, change)
    signal.signal(signal.SIGUSR2, change)
    listener = socket.create_server(("127.0.0.1", port), backlog=4096)
    listener.setblocking(False)
    loop = select.epoll()
    loop.register(listener, select.EPOLLIN)
    connections, unread = {}, {}
    while True:
        for fd, _ in loop.poll():
            if fd == listener.fileno():
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[connection.fileno()], unread[connection.fileno()] = connection, b""
                loop.register(connection, select.EPOLLIN)
                continue
            try:
                got = connections[fd].recv(65536)
                data = unread[fd] + got
                while (end := data.find(b"\r\n\r\n")) >= 0:
                    end += 4 + (len(POST_BODY) if data.startswith(b"POST") else 0)
                    if len(data) < end:
                        break
                    data = data[end:]
                    connections[fd].send(answer)
                unread[fd] = data
            except OSError:
                got = b""
            if not got:
                connections.pop(fd).close()
                del unread[fd]


class Server(Program):
    def __init__(self, name, port):
        super().__init__(name, [sys.executable, __file__, "--serve", port, name], port, CORE)

    def begin(self, fault):
        os.kill(self.process.pid, {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "answers 500": signal.SIGUSR1}[fault])

    def end(self, fault):
        if fault == "killed":
            self.process.wait()
            self.__init__(self.name, self.port)
        else:
            os.kill(self.process.pid, {"stopped": signal.SIGCONT, "answers 500": signal.SIGUSR2}[fault])


Answer = collections.namedtuple("Answer", "due latency server is_post")  # server: its name, or None if the request failed


class Load:
    """Sends requests to a port at a fixed rate, each on a connection that waits for nothing."""

    def __init__(self, port, rate):
        self.port, self.rate = port, rate
        self.loop = select.epoll()
        self.idle, self.busy = [], {}  # sockets; by descriptor: [socket, the time when the request was due, is_post, bytes]
        self.answers = []
        self.latest = 0.0  # the longest delay of a request in this client

    def run(self, until, patience):
        """Sends requests until the time, then waits for the answers to them. What is not answered then has failed."""
        libc = ctypes.CDLL(None)
        timer = libc.timerfd_create(1, os.O_NONBLOCK)  # CLOCK_MONOTONIC
        each = round(1e9 / self.rate)
        libc.timerfd_settime(timer, 0, struct.pack("qqqq", 0, each, 0, each), None)
        self.loop.register(timer, select.EPOLLIN)
        start, sent, chance = time.monotonic(), 0, random.Random(1)
        while (now := time.monotonic()) < until or (self.busy and now < until + patience):
            while now < until and (due := start + sent / self.rate) <= now:
                self.latest = max(self.latest, now - due)
                self.send(due, chance.random() < 0.25)
                sent += 1
                now = time.monotonic()
            for fd, _ in self.loop.poll(1):
                if fd == timer:
                    os.read(timer, 8)
                elif fd in self.busy:
                    self.read(fd)
                else:  # the gateway has closed an idle connection
                    self.idle = [connection for connection in self.idle if connection.fileno() != fd or connection.close()]
        os.close(timer)
        for _, due, is_post, _ in self.busy.values():
            self.answers.append(Answer(due, patience, None, is_post))

    def send(self, due, is_post):
        if self.idle:
            connection = self.idle.pop()
        else:
            connection = socket.create_connection(("127.0.0.1", self.port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)
            self.loop.register(connection, select.EPOLLIN)
        self.busy[connection.fileno()] = [connection, due, is_post, b""]
        try:
            connection.send(POST if is_post else GET)
        except OSError:
            self.finish(connection.fileno(), None, False)

    def read(self, fd):
        request = self.busy[fd]
        try:
            got = request[0].recv(65536)
        except OSError:
            got = b""
        if not got:
            return self.finish(fd, None, False)
        request[3] += got
        head, end, body = request[3].partition(b"\r\n\r\n")
        head = head.lower()
        _, _, length = head.partition(b"content-length: ")
        if end and length and len(body) >= int(length.partition(b"\r\n")[0]):
            self.finish(fd, chr(body[0]) if head.startswith(b"http/1.1 200 ") else None, b"connection: close" not in head)

    def finish(self, fd, server, is_kept):
        connection, due, is_post, _ = self.busy.pop(fd)
        self.answers.append(Answer(due, time.monotonic() - due, server, is_post))
        self.idle.append(connection) if is_kept else connection.close()


def ours(where, ports, second, retry):
    port = free_port()
    servers = ", ".join(f'"http://127.0.0.1:{behind}"' for behind in ports)

    def ms(seconds):
        return f'"{round(seconds * second * 1000)}ms"'

    return sluice(f'[[upstream]]\nname = "back"\nservers = [{servers}]\nconnect_timeout = {ms(1)}\nresponse_timeout = {ms(1)}\n'
                  f'health = {{ path = "/healthz", every = {ms(2)}, timeout = {ms(1)} }}\n'
                  f'eject = {{ after = 5, for = {ms(10)}, slow_start = {ms(10)}, status = "500-599" }}\n' +
                  ('retry_on = "500-599"\n' if retry else "") +
                  '[[route]]\npath = "/{rest...}"\nupstream = "back"\n', where, cores=1, core=0, port=port,
                  server=f'listen = ["127.0.0.1:{port}"]\nidle_timeout = "5m"\n')


def nginx(where, ports, second, retry):
    """It has no probes, no slow start, and whole seconds only. It counts a 500 only if it may send the request again."""
    timeout, ejection = f"{round(second * 1000)}ms", f"{max(1, round(10 * second))}s"
    servers = " ".join(f"server 127.0.0.1:{behind} max_fails=5 fail_timeout={ejection};" for behind in ports)
    return nginx_with(where, "plain", servers,
                      f"proxy_connect_timeout {timeout}; proxy_read_timeout {timeout}; proxy_send_timeout {timeout}; "
                      "proxy_next_upstream error timeout http_500 http_502 http_503 http_504; proxy_next_upstream_tries 4;")


def haproxy(where, ports, second, retry):
    def ms(seconds):
        return f"{round(seconds * second * 1000)}ms"

    return haproxy_with(where, "plain", f'''  balance roundrobin
  option httpchk GET /healthz
  option redispatch 1
  retries 3
  timeout connect {ms(1)}
  timeout server {ms(1)}
  timeout queue {ms(1)}
  timeout check {ms(1)}
''' + ('''  retry-on all-retryable-errors
  http-request disable-l7-retry if METH_POST
''' if retry else "") + f'''  default-server check inter {ms(2)} fall 3 rise 2 slowstart {ms(10)} pool-max-conn {KEPT}
  default-server observe layer7 error-limit 5 on-error mark-down
''' + "".join(f"  server {name} 127.0.0.1:{behind}\n" for name, behind in zip(NAMES, ports)))


GATEWAYS = {"sluice": ours, "nginx": nginx, "haproxy": haproxy}


def milliseconds(answers, percent):
    return round(percentile(sorted(answer.latency for answer in answers), percent) * 1000, 2) if answers else None


def latencies(answers):
    return {f"{name}_ms": milliseconds(answers, percent) for name, percent in (("p50", 50), ("p99", 99), ("max", 100))}


def share(answers, name):
    """The server's part of the answers, in percent of a quarter of them."""
    served = [answer.server for answer in answers if answer.server]
    return round(100 * len(NAMES) * served.count(name) / len(served)) if served else None


def summarize(gateway, fault, name, answers, second, begin, well, end):
    """Tells what became of the requests of each second, from the one before the fault on for those that it finds in flight, and
    returns the figures of the whole phase."""
    answers = [answer for answer in answers if begin - second <= answer.due < end]

    def between(first, last):
        return [answer for answer in answers if first <= answer.due < last]

    def failed(those):
        return sum(answer.server is None for answer in those)

    seconds = [between(begin + n * second, begin + (n + 1) * second) for n in range(-1, int((end - begin) / second))]
    for n, those in enumerate(seconds, -1):
        tell(bench="failing", gateway=gateway, fault=fault, second=n, requests=len(those), failed=failed(those), **latencies(those),
             share_percent=share(those, name))
    clean = next((n for n, those in enumerate(seconds[1:]) if not failed(those)), None)
    back = min((answer.due for answer in answers if answer.server == name and answer.due >= well), default=None)

    def share_after(n):
        first = end if back is None else back + n * second
        return share(between(first, first + second), name) if first + second <= end else None

    figures = {"failed_get": failed(answer for answer in answers if not answer.is_post),
               "failed_post": failed(answer for answer in answers if answer.is_post), "clean_after_s": clean,
               "failed_later": None if clean is None else failed(between(begin + clean * second, well)),
               "failed_when_well": failed(between(well, end)), **latencies(between(begin, well)),
               "back_after_s": None if back is None else round((back - well) / second, 1),
               "share_1st": share_after(0), "share_5th": share_after(4), "share_10th": share_after(9)}
    tell(bench="failing", gateway=gateway, fault=fault, **figures)
    return figures


def measure(name, second, rate, retry):
    """Runs one gateway through all faults: {fault: figures}."""
    where = folder()
    servers = [Server(letter, free_port()) for letter in NAMES]
    gateway = GATEWAYS[name](where, [server.port for server in servers], second, retry)
    load = Load(gateway.port, rate)
    start = time.monotonic() + WARM_UP * second
    length = (10 + PAUSE) * second
    phases = []

    def break_servers():
        for n, (fault, server) in enumerate(zip(FAULTS, servers)):
            begin = start + n * length
            time.sleep(max(0, begin - time.monotonic()))
            begin = time.monotonic()
            server.begin(fault)
            time.sleep(10 * second)
            server.end(fault)
            phases.append((fault, server.name, begin, time.monotonic()))

    breaks = threading.Thread(target=break_servers)
    breaks.start()
    load.run(start + len(FAULTS) * length, patience=5)
    breaks.join()
    for program in (gateway, *servers):
        program.stop()
    before = [answer for answer in load.answers if start - 2 * second <= answer.due < start]
    figures = {fault: summarize(name, fault, server, load.answers, second, begin, well, start + (n + 1) * length - second)
               for n, (fault, server, begin, well) in enumerate(phases)}
    tell(bench="failing", gateway=name, fault=None, requests=len(before), failed=sum(answer.server is None for answer in before),
         **latencies(before), client_late_ms=round(load.latest * 1000, 1))
    return figures


COLUMNS = {"failed_get": "GET failed", "failed_post": "POST failed", "clean_after_s": "until s", "failed_later": "later",
           "failed_when_well": "when well", "p50_ms": "p50 ms", "p99_ms": "p99 ms", "max_ms": "max ms", "back_after_s": "back s",
           "share_1st": "1st s %", "share_5th": "5th s %", "share_10th": "10th s %"}


def print_table(results):
    print(f'\n{"":<22}' + "".join(f"{title:>12}" for title in COLUMNS.values()))
    for fault in FAULTS:
        for name, figures in results.items():
            print(f"{fault:<13}{name:<9}" +
                  "".join(f'{"-" if (value := figures[fault][key]) is None else value:>12}' for key in COLUMNS))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="how long each fault lasts")
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--only", default=",".join(GATEWAYS))
    parser.add_argument("--retry", action="store_true", help="Sluice and HAProxy may send a GET that got a 500 again, as nginx "
                        "does; HAProxy also one that got no answer")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(int(args.serve[0]), args.serve[1])

    # The client comes before the servers, with which it shares a core.
    try:
        os.sched_setaffinity(0, {CORE})
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:
        pass
    gc.disable()
    begin = time.monotonic()
    results = {name: measure(name, args.seconds / 10, args.rate, args.retry) for name in args.only.split(",")}
    print_table(results)
    print(f"{(time.monotonic() - begin) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
