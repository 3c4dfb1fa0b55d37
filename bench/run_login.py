#!/usr/bin/env python3
"""[login] under attack, on SQLite.

names  log-ins with a wrong password, of known and of unknown users in turns: the ratio of the median times
tries  10,000 tries against one account from one network; then the owner and another user log in from elsewhere
flood  8 clients log in without a pause, each with an account of its own: the time of another route beside it, and memory

usage: run_login.py [--seconds S] [--cases CASE,CASE]
"""
import argparse
import http.client
import json
import sqlite3
import subprocess
import threading
import time

from harness import SLUICE, fetch, folder, median, sluice, tell

CASES = ("names", "tries", "flood")
PASSWORD = "correct horse"
CONFIG = """
[database.main]
url = "sqlite:users.db"
[login]
query = "SELECT id AS sub, password FROM users WHERE email = :email"
policy = "auth"
signing_keys = ["login.key.pem"]
[policy.auth]
type = "jwt"
[[endpoint]]
path = "/users"
get = "SELECT count(*) AS users FROM users"
returns = "object"
"""


def start(users):
    where = folder()
    hash = subprocess.run([SLUICE, "hash-password"], input=PASSWORD, capture_output=True, text=True, check=True).stdout.strip()
    database = sqlite3.connect(where / "users.db")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, email TEXT UNIQUE, password TEXT)")
    database.executemany("INSERT INTO users VALUES (?, ?, ?)", [(i, f"user{i}@x", hash) for i in range(users)])
    database.commit()
    database.close()
    subprocess.run([SLUICE, "keys", "--kid", "login", "--alg", "EdDSA", "--out", where], check=True, capture_output=True)
    (where / "tables.toml").write_text(CONFIG)
    subprocess.run([SLUICE, "login", "sql", "tables.toml", "--apply"], cwd=where, check=True, capture_output=True)
    return sluice(CONFIG, where)


class Client:
    """One connection from an address of its own."""

    def __init__(self, program, network):
        self.connection = http.client.HTTPConnection("127.0.0.1", program.port, timeout=60,
                                                     source_address=(f"127.{1 + network // 250}.{network % 250}.1", 0))

    def login(self, email, password):
        """The status and the milliseconds."""
        body = json.dumps({"email": email, "password": password})
        begun = time.perf_counter()
        self.connection.request("POST", "/auth/login", body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        answer.read()
        return answer.status, (time.perf_counter() - begun) * 1e3

    def close(self):
        self.connection.close()


def names(seconds):
    program = start(300)
    known, unknown = [], []
    for i in range(200):
        for times, email in ((known, f"user{i}@x"), (unknown, f"none{i}@x")) if i % 2 else ((unknown, f"none{i}@x"), (known, f"user{i}@x")):
            client = Client(program, i)  # so that no network has to wait
            status, took = client.login(email, "wrong")
            client.close()
            assert status == 401, status
            times.append(took)
    program.stop()
    ratio = median(unknown) / median(known)
    tell(bench="login", case="names", tries=200, known_ms=round(median(known), 2), unknown_ms=round(median(unknown), 2),
         ratio=round(ratio, 3), goal=1.05, met=abs(ratio - 1) <= 0.05)
    return abs(ratio - 1) <= 0.05


def tries(seconds):
    program = start(3)
    attacker, statuses = Client(program, 1), {}
    begun = time.monotonic()
    for _ in range(10_000):
        status, _ = attacker.login("user1@x", "wrong")
        statuses[status] = statuses.get(status, 0) + 1
    took = time.monotonic() - begun
    waits = 0
    while True:  # somebody guesses from everywhere: the account itself may have to wait, at most 30 s
        owner, _ = Client(program, 2).login("user1@x", PASSWORD)
        if owner == 200 or waits > 31:
            break
        waits += 1
        time.sleep(1)
    other, _ = Client(program, 3).login("user2@x", PASSWORD)
    same_network, _ = Client(program, 1).login("user2@x", PASSWORD)
    program.stop()
    met = owner == other == 200 and statuses.get(401, 0) < 30
    tell(bench="login", case="tries", seconds=round(took, 1), verified=statuses.get(401, 0), delayed=statuses.get(429, 0),
         owner_elsewhere=owner, owner_waited_s=waits, other_user=other, other_user_of_the_network=same_network, met=met)
    return met


def flood(seconds):
    program = start(2000)
    fetch(program.port, "/users")

    def percentile(times, share):
        return sorted(times)[int(len(times) * share)]

    def look():
        connection = http.client.HTTPConnection("127.0.0.1", program.port)
        times, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.perf_counter()
            connection.request("GET", "/users")
            connection.getresponse().read()
            times.append((time.perf_counter() - begun) * 1e3)
            time.sleep(0.001)
        return times

    alone = look()
    stop, counts, lock = threading.Event(), {}, threading.Lock()

    def log_in(number):
        client = Client(program, 100 + number)
        for i in range(number, 2000, 8):
            if stop.is_set():
                break
            status, _ = client.login(f"user{i}@x", PASSWORD)
            with lock:
                counts[status] = counts.get(status, 0) + 1

    before = program.rss_kib()
    threads = [threading.Thread(target=log_in, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    beside = look()
    peak = program.rss_kib("VmHWM")
    stop.set()
    for thread in threads:
        thread.join()
    program.stop()
    ratio = percentile(beside, 0.99) / percentile(alone, 0.99)
    tell(bench="login", case="flood", seconds=seconds, logins=counts, p50_ms=round(percentile(beside, 0.5), 3),
         p99_ms=round(percentile(beside, 0.99), 3), alone_p50_ms=round(percentile(alone, 0.5), 3),
         alone_p99_ms=round(percentile(alone, 0.99), 3), ratio=round(ratio, 2), goal=2, rss_before_mib=before // 1024,
         rss_peak_mib=peak // 1024, met=ratio <= 2)
    return ratio <= 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--cases", default=",".join(CASES))
    given = parser.parse_args()
    met = [{"names": names, "tries": tries, "flood": flood}[case](given.seconds) for case in given.cases.split(",")]
    raise SystemExit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
