"""Frames over TCP, TLS, a unix socket and WebSockets: docs/formats/frame.md, in a program with sluice.toml ([[frames]]) and alone."""
import contextlib
import pathlib
import re
import socket
import ssl
import subprocess
import threading
import time

import pytest

from certificates import Authority
from cluster import free_port
from conftest import FILMS_GENERATE, until
from frames import ERROR, PING, TOKEN, Client, Frame, decode, encode
from test_reload import reload
from test_revoke import revoke
from tokens import Secret
from websocket import BINARY, CLOSE, WebSocket, WebSocketOverHttp2

PROGRAM = str(pathlib.Path(FILMS_GENERATE).parent / "echo_program")
SECRET = Secret("a secret of a test, 32 bytes or more")
WHO, THROWS, WAITS, UNKNOWN, JOIN, SAY, WAITING, FAILS = range(200, 208)
BAD_FRAME, UNKNOWN_MESSAGE, TOO_LARGE, OVERLOADED, INTERNAL, UNAUTHORIZED, FORBIDDEN = 1, 2, 4, 5, 6, 7, 8
AUTH = '[policy.auth]\ntype = "jwt"\nsecret = "${SECRET}"\nleeway = "0s"\n'


class OverWebSocket:
    """The same functions as Client."""

    def __init__(self, port, kind=WebSocket):
        self.socket = kind(port, "/echo")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *arguments, **options):
        self.socket.say(BINARY, encode(*arguments, **options))

    def send_bytes(self, data):
        self.socket.say(BINARY, data)

    def leave(self):
        """Without a close frame."""
        if isinstance(self.socket, WebSocketOverHttp2):
            self.socket.cancel()
        self.socket.close()

    def receive(self):
        while (frame := self.socket.frame()).opcode != CLOSE:
            if frame.opcode == BINARY:
                return decode(frame.payload)
        return None

    call = Client.call


class OverSocket(Client):
    def send_bytes(self, data):
        self.socket.sendall(data)

    def leave(self):
        self.socket.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority") / "ca")


@pytest.fixture(scope="module")
def certificate(authority):
    return authority.issue("server", ("localhost", "127.0.0.1"))


def with_tls(certificate, config, more=""):
    """A whole configuration: TLS is for [[frames]] alone."""
    return ('[server]\nlisten = ["http://${LISTEN}"]\ncores = 2\n[admin]\nlisten = "${ADMIN}"\n'
            f'[server.tls]\ncert = "{certificate[0]}"\nkey = "{certificate[1]}"\n{more}{config}')


def trusting(authority):
    context = ssl.create_default_context(cafile=authority.ca)
    context.check_hostname = False
    return context


def frames_ports(server):
    """The ports of [[frames]], in the order of the file."""
    return [int(port) for port in re.findall(r"frames   127\.0\.0\.\d:(\d+) ", server.log)]


@pytest.fixture(scope="module", params=["in a program", "alone"])
def host(request, module_sluice, certificate, authority, tmp_path_factory):
    """connect(transport): a client."""
    folder = tmp_path_factory.mktemp("frames")
    path = folder / "echo.sock"
    if request.param == "alone":
        tcp, websocket, tls = (free_port() for _ in range(3))
        process = subprocess.Popen([PROGRAM, "alone", f"127.0.0.1:{tcp}", f"unix:{path}", f"127.0.0.1:{websocket}",
                                    f"127.0.0.1:{tls}", *certificate], stdout=subprocess.PIPE, text=True)
        assert "serving" in process.stdout.readline()
    else:
        file = folder / "sluice.toml"
        file.write_text(with_tls(certificate, '[[websocket]]\npath = "/echo"\nservice = "echo"\n'
                                 f'[[frames]]\nlisten = ["127.0.0.1:0", "unix:{path}"]\nservice = "echo"\n'
                                 '[[frames]]\nlisten = ["127.0.0.2:0"]\ntls = true\nservice = "echo"\n'))
        server = module_sluice(file=file, program=PROGRAM)
        tcp, tls = frames_ports(server)
        websocket = server.port

    def connect(transport):
        if transport == "websocket":
            return OverWebSocket(websocket)
        if transport == "http2":
            return OverWebSocket(websocket, WebSocketOverHttp2)
        if transport == "unix":
            return OverSocket(str(path))
        if transport == "tls":
            return OverSocket(("127.0.0.1" if request.param == "alone" else "127.0.0.2", tls), tls=trusting(authority))
        return OverSocket(("127.0.0.1", tcp))

    yield connect
    if request.param == "alone":
        process.terminate()
        assert process.wait(20) == 0


