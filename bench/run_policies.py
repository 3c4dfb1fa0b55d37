#!/usr/bin/env python3
"""Policies in front of a proxied route, and many routes. All programs of a case take turns, one worker each on core 0; the server
behind, a bare loop, shares core 1 with the client.

cached    tokens with RS256 that are remembered, and a rate limit, beside the same route without policies
fresh     another token with RS256 in each request, beside HAProxy with jwt_verify and the time of a verification by OpenSSL
routes    10,000 routes beside 10
hot-key   a rate limit for one key on two workers: how much of it passes

usage: run_policies.py [--rounds N] [--seconds S] [--cases CASE,CASE]
"""
import argparse
import base64
import json
import re
import subprocess
import time

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from harness import folder, free_port, sluice, tell
from http_clients import wrk
from http_servers import make_certificate, make_site
from run_gateway import CORE, KEPT, haproxy_with, start
from run_http import SIZES, Case, run

TOKENS = 20_000  # more than a core remembers
RATE = 10_000  # requests a second that the limit of hot-key allows
CASES = ("cached", "fresh", "routes", "hot-key")

SCRIPT = """
local tokens, at = {}, 0
for line in io.lines("FILE") do tokens[#tokens + 1] = "Bearer " .. line end
function request()
  at = at % #tokens + 1
  wrk.headers["Authorization"] = tokens[at]
  return wrk.format()
end
"""


