"""/metrics of a program with every feature: the families with their types, labels and help."""
import os
import re
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from certificates import tls_table
from cluster import free_port
from conftest import Server
from http1 import Connection
from upstream import Upstream, response

ROOT = Path(__file__).resolve().parents[2]

CONFIG = '''
[compression]
codings = ["gzip"]
[database.file]
url = "sqlite:{folder}/small.db"
[database.main]
url = "{postgres}"
[request_log]
database = "file"
table = "requests"
[policy.auth]
type = "jwt"
secret = "a secret of more than thirty-two bytes"
[store.papers]
path = "{folder}/papers"
[[files]]
path = "/site"
root = "{folder}/site"
use = ["auth"]
[[websocket]]
path = "/echo"
handler = "echo"
[[resident]]
database = "file"
name = "numbers"
query = "SELECT n, text FROM numbers"
key = "n"
[[endpoint]]
database = "file"
path = "/notes"
get = "SELECT text FROM notes"
post = "INSERT INTO notes VALUES ('one more')"
changes = {{ tables = ["notes"] }}
[[endpoint]]
database = "main"
path = "/one"
get = "SELECT 1 AS one"
changes = {{ notify = "ones" }}
'''


GATEWAY = '''
[compression]
codings = ["gzip"]
[policy.rate]
type = "rate-limit"
rate = "1000/s"
[policy.at-once]
type = "concurrency"
requests = 100
[policy.body]
type = "body-limit"
size = "1MiB"
[policy.ip]
type = "ip"
allow = ["127.0.0.0/8"]
[policy.auth]
type = "auth-request"
upstream = "back"
path = "/auth"
[[upstream]]
name = "back"
servers = ["{first}", "{second}"]
connections = 10
health = {{ path = "/health" }}
[[route]]
path = "/{{rest...}}"
upstream = "back"
use = ["rate", "at-once", "body", "ip", "auth"]
'''


def not_in_the_guide(text):
    """The families that no row of the guide's table names. `…_b` in a row stands for the row's first name with another end."""
    named = set()
    for row in re.findall(r"^\| `(.+?)` \|", (ROOT / "docs/guide/logs-and-metrics.md").read_text(), re.M):
        first, *others = row.split("`, `")
        parts = first.split("_")
        named.add(first)
        for name in others:
            named |= {"_".join(parts[:n]) + name.removeprefix("…") for n in range(1, len(parts) + 1)} if name[0] == "…" else {name}
    return sorted(set(re.findall(r"^# TYPE (\S+)", text, re.M)) - named)


def families(text):
    """A line for each family: its name, its type, the labels of its samples, its help."""
    helps = dict(re.findall(r"^# HELP (\S+) (.+)$", text, re.M))
    labels = {name: set() for name in helps}
    for name, of_sample in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.M):
        family = name if name in labels else re.sub("_(bucket|sum|count)$", "", name)
        labels[family] |= set(re.findall(r'(\w+)="', of_sample))
    return sorted(f"{name} {kind} {','.join(sorted(labels[name])) or '-'} {helps[name]}"
                  for name, kind in re.findall(r"^# TYPE (\S+) (.+)$", text, re.M))


def test_every_family(sluice, small_sqlite, site, postgres, localhost):
    with sqlite3.connect(small_sqlite) as database:
        database.execute("CREATE TABLE requests (method text)")
        database.execute("CREATE TABLE notes (text text)")
    database.close()
    server = sluice(CONFIG.format(folder=site.parent, postgres=postgres.url()), server="cores = 2\n" + tls_table(localhost))
    subprocess.run(["curl", "-ksS", "--fail", f"https://127.0.0.1:{server.port}/one"], check=True, capture_output=True)
    text = server.admin("/metrics")[1]
    assert families(text) == EVERY_FAMILY.strip().splitlines()
    samples = re.findall(r"^[^# ]+", text, re.M)
    assert len(samples) == len(set(samples)), "what two cores count is added up"
    assert not_in_the_guide(text) == []


def test_every_family_of_a_gateway(sluice):
    with Upstream(lambda *_: response(b"")) as first, Upstream(lambda *_: response(b"")) as second:
        server = sluice(GATEWAY.format(first=first.url, second=second.url), server="cores = 2")
        for _ in range(5):
            assert server.get("/").status == 200
        text = server.admin("/metrics")[1]
    assert not_in_the_guide(text) == []
    times = dict(re.findall(r"^sluice_upstream_response_seconds_(\S+) (\S+)$", text, re.M))
    requests = dict(re.findall(r"^sluice_upstream_requests_total(\S+) (\d+)$", text, re.M))
    assert len(requests) == 2 and sum(map(int, requests.values())) == 10, "the route and the policy"
    for labels, count in requests.items():
        assert times["count" + labels] == count
        assert times["bucket" + labels.replace("}", ',le="+Inf"}')] == count
        assert float(times["sum" + labels]) > 0
    bounds = [re.findall(rf'^{name}_bucket{{.*le="(.+)"', text, re.M)[:15]
              for name in ("http_server_request_duration_seconds", "sluice_upstream_response_seconds")]
    assert len(set(bounds[0])) == 15 and bounds[0] == bounds[1]


