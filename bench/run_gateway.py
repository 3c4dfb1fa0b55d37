#!/usr/bin/env python3
"""Requests through a gateway: Sluice, nginx and HAProxy take turns in one run, one worker each on core 0. The server behind them, a
bare loop, shares core 1 with the client. The loop is also measured directly, without TLS: a gateway costs at least two such
exchanges, one for each side. The table after each case has the medians over the rounds; times are in microseconds.

In the cases with two workers, gateways, client and server behind share both cores.

usage: run_gateway.py [--rounds N] [--seconds S] [--only NAME,NAME] [--cases CASE,CASE] [--page]
  --page   stores the figures of all cases (results/gateway.json), and writes results/gateway.md and the tables of README
"""
import argparse
import base64
import dataclasses
import hashlib
import hmac
import json
import os
import time

import stored
from harness import BUILD, Program, folder, free_port, sluice
from http_clients import LATENCIES, drain, h2load, websocket, wrk
from http_servers import CIPHER, make_certificate, make_site
from http_servers import nginx as web_server
from run_http import SIZES, Case, run

CORE = 1  # of the client and of the server behind
KEPT = 256  # connections to the server behind that each gateway keeps
ROUNDS, SECONDS = 9, 2

SECRET = "a secret of a bench, 32 bytes or more"


def token():
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    signed = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(json.dumps({"sub": "ada", "exp": int(time.time()) + 86400}).encode())
    return (signed + b"." + part(hmac.digest(SECRET.encode(), signed, hashlib.sha256))).decode()


# Only Sluice verifies the token and counts the request; the others just pass it on.
GUARDED = ("Host: guarded", f"Authorization: Bearer {token()}")


@dataclasses.dataclass
class GatewayCase(Case):
    kind: str = "plain"  # or "tls-front", "tls-behind", "websocket"
    workers: int = 1     # of each gateway


def _wrk(connections, fields=(), core=CORE):
    return lambda program, target, seconds: wrk(program.port, target, connections, seconds, core=core, fields=fields)


def _tls(program, target, seconds):
    if program.scheme == "http":  # the floor
        return wrk(program.port, target, 100, seconds, core=CORE)
    return h2load(program.port, target, 100, seconds, http1=True, core=CORE, latencies=True)


CASES = (
    GatewayCase("proxy", "page", _wrk(100)),
    GatewayCase("guarded", "page", _wrk(100, GUARDED)),
    GatewayCase("proxy-200", "page", _wrk(200)),
    GatewayCase("proxy-5000", "page", _wrk(5000)),
    GatewayCase("proxy-2-workers", "page", _wrk(100, core=None), workers=2),
    GatewayCase("proxy-200-2-workers", "page", _wrk(200, core=None), workers=2),
    GatewayCase("proxy-100kB", "hundred", lambda program, target, seconds: drain(program.port, target, 16, seconds, CORE)),
    GatewayCase("tls-front", "page", _tls, kind="tls-front"),
    GatewayCase("tls-behind", "page", _wrk(100), kind="tls-behind"),
    GatewayCase("websocket", "", lambda program, _, seconds: websocket(program.port, 100, seconds, CORE), kind="websocket"),
)


def ours(where, behind, kind, workers=1):
    port = free_port()
    scheme, scheme_behind = _schemes(kind)
    return sluice((f'[server.tls]\ncert = "{where}/cert.pem"\nkey = "{where}/key.pem"\n' if scheme == "https" else "") +
                  f'[[upstream]]\nname = "back"\nservers = ["{scheme_behind}://127.0.0.1:{behind}"]\nkeep = {KEPT}\n' +
                  ("tls.verify = false\n" if scheme_behind == "https" else "") +
                  '[[route]]\npath = "/{rest...}"\nupstream = "back"\n'
                  '[[route]]\nhost = "guarded"\npath = "/{rest...}"\nupstream = "back"\nuse = ["auth", "limit"]\n'
                  f'[policy.auth]\ntype = "jwt"\nsecret = "{SECRET}"\n'
                  '[policy.limit]\ntype = "rate-limit"\nrate = "1000000/s"\nper = "claim.sub"\n', where, cores=workers, core=0 if workers == 1 else None, port=port,
                  server=f'listen = ["{scheme}://127.0.0.1:{port}"]\n')


def nginx(where, behind, kind, workers=1):
    return nginx_with(where, kind, f"server 127.0.0.1:{behind};", workers=workers)


def nginx_with(where, kind, servers, location="", workers=1):
    """`servers` are those of its `upstream`; `location` is added to its `location`. Finishes the requests of clients that have
    left, as HAProxy does: otherwise it would connect anew in each round."""
    port = free_port()
    scheme, scheme_behind = _schemes(kind)
    file = where / f"nginx-{port}.conf"
    user = "user root;\n" if os.geteuid() == 0 else ""
    tls = f'''ssl_certificate {where}/cert.pem; ssl_certificate_key {where}/key.pem;
    ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites {CIPHER};''' if scheme == "https" else ""
    upgrade = "proxy_set_header Upgrade $http_upgrade;" if kind == "websocket" else ""
    file.write_text(f'''{user}daemon off; worker_processes {workers}; worker_rlimit_nofile 40000; pid {where}/nginx-{port}.pid;
error_log {where}/nginx.log;
events {{ worker_connections 20000; }}
http {{
  access_log off; tcp_nodelay on; keepalive_requests 100000000; keepalive_timeout 300s;
  client_body_temp_path {where}/t1; proxy_temp_path {where}/t2; fastcgi_temp_path {where}/t3;
  uwsgi_temp_path {where}/t4; scgi_temp_path {where}/t5;
  upstream back {{ {servers} keepalive {KEPT}; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} {"ssl " if tls else ""}reuseport backlog=4096;
    {tls}
    location / {{
      proxy_pass {scheme_behind}://back; proxy_http_version 1.1; proxy_set_header Host $http_host;
      proxy_set_header Connection "{"upgrade" if upgrade else ""}"; {upgrade}
      proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Host $http_host;
      proxy_ignore_client_abort on; {"proxy_ssl_protocols TLSv1.3;" if scheme_behind == "https" else ""}
      {location}
    }}
  }}
}}
''')
    return Program("nginx", ["nginx", "-c", file, "-p", where, "-e", where / "nginx.log"], port, 0 if workers == 1 else None)


