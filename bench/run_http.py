#!/usr/bin/env python3
"""A static file of 1,500 bytes over HTTP/1.1: the floor, Sluice, h2o and nginx in one run, each on core 0 with wrk on core 1.

usage: run_http.py [--rounds N] [--seconds S] [--only NAME,NAME] [--skip-10k]
"""
import argparse
import os

from harness import BUILD, Program, counters_work, fetch, folder, free_port, median, sluice, tell
from http_cost import measure, wrk

BODY = 1500
TARGET = "/page.html"


def floor(_):
    port = free_port()
    return Program("floor", [BUILD / "bench/floor_epoll", port, BODY], port, core=0)


def nginx(where, workers=1, core=0):
    port = free_port()
    file = where / f"nginx-{port}.conf"
    user = "user root;\n" if os.geteuid() == 0 else ""
    file.write_text(f'''{user}daemon off; worker_processes {workers}; worker_rlimit_nofile 40000; pid {where}/nginx-{port}.pid;
error_log {where}/nginx.log;
events {{ worker_connections 20000; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; open_file_cache max=1000;
  types {{ text/html html; }}
  client_body_temp_path {where}/t1; proxy_temp_path {where}/t2; fastcgi_temp_path {where}/t3;
  uwsgi_temp_path {where}/t4; scgi_temp_path {where}/t5;
  server {{ listen 127.0.0.1:{port} reuseport backlog=4096; root {where}/site; }}
}}
''')
    return Program("nginx", ["nginx", "-c", file, "-p", where, "-e", where / "nginx.log"], port, core=core)


def h2o(where, workers=1, core=0):
    port = free_port()
    file = where / f"h2o-{port}.conf"
    user = "user: root\n" if os.geteuid() == 0 else ""
    file.write_text(f'''{user}num-threads: {workers}
max-connections: 20000
listen: {{host: 127.0.0.1, port: {port}}}
hosts: {{default: {{paths: {{"/": {{file.dir: {where}/site}}}}}}}}
''')
    return Program("h2o", ["h2o", "-c", file], port, core=core)


def ours(where):
    return sluice(f'[[files]]\npath = "/"\nroot = "{where}/site"\n', where, cores=1, core=0)


SERVERS = {"floor": floor, "sluice": ours, "h2o": h2o, "nginx": nginx}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--only", default=",".join(SERVERS))
    parser.add_argument("--skip-10k", action="store_true")
    args = parser.parse_args()

    where = folder()
    (where / "site").mkdir()
    (where / "site/page.html").write_bytes(b"a" * BODY)
    programs = [SERVERS[name](where) for name in args.only.split(",")]
    for program in programs:
        if fetch(program.port, TARGET) != (200, b"a" * BODY):
            raise SystemExit(f"{program.name} does not answer with the file")
        wrk(program.port, TARGET, connections=100, seconds=1, core=1)

    counted = counters_work()
    runs = {program.name: [] for program in programs}
    for _ in range(args.rounds):  # alternating, so that a slow minute of the machine hits all of them
        for program in programs:
            runs[program.name].append(measure(program, TARGET, seconds=args.seconds))

    def cost(run):
        return run["instructions_user"] + run["instructions_kernel"] if counted else run["cpu_us"]

    first = None
    for name, of_server in runs.items():
        figures = {"bench": "http", "server": name, "rounds": args.rounds,
                   "measured": "instructions" if counted else "cpu_us (this machine does not count instructions)",
                   "rps": round(median(run["rps"] for run in of_server)),
                   "cpu_us": round(median(run["cpu_us"] for run in of_server), 2),
                   "cpu_us_best": round(min(run["cpu_us"] for run in of_server), 2)}
        if counted:
            for key in ("instructions_user", "instructions_kernel"):
                figures[key] = round(median(run[key] for run in of_server))
        figures["not_2xx"] = sum(run["not_2xx"] for run in of_server)
        figures["socket_errors"] = sum(sum(run["socket_errors"].values()) for run in of_server)
        middle = median(cost(run) for run in of_server)
        first = first or middle
        figures[f"ratio_to_{programs[0].name}"] = round(middle / first, 3)
        tell(**figures)

    if not args.skip_10k and "sluice" in runs:
        for program in programs:
            program.stop()
        every = sluice(f'[[files]]\npath = "/"\nroot = "{where}/site"\n', where)
        run = wrk(every.port, TARGET, connections=10_000, seconds=10, threads=4)
        tell(bench="http-10k", server="sluice", connections=10_000, rps=round(run["rps"]), p99=run["p99"],
             not_2xx=run["not_2xx"], socket_errors=run["socket_errors"])


if __name__ == "__main__":
    main()