def test_the_process(sluice):
    before = time.time()
    server = sluice('[[route]]\npath = "/"\nrespond = 204\n', limits={"nofile": 500})
    pid = server.process.pid
    assert server.sample("process_max_fds") == 500
    assert before - 2 < server.sample("process_start_time_seconds") < time.time() + 2  # the kernel counts ticks
    connections = [server.connect() for _ in range(100)]
    for connection in connections:
        assert connection.get("/").status == 204
    # The connection of the scrape is one more.
    assert 100 < len(os.listdir(f"/proc/{pid}/fd")) <= server.sample("process_open_fds") <= len(os.listdir(f"/proc/{pid}/fd")) + 2
    for connection in connections:
        connection.close()
    size, resident = (int(pages) * 4096 for pages in Path(f"/proc/{pid}/statm").read_text().split()[:2])
    assert server.sample("process_virtual_memory_bytes") == pytest.approx(size, rel=0.2)
    assert server.sample("process_resident_memory_bytes") == pytest.approx(resident, rel=0.2)
    used = server.sample("process_cpu_seconds_total")
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    assert 0 < used <= (int(fields[11]) + int(fields[12]) + 2) / os.sysconf("SC_CLK_TCK")


EVERY_FAMILY = '''
db_client_connection_count gauge db_client_connection_pool_name,db_client_connection_state Connections to the database.
db_client_connection_max gauge db_client_connection_pool_name Connections that may be open.
db_client_connection_pending_requests gauge db_client_connection_pool_name Requests that wait for a connection.
http_server_active_requests gauge http_request_method,url_scheme Requests whose answer is waited for or sent.
http_server_request_duration_seconds histogram http_request_method,http_response_status_code,http_route,le,url_scheme From the last byte of a request's header to the last byte of its answer.
process_cpu_seconds_total counter - Total user and system CPU time spent in seconds.
process_max_fds gauge - Maximum number of open file descriptors.
process_open_fds gauge - Number of open file descriptors.
process_resident_memory_bytes gauge - Resident memory size in bytes.
process_start_time_seconds gauge - Start time of the process since unix epoch in seconds.
process_virtual_memory_bytes gauge - Virtual memory size in bytes.
sluice_bodies_cut_total counter - Slow requests answered 503, answers cut and WebSockets closed: others needed the memory.
sluice_bodies_refused_total counter - Requests answered 503, WebSockets closed and streams refused: there was no memory for them.
sluice_body_bytes gauge - Memory that request bodies, messages of WebSockets, streams of HTTP/2 and answers that wait for their clients take.
sluice_body_bytes_max gauge - Memory that they may take: [server] body_memory.
sluice_build_info gauge version The version that runs.
sluice_changes_clients gauge http_route Clients that listen for changes.
sluice_changes_connections_total counter database Connections that have listened for changes.
sluice_changes_events_total counter http_route Changes that were heard of.
sluice_changes_listening gauge database Whether changes of the database are heard of.
sluice_changes_refused_total counter http_route Clients beyond the limit.
sluice_changes_resets_total counter http_route Clients that had to read the whole resource again.
sluice_changes_sent_total counter http_route Changes that were sent to clients.
sluice_compression_answers_total counter - Answers that went out compressed.
sluice_compression_cached_total counter - Answers whose compressed form was cached.
sluice_compression_input_bytes_total counter - Bytes given to compressors.
sluice_compression_output_bytes_total counter - Bytes that compressors made of them.
sluice_compression_refused_total counter - Answers that went out as they were for want of [compression] memory.
sluice_config_info gauge sha256 The SHA-256 of the configuration that is served.
sluice_connections_open gauge - Connections of clients.
sluice_connections_refused_total counter - Connections answered 503: over the limit.
sluice_connections_total counter - Connections accepted.
sluice_cores gauge - Worker threads.
sluice_earlier_configurations gauge - Replaced configurations that answers still need, of all cores.
sluice_files_cache_bytes gauge - Bytes of the files in memory in the cache.
sluice_files_cache_files gauge - Files in memory or open in the cache.
sluice_files_cache_hits_total counter - Requests for files answered from the cache as it was.
sluice_files_cache_misses_total counter - Requests for files that were looked up, or for a change.
sluice_io_info gauge io The interface by which the cores wait for their sockets.
sluice_jwt_anonymous_total counter policy Requests without a token that went on.
sluice_jwt_cache_bytes gauge policy Memory of cached tokens.
sluice_jwt_cache_hits_total counter policy Requests whose token was verified before.
sluice_jwt_cache_tokens gauge policy Verified tokens that are remembered.
sluice_jwt_refusals_total counter policy,reason Requests that were not let through.
sluice_jwt_verifications_total counter policy Tokens that were verified, and good.
sluice_log_lines_dropped_total counter log Log lines dropped because nobody read them, or the disk was full.
sluice_out_of_memory_total counter - Connections and requests that ended for want of memory.
sluice_postgres_cancels_total counter database Statements cancelled at the server.
sluice_postgres_connections_failed_total counter database Connections that could not be opened.
sluice_postgres_connections_lost_total counter database Connections that have ended, those that nobody used any more too.
sluice_postgres_connections_opened_total counter database Connections opened.
sluice_postgres_helpers_total counter database Connections that helped to read an answer in parallel.
sluice_postgres_overflows_total counter database Answers too large to share a connection, asked for again.
sluice_postgres_reprepared_total counter database Requests repeated because the server had given up their plan.
sluice_postgres_requests_total counter connection,database Statements sent.
sluice_postgres_retries_total counter database Requests repeated after their connection was lost.
sluice_postgres_unavailable_total counter database Requests that got no connection.
sluice_reloads_total counter result Times that the configuration was to be read again, by what came of it.
sluice_request_log_dropped_total counter - Requests that it could not write.
sluice_request_log_rows_total counter - Requests that [request_log] wrote to its table.
sluice_resident_age_seconds gauge resident Since the database was last asked with success.
sluice_resident_answers_cached_total counter resident Queries whose whole answer was kept.
sluice_resident_answers_made_total counter resident Queries whose answer was put together.
sluice_resident_bytes gauge resident Memory of its rows and indexes.
sluice_resident_cache_bytes gauge resident Memory of cached answers and rows, of all cores.
sluice_resident_chunks_elsewhere_total counter resident Chunks of long answers, encoded on demand, that another core than the answering one has encoded.
sluice_resident_cut_total counter resident Old versions whose answers were cut for the next one to be loaded.
sluice_resident_failures_total counter resident Loads that failed: what was there before is served.
sluice_resident_load_seconds gauge resident How long the last load took.
sluice_resident_loads_total counter resident Loads that succeeded.
sluice_resident_partial_total counter resident Loads that read only the changes.
sluice_resident_rows gauge resident Rows of the version that is served.
sluice_resident_unchanged_total counter resident Refreshes that found nothing new, those included that did not have to load.
sluice_response_body_bytes_total counter http_request_method,http_response_status_code,http_route,url_scheme Bytes of bodies sent, without framing.
sluice_responses_broken_total counter http_request_method,http_response_status_code,http_route,url_scheme Answers cut half-way, by us or by the client.
sluice_sqlite_look_ups_total counter database Statements answered on the core.
sluice_sqlite_overflows_total counter database Look-ups that were too large for the core.
sluice_sqlite_pending_scans gauge database Scans that wait for a connection.
sluice_sqlite_scans_total counter database Statements begun in the blocking pool.
sluice_sqlite_transactions_total counter database Read transactions that look-ups have shared.
sluice_tls_certificate_expiry_timestamp_seconds gauge certificate,use Unix time at which the first certificate in the file expires.
sluice_tls_handshakes_failed_total counter reason Connections that ended without one.
sluice_tls_handshakes_total counter resumed TLS handshakes that were done.
sluice_upload_bytes_total counter store Their bytes.
sluice_uploads_refused_total counter reason,store Files that were not taken.
sluice_uploads_total counter store Files that were received and brought to the disk.
sluice_websocket_message_bytes_total counter direction Bytes of these messages, decompressed.
sluice_websocket_messages_total counter direction Messages of WebSocket conversations.
sluice_websockets_lost_total counter - WebSocket conversations ended without a close handshake.
sluice_websockets_open gauge - WebSocket conversations.
sluice_websockets_total counter - WebSocket conversations begun.
'''


