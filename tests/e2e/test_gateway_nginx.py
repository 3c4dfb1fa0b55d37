"""nginx as the server of an upstream: its own answers, keep-alive, limits, reloads and deaths."""
import gzip
import os
import pathlib
import signal
import socket
import subprocess

import pytest

from certificates import Authority
from cluster import free_port
from test_gateway import gateway, wait_until
from test_gateway_reload import Load

PAGE = b"<p>page</p>\n" * 3000


class Nginx:
    """nginx with one worker, which serves the folder `root`. `listen` is a port, or what its `listen` takes."""

    def __init__(self, folder, listen, more="", of_http=""):
        self.folder = pathlib.Path(folder)
        self.root = self.folder / "root"
        (self.root / "dir").mkdir(parents=True, exist_ok=True)
        (self.root / "page.html").write_bytes(PAGE)
        (self.root / "dir/index.html").write_bytes(b"index")
        (self.root / "big.bin").write_bytes(os.urandom(1 << 20))
        self.listen = listen
        self.config = self.folder / "nginx.conf"
        self.write(more, of_http)
        self.start()

    def write(self, more="", of_http=""):
        paths = "".join(f"{of}_temp_path {self.folder}/{of};\n" for of in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        user = "user root;\n" if os.geteuid() == 0 else ""
        self.config.write_text(f"""
{user}daemon off;
worker_processes 1;
pid {self.folder}/pid;
error_log {self.folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  types {{ text/html html; }}
  {paths}{of_http}
  server {{
    listen {self.listen};
    root {self.root};
    {more}
  }}
}}
""")

    def start(self):
        self.process = subprocess.Popen(["/usr/sbin/nginx", "-p", self.folder, "-c", self.config, "-e", self.folder / "error.log"])
        wait_until(self.answers)

    def answers(self):
        address = str(self.listen).split()[0]
        try:
            if address.startswith("unix:"):
                with socket.socket(socket.AF_UNIX) as one:
                    one.connect(address[5:])
            else:
                socket.create_connection(("127.0.0.1", int(address.rsplit(":")[-1]))).close()
            return True
        except OSError:
            assert self.process.poll() is None, (self.folder / "error.log").read_text()
            return False

    def workers(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(one) for one in children.read_text().split()]

    def kill(self):
        """All its processes at once."""
        for pid in [self.process.pid, *self.workers()]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            for pid in self.workers():
                os.kill(pid, signal.SIGCONT)
            self.process.terminate()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@pytest.fixture
def nginx(tmp_path):
    started = []

    def start(more="", of_http="", listen=None):
        folder = tmp_path / f"nginx{len(started)}"
        folder.mkdir()
        started.append(Nginx(folder, listen or f"127.0.0.1:{free_port()}", more, of_http))
        return started[-1]

    yield start
    for one in started:
        one.close()


def url(back):
    return f"http://{back.listen}"


def test_files_ranges_and_conditions(nginx, sluice):
    back = nginx()
    server = sluice(gateway(url(back)))
    with server.connect() as client:
        page = client.get("/page.html")
        assert (page.status, page.body, page.get("server").split("/")[0]) == (200, PAGE, "nginx")
        assert client.get("/big.bin").body == (back.root / "big.bin").read_bytes()
        head = client.get("/page.html", method="HEAD")
        assert (head.status, head.get("content-length"), head.body) == (200, str(len(PAGE)), b"")
        part = client.get("/page.html", "Range: bytes=5-9")
        assert (part.status, part.body, part.get("content-range")) == (206, PAGE[5:10], f"bytes 5-9/{len(PAGE)}")
        parts = client.get("/page.html", "Range: bytes=0-0,5-9")
        assert parts.status == 206 and parts.get("content-type").startswith("multipart/byteranges")
        assert client.get("/page.html", f"Range: bytes={len(PAGE)}-").status == 416
        unchanged = client.get("/page.html", f"If-None-Match: {page.get('etag')}")
        assert (unchanged.status, unchanged.body) == (304, b"")
        assert client.get("/page.html", f"If-Modified-Since: {page.get('last-modified')}").status == 304
        assert client.get("/page.html", 'If-Match: "other"').status == 412
        assert client.get("/absent").status == 404
        assert client.call("POST", "/page.html", b"x").status == 405
        assert client.get("/page.html").body == PAGE


def test_a_compressed_answer_is_passed_on_as_it_is(nginx, sluice):
    back = nginx(of_http="gzip on;\ngzip_proxied any;\n")  # by default not for requests with Via
    server = sluice(gateway(url(back)))
    with server.connect() as client:
        answer = client.get("/page.html", "Accept-Encoding: gzip")
        assert answer.get("content-encoding") == "gzip" and answer.get("transfer-encoding") == "chunked"
        assert gzip.decompress(answer.body) == PAGE
        assert client.get("/page.html").body == PAGE


def test_a_redirect_leads_to_the_gateway(nginx, sluice):
    back = nginx("absolute_redirect off;")
    server = sluice(gateway(url(back), path="/app/{rest...}", route='strip = "/app"'))
    with server.connect() as client:
        moved = client.get("/app/dir")
        assert (moved.status, moved.get("location")) == (301, "/app/dir/")
        assert client.get(moved.get("location")).body == b"index"


def test_a_limit_of_the_server_is_its_answer(nginx, sluice):
    back = nginx("client_max_body_size 1k;\nlocation /put { return 204; }\nlocation /limited { limit_except GET { deny all; } }")
    server = sluice(gateway(url(back)))
    with server.connect() as client:
        assert client.call("PUT", "/put", b"x" * 100).status == 204
        assert client.call("PUT", "/limited", b"x").status == 403
    refused = server.connect().__enter__().call("PUT", "/put", b"x" * 100_000)
    assert refused.status == 413 and b"nginx" in refused.body


def test_connections_are_kept_as_long_as_the_server_keeps_them(nginx, sluice):
    """nginx closes each connection after three requests; no request may be lost, whatever its method."""
    back = nginx("location /post { return 200 done; }", "keepalive_requests 3;\n")
    server = sluice(gateway(url(back)), server="cores = 1")
    with server.connect() as client:
        for number in range(30):
            assert client.call("POST", "/post", b"x").body == b"done"
            assert client.get("/page.html").status == 200, number
    opened = server.sample(f'sluice_upstream_connections_opened_total{{upstream="back",server="{back.listen}"}}')
    assert opened == 20


def test_a_server_that_is_killed_and_started_again(nginx, sluice):
    back = nginx()
    server = sluice(gateway(url(back), upstream="retries = 0"))
    with server.connect() as client:
        assert client.get("/page.html").status == 200
        back.kill()
        assert client.get("/page.html").status == 502
        back.start()
        assert client.get("/page.html").body == PAGE


def test_a_killed_server_costs_no_get_beside_another(nginx, sluice):
    first, second = nginx(), nginx()
    server = sluice(gateway(url(first), url(second)), server="cores = 1")
    faults = []
    load = Load(lambda _: server.get("/page.html").status, faults)
    wait_until(lambda: load.answered > 20)
    first.kill()
    count = load.answered
    wait_until(lambda: load.answered > count + 50)
    first.start()
    count = load.answered
    wait_until(lambda: load.answered > count + 20)
    load.stopping.set()
    load.thread.join()
    assert faults == []


def test_a_stopped_server_is_late_and_then_answers_again(nginx, sluice):
    back = nginx()
    server = sluice(gateway(url(back), upstream='response_timeout = "200ms"\nretries = 0'), server="cores = 1")
    assert server.get("/page.html").status == 200
    for pid in back.workers():
        os.kill(pid, signal.SIGSTOP)
    assert server.get("/page.html").status == 504
    for pid in back.workers():
        os.kill(pid, signal.SIGCONT)
    assert server.get("/page.html").body == PAGE


def test_a_stopped_server_is_passed_over(nginx, sluice):
    stopped, well = nginx(), nginx()
    server = sluice(gateway(url(stopped), url(well), upstream='response_timeout = "200ms"\neject = { after = 1, for = "5m" }'),
                    server="cores = 1")
    for pid in stopped.workers():
        os.kill(pid, signal.SIGSTOP)
    for _ in range(6):
        assert server.get("/page.html").body == PAGE
    state = f'sluice_upstream_state{{upstream="back",server="{stopped.listen}",state="ejected"}}'
    wait_until(lambda: server.sample(state) == 1)


def test_the_server_reloads_under_load(nginx, sluice):
    back = nginx()
    server = sluice(gateway(url(back)), server="cores = 1")
    faults = []
    with server.connect() as client:
        load = Load(lambda _: client.get("/page.html").status, faults)
        for _ in range(5):
            before = back.workers()
            back.process.send_signal(signal.SIGHUP)
            wait_until(lambda: back.workers() and not set(before) & set(back.workers()))
            count = load.answered
            wait_until(lambda: load.answered > count + 10)
        load.stopping.set()
        load.thread.join()
    assert faults == []


def test_over_a_unix_socket(nginx, sluice, tmp_path):
    back = nginx(listen=f"unix:{tmp_path}/nginx.sock")
    server = sluice(gateway(back.listen))
    with server.connect() as client:
        assert client.get("/page.html").body == PAGE
        assert client.get("/big.bin").body == (back.root / "big.bin").read_bytes()


def test_over_tls_with_a_client_certificate(nginx, sluice, tmp_path):
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.issue("server")
    ours = authority.issue("gateway")
    port = free_port()
    back = nginx(f"ssl_certificate {certificate};\nssl_certificate_key {key};\nssl_client_certificate {authority.ca};\n"
                 "ssl_verify_client on;\nlocation /who { return 200 $ssl_client_s_dn; }", listen=f"127.0.0.1:{port} ssl")
    tls = f'ca = "{authority.ca}"'
    server = sluice(gateway(f"https://localhost:{port}", upstream=f"tls = {{ {tls} }}"))
    assert server.get("/who").status == 400  # nginx's answer without a certificate
    server = sluice(gateway(f"https://localhost:{port}", upstream=f'tls = {{ {tls}, cert = "{ours[0]}", key = "{ours[1]}" }}'))
    with server.connect() as client:
        assert client.get("/who").body == b"CN=gateway"
        assert client.get("/big.bin").body == (back.root / "big.bin").read_bytes()


def test_a_tls_server_does_not_get_plain_requests(nginx, sluice, tmp_path):
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.issue("server")
    port = free_port()
    nginx(f"ssl_certificate {certificate};\nssl_certificate_key {key};", listen=f"127.0.0.1:{port} ssl")
    server = sluice(gateway(f"http://127.0.0.1:{port}"))
    answer = server.get("/page.html")
    assert answer.status == 400 and b"plain HTTP request was sent to HTTPS port" in answer.body
