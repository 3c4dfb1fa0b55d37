"""`sluice explain`: the route, the policies and the answer that it prints, compared with what a server does."""
import base64
import json
import re
import shlex
import sqlite3
import subprocess

import pytest

from certificates import Authority
from conftest import ROOT, SLUICE
from tokens import Ec, soon
from upstream import Upstream

KEY = "acme-4f0d1c9e7b3a"
CONFIG = '''
[database.main]
url = "sqlite:shop.db"
[policy.login]
type = "jwt"
jwks = "shop.jwks.json"
[policy.partners]
type = "api-key"
keys = { acme = "%(key)s" }
[policy.quota]
type = "rate-limit"
rate = "1/m"
[policy.office]
type = "ip"
allow = ["10.0.0.0/8"]
[policy.pages]
type = "cors"
origins = ["https://shop.example"]
[policy.small]
type = "body-limit"
size = "1KiB"
[policy.asked]
type = "auth-request"
upstream = "api"
[defaults]
use = ["login"]
[[endpoint]]
path = "/orders/{id:int}"
returns = "object"
get = "SELECT id, total, :wanted AS wanted FROM orders WHERE id = :id"
delete = "DELETE FROM orders WHERE id = :id"
params.wanted = { from = "header.X-Wanted" }
use = ["quota"]
[[endpoint]]
path = "/orders"
get = "SELECT id FROM orders WHERE customer = :customer"
post = "INSERT INTO orders (customer, total) VALUES (:customer, :total)"
public = true
[[upstream]]
name = "api"
servers = ["%(url)s", { url = "http://127.0.0.1:1", weight = 3 }]
[[route]]
path = "/api/{rest...}"
strip = "/api"
upstream = "api"
use = ["partners", "small", "office", "pages"]
public = true
[[route]]
path = "/api/{rest...}"
headers = { X-Version = "2" }
methods = ["GET"]
respond = { status = 410, body = "gone" }
public = true
[[route]]
path = "/asked"
upstream = "api"
use = ["asked"]
public = true
[[route]]
host = "old.example"
path = "/{rest...}"
redirect = "https://shop.example/{rest}"
public = true
[[files]]
path = "/docs"
root = "."
public = true
[[websocket]]
path = "/echo"
handler = "echo"
public = true
[[resident]]
name = "totals"
query = "SELECT id, total FROM orders"
key = "id"
public = true
[openapi]
public = true
[batch]
public = true
'''