def test_a_page_whose_domain_resolves_to_this_machine_reads_nothing(sluice, tmp_path):
    def ask(server, path, host, *fields):
        with Connection(server.admin_port) as admin:
            admin.send("\r\n".join([f"GET {path} HTTP/1.1", f"Host: {host}", *fields, "", ""]))
            return admin.read().status

    route = '[[route]]\npath = "/"\nrespond = 204\n'
    server = sluice(route)
    for path in ("/metrics", "/upstreams"):
        assert [ask(server, path, host) for host in ("localhost", "LocalHost:1", "127.0.0.1:80", "[::1]")] == [200] * 4
        assert [ask(server, path, host) for host in ("evil.example", "localhost.evil.example:80")] == [403] * 2
    assert ask(server, "/readyz", "evil.example") == 200
    file = tmp_path / "open.toml"
    port, admin_port = free_port(), free_port()
    file.write_text(f'[server]\nlisten = ["127.0.0.1:{port}"]\n[admin]\nlisten = "0.0.0.0:{admin_port}"\n'
                    f'token = "0123456789abcdef"\n{route}')
    server = Server(file, tmp_path, {}, port, admin_port)
    try:
        token = "Authorization: Bearer 0123456789abcdef"
        assert ask(server.wait(), "/metrics", "films.example:8081", token) == 200  # as Prometheus knows the machine
        server.stop()
    finally:
        server.kill()
