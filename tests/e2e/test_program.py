"""A program with C++ services behind sluice.toml: examples/chat-server, over WebSockets."""
import pathlib
import re
import subprocess
import time

import pytest

import frames
from conftest import FILMS_GENERATE, ROOT, SLUICE, database_with, until
from frames import decode, encode
from test_openapi import document_of
from test_reload import reload
from tokens import Secret
from websocket import BINARY, CLOSE, WebSocket

CHAT = str(pathlib.Path(FILMS_GENERATE).parent / "example_chat")
EXAMPLE = (ROOT / "examples/chat-server/sluice.toml").read_text()
SECRET = Secret("a secret of a test, 32 bytes or more")
SAY, WHISPER, JOINED, LEFT = 101, 102, 103, 104


def routes(text=EXAMPLE):
    """The example's configuration without [server] and [admin], which the test has its own of."""
    return re.sub(r"\[(server|admin)\]\n.*\n\n", "", text).replace("127.0.0.1:9000", "127.0.0.1:0")


@pytest.fixture(params=["sqlite", "postgres"])
def chat(request, sluice, tmp_path):
    """start(): a server, whose `kind` is its database's."""
    schema = (ROOT / f"examples/chat-server/schema.{request.param}.sql").read_text()
    url = database_with(request, tmp_path, ["DROP TABLE IF EXISTS messages", *schema.split(";")])

    def start(config=None, server="cores = 2"):
        (tmp_path / "public").mkdir(exist_ok=True)
        started = sluice(config or routes(), server, env={"CHAT_SECRET": SECRET.secret, "CHAT_DATABASE": url}, program=CHAT)
        started.kind = request.param
        return started
    return start


class Client(WebSocket):
    def __init__(self, server, name, room="lobby", at="chat", **claims):
        token = SECRET.token({"sub": name, "exp": time.time() + 60, **claims})
        super().__init__(server.port, f"/{at}/{room}", f"Authorization: Bearer {token}")
        self.name = name
        self.joined = []  # the names that it has heard of
        self.said = set()  # the numbers of messages
        while name not in self.joined:
            self.hear_of_one()

    def tell(self, message, text):
        self.say(BINARY, encode(message, text.encode()))

    def any_frame(self):
        frame = self.frame()
        assert frame.opcode == BINARY, frame
        return decode(frame.payload)

    def hear_any(self):
        got = self.any_frame()
        assert got.error is None, got
        return got.message, got.body.decode()

    def hear_of_one(self):
        """A client on another core may be heard of after its successors."""
        message, name = self.hear_any()
        assert message == JOINED
        self.joined.append(name)

    def hear(self):
        """The next message that is not JOINED. One that has been said is heard once."""
        while True:
            message, text = self.hear_any()
            if message == JOINED:
                self.joined.append(text)
            elif message != SAY:
                return message, text
            else:
                number, _, text = text.partition(" ")
                if number not in self.said:
                    self.said.add(number)
                    return message, text


def test_a_room_on_all_cores(chat):
    server = chat()
    ada, *others = clients = [Client(server, "ada")] + [Client(server, f"guest{n}") for n in range(8)]
    elsewhere = Client(server, "bob", "kitchen")
    while len(ada.joined) < len(clients):
        ada.hear_of_one()
    assert sorted(ada.joined) == sorted(client.name for client in clients)
    ada.tell(SAY, "hello")
    assert {client.hear() for client in clients} == {(SAY, "ada: hello")}
    elsewhere.tell(SAY, "anyone?")
    assert elsewhere.hear() == (SAY, "bob: anyone?")
    elsewhere.tell(WHISPER, "guest3 psst")
    assert others[3].hear() == (WHISPER, "bob: psst")
    others[7].close()
    assert {client.hear() for client in clients[:-1]} == {(LEFT, "guest7")}
    until(lambda: server.sample('sluice_sessions_open{service="chat"}') == 9)
    assert server.sample('sluice_sessions_accepted_total{service="chat"}') == 10


def test_over_tcp(chat):
    server = chat()
    ada = Client(server, "ada")
    port = int(re.search(r"frames   127\.0\.0\.1:(\d+) \(chat\)", server.log)[1])
    with frames.Client(("127.0.0.1", port)) as bob:
        assert bob.call(frames.TOKEN, SECRET.token({"sub": "bob", "exp": time.time() + 60}).encode(), 1) == frames.Frame(frames.TOKEN, b"", 1)
        assert ada.hear_any() == (JOINED, "bob")
        bob.send(SAY, b"hello")
        assert ada.hear() == (SAY, "bob: hello")
        ada.tell(WHISPER, "bob psst")
        while (heard := bob.receive()).message != WHISPER:  # a message may come twice, as one of the last too
            assert heard.message == JOINED or heard.body.endswith(b" bob: hello")
        assert heard.body == b"ada: psst"
        server.terminate()
        while (heard := bob.receive()) is not None:
            assert heard.message in (SAY, LEFT)
    ada.close()