@pytest.fixture
def folder(tmp_path):
    database = sqlite3.connect(tmp_path / "shop.db")
    database.executescript("CREATE TABLE orders(id INTEGER PRIMARY KEY, customer TEXT, total INT);"
                           "CREATE INDEX by_customer ON orders(customer); INSERT INTO orders VALUES (7, 'ada', 3);")
    database.close()
    subprocess.run([SLUICE, "keys", "--kid", "shop"], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    return tmp_path


@pytest.fixture
def upstream():
    with Upstream(lambda request, connection: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as one:
        yield one
        assert one.connections == 0


@pytest.fixture
def config(folder, upstream):
    text = CONFIG % {"key": KEY, "url": upstream.url}
    (folder / "sluice.toml").write_text(text)
    return text


@pytest.fixture
def explain(folder, config):
    """explain(method, url, header, ..., more=[...]): the exit code and the explanation. The text has the same credentials hidden."""
    def run(method, url, *headers, more=()):
        words = [SLUICE, "explain", method, url, *more]
        for header in headers:
            words += ["-H", header]
        both = [subprocess.run([*words, *flag], cwd=folder, capture_output=True, text=True, timeout=60)
                for flag in (["--json"], [])]
        assert both[0].stderr == both[1].stderr == "" and both[0].returncode == both[1].returncode
        for one in both:
            assert KEY not in one.stdout and "secret" not in one.stdout
        return both[0].returncode, json.loads(both[0].stdout), both[1].stdout

    return run


@pytest.fixture
def token(folder):
    words = [SLUICE, "token", "--key", "shop.key.pem", "--subject", "ada"]
    return "Authorization: Bearer " + subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True,
                                                     timeout=60).stdout.strip()


def verdicts(explanation):
    return [(policy["name"], policy["verdict"]) for policy in explanation["policies"]]


def line_of(text, of):
    return next(i for i, line in enumerate(text.splitlines(), 1) if line == of)


def test_an_endpoint_and_its_plan(explain, token, config, folder):
    code, said, text = explain("GET", "/orders/7", token, "X-Wanted: x")
    assert code == 0 and said["answered"]
    route = said["route"]
    assert (route["kind"], route["path"], route["file"]) == ("[[endpoint]]", "/orders/{id:int}", "sluice.toml")
    assert route["line"] == line_of(config, 'path = "/orders/{id:int}"') and route["values"] == {"id": "7"}
    assert verdicts(said) == [("login", "passes"), ("quota", "undecided")]
    assert [policy["default"] for policy in said["policies"]] == [True, False]
    where = said["destination"]
    assert where["database"] == "main" and where["sql"].startswith("SELECT id, total")
    assert where["parameters"] == {"wanted": "x", "id": "7"}
    (plan,) = where["plan"]
    assert plan.startswith("SEARCH orders USING INTEGER PRIMARY KEY")
    assert f"plan        {plan}\n" in text and ":id = 7  (path.id)\n" in text
    # No count has changed: the limit allows one request per minute.
    assert explain("GET", "/orders/7", token)[0] == 0


def test_a_plan_depends_on_the_statement(explain):
    _, said, _ = explain("GET", "/orders?customer=ada")
    assert "by_customer" in said["destination"]["plan"][0] and said["destination"]["parameters"] == {"customer": "ada"}
    _, said, _ = explain("POST", "/orders")
    assert said["destination"]["sql"].startswith("INSERT") and "plan" not in said["destination"]
    assert said["destination"]["parameters"] == {"customer": "(of the body)", "total": "(of the body)"}


def test_postgres_explains_without_executing(postgres, folder):
    postgres.psql("CREATE TABLE explained(id int PRIMARY KEY)")
    (folder / "sluice.toml").write_text(f'''
[database.main]
url = "{postgres.url()}"
[[endpoint]]
path = "/rows/{{id:int}}"
get = "SELECT id FROM explained WHERE id = :id"
delete = "DELETE FROM explained WHERE id = :id RETURNING id"
''')
    postgres.psql("INSERT INTO explained VALUES (7)")
    for method in ("GET", "DELETE"):
        done = subprocess.run([SLUICE, "explain", method, "/rows/7", "--json"], cwd=folder, capture_output=True, text=True,
                              timeout=60)
        plan = "\n".join(json.loads(done.stdout)["destination"]["plan"])
        assert "on explained" in plan and "cost=" in plan and done.returncode == 0
    assert postgres.psql("SELECT id FROM explained").strip() == b"7"


def test_the_answers_are_those_of_the_server(sluice, explain, token, config, folder):
    server = sluice(config.replace('"1/m"', '"1000/m"'))
    for method, target, *headers in [
        ("GET", "/orders/7"), ("GET", "/orders/7", token[:-9] + "AAAAAAAAA"), ("PUT", "/orders/7", token),
        ("GET", "/orders/7?y=1", token), ("GET", "/orders?customer=a&customer=b"), ("GET", "/nowhere"),
        ("POST", "/docs/a"), ("GET", "/a%00"), ("GET", "/../x"), ("BREW", "/docs/a"),
        ("GET", "/api/x"), ("GET", "/api/x", "X-Api-Key: secret-0123456789"), ("GET", "/api/x", "X-Version: 2"),
        ("GET", "/orders//7", token), ("GET", "http://old.example/x?a=1"),
    ]:
        answer = server.get(target, *headers, method=method)
        code, said, _ = explain(method, target, *headers)
        mine = said["answer"]
        assert mine["status"] == answer.status, (method, target)
        assert code == (0 if answer.status in (307, 410) else 1), (method, target)
        if answer.status not in (307, 410):
            assert mine["detail"] == json.loads(answer.body)["detail"]
        for name in ("WWW-Authenticate", "Allow", "Location"):
            assert mine["fields"].get(name) == answer.get(name), (method, target)


def test_an_upstream_behind_policies(explain, upstream):
    code, said, text = explain("GET", "/api/a/../b%2Fc?api_key=secret&q=1", f"X-Api-Key: {KEY}", "Origin: https://shop.example")
    assert code == 0 and said["path"] == "/api/b/c" and said["target"] == "/api/a/../b%2Fc?api_key=***&q=1"
    assert verdicts(said) == [("pages", "passes"), ("partners", "passes"), ("small", "passes"), ("office", "undecided")]
    assert said["policies"][0]["note"] == "allows the origin"
    assert said["destination"] == {
        "upstream": "api, balance round-robin", "servers": [upstream.url, "http://127.0.0.1:1, weight 3"],
        "target": "/b%2Fc?api_key=***&q=1", "sent_host": "localhost", "parameters": {}}
    assert "office (ip) at sluice.toml" in text and "--client ADDRESS" in text

    code, said, _ = explain("GET", "/api/b", f"X-Api-Key: {KEY}", more=["--client", "11.0.0.1"])
    assert (code, said["answer"]["status"], verdicts(said)[-1]) == (1, 403, ("office", "refuses"))
    code, said, _ = explain("GET", "/api/b", f"X-Api-Key: {KEY}", more=["--client", "10.0.0.1"])
    assert (code, verdicts(said)[-1]) == (0, ("office", "passes"))
    code, said, _ = explain("POST", "/api/b", f"X-Api-Key: {KEY}", "Content-Length: 2000")
    assert (code, said["answer"]["status"]) == (1, 413)
    assert verdicts(said)[2:] == [("small", "refuses"), ("office", "not asked")]
    code, said, _ = explain("OPTIONS", "/api/b", "Origin: https://shop.example", "Access-Control-Request-Method: PUT")
    assert code == 0 and said["answer"]["fields"]["Access-Control-Allow-Origin"] == "https://shop.example"
    code, said, _ = explain("GET", "/asked")
    assert code == 0 and said["policies"][0]["note"] == "decided at run time: asks the upstream api"


@pytest.mark.parametrize("password, verdict", [("correct horse battery", "passes"), ("wrong horse battery", "refuses")])
def test_a_password(folder, password, verdict):
    hashed = subprocess.run([SLUICE, "hash-password"], input="correct horse battery\n", capture_output=True, text=True,
                            check=True, timeout=60).stdout.strip()
    (folder / "sluice.toml").write_text(f'''
[policy.people]
type = "basic"
users = {{ ada = "{hashed}" }}
[[route]]
path = "/"
respond = 204
use = ["people"]
''')
    credentials = base64.b64encode(f"ada:{password}".encode()).decode()
    done = subprocess.run([SLUICE, "explain", "GET", "/", "-H", f"Authorization: Basic {credentials}"], cwd=folder,
                          capture_output=True, text=True, timeout=60)
    assert f"people (basic) at sluice.toml:2: {verdict}\n" in done.stdout and credentials not in done.stdout


def test_a_dry_run(explain, folder, config, token):
    (folder / "sluice.toml").write_text(config.replace('type = "jwt"', 'type = "jwt"\ndry_run = true'))
    code, said, text = explain("GET", "/orders/7")
    assert code == 0 and said["policies"][0]["note"] == "would refuse with 401, without dry_run"
    assert [policy["dry_run"] for policy in said["policies"]] == [True, False]
    assert "login (jwt, of [defaults], dry run) at sluice.toml" in text
    _, said, text = explain("GET", "/orders/7", token)
    assert said["policies"][0]["verdict"] == "passes" and "login (jwt, of [defaults], dry run) at sluice.toml" in text


def test_a_changed_query_string(explain, folder, upstream):
    (folder / "sluice.toml").write_text(f'''
[policy.partners]
type = "api-key"
query = "k"
keys = {{ acme = "{KEY}" }}
[policy.claims]
type = "jwt"
jwks_url = "https://127.0.0.1:1/jwks"
[policy.fixed]
type = "query"
set = {{ user = "{{claim.sub}}", of = "{{path.id}}", v = "1" }}
remove = ["debug"]
[policy.near]
type = "query"
add = {{ at = "{{client.ip}}" }}
[[upstream]]
name = "api"
servers = ["{upstream.url}"]
[[route]]
path = "/a/{{id}}"
query = {{ v = "2" }}
upstream = "api"
use = ["partners", "fixed"]
[[route]]
path = "/a/{{id}}"
respond = 204
[[route]]
path = "/b/{{id}}"
upstream = "api"
use = ["claims", "fixed", "near"]
''')
    code, said, _ = explain("GET", f"/a/x%20y?k={KEY}&%75ser=root&v=2&debug&q=1")
    assert code == 0 and verdicts(said) == [("partners", "passes"), ("fixed", "passes")]
    assert said["destination"]["target"] == "/a/x%20y?q=1&user=acme&of=x%20y&v=1"
    assert [one["why_not"] for one in said["others"]] == ["it has fewer conditions"]
    code, said, _ = explain("GET", "/b/x?user=root", "Authorization: Bearer a.b.c")
    assert code == 0 and said["destination"]["target"] == "/b/x?of=x&v=1"
    assert [policy.get("note") for policy in said["policies"]] == [
        "decided at run time: fetches its keys", "sets parameters to claims, which are known at run time",
        "depends on the client's address: --client ADDRESS"]
    code, said, _ = explain("GET", "/b/x", "Authorization: Bearer a.b.c", more=["--client", "::1"])
    assert said["destination"]["target"] == "/b/x?of=x&v=1&at=%3A%3A1" and verdicts(said)[2] == ("near", "passes")


def test_files(explain, folder):
    (folder / "a b.txt").write_text("x")
    assert explain("GET", "/docs/a%20b.txt")[1]["destination"]["file"].endswith("/a b.txt")
    assert explain("GET", "/docs/none")[1]["destination"]["file"].endswith("/none, which does not exist")


def test_why_the_other_routes_do_not_answer(explain):
    def others(*request):
        return {(one["path"], one.get("why_not")) for one in explain(*request)[1]["others"]}

    host = ("old.example/{rest...}", "it is for the host old.example")
    assert others("GET", "/api/x") == {host, ("/api/{rest...}", "it needs header X-Version: 2")}
    assert others("GET", "/api/x", "X-Version: 2") == {host, ("/api/{rest...}", "it has fewer conditions")}
    assert others("POST", "/api/x", "X-Version: 2") == {host, ("/api/{rest...}", "it does not take POST")}
    assert others("GET", "http://old.example/docs") == {("/docs", "the routes of old.example come first")}
    assert others("GET", "/totals/1") == {host}


def test_claims_of_a_token_that_cannot_be_verified(folder):
    (folder / "sluice.toml").write_text('''
[database.main]
url = "sqlite:shop.db"
[policy.remote]
type = "jwt"
jwks_url = "https://127.0.0.1:1/jwks"
[[endpoint]]
path = "/me"
get = "SELECT :name AS name"
params.name = { from = "claim.sub" }
require = "eq(claim.role, 'admin')"
use = ["remote"]
''')
    words = [SLUICE, "explain", "GET", "/me", "-H", "Authorization: Bearer a.b.c"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and ":name = (of the token)  (claim.sub)\n" in done.stdout
    assert "remote (jwt) at sluice.toml:4: decided at run time: fetches its keys\n" in done.stdout


def test_a_token_is_judged_by_a_file_of_keys(folder):
    """Keys that a running server would fetch."""
    key, other = Ec(), Ec()
    (folder / "issuer.jwks").write_text(json.dumps({"keys": [key.jwk("first")]}))
    (folder / "sluice.toml").write_text('''
[policy.remote]
type = "jwt"
jwks_url = "https://127.0.0.1:1/jwks"
require = [{ claim = "role", any = ["admin"] }]
[[route]]
path = "/me"
respond = 200
use = ["remote"]
''')

    def verdict(signer, **claims):
        token = signer.token(soon(**claims), kid="first")
        done = subprocess.run([SLUICE, "explain", "GET", "/me", "--jwks", "issuer.jwks", "-H", f"Authorization: Bearer {token}"],
                              cwd=folder, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout
    code, text = verdict(key, role="admin")
    assert code == 0 and "remote (jwt) at sluice.toml:2: passes\n" in text, text
    assert verdict(key, role="user")[0] == 1
    code, text = verdict(other, role="admin")
    assert code == 1 and "refuses" in text
    for words, error in ((["--jwks", "absent.jwks"], "absent.jwks"),):
        done = subprocess.run([SLUICE, "explain", "GET", "/me", *words], cwd=folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and error in done.stderr


def test_a_path_with_control_characters(explain):
    assert "path        /a?b\n" in explain("GET", "/a%0Ab")[2]


def test_no_route(explain):
    code, said, text = explain("GET", "/order/7")
    assert (code, said["answer"]["status"], "route" in said) == (1, 404, False)
    assert said["similar"] == ["/orders/{id:int}", "/orders"]
    assert "similar     /orders/{id:int}\n" in text and "404 Not Found" in text


@pytest.mark.parametrize("method, url, kind, where", [
    ("GET", "/docs/shop.db", "[[files]]", ("file", r".*/?shop\.db")),
    ("GET", "/echo", "[[websocket]]", ("websocket", "an echo.*")),
    ("GET", "/totals/7.csv", "[[resident]]", ("table", "totals, in memory")),
    ("GET", "/openapi.json", "[openapi]", ("openapi", ".*description.*")),
    ("POST", "/batch", "[batch]", ("batch", ".*transaction")),
])
def test_other_kinds_of_route(explain, method, url, kind, where):
    code, said, _ = explain(method, url)
    assert (code, said["route"]["kind"]) == (0, kind)
    assert re.fullmatch(where[1], said["destination"][where[0]])


@pytest.mark.parametrize("words, error", [
    (["GET", "orders"], "the URL must be a path"),
    (["GET", "ftp://x/"], "the URL must be a path"),
    (["GET", "/a b"], "the URL must be a path"),
    (["G T", "/"], "the method must be a word"),
    (["GET", "/", "-H", "secret"], "a header must be 'Name: value'"),
    (["GET", "/", "-H", "A: secret\r\nB: c"], "a header must be 'Name: value'"),
    (["GET", "/", "--client", "somewhere"], "must be an IP address"),
    (["GET"], "URL is required"),
])
def test_a_wrong_command_line(folder, config, words, error):
    done = subprocess.run([SLUICE, "explain", *words], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == "" and error in done.stderr and "secret" not in done.stderr


def test_a_wrong_configuration_is_reported_as_by_check(folder):
    (folder / "other.toml").write_text("lisen = 1\n")
    words = {"explain": ["GET", "/", "--config", "other.toml"], "check": ["other.toml"]}
    done = [subprocess.run([SLUICE, command, *rest], cwd=folder, capture_output=True, text=True, timeout=60)
            for command, rest in words.items()]
    assert [one.returncode for one in done] == [3, 3] and done[0].stderr == done[1].stderr != ""


def test_https(folder):
    certificate, key = Authority(folder / "authority").issue("server")
    (folder / "sluice.toml").write_text(f'''
[server]
listen = ["127.0.0.1:8443", "http://127.0.0.1:8080"]
tls = {{ cert = "{certificate}", key = "{key}", redirect = true }}
[[route]]
path = "/"
respond = 204
''')
    for url, status, location in [("/", 204, None), ("https://a.example/", 204, None),
                                  ("http://a.example/", 301, "https://a.example:8443/")]:
        done = subprocess.run([SLUICE, "explain", "GET", url, "--json"], cwd=folder, capture_output=True, text=True,
                              timeout=60)
        answer = json.loads(done.stdout)["answer"]
        assert (answer["status"], answer["fields"].get("Location")) == (status, location)


def test_the_guide_s_example(tmp_path):
    page = (ROOT / "docs/guide/routing.md").read_text().split("## Which route answers a request\n")[1].split("\n## ")[0]
    (tmp_path / "sluice.toml").write_text(re.search(r"```toml\n(.*?)```", page, re.S).group(1))
    shown = re.search(r"```console\n(.*?)```", page, re.S).group(1)
    runs = re.split(r"^\$ (sluice .*)\n", shown, flags=re.M)[1:]
    assert len(runs) == 4
    for command, output in zip(runs[::2], runs[1::2]):
        done = subprocess.run([SLUICE, *shlex.split(command)[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.stderr) == (output, "")
