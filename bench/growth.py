"""What the figures of run_growth.py say: whether each promise is met, the tables and the plot of docs/scaling.md, and what they mean
for a large machine.

A cost that is promised to be constant or logarithmic is judged by the exponent of a log-log fit over all sizes. Of a linear one, the
growth over the smallest size is fitted, against that of the size, so that the fixed part of a request hides nothing; growths of less
than a tenth of the smallest cost are left out, because they could be noise. Memory is judged in the same way."""
import math

from stored import load, table

TOLERANCE = 0.1  # by which an exponent may exceed the promised one
# Further times that promise something: what the program does before it serves, and a reload.
STARTS = {"start_ms": "linear", "load_ms": "linear", "reload_ms": "constant"}
NOISE = 0.1      # the part of the smallest cost that a growth must exceed


def slope(points):
    """Least squares of the logarithms; None if there are fewer than two points."""
    if len(points) < 2:
        return None
    logs = [(math.log(x), math.log(y)) for x, y in points]
    x_mean, y_mean = (sum(values) / len(values) for values in zip(*logs))
    return sum((x - x_mean) * (y - y_mean) for x, y in logs) / sum((x - x_mean) ** 2 for x, _ in logs)


def _exponent(promise, points):
    """(the exponent of the figures, the greatest one that keeps the promise)"""
    if promise == "linear":
        (least, smallest), *others = points
        return slope([(size - least, value - smallest) for size, value in others if value - smallest > NOISE * smallest]), 1 + TOLERANCE
    sizes = [size for size, _ in points]
    most = TOLERANCE if promise == "constant" else slope([(size, math.log2(size)) for size in sizes]) + TOLERANCE
    return slope(points), most


def judge(of):
    """The verdict about one dimension: its cost, its memory and its start. An exponent is None if nothing has grown beyond the noise."""
    verdict = {}
    start = next((key for key in STARTS if key in of["rows"][0]), None)
    for prefix, promise, key in (("", of["promise"], "cpu_us"), ("memory_", of["memory"], "memory"),
                                 ("start_", start and STARTS[start], start)):
        verdict[f"{prefix}promise"], verdict[f"{prefix}met"] = promise, True
        if promise:
            found, most = _exponent(promise, [(row["size"], row[key]) for row in of["rows"]])
            verdict |= {f"{prefix}exponent": None if found is None else round(found, 3), f"{prefix}most": round(most, 3),
                        f"{prefix}met": found is None or found <= most}
    return verdict | {"errors": sum(row["errors"] for row in of["rows"])}


def each(of, key="cpu_us"):
    """What one more costs: the growth from the smallest to the greatest size, divided by that of the size."""
    first, last = of["rows"][0], of["rows"][-1]
    return (last[key] - first[key]) / (last["size"] - first["size"])


# ---- Tables

def number(value):
    return f"{value:,.0f}" if abs(value) >= 99.5 else f"{value:.3g}"


def size_text(value):
    return f"{value:,}"


def _yes(met):
    return "yes" if met else "**no**"


def _share(part):
    return "" if part is None else f"{part:.0%}"


def small_time(us):
    return f"{us * 1000:.3g} ns" if us < 1 else f"{number(us)} µs" if us < 10_000 else f"{number(us / 1000)} ms"


def size_of(count):
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} B"


def summary():
    """One line for each dimension."""
    stored = load("growth")
    rows = []
    for name, of in stored["figures"].items():
        verdict, first, last = judge(of), of["rows"][0], of["rows"][-1]
        exponent = verdict["exponent"]
        rows.append((f"`{name}`", f'{of["of"]}, {size_text(first["size"])} … {size_text(last["size"])}', of["promise"],
                     "no growth" if exponent is None else f"{exponent:.2f}", _yes(verdict["met"]),
                     f'{small_time(first["cpu_us"])} … {small_time(last["cpu_us"])} a {of["unit"]}',
                     small_time(each(of)) if of["promise"] == "linear" else f'× {last["cpu_us"] / first["cpu_us"]:.2f}',
                     *((size_of(max(each(of, "memory"), 0)), _yes(verdict["memory_met"])) if of["memory"] else ("", "")),
                     _yes(verdict["start_met"]) if verdict["start_promise"] else ""))
    return table(("", "sizes", "promise", "exponent", "met", "CPU time", "each more, or in all", "memory of each", "memory met",
                  "start met"), rows)


def details():
    """All sizes, one line for each dimension."""
    def cell(of, text):
        return " · ".join(f'{size_text(row["size"])}: {text(row)}' for row in of["rows"])

    rows = []
    for name, of in load("growth")["figures"].items():
        more = next((key for key in (*STARTS, "each_version_us") if key in of["rows"][0]), None)
        rows.append((f"`{name}`", cell(of, lambda row: number(row["cpu_us"])), cell(of, lambda row: number(row["p99_us"])),
                     cell(of, lambda row: size_of(row["memory"])),
                     f'{more.replace("_us", " µs").replace("_", " ")}: {cell(of, lambda row: number(row[more]))}' if more else ""))
    return table(("", "CPU µs", "p99 µs", "memory", ""), rows)


# ---- On paper