def test_the_past(chat):
    server = chat()
    ada = Client(server, "ada")
    for n in range(30):
        ada.tell(SAY, f"text {n}, '; DROP TABLE messages")
        assert ada.hear() == (SAY, f"ada: text {n}, '; DROP TABLE messages")
    Client(server, "bob", "kitchen").tell(SAY, "elsewhere")
    late = Client(server, "eve")
    assert [late.hear() for _ in range(20)] == [(SAY, f"ada: text {n}, '; DROP TABLE messages") for n in range(10, 30)]
    late.tell(SAY, "a byte \0 that PostgreSQL refuses")
    got = late.any_frame()
    if server.kind == "postgres":
        assert (got.error, got.body) == (5, b"It could not be kept.")
    else:
        assert got.error is None and got.body.endswith(b" eve: a byte \0 that PostgreSQL refuses")


def test_the_policies_of_the_route(chat):
    server = chat(routes().replace('"60/m"', '"3/m"'))
    stranger = WebSocket(server.port, "/chat/lobby", open=False)
    assert stranger.handshake().status == 401
    first = Client(server, "ada")
    for _ in range(2):
        Client(server, "ada").close()
    late = WebSocket(server.port, "/chat/lobby", open=False)
    assert late.handshake(f"Authorization: Bearer {SECRET.token({'sub': 'ada', 'exp': time.time() + 60})}").status == 429
    assert Client(server, "bob", "kitchen")
    first.tell(SAY, "still here")
    while (heard := first.hear()) != (SAY, "ada: still here"):
        assert heard[0] == LEFT  # the other two


def test_a_session_ends_with_its_token(chat):
    server = chat(routes().replace('type = "jwt"', 'type = "jwt"\nleeway = "0s"'))
    client = Client(server, "ada", exp=time.time() + 2)
    frame = client.frame()
    assert (frame.opcode, frame.code) == (CLOSE, 4401)


def test_an_unknown_service(tmp_path):
    file = tmp_path / "sluice.toml"
    file.write_text('[[websocket]]\npath = "/"\nservice = "lobby"\n')
    for program, known in ((CHAT, 'this program has "chat"'), (SLUICE, "this program has none")):
        run = subprocess.run([program, "check", file], capture_output=True, text=True)
        assert run.returncode == 3
        assert 'there is no service "lobby"' in run.stderr and known in run.stderr
    for keys in ("", 'handler = "echo"\nservice = "chat"\n'):
        file.write_text(f'[[websocket]]\npath = "/"\n{keys}')
        run = subprocess.run([CHAT, "check", file], capture_output=True, text=True)
        assert run.returncode == 3 and 'either a "handler" or a "service"' in run.stderr, run.stderr


def test_explain(tmp_path):
    file = tmp_path / "sluice.toml"
    file.write_text('[[websocket]]\npath = "/chat/{room}"\nservice = "chat"\n')
    run = subprocess.run([CHAT, "explain", "--config", file, "GET", "/chat/a", "-H", "Connection: Upgrade", "-H", "Upgrade: websocket",
                          "-H", "Sec-WebSocket-Version: 13", "-H", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="],
                         capture_output=True, text=True)
    assert 'a session of the service "chat"' in run.stdout, run.stdout + run.stderr


def test_openapi(chat):
    server = chat(routes() + '[openapi]\n')
    document = document_of(server)
    operation = document["paths"]["/chat/{room}"]["get"]
    assert set(operation["responses"]) == {"101", "400", "401", "403", "426", "503"}
    assert operation["security"] and "chat" in operation["summary"]
    assert [parameter["name"] for parameter in document["paths"]["/chat/{room}"]["parameters"]] == ["room"]


def test_services_live_on_when_the_configuration_is_read_again(chat):
    server = chat(routes() + '[[websocket]]\npath = "/other/{room}"\nservice = "chat"\nuse = ["auth"]\n')
    ada = Client(server, "ada")
    eve = Client(server, "eve", at="other")
    text = server.file.read_text()
    server.file.write_text(text[:text.index('[[websocket]]\npath = "/other')].replace('"60/m"', '"50/m"'))
    assert reload(server)[0] == 200
    while (frame := eve.frame()).opcode == BINARY:
        pass
    assert frame.code == 1001
    assert ada.hear() == (LEFT, "eve")
    ada.tell(SAY, "hello")
    assert ada.hear() == (SAY, "ada: hello")
    Client(server, "bob").close()
    assert ada.hear() == (LEFT, "bob")


def test_the_end_of_the_program(chat):
    server = chat()
    clients = [Client(server, f"guest{n}", f"room{n}") for n in range(4)]
    server.terminate()
    for client in clients:
        frame = client.frame()
        assert (frame.opcode, frame.code) == (CLOSE, 1001)
        client.close()
    server.stop()
