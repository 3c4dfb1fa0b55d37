"""Routes: hosts, methods, fields, parameters; paths that are changed for the server; weights; redirects; fixed answers."""
import subprocess

import http2
from test_gateway import echo
from test_reload import reload, write
from upstream import Upstream, response


def ask(connection, target, host="test", method="GET", *fields):
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *fields, "", ""]
    connection.send("\r\n".join(lines).encode())
    return connection.read(head=method == "HEAD")


def route(path, does, **keys):
    lines = [f'path = "{path}"', *(f"{key} = {value}" for key, value in keys.items()), does]
    return "[[route]]\n" + "\n".join(lines) + "\n"


def says(text, path="/x", **keys):
    return route(path, f'respond = {{body = "{text}"}}', **keys)


def test_hosts_of_every_kind_of_route(sluice, small_sqlite, site):
    (site / "page").write_text("a file")
    server = sluice(f'''
[database.main]
url = "sqlite:{small_sqlite}"
[[endpoint]]
path = "/x"
host = "api.example.com"
returns = "object"
get = "SELECT 'endpoint' AS kind"
[[resident]]
name = "x"
host = "tables.example.com"
query = "SELECT 'resident' AS kind"
[[files]]
path = "/"
host = "*.example.com"
root = "{site}"
[[websocket]]
path = "/x"
host = "talk.example.com"
handler = "echo"
''' + says("a route", host='"*.example.org"') + says("every host"))
    with server.connect() as client:
        assert ask(client, "/x", "api.example.com").body == b'{"kind":"endpoint"}\n'
        assert ask(client, "/x", "API.Example.com.:80").body == b'{"kind":"endpoint"}\n'
        assert b'"kind":"resident"' in ask(client, "/x", "tables.example.com").body
        assert ask(client, "/page", "api.example.com").body == b"a file"
        assert ask(client, "/x", "talk.example.com").status == 426
        assert ask(client, "/x", "a.b.example.org").body == b"a route"
        assert ask(client, "/x", "example.org").body == b"every host"
        assert ask(client, "/page", "example.org").status == 404
    with http2.Client(server.port) as client:
        assert client.get("/x").body == b"every host"
    metrics = server.admin("/metrics")[1]
    assert 'http_route="api.example.com/x"' in metrics and 'http_route="/x"' in metrics