def haproxy(where, behind, kind, workers=1):
    tls = "ssl verify none" if _schemes(kind)[1] == "https" else ""
    return haproxy_with(where, kind, f"  server one 127.0.0.1:{behind} pool-max-conn {KEPT} pool-purge-delay 60s {tls}\n",
                        workers)


def haproxy_with(where, kind, backend, workers=1):
    """`backend` holds the lines of its `backend`, with the servers."""
    port = free_port()
    scheme = _schemes(kind)[0]
    file, pem = where / f"haproxy-{port}.cfg", where / "both.pem"
    if scheme == "https":
        pem.write_text((where / "cert.pem").read_text() + (where / "key.pem").read_text())
    tls = f"ssl crt {pem} alpn http/1.1 ssl-min-ver TLSv1.3 ciphersuites {CIPHER}" if scheme == "https" else ""
    file.write_text(f'''global
  nbthread {workers}
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
  timeout tunnel 300s
frontend front
  bind 127.0.0.1:{port} backlog 4096 {tls}
  http-request set-header X-Forwarded-Proto {scheme}
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  default_backend back
backend back
{backend}''')
    return Program("haproxy", ["haproxy", "-db", "-f", file], port, 0 if workers == 1 else None)


GATEWAYS = {"sluice": ours, "nginx": nginx, "haproxy": haproxy}


def _schemes(kind):
    return "https" if kind == "tls-front" else "http", "https" if kind == "tls-behind" else "http"


def start(where, kind, file, names, workers=1):
    """The server behind, and what is measured: the floor and the gateways."""
    def bare(name, core):
        port = free_port()
        command = [BUILD / "bench/ws_echo", port] if kind == "websocket" else [BUILD / "bench/floor_epoll", port, SIZES[file]]
        return Program(name, command, port, core)

    if kind == "tls-behind":
        back = web_server(where, core=CORE)
        behind = back.tls_port
    else:
        back = bare("behind", CORE if workers == 1 else None)
        behind = back.port
    gateways = [GATEWAYS[name](where, behind, kind, workers) for name in names]
    for program in gateways:
        program.scheme = _schemes(kind)[0]
    return back, [bare("floor", 0), *gateways]


def print_table(case, medians, rounds, seconds):
    print(f"\n{case.name}, medians of {rounds} rounds of {seconds} s")
    print(f'{"":<10}{"CPU":>8}{"to nginx":>10}{"to 2 floors":>13}{"per second":>12}' +
          "".join(f'{key.removesuffix("_us"):>11}' for key in LATENCIES) + f'{"errors":>8}')
    for name, figures in medians.items():
        to_nginx = f'{figures["cpu_us"] / medians["nginx"]["cpu_us"]:.3f}' if "nginx" in medians else "-"
        print(f'{name:<10}{figures["cpu_us"]:>8.2f}{to_nginx:>10}{figures["cpu_us"] / medians["floor"]["cpu_us"] / 2:>13.2f}'
              f'{figures["rps"]:>12,.0f}' + "".join(f"{figures[key]:>11,.0f}" for key in LATENCIES) + f'{figures["errors"]:>8}')
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--only", default=",".join(GATEWAYS))
    parser.add_argument("--cases", default=",".join(case.name for case in CASES), help="default: %(default)s")
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    wanted, names = args.cases.split(","), args.only.split(",")
    if unknown := set(wanted) - {case.name for case in CASES}:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")

    about = stored.about() if args.page else None
    begin = time.monotonic()
    table = {}
    for kind, file, workers in dict.fromkeys((case.kind, case.file, case.workers) for case in CASES if case.name in wanted):
        where = folder()
        make_site(where, **SIZES)
        make_certificate(where)
        back, programs = start(where, kind, file, names, workers)
        for case in CASES:
            if case.name in wanted and (case.kind, case.file, case.workers) == (kind, file, workers):
                table[case.name] = run(case, programs, args.rounds, args.seconds, bench="gateway")
                print_table(case, table[case.name], args.rounds, args.seconds)
        for program in (*programs, back):
            program.stop()

    if args.page:
        stored.store("gateway", about, {case: {name: {key: round(value, 2) for key, value in medians.items()}
                                               for name, medians in of_case.items()} for case, of_case in table.items()},
                     rounds=args.rounds, seconds=args.seconds)
        stored.main()

    # A load takes longer than its seconds: the client starts, connects, and sums up. The first load of a case is a warm-up.
    took = time.monotonic() - begin
    more = took / (len(wanted) * (len(names) + 1) * (1 + args.rounds)) - args.seconds
    full = len(CASES) * (len(GATEWAYS) + 1) * (1 + ROUNDS) * (SECONDS + more)
    print(f"{took / 60:.1f} minutes; all {len(CASES)} cases, {ROUNDS} rounds of {SECONDS} s, take about {full / 60:.0f} minutes")


if __name__ == "__main__":
    main()