@pytest.fixture(params=["tcp", "tls", "unix", "websocket", "http2"])
def client(request, host):
    with host(request.param) as connected:
        connected.over = request.param
        yield connected


def test_a_message_with_and_without_a_correlation(client):
    assert client.call(7, b"hello") == Frame(7, b"hello")
    assert client.call(7, b"hello", 0) == Frame(7, b"hello", 0)
    assert client.call(7, b"", 0xFFFFFFFF) == Frame(7, b"", 0xFFFFFFFF)


def test_long_and_short_bodies(client):
    for size in (0, 1, 4095, 65536, 1 << 20):
        assert client.call(7, b"x" * size, size) == Frame(7, b"x" * size, size)


def test_frames_keep_their_order(client):
    client.send_bytes(b"".join(encode(7, str(n).encode(), n) for n in range(500)))
    assert [client.receive() for _ in range(500)] == [Frame(7, str(n).encode(), n) for n in range(500)]


def test_a_ping_is_answered_if_it_is_correlated(client):
    client.send(PING, b"unanswered")
    assert client.call(PING, b"here", 3) == Frame(PING, b"here", 3)


def test_error_frames_of_clients_are_dropped(client):
    client.send(7, b"\0\0\0\1text", flags=ERROR)
    assert client.call(7, b"next") == Frame(7, b"next")


@pytest.mark.parametrize("message, error", [(UNKNOWN, UNKNOWN_MESSAGE), (0xFFFFFF01, UNKNOWN_MESSAGE), (0xFFFFFFFF, UNKNOWN_MESSAGE),
                                            (TOKEN, UNKNOWN_MESSAGE), (THROWS, INTERNAL)])
def test_an_error_answers_its_message_and_the_session_goes_on(client, message, error):
    got = client.call(message, b"", 9)
    assert (got.message, got.correlation, got.error) == (message, 9, error)
    assert got.body
    assert client.call(7, b"next") == Frame(7, b"next")


@pytest.mark.parametrize("frame, error", [
    (encode(7, version=0), BAD_FRAME), (encode(7, version=2), BAD_FRAME), (encode(7, flags=0x80), BAD_FRAME),
    (encode(7)[:10] + b"\0\1", BAD_FRAME), (encode(7, size=(16 << 20) + 1), TOO_LARGE), (encode(7, size=(1 << 20) + 1), TOO_LARGE)],
    ids=["version 0", "version 2", "flag", "reserved", "16 MiB", "1 MiB"])
def test_an_invalid_frame_ends_the_session(client, frame, error):
    client.send_bytes(encode(7, b"before") + frame)
    assert client.receive() == Frame(7, b"before")
    assert client.receive().error == error
    assert client.receive() is None


def test_frames_arrive_in_pieces(client):
    if client.over in ("websocket", "http2"):
        client.send_bytes(encode(7, b"hello")[:-1])  # a message holds whole frames
        assert client.receive().error == BAD_FRAME
        assert client.receive() is None
        return
    for byte in encode(7, b"hello", 5):
        client.send_bytes(bytes([byte]))
    assert client.receive() == Frame(7, b"hello", 5)


def test_a_session_knows_how_it_came(client):
    peer = {"unix": "", "tcp": "127.0.0.1", "tls": "127.0.0.1", "websocket": "127.0.0.1", "http2": "127.0.0.1"}[client.over]
    _, address, security = client.call(WHO, b"", 1).body.decode().split(" ")
    assert address == peer
    assert security == ("tls" if client.over == "tls" else "plain")