class Issuer:
    def __init__(self, where):
        self.key = rsa.generate_private_key(65537, 2048)
        self.file = where / "issuer.pem"
        self.file.write_bytes(self.key.public_key().public_bytes(serialization.Encoding.PEM,
                                                                 serialization.PublicFormat.SubjectPublicKeyInfo))

    def token(self, **claims):
        def part(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=")

        claims = {"iss": "bench", "exp": int(time.time()) + 86400, **claims}
        signed = part(b'{"alg":"RS256","typ":"JWT"}') + b"." + part(json.dumps(claims).encode())
        return (signed + b"." + part(self.key.sign(signed, padding.PKCS1v15(), hashes.SHA256()))).decode()


def gateway(name, where, behind, use="", more="", routes='[[route]]\npath = "/{rest...}"\nupstream = "back"\n'):
    program = sluice(f'[[upstream]]\nname = "back"\nservers = ["http://127.0.0.1:{behind}"]\nkeep = {KEPT}\n{routes}{use}\n{more}',
                     where, cores=1, core=0)
    program.name = name
    return program


def guarded(name, where, behind, issuer):
    return gateway(name, where, behind, 'use = ["auth", "limit"]',
                   f'[policy.auth]\ntype = "jwt"\npublic_key = "{issuer.file}"\nissuer = "bench"\n'
                   '[policy.limit]\ntype = "rate-limit"\nrate = "1000000/s"\nper = "claim.sub"\n')


def haproxy(name, where, behind, issuer=None):
    """With `issuer` it verifies each token; it remembers none."""
    check = "" if issuer is None else (
        f'  http-request deny deny_status 401 unless {{ http_auth_bearer,jwt_verify("RS256","{issuer.file}") 1 }}\n')
    program = haproxy_with(where, "plain", f"{check}  server one 127.0.0.1:{behind} pool-max-conn {KEPT} pool-purge-delay 60s\n")
    program.name = name
    return program


def many_routes(count):
    return "".join(f'[[route]]\npath = "/service-{number}/{{id}}/items/{{rest...}}"\nupstream = "back"\n' for number in range(count))


def print_table(case, medians):
    print(f"\n{case}")
    print(f'{"":<16}{"CPU us":>8}{"to 2 floors":>13}{"per second":>12}{"p99_us":>9}{"errors":>8}')
    for name, figures in medians.items():
        print(f'{name:<16}{figures["cpu_us"]:>8.2f}{figures["cpu_us"] / medians["floor"]["cpu_us"] / 2:>13.2f}{figures["rps"]:>12,.0f}'
              f'{figures["p99_us"]:>9,.0f}{figures["errors"]:>8}')
    print(flush=True)


def verification_us():
    """The time of one verification by OpenSSL, on the core of the programs."""
    text = subprocess.run(["taskset", "-c", "0", "openssl", "speed", "-seconds", "2", "rsa2048"], capture_output=True, text=True).stdout
    return 1e6 / float(re.search(r"^rsa 2048 bits.*\s([\d.]+)$", text, re.M).group(1))


def hot_key(where, seconds):
    key = ("X-Key: one",)
    program = sluice('[[route]]\npath = "/"\nrespond = { status = 200, body = "in" }\nuse = ["limit"]\n'
                     f'[policy.limit]\ntype = "rate-limit"\nrate = "{RATE}/s"\nper = "header.x-key"\n', where, cores=2)
    time.sleep(0.1)
    figures = wrk(program.port, "/", 64, seconds, threads=2, fields=key)
    program.stop()
    passed = figures["requests"] - figures["not_2xx"]
    allowed = RATE * (1 + figures["requests"] / figures["rps"])  # the burst is the rate of a second
    tell(bench="policies", case="hot-key", workers=2, requests=figures["requests"], passed=passed, allowed=round(allowed),
         used=round(passed / allowed, 4))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--cases", default=",".join(CASES), help="default: %(default)s")
    args = parser.parse_args()
    wanted = args.cases.split(",")
    if unknown := set(wanted) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")

    where = folder()
    make_site(where, **SIZES)
    make_certificate(where)
    issuer = Issuer(where)
    back, (floor,) = start(where, "plain", "page", [])

    def compare(case, programs, load):
        medians = run(Case(case, "", load), [floor, *programs], args.rounds, args.seconds, bench="policies")
        for program in programs:
            program.stop()
        print_table(case, medians)
        return medians

    if "cached" in wanted:
        token = (f"Authorization: Bearer {issuer.token(sub='ada')}",)
        compare("cached", [gateway("sluice", where, back.port), guarded("sluice-guarded", where, back.port, issuer)],
                lambda program, _, seconds: wrk(program.port, "/page.html", 100, seconds, core=CORE, fields=token))
    if "fresh" in wanted:
        tokens, script = where / "tokens", where / "fresh.lua"
        tokens.write_text("\n".join(issuer.token(sub=f"user-{number}", jti=str(number)) for number in range(TOKENS)) + "\n")
        script.write_text(SCRIPT.replace("FILE", str(tokens)))
        medians = compare("fresh", [gateway("sluice", where, back.port), guarded("sluice-guarded", where, back.port, issuer),
                                    haproxy("haproxy", where, back.port), haproxy("haproxy-jwt", where, back.port, issuer)],
                          lambda program, _, seconds: wrk(program.port, "/page.html", 100, seconds, core=CORE, script=script))
        verify = verification_us()
        tell(bench="policies", case="fresh", openssl_verify_us=round(verify, 2),
             allowed_us=round(medians["sluice"]["cpu_us"] + 1.3 * verify, 2), cpu_us=round(medians["sluice-guarded"]["cpu_us"], 2),
             haproxy_us=round(medians["haproxy-jwt"]["cpu_us"], 2))
    if "routes" in wanted:
        programs = [gateway(f"sluice-{count}", where, back.port, routes=many_routes(count)) for count in (10, 10_000)]
        medians = compare("routes", programs, lambda program, _, seconds: wrk(program.port, "/service-7/1/items/page.html", 100, seconds,
                                                                              core=CORE))
        tell(bench="policies", case="routes", ratio=round(medians["sluice-10000"]["cpu_us"] / medians["sluice-10"]["cpu_us"], 3))
    floor.stop()
    back.stop()
    if "hot-key" in wanted:
        hot_key(where, 10)


if __name__ == "__main__":
    main()
