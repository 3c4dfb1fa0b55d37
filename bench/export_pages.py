"""The blocks of figures of the ladder of exports (run_export_ladder.py). See stored.py."""
from stored import load, table

FORMATS = ("csv", "csj")
# Of an allocation, by bytes: nanoseconds.
PUBLISHED = {1024: 527, 16 * 1024: 2090, 512 * 1024: 3173}
PROCESS = ("CPU seconds", "allocations per row", "writes", "peak MiB")


def rounded(number):
    """Three digits, never as 1e+03."""
    return f"{number:,.0f}" if number >= 99.5 else f"{number:.2g}" if number < 0.1 else f"{number:.3g}"


def of_process(one):
    """Cells for PROCESS."""
    return [one.get("cpu_seconds"), one.get("allocations_per_row"), f"{one['writes']:,}" if "writes" in one else None,
            one.get("peak_mib")]


def ladder():
    """Seconds of every job: a column for each table and format."""
    figures = load("exports")["figures"]
    of = {(one["job"], one["table"], one["format"]): one for one in figures}
    counts = {one["table"]: one["rows"] for one in figures}
    rows = []
    for job in dict.fromkeys(one["job"] for one in figures):
        cells = [of.get((job, name, form)) or (of.get((job, name, "")) if form == "csv" else None)
                 for name in counts for form in FORMATS]
        rows.append([job, *(f"{cell['seconds']:.3f}" if cell else None for cell in cells), *of_process(cells[0])])
    columns = [f"{name}, {count:,} rows: {form.upper()}" if form == "csv" else form.upper() for name, count in counts.items()
               for form in FORMATS]
    return table(["seconds", *columns, f"{next(iter(counts))}, CSV: {PROCESS[0]}", *PROCESS[1:]], rows)


def details():
    return table(["table", "job", "format", "MB", "seconds", "to the floor", *PROCESS],
                 [[one["table"], one["job"], one["format"], round(one["bytes"] / 1e6, 1) if "bytes" in one else None,
                   f"{one['seconds']:.3f}", one["to_floor"], *of_process(one)] for one in load("exports")["figures"]])


def operations():
    def cells(by_size):
        return [f"{rounded(of)} ns, {rounded(of / size * 1e3)} ps" for size, of in by_size.items()]
    measured = {}
    for one in load("exports")["operations"]:
        measured.setdefault(one["operation"], {})[one["bytes"]] = one["ns"]
    return table(["an operation, and a byte of it", *(f"{size // 1024} kB" for size in PUBLISHED)],
                 [[name, *cells(of)] for name, of in (*measured.items(), ("published: an allocation", PUBLISHED))])


def strings():
    return table(["a row of the films as CSJ", "ns", "allocations"],
                 [[one["way"], rounded(one["ns"]), one["allocations"]] for one in load("exports")["strings"]])


def layouts():
    return table(["a row of the films as a JSON value: ns", "make", "copy", "write", "free", "allocations", "bytes"],
                 [[one["layout"], *(rounded(one[f"{part}_ns"]) for part in ("make", "copy", "write", "free")), one["allocations"],
                   f"{one['bytes']:,}"] for one in load("exports")["layouts"]])


def runs():
    stored = load("exports")
    rounds = stored["rounds"]
    return [f"The table has medians of {rounds} rounds." if rounds > 1 else "The table has figures of a single round.",
            f"Programs wrote to {stored['sink']}."]


BLOCKS = {"exports": ladder, "exports.details": details, "exports.operations": operations, "exports.strings": strings,
          "exports.layouts": layouts, "exports.runs": runs}