def test_a_client_leaves_while_its_handler_waits(client, host):
    with host("tcp") as other:
        client.send(WAITS)
        until(lambda: other.call(WAITING).body == b"1")
        client.leave()
        until(lambda: other.call(WAITING).body == b"0")


def test_a_function_on_another_core_fails(client):
    answer = client.call(FAILS, b"", 1)
    assert answer.error == INTERNAL and answer.correlation == 1
    assert client.call(7, b"hello") == Frame(7, b"hello")


def test_a_burst_reaches_a_group_on_all_cores(host):
    """More broadcasts than the cores have room for between them: the session that speaks is read more slowly."""
    count = 20000
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(host("tcp")) for _ in range(8)]
        for listener in listeners:
            assert listener.call(JOIN, b"burst").message == JOIN
        heard = [0] * len(listeners)

        def listen(at):
            while heard[at] < count and (frame := listeners[at].receive()) is not None:
                assert frame == Frame(SAY, f"burst {heard[at]}".encode())
                heard[at] += 1

        threads = [threading.Thread(target=listen, args=(at,)) for at in range(len(listeners))]
        for thread in threads:
            thread.start()
        with host("tcp") as speaker:
            speaker.send_bytes(b"".join(encode(SAY, f"burst {n}".encode()) for n in range(count)))
            for thread in threads:
                thread.join()
        assert heard == [count] * len(listeners)


# Policies

def token(**claims):
    return SECRET.token({"sub": "ada", "exp": time.time() + 60, **claims}).encode()


@pytest.fixture
def guarded(sluice):
    def start(config="", policies=AUTH, use='use = ["auth"]', server="cores = 2", env=None):
        started = sluice(f'[[frames]]\nlisten = ["127.0.0.1:0"]\nservice = "echo"\ntoken = true\n{use}\n{policies}{config}', server,
                         env={"SECRET": SECRET.secret, **(env or {})}, program=PROGRAM)
        started.frames = ("127.0.0.1", frames_ports(started)[0])
        return started
    return start


def enter(server, **claims):
    client = OverSocket(server.frames)
    assert client.call(TOKEN, token(**claims), 1) == Frame(TOKEN, b"", 1)
    return client


def denied(server, data):
    with OverSocket(server.frames) as client:
        client.send_bytes(data)
        answer = client.receive()
        assert client.receive() is None
        assert answer.message == TOKEN
        return answer


def test_a_token_opens_the_session(guarded):
    server = guarded()
    with enter(server) as client:
        assert client.call(WHO, b"", 2) == Frame(WHO, b"ada 127.0.0.1 plain", 2)
        assert client.call(TOKEN, token(), 3).error == UNKNOWN_MESSAGE
    with OverSocket(server.frames) as client:  # with its first message at once, and no answer to the token
        client.send_bytes(encode(TOKEN, token(sub="bob")) + encode(WHO, b"", 2))
        assert client.receive() == Frame(WHO, b"bob 127.0.0.1 plain", 2)
    assert server.sample('sluice_sessions_accepted_total{service="echo"}') == 2


@pytest.mark.parametrize("data, error, text", [
    (encode(TOKEN, b"none", 4), UNAUTHORIZED, "token"),
    (encode(TOKEN, b"", 4), UNAUTHORIZED, ""),
    (encode(TOKEN, b"a\r\nX-Other: b", 4), UNAUTHORIZED, ""),
    (encode(TOKEN, Secret("x" * 32).token({"sub": "ada", "exp": time.time() + 60}).encode(), 4), UNAUTHORIZED, ""),
    (encode(7, b"hello", 4), UNAUTHORIZED, "The first frame must be a token."),
    (encode(TOKEN, b"\0\0\0\1text", 4, flags=ERROR), UNAUTHORIZED, "The first frame must be a token."),
    (encode(TOKEN, b"x", version=2), BAD_FRAME, "version"),
    (encode(TOKEN, b"x", size=(64 << 10) + 1), TOO_LARGE, "too large")],
    ids=["nonsense", "empty", "two lines", "forged", "no token", "an error", "version", "long"])
