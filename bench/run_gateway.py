#!/usr/bin/env python3
"""Requests through a gateway: Sluice, nginx and HAProxy take turns in one run, one worker each on core 0. The server behind them, a
bare loop, shares core 1 with the client. The loop is also measured directly: a gateway costs at least two such exchanges, one for
each side.

usage: run_gateway.py [--rounds N] [--seconds S] [--only NAME,NAME] [--cases CASE,CASE]
"""
import argparse
import base64
import hashlib
import hmac
import json
import os
import time

from harness import BUILD, Program, folder, free_port, sluice
from http_clients import drain, wrk
from run_http import Case, run

CORE = 1  # of the client and of the server behind
KEPT = 256  # connections to the server behind that each gateway keeps
SIZES = {"page": 1500, "hundred": 100_000}

SECRET = "a secret of a bench, 32 bytes or more"


def token():
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    signed = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(json.dumps({"sub": "ada", "exp": int(time.time()) + 86400}).encode())
    return (signed + b"." + part(hmac.digest(SECRET.encode(), signed, hashlib.sha256))).decode()


# Only Sluice verifies the token and counts the request; the others just pass it on.
GUARDED = ("Host: guarded", f"Authorization: Bearer {token()}")

CASES = (
    Case("proxy", "page", lambda program, target, seconds: wrk(program.port, target, 100, seconds, core=CORE)),
    Case("guarded", "page", lambda program, target, seconds: wrk(program.port, target, 100, seconds, core=CORE, fields=GUARDED)),
    Case("proxy-200", "page", lambda program, target, seconds: wrk(program.port, target, 200, seconds, core=CORE)),
    Case("proxy-5000", "page", lambda program, target, seconds: wrk(program.port, target, 5000, seconds, core=CORE)),
    Case("proxy-100kB", "hundred", lambda program, target, seconds: drain(program.port, target, 16, seconds, CORE)),
)


def ours(where, behind):
    return sluice(f'[[upstream]]\nname = "back"\nservers = ["http://127.0.0.1:{behind}"]\nkeep = {KEPT}\n'
                  '[[route]]\npath = "/{rest...}"\nupstream = "back"\n'
                  '[[route]]\nhost = "guarded"\npath = "/{rest...}"\nupstream = "back"\nuse = ["auth", "limit"]\n'
                  f'[policy.auth]\ntype = "jwt"\nsecret = "{SECRET}"\n'
                  '[policy.limit]\ntype = "rate-limit"\nrate = "1000000/s"\nper = "claim.sub"\n', where, cores=1, core=0)


def nginx(where, behind):
    port = free_port()
    file = where / f"nginx-{port}.conf"
    user = "user root;\n" if os.geteuid() == 0 else ""
    file.write_text(f'''{user}daemon off; worker_processes 1; worker_rlimit_nofile 40000; pid {where}/nginx-{port}.pid;
error_log {where}/nginx.log;
events {{ worker_connections 20000; }}
http {{
  access_log off; tcp_nodelay on; keepalive_requests 100000000; keepalive_timeout 300s;
  client_body_temp_path {where}/t1; proxy_temp_path {where}/t2; fastcgi_temp_path {where}/t3;
  uwsgi_temp_path {where}/t4; scgi_temp_path {where}/t5;
  upstream back {{ server 127.0.0.1:{behind}; keepalive {KEPT}; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} reuseport backlog=4096;
    location / {{
      proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Host $http_host;
    }}
  }}
}}
''')
    return Program("nginx", ["nginx", "-c", file, "-p", where, "-e", where / "nginx.log"], port, 0)


def haproxy(where, behind):
    port = free_port()
    file = where / f"haproxy-{port}.cfg"
    file.write_text(f'''global
  nbthread 1
  maxconn 9000
  tune.pool-high-fd-ratio 90
  tune.pool-low-fd-ratio 80
defaults
  mode http
  option forwardfor
  http-reuse always
  timeout connect 5s
  timeout client 300s
  timeout server 60s
frontend front
  bind 127.0.0.1:{port} backlog 4096
  http-request set-header X-Forwarded-Proto http
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  default_backend back
backend back
  server one 127.0.0.1:{behind} pool-max-conn {KEPT}
''')
    return Program("haproxy", ["haproxy", "-db", "-f", file], port, 0)


GATEWAYS = {"sluice": ours, "nginx": nginx, "haproxy": haproxy}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--only", default=",".join(GATEWAYS))
    parser.add_argument("--cases", default=",".join(case.name for case in CASES))
    args = parser.parse_args()

    wanted = args.cases.split(",")
    for size in SIZES:
        cases = [case for case in CASES if case.name in wanted and case.file == size]
        if not cases:
            continue
        where = folder()
        behind, direct = free_port(), free_port()
        back = Program("behind", [BUILD / "bench/floor_epoll", behind, SIZES[size]], behind, CORE)
        floor = Program("floor", [BUILD / "bench/floor_epoll", direct, SIZES[size]], direct, 0)
        programs = [floor, *(GATEWAYS[name](where, behind) for name in args.only.split(","))]
        for case in cases:
            run(case, programs, args.rounds, args.seconds, bench="gateway")
        for program in (*programs, back):
            program.stop()


if __name__ == "__main__":
    main()