CORES = 64
BUSY = 0.7  # the part of its time that a core is planned to work; the rest is for peaks
KINDS = (  # (name, dimension, index of its row)
    ("file of 1,500 bytes, 100 connections on a core", "connections", 0),
    ("the same, 10,000 connections on a core", "connections", 4),
    ("100 bytes by HTTP/2, 16 streams on each connection", "streams", 2),
    ("100 bytes behind one rate limit", "policies", 1),
    ("100 bytes behind a token, of 10,000 that are remembered", "tokens", 3),
    ("1,500 bytes from a server behind", "servers", 0),
    ("a row of a resident table of 1,000,000", "rows-by-key", 3),
    ("a row from SQLite", "databases", 0),
    ("1,000 rows from SQLite", "answer-rows", 3),
    ("a body of 100 rows into SQLite", "body-rows", 2),
    ("a message to 9,000 sessions", "sessions", 4),
)


def _row(stored, dimension, place):
    rows = stored["figures"][dimension]["rows"]
    return rows[min(place, len(rows) - 1)]


def _rate(value):
    return f"{value / 1e6:.2f} M" if value >= 1e6 else f"{value / 1000:.1f} k" if value >= 1000 else f"{value:.0f}"


def machine():
    """What CORES cores carry of each kind, if that is all that they do."""
    stored = load("growth")
    rows = []
    for name, dimension, place in KINDS:
        row = _row(stored, dimension, place)
        rate = CORES * BUSY * 1e6 / row["cpu_us"]
        rows.append((name, f'{row["cpu_us"]:,.1f}', _share(row["kernel"]), _rate(1e6 / row["cpu_us"]), _rate(rate),
                     f'{rate * row["bytes"] * 8 / 1e9:,.1f}'))
    return table(("", "CPU µs", "of which kernel", "a second, one core", f"a second, {CORES} cores at {BUSY:.0%}", "Gbit/s of answers"), rows)


def millions(connections=10_000_000, rate=1_000_000):
    """What so many connections and requests a second take."""
    stored = load("growth")
    row, of = _row(stored, "connections", -1), stored["figures"]["connections"]
    exponent = max(judge(of)["exponent"] or 0, 0)
    rows = []
    for machines in (1, 4, 16):
        on_core = connections / machines / CORES
        far = row["cpu_us"] * max(on_core / row["size"], 1) ** exponent
        cores = rate / machines * far / 1e6
        proxied = cores + rate / machines * (_row(stored, "servers", 0)["cpu_us"] - _row(stored, "connections", 0)["cpu_us"]) / 1e6
        made, kernel = (stored["idle_connection"][key] * connections / machines for key in ("program_bytes", "kernel_bytes"))
        rows.append((machines, f"{connections // machines:,}", f"{on_core:,.0f}", f"{far:.1f}", f"{cores / BUSY:.1f}",
                     f"{proxied / BUSY:.1f}", size_of(made), size_of(kernel), f'{rate / machines * row["bytes"] * 8 / 1e9:.1f}'))
    return table(("machines", "connections on each", f"on each of {CORES} cores", "CPU µs a request", "cores for files", "cores for a gateway",
            "memory of the program", "memory of the kernel", "Gbit/s"), rows)


def behind(rate=1_000_000):
    """Connections between Sluice and what is behind it, by Little's law."""
    rows = []
    for milliseconds in (1, 10, 100):
        busy = rate * milliseconds / 1000
        rows.append((f"{milliseconds} ms", f"{busy:,.0f}", math.ceil(busy / 28_232), f"{math.ceil(busy / 500):,}"))
    return table(("a request takes, behind", "connections at the same time", "addresses of servers, at 28,232 ports for each",
            "PostgreSQL servers of 500 connections each"), rows)


BLOCKS = {"growth": summary, "growth.sizes": details, "growth.machine": machine, "growth.millions": millions, "growth.behind": behind}


# ---- The plot

def plot(figures, file):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "growth"
    from matplotlib import pyplot
    columns = 4
    lines = math.ceil(len(figures) / columns)
    figure, axes = pyplot.subplots(lines, columns, figsize=(13, 2.7 * lines), layout="constrained", squeeze=False)
    panels = [panel for line in axes for panel in line]
    for panel, (name, of) in zip(panels, figures.items()):
        verdict = judge(of)
        shift = 1 if of["rows"][0]["size"] == 0 else 0  # a logarithmic axis has no 0
        sizes, costs = [row["size"] + shift for row in of["rows"]], [row["cpu_us"] for row in of["rows"]]
        first, last = of["rows"][0]["size"], of["rows"][-1]["size"]
        if of["promise"] == "linear":
            promised = [costs[0] + (costs[-1] - costs[0]) * (row["size"] - first) / (last - first) for row in of["rows"]]
        elif of["promise"] == "constant":
            promised = [costs[0]] * len(costs)
        else:
            promised = [costs[0] * math.log2(size) / math.log2(first) for size in sizes]
        panel.plot(sizes, promised, color="tab:grey", linewidth=0.8)
        panel.plot(sizes, costs, marker="o", markersize=3, color="tab:blue" if verdict["met"] else "tab:red")
        panel.set_xscale("log")
        panel.set_yscale("log")
        low, high = min(costs + promised), max(costs + promised)
        if high < 8 * low:  # noise would fill the panel
            panel.set_ylim(math.sqrt(low * high) / 3, math.sqrt(low * high) * 3)
        panel.set_title(f'{name}: {of["promise"]}', fontsize=9)
        panel.set_xlabel(of["of"] + (" + 1" if shift else ""), fontsize=7)
        panel.set_ylabel(f'CPU µs a {of["unit"]}', fontsize=7)
        panel.tick_params(labelsize=7)
        panel.minorticks_off()
    for panel in panels[len(figures):]:
        panel.axis("off")
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)