def test_no_session_without_a_token(guarded, data, error, text):
    server = guarded()
    got = denied(server, data)
    assert got.error == error and text in got.body.decode(), got
    assert b"GET / HTTP" not in got.body
    until(lambda: server.sample('sluice_sessions_open{service="echo"}') == 0)
    assert server.sample('sluice_sessions_denied_total{service="echo"}') == 1


def test_a_client_that_sends_nothing_is_let_go(guarded):
    with OverSocket(guarded().frames) as client:
        got = client.receive()
        assert (got.error, got.body) == (UNAUTHORIZED, b"No token came in time.")
        assert client.receive() is None


def test_a_session_ends_with_its_token(guarded):
    server = guarded()
    with enter(server, exp=time.time() + 2) as client:
        client.send(WAITS)
        got = client.receive()
        assert (got.message, got.error, got.body) == (TOKEN, UNAUTHORIZED, b"The credentials have expired, or were revoked.")
        assert client.receive() is None, "its handler would wait for an hour"


def test_a_session_ends_when_its_token_is_revoked(guarded):
    server = guarded(policies=AUTH + 'revocations = "revoked.jsonl"\n')
    with enter(server, jti="a") as ada, enter(server, jti="b", sub="bob") as bob, enter(server, sub="eve", iat=1) as eve:
        assert revoke(server, "?jti=a").status == 200
        got = ada.receive()
        assert (got.message, got.error) == (TOKEN, UNAUTHORIZED)
        assert ada.receive() is None
        assert denied(server, encode(TOKEN, token(jti="a"), 1)).error == UNAUTHORIZED
        eve.send(WAITS)
        assert revoke(server, "?sub=eve").status == 200
        assert eve.receive().error == UNAUTHORIZED
        assert bob.call(7, b"hello") == Frame(7, b"hello")


def test_policies_of_other_types(guarded):
    per_client = '[policy.some]\ntype = "rate-limit"\nrate = "3/m"\nper = "claim.sub"\n'
    one = '[policy.one]\ntype = "concurrency"\nrequests = 1\nper = "claim.sub"\n'
    server = guarded(policies=AUTH + per_client + one, use='use = ["auth", "some", "one"]')
    first = enter(server)
    got = denied(server, encode(TOKEN, token()))
    assert got.error == OVERLOADED  # one at a time
    first.socket.close()
    until(lambda: server.sample('sluice_sessions_open{service="echo"}') == 0)
    enter(server).socket.close()
    assert denied(server, encode(TOKEN, token())).error == OVERLOADED  # three a minute
    with enter(server, sub="bob") as client:
        assert client.call(WHO, b"", 1).body.startswith(b"bob ")


def test_addresses_and_certificates(sluice, certificate, authority, tmp_path):
    file = tmp_path / "sluice.toml"
    file.write_text(with_tls(
        certificate, '[[frames]]\nlisten = ["127.0.0.1:0"]\nservice = "echo"\nuse = ["nobody"]\n'
        '[[frames]]\nlisten = ["127.0.0.2:0"]\ntls = true\nservice = "echo"\nuse = ["known"]\n'
        '[policy.nobody]\ntype = "ip"\nallow = ["10.0.0.0/8"]\n[policy.known]\ntype = "mtls"\nsubject = ["CN=ada"]\n',
        f'client_auth = "optional"\nclient_ca = "{authority.ca}"\n'))
    server = sluice(file=file, program=PROGRAM)
    plain, tls = frames_ports(server)
    with OverSocket(("127.0.0.1", plain)) as client:
        assert client.receive().error == FORBIDDEN
        assert client.receive() is None
    for name, known in (("ada", True), ("eve", False), (None, False)):
        context = trusting(authority)
        if name:
            context.load_cert_chain(*authority.issue(name))
        with OverSocket(("127.0.0.2", tls), tls=context) as client:
            if known:
                assert client.call(7, b"hello") == Frame(7, b"hello")
            else:
                assert client.receive().error == FORBIDDEN
                assert client.receive() is None


