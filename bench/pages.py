"""The blocks of the documents, by name, as lines of markdown from the stored figures. See stored.py."""
import export_pages
import growth
import stored
from stored import load, table

MICRO = {"mean_us": "mean", "p50_us": "p50", "p75_us": "p75", "p90_us": "p90", "p99_us": "p99", "max_us": "max"}


def about(name):
    return stored.about_lines(load(name)["about"])


def rate(value):
    return f"{value / 1000:.0f}k" if value >= 99_500 else f"{value / 1000:.1f}k"


def us(value):
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def shown(name):
    return name.replace("_", "-")


def readme_speed():
    http, gateway = load("http")["figures"], load("gateway")["figures"]
    rows = [("file of 1,500 bytes, 100 keep-alive connections", http["static"]),
            ("the same over HTTP/2 and TLS 1.3, 32 requests at a time", http["h2"]),
            ("the same over HTTP/1.1 and TLS 1.3", http["tls"]),
            ("file of 100 kB", http["100kB"]),
            ("1,500 bytes from a server behind a route", gateway["proxy"])]
    return table(("", "Sluice", "nginx 1.22"),
                 [(what, *(f"{case[name]['cpu_us']:.1f} µs" for name in ("sluice", "nginx"))) for what, case in rows])


def gateway(case):
    of_case = load("gateway")["figures"][case]
    rows = [(name, f"{of['cpu_us']:.2f}", f"{of['cpu_us'] / of_case['nginx']['cpu_us']:.2f}", f"{of['rps']:,.0f}",
             *(us(of[key]) if key in of else "" for key in MICRO), int(of["errors"])) for name, of in of_case.items()]
    return table(("", "CPU µs", "to nginx", "requests/s", *(f"{name} µs" for name in MICRO.values()), "errors"), rows)


def http():
    rows = [(case, name, f"{of['cpu_us']:.2f}", f"{of['cpu_us'] / of_case['sluice']['cpu_us']:.2f}", f"{of['rps']:,.0f}",
             f"{of['mb_s']:,.0f}", int(of["errors"])) for case, of_case in load("http")["figures"].items() for name, of in of_case.items()]
    return table(("case", "server", "CPU µs a request", "to Sluice's", "requests/s", "MB/s", "errors"), rows)


def _ladder(wanted):
    rows = load("ladder")["figures"]
    by = {(row["server"], row["workers"], row["connections"]): row for row in rows}
    names = dict.fromkeys((row["server"], row["workers"]) for row in rows if wanted(row))
    return [(shown(server), workers, *(cell for connections in (100, 10_000) for row in [by[server, workers, connections]]
                                       for cell in (rate(row["rps"]), row["ratio_to_blocking"], f"{row['cpu_us']:.1f}")))
            for server, workers in names]


LADDER_HEAD = ("", "workers", "requests/s, 100 connections", "to blocking", "CPU µs a request", "requests/s, 10,000 connections",
               "to blocking", "CPU µs a request")


def ladder():
    from run_ladder import VARIANTS
    return table(LADDER_HEAD, _ladder(lambda row: row["workers"] == 1 and row["server"] not in (*VARIANTS, "loops")))


def ladder_variants():
    return table(LADDER_HEAD, _ladder(lambda row: row["server"] in ("keep_alive", "pooled", "send_file", "edge", "prepared", "batched")))


def ladder_workers():
    rows = load("ladder")["figures"]
    by = {(row["server"], row["workers"], row["connections"]): row["rps"] for row in rows}
    most = max(row["workers"] for row in rows)
    return table(("workers", *(f"{name}, {connections:,}" for connections in (100, 10_000) for name in ("loops", "sluice", "nginx", "h2o"))),
                 [(workers, *(rate(by[name, workers, connections]) for connections in (100, 10_000)
                              for name in ("loops", "sluice", "nginx", "h2o"))) for workers in range(1, most + 1)])


def profile():
    return table(("", "system calls", "instructions in user space"),
                 [(shown(row["server"]), row["system_calls"], f"{row['instructions_user']:,}") for row in load("profile")["figures"]])


def profile_time():
    rows = load("profile")["figures"]
    parts = list(dict.fromkeys(part for part in ("receive", "send", "sendfile", "open and read the file", "accept and close",
                                                 "wait and register", "own code", "interrupts, entry and exit", "other calls")
                               if any(part in row["time"] for row in rows)))
    return table(("", *parts), [(shown(row["server"]), *(f"{row['time'][part]:.0%}" if part in row["time"] else "" for part in parts))
                                for row in rows])


def case_study():
    stages = load("case-study")
    counts = (100, 1000)
    by = {(row["rung"], row["users"]): row for row in stages["figures"]}
    rows = [(name, *(cell for count in counts for row in [by[name, count]]
                     for cell in (*(f"{row[f'p{percent}_us'] / 1000:.3g}" for percent in (50, 95, 99)), f"{row['times_as_fast']:.3g}")))
            for name in dict.fromkeys(row["rung"] for row in stages["figures"])]
    head = [f"{what}, {count:,} users" for count in counts for what in ("p50", "p95", "p99", "times as fast")]
    return table(("milliseconds", *head), rows)


def case_study_allocations():
    return table(("allocations for an answer", "100 users", "1,000 users"),
                 [(name, *(f"{of[str(count)]:,}" for count in (100, 1000)))
                  for name, of in load("case-study")["allocations"].items()])


def case_study_levels():
    return table(("p50 in milliseconds", *(f"-O{level}, {count:,} users" for count in (100, 1000) for level in (2, 3))),
                 [(name, *(f"{of[str(count)][str(level)] / 1000:.3g}" for count in (100, 1000) for level in (2, 3)))
                  for name, of in load("case-study")["levels"].items()])


def durations():
    """Of `make bench`, whole."""
    return table(("", "minutes"), [(f"`make bench-{name}`", f"{seconds / 60:.1f}") for name, seconds in load("durations")["figures"].items()])


BLOCKS = export_pages.BLOCKS | {
    "readme.speed": readme_speed, "durations": durations, "http": http, "ladder": ladder, "ladder.variants": ladder_variants, "ladder.workers": ladder_workers,
    "profile": profile, "profile.time": profile_time, "case-study": case_study, "case-study.allocations": case_study_allocations,
    "case-study.levels": case_study_levels,
    **growth.BLOCKS,
    **{f"gateway.{case}": lambda case=case: gateway(case)
       for case in ("proxy", "proxy-200", "proxy-2-workers", "proxy-200-2-workers", "proxy-5000", "guarded", "proxy-100kB", "tls-front",
                    "tls-behind", "websocket")},
    **{f"about.{name}": lambda name=name: about(name) for name in ("http", "gateway", "ladder", "profile", "case-study", "exports", "growth")},
}


def render(name):
    if name not in BLOCKS:
        raise SystemExit(f"there is no block of figures {name}")
    try:
        return BLOCKS[name]()
    except FileNotFoundError:
        return ["Not measured yet."]