def test_calls_of_a_batch_are_for_its_host(sluice, small_sqlite):
    endpoint = '[[endpoint]]\npath = "/x"\nhost = "{0}"\nreturns = "object"\nget = "SELECT \'{0}\' AS host"\n'
    server = sluice(f'[database.main]\nurl = "sqlite:{small_sqlite}"\n' + endpoint.format("a.example") + endpoint.format("b.example") +
                    '[batch]\npath = "/batch"\n')
    body = '[{"method": "GET", "path": "/x"}]'
    with server.connect() as client:
        for host in ("a.example", "b.example"):
            client.send(f"POST /batch HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
            answer = client.read()
            assert answer.status == 200 and f'"host":"{host}"'.encode() in answer.body, answer.body


def test_methods_fields_and_parameters(sluice):
    server = sluice(says("reads", methods='["GET"]') + says("writes", methods='["POST", "PUT"]') +
                    says("second", headers='{X-Version = "2"}') + says("beta", headers='{X-Version = "2"}', query='{beta = "*"}') +
                    says("rest", path="/{rest...}") + says("only", path="/y", query='{k = "a b"}'))
    with server.connect() as client:
        assert ask(client, "/x").body == b"reads"
        assert ask(client, "/x", method="HEAD").status == 200
        assert ask(client, "/x", "test", "PUT", "Content-Length: 0").body == b"writes"
        refused = ask(client, "/x", "test", "DELETE")
        assert refused.status == 405 and refused.get("allow") == "GET, HEAD, POST, PUT, OPTIONS"
        assert ask(client, "/x", "test", "DELETE", "x-version: 2").body == b"second"
        assert ask(client, "/x?beta", "test", "GET", "x-version: 2").body == b"beta"
        assert ask(client, "/x?beta", "test", "GET", "x-version: 3").body == b"reads"
        assert ask(client, "/y?k=a+b").body == b"only"
        assert ask(client, "/y?k=a").body == b"rest"
        assert ask(client, "/x", "test", "OPTIONS").status == 204  # no route without conditions accepts OPTIONS
        assert ask(client, "/x", "test", "OPTIONS", "x-version: 2").body == b"second"


def test_paths_are_changed_for_the_server_alone(sluice):
    with Upstream(echo) as back:
        server = sluice(f'[[upstream]]\nname = "back"\nservers = ["{back.url}"]\n' +
                        route("/billing/{rest...}", 'upstream = "back"', strip='"/billing"') +
                        route("/v1/{rest...}", 'upstream = "back"', rewrite="{match = '^/v1/(.*)$', to = '/api/\\1'}") +
                        route("/plain/{rest...}", 'upstream = "back"'))
        with server.connect() as client:
            def asked(target):
                answer = ask(client, target)
                return answer.body.decode().split("\n")[0] if answer.status == 200 else answer.status

            assert asked("/billing/a%2Fb?x=1") == "GET /a%2Fb?x=1"
            assert asked("/b%69lling//a/./b?x") == 404  # an empty segment
            assert asked("/b%69lling/a/./b?x") == "GET /a/b?x"
            assert asked("/billing/") == "GET /"
            assert b"x-forwarded-prefix: /billing" in ask(client, "/billing/a").body
            assert asked("/v1/users?y=%20") == "GET /api/users?y=%20"
            for target in ("/plain/..%2Fa", "/plain/a%2F..%2Fb", "/plain/..;/a", "/plain/..%5Ca", "/v1/..%2F..%2Fa", "/billing/..%2Fx",
                           "/billing/%2Fevil.example", "/billing/%5Cevil.example"):
                assert asked(target) == 400, target
            assert asked("/plain/a%2Fb;c=1") == "GET /plain/a%2Fb;c=1"


def test_a_path_may_keep_its_slashes(sluice):
    more = '[policy.key]\ntype = "api-key"\nkeys = { ada = "the-key-of-ada-012345" }\n'
    with Upstream(echo) as back:
        server = sluice(f'[[upstream]]\nname = "back"\nservers = ["{back.url}"]\n' +
                        route("/image/{rest...}", 'upstream = "back"', slashes='"keep"') +
                        route("/image/secret/{rest...}", 'upstream = "back"', slashes='"keep"', use='["key"]') +
                        route("/part/{rest...}", 'upstream = "back"', slashes='"keep"', strip='"/part"') +
                        route("/plain/{rest...}", 'upstream = "back"', slashes='"refuse"') + more)

        def both(target):
            with server.connect() as client, http2.Client(server.port) as client2:
                answers = [ask(client, target), client2.get(target)]
            first, second = (answer.body.decode().split("\n")[0] if answer.status == 200 else answer.status for answer in answers)
            assert first == second
            return first

        assert both("/image/https://a.example//b?c=//") == "GET /image/https://a.example//b?c=//"
        assert both("/part/w=200/https://a.example/b") == "GET /w=200/https://a.example/b"
        assert both("/plain/https://a.example/b") == 404
        for target in ("/image//secret/a", "/image/secret//a", "//image/secret/a"):
            assert both(target) == 401, target
        for target in ("/image/a//../b", "/image//./a", "//image/a", "/part//evil.example"):
            assert both(target) == 400, target


def test_the_servers_own_address_is_not_the_clients(sluice, localhost):
    def redirect(request, _):
        return response(b"", f"Location: {dict(request[2])['x-location']}", status="302 Found")

    with Upstream(redirect) as back:
        config = (f'[[upstream]]\nname = "back"\nservers = ["{back.url}"]\n' +
                  route("/a/{rest...}", 'upstream = "back"') + route("/b/{rest...}", 'upstream = "back"', strip='"/b"') +
                  route("/c/{rest...}", 'upstream = "back"', rewrite_location="false"))
        server, secure = sluice(config), sluice(config, server=f'tls = {{ cert = "{localhost[0]}", key = "{localhost[1]}" }}')

        def locations(target, value):
            """Over HTTP/1.1 and HTTP/2, and over TLS."""
            with server.connect() as client, http2.Client(server.port) as client2:
                first = ask(client, target, "test", "GET", f"X-Location: {value}").get("location")
                assert client2.get(target, fields=[("x-location", value)]).fields["location"] == first
            got = subprocess.run(["curl", "-skI", "-X", "GET", "-H", "Host: test", "-H", f"X-Location: {value}",
                                  f"https://127.0.0.1:{secure.port}{target}"], check=True, timeout=60, capture_output=True, text=True)
            return first, next(line.split(": ", 1)[1] for line in got.stdout.splitlines() if line.lower().startswith("location"))

        assert locations("/a/x", f"{back.url}/login?a=b") == ("http://test/login?a=b", "https://test/login?a=b")
        assert locations("/b/x", f"{back.url}/login") == ("http://test/b/login", "https://test/b/login")
        assert locations("/a/x", "http://test/login") == ("http://test/login", "https://test/login")
        for same in ("http://other.example/login", "https://other.example/"):
            assert locations("/a/x", same) == (same, same)
        for same in (f"{back.url}/login", "http://test/login"):
            assert locations("/c/x", same) == (same, same)


def test_shares_are_kept(sluice):
    with Upstream(lambda *_: response(b"a")) as a, Upstream(lambda *_: response(b"b")) as b:
        server = sluice(f'[[upstream]]\nname = "a"\nservers = ["{a.url}"]\n[[upstream]]\nname = "b"\nservers = ["{b.url}"]\n' +
                        route("/x", "split = {a = 9, b = 1}"), server="cores = 1")
        with server.connect() as client:
            answers = b"".join(client.get("/x").body for _ in range(40))
    assert (answers.count(b"a"), answers.count(b"b")) == (36, 4)


def cookies_of(answer):
    return [value for name, value in answer.fields if name == "set-cookie"]


def test_a_value_stays_with_its_upstream(sluice, localhost):
    with Upstream(lambda *_: response(b"a")) as a, Upstream(lambda *_: response(b"b", "Set-Cookie: own=1")) as b:
        def config(first, second):
            return (f'[[upstream]]\nname = "{first[0]}"\nservers = ["{first[1].url}"]\n'
                    f'[[upstream]]\nname = "{second[0]}"\nservers = ["{second[1].url}"]\n'
                    '[[upstream]]\nname = "gone"\nservers = ["unix:/nonexistent/socket"]\n'
                    + route("/header", f"split = {{{first[0]} = 1, {second[0]} = 1}}", split_by='"header.X-User"')
                    + route("/cookie", f"split = {{{first[0]} = 1, {second[0]} = 1}}", split_by='"cookie.variant"')
                    + route("/own", "split = {b = 1}", split_by='"cookie.own"')
                    + route("/gone", "split = {gone = 1}", split_by='"cookie.variant"'))

        server = sluice(config(("a", a), ("b", b)))

        def by_header(client):
            return [ask(client, "/header", "test", "GET", f"X-User: {i}").body for i in range(40)]

        with server.connect() as client:
            of_users = by_header(client)
            assert set(of_users) == {b"a", b"b"} and by_header(client) == of_users
            # Without the field, requests take turns.
            assert sorted(ask(client, "/header").body for _ in range(4)) == [b"a", b"a", b"b", b"b"]
            issued = {}
            for _ in range(40):
                answer = ask(client, "/cookie")
                cookie, attributes = cookies_of(answer)[-1].split("; ", 1)
                assert cookie.startswith("variant=") and attributes == "Path=/; HttpOnly; SameSite=Lax"
                issued[cookie] = answer.body
            assert len(issued) == 40 and set(issued.values()) == {b"a", b"b"}
            for cookie, body in issued.items():
                answer = ask(client, "/cookie", "test", "GET", f"Cookie: x=1; {cookie}")
                assert answer.body == body and "variant=" not in str(cookies_of(answer))
            # The server's own cookie is not replaced, and errors of the gateway carry the cookie too.
            assert cookies_of(ask(client, "/own")) == ["own=1"]
            answer = ask(client, "/gone")
            assert answer.status == 502 and answer.get("set-cookie").startswith("variant=")
        # The order in the file does not matter.
        with sluice(config(("b", b), ("a", a))).connect() as client:
            assert by_header(client) == of_users
        secure = sluice(config(("a", a), ("b", b)), server=f'[server.tls]\ncert = "{localhost[0]}"\nkey = "{localhost[1]}"\n')
        got = subprocess.run(["curl", "-sk", "-D", "-", f"https://127.0.0.1:{secure.port}/cookie"], check=True, timeout=60,
                             capture_output=True, text=True)
        assert "; SameSite=Lax; Secure" in got.stdout


def test_another_spelling_of_a_host_reaches_no_route(sluice):
    server = sluice(route("/a", "respond = 200", host='"in.example"') + route("/{rest...}", "respond = 204"))
    for host, status in (("in.example", 200), ("IN.example.", 200), ("out.example", 204), ("in.example..", 400),
                         ("in%2eexample", 400), ("%69n.example", 400), (".in.example", 400)):
        with server.connect() as client:
            client.send(f"GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n")
            assert client.read().status == status, host


def test_redirects(sluice):
    server = sluice(route("/old/{rest...}", 'redirect = "https://www.example.com/{rest}"') +
                    route("/gone", 'redirect = {to = "/here", status = 301}'))
    with server.connect() as client:
        answer = ask(client, "/old/a%2Fb/c?x=%20")
        assert (answer.status, answer.get("location")) == (307, "https://www.example.com/a%2Fb/c?x=%20")
        answer = ask(client, "/gone", "test", "POST", "Content-Length: 0")
        assert (answer.status, answer.get("location")) == (301, "/here")
        assert ask(client, "/old/..%2Fx").status == 400


def test_fixed_answers(sluice):
    server = sluice(route("/robots.txt", 'respond = {body = "User-agent: *", headers = {Cache-Control = "max-age=60"}}') +
                    route("/old", "respond = 410") + route("/down", 'respond = {status = 503, body = "{}", type = "application/json"}'))
    with server.connect() as client:
        answer = ask(client, "/robots.txt")
        assert (answer.status, answer.body, answer.get("content-type"), answer.get("cache-control")) == (
            200, b"User-agent: *", "text/plain; charset=utf-8", "max-age=60")
        assert ask(client, "/robots.txt", method="HEAD").get("content-length") == "13"
        answer = ask(client, "/old")
        assert (answer.status, answer.body, answer.get("content-type")) == (410, b"", None)
        answer = ask(client, "/down")
        assert (answer.status, answer.body, answer.get("content-type")) == (503, b"{}", "application/json")


def test_policies_see_the_path_before_it_is_changed_and_stand_in_front_of_fixed_answers(sluice):
    server = sluice('''
[policy.auth]
type = "jwt"
secret = "0123456789012345678901234567890123456789"
''' + says("secret", use='["auth"]') + says("open", methods='["POST"]', headers='{A = "1"}'))
    with server.connect() as client:
        assert ask(client, "/x").status == 401
        assert ask(client, "/x", "test", "POST", "Content-Length: 0", "A: 1").status == 200


def test_a_reload_changes_routes(sluice):
    server = sluice("# routes\n" + says("one", host='"a.example"'))
    with server.connect() as client:
        assert ask(client, "/x", "a.example").body == b"one"
        assert ask(client, "/x", "b.example").status == 404
        write(server, says("two", host='"*.example"'))
        assert reload(server)[0] == 200
        assert ask(client, "/x", "a.example").body == b"two"
        assert ask(client, "/x", "b.example").body == b"two"