def test_the_access_log(guarded, tmp_path):
    log = tmp_path / "access.log"
    server = guarded(server=f'cores = 2\naccess_log = "{log}"')
    enter(server).socket.close()
    denied(server, encode(TOKEN, b"none"))
    until(lambda: log.read_text().count("FRAMES") == 2)
    entered, refused = log.read_text().splitlines()
    for part in ('"method":"FRAMES"', '"target":"frames:echo"', '"route":"[[frames]] echo"', '"subject":"ada"', '"status":101'):
        assert part in entered, entered
    assert '"status":401' in refused and "subject" not in refused


def change(server, old, new):
    text = server.file.read_text()
    assert old in text
    server.file.write_text(text.replace(old, new))
    status, said = reload(server)
    assert status == 200, said


def test_a_reload(guarded):
    server = guarded('[policy.some]\ntype = "rate-limit"\nrate = "100/m"\nper = "claim.sub"\n')
    client = enter(server)
    change(server, 'use = ["auth"]', 'use = ["auth", "some"]')  # limits do not decide who may stay
    assert client.call(7, b"hello") == Frame(7, b"hello")
    change(server, 'leeway = "0s"', 'leeway = "1s"')
    assert client.receive() is None
    client = enter(server)
    other = free_port()
    change(server, 'listen = ["127.0.0.1:0"]', f'listen = ["127.0.0.1:0", "127.0.0.1:{other}"]')
    assert client.call(7, b"hello") == Frame(7, b"hello")
    server.frames = ("127.0.0.1", other)
    with enter(server, sub="bob") as late:
        assert late.call(WHO, b"", 1).body.startswith(b"bob ")
    change(server, "[[frames]]", '[[websocket]]\npath = "/"\nhandler = "echo"\n[[frames]]')
    assert client.call(7, b"hello") == Frame(7, b"hello")
    text = server.file.read_text()
    begin, end = text.index("[[frames]]"), text.index("[policy.auth]")
    server.file.write_text(text[:begin] + text[end:])
    assert reload(server)[0] == 200
    assert client.receive() is None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(server.frames, 1)


def test_limits_of_sessions(guarded):
    server = guarded("[service.echo]\nmost_body = 1000\nsessions = 2\n", server="cores = 1")
    first, second = enter(server), enter(server)
    assert first.call(7, b"x" * 1000) == Frame(7, b"x" * 1000)
    first.send(7, b"x" * 1001)
    assert first.receive().error == TOO_LARGE
    assert first.receive() is None
    until(lambda: server.sample('sluice_sessions_open{service="echo"}') == 1)
    third = enter(server)
    with OverSocket(server.frames) as refused:
        assert refused.receive().error == OVERLOADED
        assert refused.receive() is None
    change(server, "sessions = 2", "sessions = 3\nsessions_per_address = 3")
    with enter(server):
        assert second.call(7, b"still") == third.call(7, b"still") == Frame(7, b"still")
        with OverSocket(server.frames) as refused:
            assert refused.receive().error == OVERLOADED
    assert server.sample('sluice_sessions_refused_total{service="echo"}') == 2
    assert server.log.count("echo has started") == 1


def test_a_limit_for_messages(guarded):
    server = guarded('[[websocket]]\npath = "/echo"\nservice = "echo"\n[service.echo]\nrate = "1/m"\nburst = 3\n')
    client = enter(server)
    for n in range(3):
        assert client.call(7, b"hello", n) == Frame(7, b"hello", n)
    refused = client.call(7, b"one more", 3)
    assert (refused.error, refused.correlation) == (OVERLOADED, 3) and b"more messages" in refused.body
    assert client.receive() is None
    with enter(server) as another:
        assert another.call(7, b"hello") == Frame(7, b"hello")
    with OverWebSocket(server.port) as browser:
        browser.send_bytes(b"".join(encode(7, b"hello") for _ in range(4)))
        assert [browser.receive().error for _ in range(4)] == [None] * 3 + [OVERLOADED]
        frame = browser.socket.frame()
        assert frame.opcode == CLOSE and int.from_bytes(frame.payload[:2], "big") == 4429
    assert server.sample('sluice_sessions_limited_total{service="echo"}') == 2
    change(server, 'rate = "1/m"\nburst = 3', "")
    with enter(server) as free:
        for _ in range(10):
            assert free.call(7, b"hello") == Frame(7, b"hello")


