"""examples/films on both databases, as its page and curl use it."""
import csv
import io
import json
import os
import pathlib
import re
import subprocess
import urllib.parse

import pytest

from cluster import free_port
from conftest import FILMS, ROWS, SLUICE
from http1 import Connection

TYPES = {"json": "application/json", "ndjson": "application/x-ndjson", "csv": "text/csv", "csj": "application/csj"}


@pytest.fixture(params=["sqlite", "postgres"])
def films(request, sluice):
    if request.param == "sqlite":
        database = f"sqlite:{request.getfixturevalue('films_sqlite')}"
    else:
        database = request.getfixturevalue("films_postgres")
    server = sluice(file=FILMS / "films.toml", env={"DATABASE": database})
    server.kind = request.param
    return server


def decode(form, body):
    text = body.decode()
    if form == "json":
        return json.loads(text)
    lines = text.splitlines()
    if form == "ndjson":
        return [json.loads(line) for line in lines]
    if form == "csj":
        header, *rows = [json.loads(f"[{line}]") for line in lines]
        return [dict(zip(header, row)) for row in rows]
    return list(csv.DictReader(io.StringIO(text, newline="")))


def ids(answer):
    assert answer.status == 200, answer.body
    return [film["id"] for film in json.loads(answer.body)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_make_run(request, tmp_path, kind):
    """Does what `make run` does after the build: makes the data only if there is none. Films can be added."""
    if kind == "sqlite":
        database = f"sqlite:{tmp_path}/new/films.db"
    else:
        cluster = request.getfixturevalue("postgres")
        cluster.psql("CREATE DATABASE made_by_run")
        database = cluster.url("made_by_run")
    for films in (50, 70):
        server, admin = free_port(), free_port()
        with subprocess.Popen([FILMS / "run"], stdout=subprocess.PIPE, text=True, cwd=tmp_path, env={
                **os.environ, "BUILD": str(pathlib.Path(SLUICE).parent.resolve()), "DATABASE": database, "FILMS": str(films),
                "LISTEN": f"127.0.0.1:{server}", "ADMIN": f"127.0.0.1:{admin}"}) as run:
            try:
                for line in run.stdout:
                    if "admin" in line:  # the banner's last line
                        break
                with Connection(server) as connection:
                    assert len(decode("json", connection.get("/export").body)) == 50
                    created = connection.call("POST", "/films", b'{"slug": "alien"}', "Content-Type: application/json")
                    assert created.status == 201 and decode("json", created.body)[0]["id"] > 50, created.body
                    assert connection.call("DELETE", "/films/alien").status == 204
            finally:
                run.terminate()
        assert run.returncode == 0


def test_the_page_and_its_parts(films):
    page = films.get("/")
    assert page.status == 200 and page.media_type == "text/html"
    assert page.body == (FILMS / "public/index.html").read_bytes()
    for name, media_type in (("films.css", "text/css"), ("films.js", "text/javascript"), ("icon.svg", "image/svg+xml")):
        part = films.get(f"/{name}")
        assert (part.status, part.media_type) == (200, media_type)
        assert part.body == (FILMS / "public" / name).read_bytes()


def test_one_film_is_an_object(films):
    answer = films.get("/films/the-silent-harbor")
    assert answer.status == 200 and answer.media_type == "application/json"
    film = json.loads(answer.body)
    assert (film["id"], film["slug"], film["name_en"]) == (1, "the-silent-harbor", "The Silent Harbor")
    assert list(film) == ["id", "slug", "adult", "name_en", "popularity", "blob"]
    assert film["adult"] is False and film["popularity"] == 6.397 and film["blob"]["release_date"] == "1965-08-22"


def test_a_film_that_is_not_there_is_a_problem(films):
    answer = films.get("/films/nothing-of-the-kind")
    assert answer.status == 404 and answer.media_type == "application/problem+json"
    problem = json.loads(answer.body)
    assert problem["status"] == 404 and problem["title"] == "Not Found"


def test_a_path_that_is_not_there_is_a_problem(films):
    answer = films.get("/nothing/of/the/kind")
    assert answer.status == 404 and answer.media_type == "application/problem+json"


def test_a_slug_is_bound_and_never_spliced(films):
    for slug in ("x'%20OR%20'1'='1", "%22", "x;DROP%20TABLE%20films", "%F0%9F%8E%AC"):
        assert films.get(f"/films/{slug}").status == 404
    assert films.get("/films/the-silent-harbor").status == 200


def test_bytes_that_no_text_can_hold_are_refused(films):
    for slug in ("%FF%FE", "a%00b"):
        assert films.get(f"/films/{slug}").status == 400
    assert films.get("/films/the-silent-harbor").status == 200


def test_the_tags_of_a_film(films):
    answer = films.get("/films/the-silent-harbor/tags")
    assert json.loads(answer.body) == [{"tag": "coming-of-age"}, {"tag": "period"}, {"tag": "sea"}]
    none = films.get("/films/nothing-of-the-kind/tags")
    assert none.status == 200 and json.loads(none.body) == []


def test_tags_are_counted(films):
    tags = json.loads(films.get("/tags").body)
    assert len(tags) == 40
    counts = [tag["films"] for tag in tags]
    assert counts == sorted(counts, reverse=True) and all(isinstance(count, int) for count in counts)


def link(answer, relation):
    """The query string of a reference in `Link`; None if there is none."""
    found = re.search(rf'<\?([^>]*)>; rel="{relation}"', answer.get("link"))
    return found and found[1]


def test_a_page(films):
    answer = films.get("/films?count=exact")
    assert ids(answer) == list(range(1, 21))
    assert answer.get("x-total-count") == str(ROWS) and answer.get("content-range") == f"items 0-19/{ROWS}"
    assert ids(films.get("/films?offset=10&limit=2")) == [11, 12]
    assert ids(films.get(f"/films?offset={ROWS}")) == []


@pytest.mark.parametrize("query", ["limit=ten", "limit=1.5", "limit=-1", "limit=201", "limit=%20", "limit=1;--", "offset=x", "adult=maybe",
                                   "popularity=gte.much", "slug=alien", "sort=slug", "after=x", "least=1"])
def test_a_question_that_the_list_cannot_answer_is_refused(films, query):
    answer = films.get(f"/films?{query}")
    assert answer.status == 400 and answer.media_type == "application/problem+json"
    assert json.loads(answer.body)["parameter"] == query.partition("=")[0]


def test_search(films):
    answer = films.get("/films?q=HARBOR&limit=200&count=exact")
    found = json.loads(answer.body)
    assert found[0]["slug"] == "the-silent-harbor" and len(found) == int(answer.get("x-total-count"))
    assert all("harbor" in film["name_en"].lower() for film in found)
    assert ids(films.get("/films?q=harbor+SILENT&limit=200")) == [film["id"] for film in found if "silent" in film["slug"]]
    accented = json.loads(films.get("/films?q=Caf%C3%A9&limit=5").body)
    assert accented and all("Café" in film["name_en"] for film in accented)
    assert set(ids(films.get("/films?q=cafe&limit=5"))) >= {film["id"] for film in accented}
    assert ids(films.get("/films?q=a+b+%25%27")) == []


def test_filters_and_sort(films):
    every = json.loads(films.get("/export").body)
    expected = [film for film in every if not film["adult"] and film["popularity"] is not None and film["popularity"] >= 700]
    expected.sort(key=lambda film: (-film["popularity"], film["id"]))
    answer = films.get("/films?adult=false&popularity=gte.700&sort=-popularity&limit=200&count=exact")
    assert json.loads(answer.body) == expected and 50 < len(expected) == int(answer.get("x-total-count"))
    nothing_known = [film["id"] for film in every if film["popularity"] is None]
    assert nothing_known and ids(films.get("/films?popularity=is.null&limit=200")) == nothing_known


def test_pages_lead_through_all_films(films):
    query, seen = "q=harbor&sort=-popularity,name_en&count=exact", []
    while query:
        page = films.get(f"/films?{query}")
        seen.append(ids(page))
        query = link(page, "next")
    total = int(page.get("x-total-count"))
    assert len(seen) == -(-total // 20) > 2 and len(set(sum(seen, []))) == total
    assert ids(films.get(f"/films?{link(page, 'prev')}")) == seen[-2]
    first = films.get(f"/films?{link(page, 'first')}")
    assert ids(first) == seen[0] and ids(films.get(f"/films?{link(first, 'last')}")) == seen[-1]


def test_both_databases_find_the_same(sluice, films_sqlite, films_postgres):
    servers = [sluice(file=FILMS / "films.toml", env={"DATABASE": database})
               for database in (f"sqlite:{films_sqlite}", films_postgres)]

    def both(query):
        answers = [server.get(f"/films?{query}&limit=200&count=exact") for server in servers]
        assert ids(answers[0]) == ids(answers[1]), query
        totals = [int(answer.get("x-total-count")) for answer in answers]
        assert totals[0] == totals[1], query
        return totals[0]

    searches = ["harbor", "HARBOR", "Silent Harbor", "silent harbor", "Café", "café", "CAFÉ", "cafe", "CAFE", "izmir", "IZMIR",
                "Łódź", "łódź", "lodz", "São Paulo", "sao PAULO", "são paulo", "kite",
                "港", "灯塔", "편지", "👩‍🚀", "%", "_", "\\", "'", '"', "the", "The", "-", " ", "", "ß", "É", "é", "1", "Ñ", "ñ"]
    found = {q: both(urllib.parse.urlencode({"q": q})) for q in searches}
    assert found["harbor"] == found["HARBOR"] > 0 and found["cafe"] == found["CAFE"] >= found["Café"] > 0
    assert found["izmir"] == found["IZMIR"] > 0 and found["港"] > 0 and found["kite"] > 0
    assert found["%"] == found["_"] == 0 and found[""] == found[" "] == ROWS
    for query in ("sort=popularity", "sort=-popularity", "sort=name_en", "sort=-name_en&adult=true", "popularity=lt.1",
                  "or=(popularity.is.null,adult.is.true)&sort=-popularity", "adult=neq.false&popularity=in.(6.397,93.463)"):
        both(query)


def test_the_whole_table_as_csv(films):
    answer = films.get("/export.csv")
    assert answer.status == 200 and answer.media_type == "text/csv"
    rows = decode("csv", answer.body)
    assert len(rows) == ROWS and [int(row["id"]) for row in rows] == list(range(1, ROWS + 1))


def test_csv_is_what_copy_gives(sluice, postgres, films_postgres):
    server = sluice(file=FILMS / "films.toml", env={"DATABASE": films_postgres})
    expected = postgres.psql("COPY (SELECT * FROM films ORDER BY id) TO STDOUT (FORMAT csv, HEADER)", "films")
    assert server.get("/export.csv").body == expected


def test_both_databases_hold_the_same_films(sluice, films_sqlite, films_postgres):
    answers = []
    for database in (f"sqlite:{films_sqlite}", films_postgres):
        server = sluice(file=FILMS / "films.toml", env={"DATABASE": database})
        answers.append(decode("csv", server.get("/export.csv").body))
    for row in answers[0]:
        row["adult"] = {"0": "f", "1": "t"}.get(row["adult"], row["adult"])
    assert answers[0] == answers[1]


@pytest.mark.parametrize("form", ["json", "ndjson", "csv", "csj"])
def test_each_format_by_extension_holds_every_row(films, form):
    answer = films.get(f"/export.{form}")
    assert answer.status == 200 and answer.media_type == TYPES[form]
    rows = decode(form, answer.body)
    assert [int(row["id"]) for row in rows] == list(range(1, ROWS + 1))
    names = {row["name_en"] for row in rows}
    assert any("👩‍🚀" in (name or "") for name in names)
    if form != "csv":
        assert None in names


@pytest.mark.parametrize("accept, form", [
    ("application/json", "json"),
    ("*/*", "json"),
    ("text/csv", "csv"),
    ("application/x-ndjson", "ndjson"),
    ("TEXT/CSV", "csv"),
    ("text/*", "csv"),
    ("application/csj", "csj"),
    ("text/csv;q=0.5, application/json;q=0.9", "json"),
    ("text/csv;q=0.9, application/json;q=0.5", "csv"),
    ("application/json;q=0, */*", "other than json"),
    ("text/html, text/csv;q=0.1", "csv"),
    ("text/csv;q=0.001, application/x-ndjson;q=0", "csv"),
    ("application/json ; q=0.2 , application/x-ndjson ; q=0.3", "ndjson"),
])
def test_the_format_follows_accept(films, accept, form):
    answer = films.get("/films?limit=2", f"Accept: {accept}")
    assert answer.status == 200
    if form == "other than json":
        assert answer.media_type != "application/json"
    else:
        assert answer.media_type == TYPES[form]
        assert len(decode(form, answer.body)) == 2
    assert ("vary", "Accept") in answer.fields


def test_csv_without_its_header_line(films):
    whole = films.get("/export", "Accept: text/csv")
    assert whole.get("content-type").endswith("header=present")
    for form, accept in (("csv", "text/csv; header=absent"), ("csj", "application/csj; header=absent")):
        bare = films.get("/export", f"Accept: {accept}")
        assert bare.status == 200 and bare.media_type == TYPES[form]
        assert bare.get("content-type").endswith("header=absent") and "accept" in bare.get("vary").lower()
        header, rows = films.get(f"/export.{form}").body.split(b"\n", 1)
        assert bare.body == rows and b"name_en" in header


@pytest.mark.parametrize("accept", ["text/csv; header=maybe", "text/csv; charset=utf-16", "application/json; indent=2"])
def test_a_parameter_that_cannot_be_obeyed_is_406(films, accept):
    answer = films.get("/films?limit=1", f"Accept: {accept}")
    assert answer.status == 406 and answer.media_type == "application/problem+json"


@pytest.mark.parametrize("query", ["q=%zz", "q=a%", "limit=1&q=%4", "q=%C3%"])
def test_an_escape_that_is_none_is_400(films, query):
    answer = films.get(f"/films?{query}")
    assert answer.status == 400 and answer.media_type == "application/problem+json"


def test_no_accept_is_json(films):
    assert films.get("/films?limit=1").media_type == "application/json"


@pytest.mark.parametrize("accept", ["text/html", "image/png", "application/json;q=0", "*/*;q=0"])
def test_what_cannot_be_given_is_406(films, accept):
    answer = films.get("/films?limit=1", f"Accept: {accept}")
    assert answer.status == 406 and answer.media_type == ("text/html" if accept == "text/html" else "application/problem+json")


def test_the_extension_goes_before_accept(films):
    assert films.get("/films.csv?limit=1", "Accept: application/json").media_type == "text/csv"


def test_an_object_has_formats_too(films):
    row = decode("csv", films.get("/films/the-silent-harbor.csv").body)
    assert len(row) == 1 and row[0]["slug"] == "the-silent-harbor"


@pytest.mark.parametrize("target", ["/", "/films.js", "/films", "/export.csv", "/films/the-silent-harbor", "/nothing"])
def test_head_is_get_without_the_body(films, target):
    with films.connect() as connection:
        get = connection.get(target)
        head = connection.get(target, method="HEAD")
        again = connection.get("/films/the-silent-harbor")
    assert (head.status, head.body) == (get.status, b"")
    assert head.get("content-type") == get.get("content-type")
    if head.get("content-length") is not None:
        assert int(head.get("content-length")) == len(get.body)
    assert again.status == 200


@pytest.mark.parametrize("form", ["json", "ndjson", "csv", "csj"])
def test_a_complete_answer_tells_its_row_count_in_a_trailer(films, form):
    answer = films.get(f"/export.{form}", "TE: trailers", "Connection: TE")
    announced = answer.get("trailer")
    assert announced, "no Trailer field"
    assert str(ROWS) in [answer.trailer(name.strip()) for name in announced.split(",")]


def test_other_methods_are_405_with_allow(films):
    for method, target in (("DELETE", "/films"), ("POST", "/films/the-silent-harbor"), ("DELETE", "/tags")):
        answer = films.get(target, method=method)
        assert answer.status == 405 and answer.media_type == "application/problem+json"
        assert {"GET", "HEAD"} <= {allowed.strip() for allowed in answer.get("allow").split(",")}


def test_a_client_that_leaves_disturbs_nobody(films):
    for _ in range(20):
        with films.connect() as connection:
            connection.send("GET /export.json HTTP/1.1\r\nHost: test\r\n\r\n")
            connection.socket.recv(100)
    assert films.get("/films/the-silent-harbor").status == 200
    assert len(decode("json", films.get("/export").body)) == ROWS


def test_pipelined_look_ups_are_answered_in_order(films):
    slugs = [film["slug"] for film in decode("json", films.get("/films?limit=200").body)]
    with films.connect() as connection:
        connection.send("".join(f"GET /films/{slug} HTTP/1.1\r\nHost: test\r\n\r\n" for slug in slugs))
        for slug in slugs:
            answer = connection.read()
            assert answer.status == 200 and json.loads(answer.body)["slug"] == slug


def test_curl_agrees(films, tmp_path):
    out = tmp_path / "films.csv"
    run = subprocess.run(["curl", "-sS", "-f", "-o", str(out), "-w", "%{http_code} %{content_type}",
                          f"http://127.0.0.1:{films.port}/export.csv"], capture_output=True, text=True, timeout=30)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("200 text/csv")
    assert len(decode("csv", out.read_bytes())) == ROWS


def test_a_client_that_reads_in_sips_gets_everything(films):
    with films.connect() as connection:
        connection.sip = 4099
        assert len(decode("ndjson", connection.get("/export.ndjson").body)) == ROWS