def test_the_memory_of_all_sessions(guarded):
    server = guarded("[service.echo]\nmemory = \"1MiB\"\nmost_queued = \"1GiB\"\n", server="cores = 1")
    stalled = [OverSocket(server.frames, receive_buffer=4096) for _ in range(4)]
    for client in stalled:
        client.send(TOKEN, token())
        client.send(7, b"x" * 500_000)  # nobody reads the answers
        client.send(7, b"x" * 500_000)
        client.send(7, b"x" * 500_000)
    with enter(server) as other:
        until(lambda: server.sample('sluice_sessions_open{service="echo"}') < 5)
        for _ in range(10):
            assert other.call(7, b"hello") == Frame(7, b"hello")


def test_a_refused_reload_changes_nothing(guarded):
    server = guarded()
    client = enter(server)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        text = server.file.read_text()
        server.file.write_text(text.replace('listen = ["127.0.0.1:0"]', f'listen = ["127.0.0.1:0", "127.0.0.1:{taken.getsockname()[1]}"]'))
        status, said = reload(server)
        assert status == 422 and "in use" in said, said
    assert client.call(7, b"hello") == Frame(7, b"hello")
    with enter(server) as late:
        assert late.call(7, b"hello") == Frame(7, b"hello")


def test_the_end(guarded):
    server = guarded()
    clients = [enter(server) for _ in range(10)]
    assert server.log.count("echo has started") == 2
    clients[0].send(WAITS)
    server.terminate()
    for client in clients:
        assert client.receive() is None
        client.socket.close()
    server.stop()
    assert server.log.count("echo has stopped") == 2


@pytest.mark.parametrize("config, text", [
    ('listen = ["127.0.0.1:9000"]\nservice = "ecco"', 'there is no service "ecco"'),
    ('listen = []\nservice = "echo"', '"listen" has no address'),
    ('listen = ["9000"]\nservice = "echo"', "not an address to listen on"),
    ('listen = ["127.0.0.1:8080"]\nservice = "echo"', "already listened on"),
    ('listen = ["127.0.0.1:0", "127.0.0.1:0"]\nservice = "echo"', "stands twice"),
    ('listen = ["127.0.0.1:9000"]\nservice = "echo"\ntls = true', "add [server.tls]"),
    ('listen = ["127.0.0.1:9000"]\nservice = "echo"\nuse = ["auth"]', "add token = true"),
    ('listen = ["127.0.0.1:9000"]', "service"),
    ('listen = ["127.0.0.1:9000"]\nservice = "echo"\n[service.ecco]', 'there is no service "ecco"'),
    ('listen = ["127.0.0.1:9000"]\nservice = "echo"\n[service.echo]\nidle_timeout = "20s"', "longer than"),
    ('listen = ["127.0.0.1:9000"]\nservice = "echo"\n[service.echo]\nrate = "often"', "must be a number"),
    ('listen = ["127.0.0.1:9000"]\nservice = "echo"\n[service.echo]\nburst = 5', "needs a"),
    ('listen = ["127.0.0.1:9000"]\nservice = "echo"\n[service.echo]\nmost_body = "17MiB"', "most_body")])
def test_errors_of_the_configuration(tmp_path, config, text):
    file = tmp_path / "sluice.toml"
    file.write_text(f"[[frames]]\n{config}\n{AUTH.replace('${SECRET}', 'x' * 32)}")
    run = subprocess.run([PROGRAM, "check", file], capture_output=True, text=True)
    assert run.returncode == 3 and text in run.stderr, run.stderr
    assert f"{file}:" in run.stderr
