"""[endpoint.list] in plain Python: a table's rows, query strings made from a seed, and the rows that they ask for."""
import datetime
import random
import re
import struct
from decimal import Decimal
from urllib.parse import quote

TEXTS = ["", " ", "harbor", "Harbor", "HARBOR", "old harbor", "Old Harbor 2", "é", "É", "été", "Été d'Aragon", "naïve", "Straße", "it's",
         'say "hi"', '"', "back\\slash", "back\\*star", "\\", "\\\\", "50%", "100%_sure", "%", "_", "under_score", "a*b", "a**b", "*", "a,b",
         "a, b", ",", "(x)", "a(b)c)", ")", "(", "a.b", "eq.5", "like.har*", "not.eq.x", "in.(1,2)", "is.null", "null", "NULL", "true", "1",
         "10", "010", "日本語", "\U0001F3AC film", "\U0001F3AC", "\uffee", "tab\there", "two\nlines", "[a-z]", "a[b]c", "what?", "a&b=c", "a+b", "$1",
         "?1", ":id", "--", "/* x */", ";", "x" * 300, "or", "and", "not", "a;b", "{}", "\x01\x7f"]
# Names of further rows.
MARK = "zq17"  # stands in each text of a client that no statement may have
INJECTED = [
    f"' OR 1=1 --{MARK}", f"'; DROP TABLE things; --{MARK}", f"{MARK}' UNION SELECT 1,2,3 --", f'"; DROP TABLE things; --{MARK}',
    f'" OR ""="{MARK}', f"') OR ('{MARK}'='{MARK}", f"1) OR 1=1 --{MARK}", f"1; SELECT pg_sleep(9) --{MARK}", f"/*{MARK}*/ OR 1=1",
    f"*/ OR 1=1 /*{MARK}", f"\\' OR 1=1 --{MARK}", f"\\{MARK}", f"{MARK}\\", f"$1{MARK}", f"$1::text || {MARK}", f"?1{MARK}", f":id{MARK}",
    f"@{MARK}", f"$${MARK}$$", f"E'\\x27{MARK}'", f"{MARK}\n--", f"{MARK}\r\nSet-Cookie: a=b", f"{MARK}%27", f"%s%n{MARK}", f"{{{MARK}}}",
    f"＇ OR 1=1 --{MARK}", f"ʼ{MARK}", f"\u2028{MARK}", f"\u202e{MARK}", f"\U0001F600{MARK}", f"{MARK}e\u0301", MARK * 240, "(" * 300 + MARK,
    f"list.name = list.name {MARK}", f"name{MARK}", f"id IS NULL {MARK}", f"CAST({MARK} AS int)", f"{MARK}>;rel=\"next\",</x", f"0x1F{MARK}",
    f"1e400{MARK}", f"NaN{MARK}", f"-{MARK}", f"--{MARK}", f"#{MARK}", f"|{MARK}|", f"`{MARK}`", f"[{MARK}]", f"{MARK}&x=y", f"={MARK}",
    f"{MARK}.eq.1"]
LABELS = ["small", "medium", "large"]  # in the order of PostgreSQL's enum, which is not the order of their bytes


def single(number):
    """The nearest value of single precision."""
    return struct.unpack("f", struct.pack("f", number))[0]


class Column:
    """A column's types, the values that its rows take, and how a request spells one."""

    def __init__(self, postgres, sqlite, values, spell=lambda rng, value: str(value), rank=lambda kind, value: value):
        self.postgres, self.sqlite, self.values, self.spell, self.rank = postgres, sqlite, values, spell, rank
        self.is_text = "text" in postgres
        self.is_boolean = postgres == "boolean"


def days(count):
    return [str(datetime.date(2026, 1, 1) + datetime.timedelta(days=7 * n)) for n in range(count)]


# rank(): the database's order, for `kind` "sqlite" or "postgres".
COLUMNS = {
    "id": Column("integer PRIMARY KEY", "INTEGER PRIMARY KEY", None),
    "name": Column('text COLLATE "C" NOT NULL', "TEXT NOT NULL", TEXTS, rank=lambda kind, value: value.encode()),
    "note": Column('text COLLATE "C"', "TEXT", [None, None, None, *TEXTS[:14]], rank=lambda kind, value: value.encode()),
    "n": Column("integer", "INTEGER", [None, None, *range(-5, 15), 2**31 - 1, -2**31]),
    "r": Column("double precision", "REAL", [None, None, 0.0, 0.1, 0.30000000000000004, 1 / 3, -2.5, 1e300, -1e300, 5e-324, 123456789.125, 7.0],
                lambda rng, value: rng.choice([repr(value), f"{value:.17e}"])),
    "f": Column("real", "REAL", [None, 0.1, 0.2, 1.5, -2.25, 1e20, 16777216.0],
                rank=lambda kind, value: single(value) if kind == "postgres" else value),
    "ok": Column("boolean", "BOOLEAN", [None, True, False], lambda rng, value: rng.choice(["true", "t"] if value else ["false", "f"])),
    "day": Column("date", "DATE", [None, None, *days(20)]),
    "at": Column("timestamp", "TEXT", [None, *(f"{day} {time}" for day in days(8) for time in
                                               ("00:00:00", "10:00:00", "10:00:00.25", "10:00:00.5", "23:59:59.999999"))]),
    "kind": Column("size", "TEXT", [None, *LABELS],
                   rank=lambda kind, value: LABELS.index(value) if kind == "postgres" else value.encode()),
    "price": Column("numeric(12,2)", "NUMERIC", [None, *map(Decimal, ("0", "0.10", "0.30", "1.50", "10", "9.99", "-3.25", "12345678.90", "100"))],
                    lambda rng, value: rng.choice([str(value), f"{value:.2f}"])),
    # An expression of `get`, which SQLite gives no type.
    "seven": Column("", "", list(range(7))),
}
STORED = [name for name in COLUMNS if name != "seven"]
SELECT = f"SELECT {', '.join(STORED)}, id % 7 AS seven FROM things"


def made_row(rng, key):
    row = {name: rng.choice(column.values) for name, column in COLUMNS.items() if column.values}
    if rng.random() < 0.3:
        row["name"] = f"{rng.choice(TEXTS)} {rng.choice(TEXTS)}"
    return {"id": key, **row, "seven": key % 7}


def made_rows(count, seed=1):
    rng = random.Random(f"rows {seed}")
    return [made_row(rng, key) for key in rng.sample(range(1, 10 * count), count)]


# Three values: None is "unknown", as in SQL.
def all_of(values):
    values = list(values)
    return False if False in values else None if None in values else True


def any_of(values):
    values = list(values)
    return True if True in values else None if None in values else False


def inverted(value):
    return None if value is None else not value


COMPARISONS = {"eq": lambda a, b: a == b, "neq": lambda a, b: a != b, "gt": lambda a, b: a > b, "gte": lambda a, b: a >= b,
               "lt": lambda a, b: a < b, "lte": lambda a, b: a <= b}
BEGINS_AS_OPERATOR = re.compile(rf"(not\.)?({'|'.join(COMPARISONS)}|in|is|like)\.")
ANY = object()  # an asterisk of `like`


def matches(pattern, text):
    """Whether the text is the pattern's texts, with anything at each ANY. Takes the first place of each text."""
    texts = "".join("\0" if part is ANY else part for part in pattern).split("\0")
    if len(texts) == 1:
        return text == texts[0]
    first, *middle, last = texts
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


class Condition:
    """`values`: the operator's values, the word of `is`, or the texts and ANYs of `like`."""

    def __init__(self, column, operator, values, negated=False):
        self.column, self.operator, self.values, self.negated = column, operator, values, negated

    def holds(self, kind, row):
        found = self._holds(kind, row[self.column])
        return inverted(found) if self.negated else found

    def _holds(self, kind, value):
        if self.operator == "is":
            return {"null": value is None, "not_null": value is not None, "true": value is True, "false": value is False}[self.values]
        if value is None:
            return None
        if self.operator == "like":
            return matches(self.values, value)
        rank = COLUMNS[self.column].rank
        if self.operator == "in":
            return any(rank(kind, value) == rank(kind, one) for one in self.values)
        return COMPARISONS[self.operator](rank(kind, value), rank(kind, self.values))

    def spelled(self, rng, inside):
        """The operator and its values, as a parameter's value or `inside` a group."""
        spell = COLUMNS[self.column].spell
        start = "not." if self.negated else ""
        if self.operator == "is":
            return f"{start}is.{self.values}"
        if self.operator == "in":
            return f"{start}in.({','.join(quoted(rng, spell(rng, one)) for one in self.values)})"
        if self.operator == "like":
            text = "".join("*" if part is ANY else part.replace("\\", "\\\\").replace("*", "\\*") for part in self.values)
            if rng.random() < 0.5:  # a backslash in front of another character is one too
                text = re.sub(r"(?<!\\)\\\\(?![\\*])", lambda _: "\\", text)
        else:
            text = spell(rng, self.values)
        if inside:
            text = quoted(rng, text)
        elif self.operator == "eq" and not start and text and not BEGINS_AS_OPERATOR.match(text) and rng.random() < 0.5:
            return text
        return f"{start}{self.operator}.{text}"

    def member(self, rng):
        return f"{self.column}.{self.spelled(rng, True)}"

    def parameter(self, rng):
        return self.column, self.spelled(rng, False)

    def count(self):
        return 1


class Group:
    def __init__(self, word, members, negated=False):
        self.word, self.members, self.negated = word, members, negated

    def holds(self, kind, row):
        found = {"or": any_of, "and": all_of}[self.word](member.holds(kind, row) for member in self.members)
        return inverted(found) if self.negated else found

    def _members(self, rng):
        return f"({','.join(member.member(rng) for member in self.members)})"

    def member(self, rng):
        return ("not." if self.negated else "") + self.word + self._members(rng)

    def parameter(self, rng):
        return ("not." if self.negated else "") + self.word, self._members(rng)

    def count(self):
        return sum(member.count() for member in self.members)


def quoted(rng, text):
    """A value in a list or in a group, in quotes if it needs them."""
    if text == "" or text[0] == '"' or re.search("[,)]", text) or rng.random() < 0.2:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


class Ask:
    """One query string, as a tree. `sort` has pairs of a column and whether it is descending."""

    def __init__(self, conditions=(), words=None, sort=(), limit=None, offset=None, fields=None, counted=False):
        self.conditions, self.words, self.sort = list(conditions), words, list(sort)
        self.limit, self.offset, self.fields, self.counted = limit, offset, fields, counted

    def meets(self, kind, row):
        return (all_of(condition.holds(kind, row) for condition in self.conditions) is True
                and all(any(has_word(kind, row[column], word) for column in ("name", "note")) for word in re.findall(r"[^ \t\r\n\f\v]+", self.words or "")))

    def rows(self, kind, rows):
        """All rows that meet the conditions, in order."""
        found = [row for row in rows if self.meets(kind, row)]
        return sorted(found, key=lambda row: self.place(kind, row))

    def order(self):
        return [*self.sort, *([] if "id" in dict(self.sort) else [("id", False)])]

    def place(self, kind, row):
        """Compares as the rows are ordered."""
        return [Place(COLUMNS[name].rank(kind, row[name]) if row[name] is not None else None, descending)
                for name, descending in self.order()]

    def text(self, rng):
        pairs = [condition.parameter(rng) for condition in self.conditions]
        if self.words is not None:
            pairs.append(("q", self.words))
        if self.sort:
            pairs.append(("sort", ",".join(("-" if descending else "") + name for name, descending in self.sort)))
        pairs += [(name, str(value)) for name, value in (("limit", self.limit), ("offset", self.offset)) if value is not None]
        if self.fields:
            pairs.append(("fields", ",".join(self.fields)))
        if self.counted:
            pairs.append(("count", "exact"))
        rng.shuffle(pairs)
        return "&".join(f"{name}={escaped(rng, value)}" for name, value in pairs)


class Place:
    """A value of the order; NULL is the greatest."""

    def __init__(self, value, descending):
        self.value, self.descending = value, descending

    def __eq__(self, other):
        return self.value == other.value

    def __lt__(self, other):
        one, two = (other.value, self.value) if self.descending else (self.value, other.value)
        return one is not None and (two is None or one < two)


def has_word(kind, text, word):
    if text is None:
        return False
    if kind == "sqlite":
        return re.search(re.escape(word), text, re.I) is not None
    fold = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}  # COLLATE "C"
    return word.translate(fold) in text.translate(fold)


def escaped(rng, text):
    """A value of a query string."""
    chosen = rng.random()
    made = quote(text, safe="()*,.:!'~-_=/?@$;" if chosen < 0.5 else "")
    return made.replace("%20", "+") if chosen < 0.75 else made


def some_value(rng, column, rows):
    """A value of some row, or else one of those that rows take."""
    value = rng.choice(rows)[column] if rng.random() < 0.7 else rng.choice(COLUMNS[column].values or [0])
    return some_value(rng, column, rows) if value is None else value


def some_pattern(rng, text):
    parts = []
    while text:
        size = rng.randrange(1, len(text) + 1)
        parts.append(ANY if rng.random() < 0.4 else text[:size])
        text = text[size:]
    return rng.choice([parts, [*parts, ANY], [ANY, *parts], [ANY, *parts, ANY]])


def some_condition(rng, rows):
    column = rng.choice(list(COLUMNS))
    made = COLUMNS[column]
    operator = rng.choice(["eq", "eq", "neq", "gt", "gte", "lt", "lte", "in", "is", *["like"] * (3 * made.is_text)])
    if made.is_boolean and operator in ("gt", "gte", "lt", "lte"):
        operator = "is"
    if operator == "is":
        values = rng.choice(["null", "not_null", *["true", "false"] * made.is_boolean])
    elif operator == "in":
        values = [some_value(rng, column, rows) for _ in range(rng.choice([0, 1, 2, 2, 3, 3, 8, 8]))]
    elif operator == "like":
        values = some_pattern(rng, some_value(rng, column, rows))
    else:
        values = some_value(rng, column, rows)
    return Condition(column, operator, values, rng.random() < 0.2)


def some_tree(rng, rows, depth):
    if depth == 0 or rng.random() < 0.5:
        return some_condition(rng, rows)
    return some_group(rng, rows, depth)


def some_group(rng, rows, depth):
    return Group(rng.choice(["or", "or", "and"]), [some_tree(rng, rows, depth - 1) for _ in range(rng.randrange(1, 4))], rng.random() < 0.2)


def some_conditions(rng, rows):
    while True:
        made = [some_condition(rng, rows) if rng.random() < 0.5 else some_group(rng, rows, rng.randrange(1, 5))
                for _ in range(rng.choice([0, 1, 1, 2, 3]))]
        if sum(one.count() for one in made) <= 32:
            return made


def some_sort(rng, most=3):
    return [(name, rng.random() < 0.5) for name in rng.sample(list(COLUMNS), rng.randrange(most + 1))]


def some_words(rng, rows):
    words = some_value(rng, "name", rows).split()
    if not words:
        return None
    word = rng.choice(words)
    part = word[rng.randrange(len(word)):] if rng.random() < 0.3 else word
    return rng.choice([word, part, part.upper(), part.lower(), f"{word} {rng.choice(words)}", f"{word} har"])


def some_fields(rng):
    return rng.sample(list(COLUMNS), rng.randrange(1, len(COLUMNS) + 1)) if rng.random() < 0.3 else None


def some_ask(rng, rows):
    return Ask(some_conditions(rng, rows), some_words(rng, rows) if rng.random() < 0.15 else None, some_sort(rng),
               rng.choice([None, None, 0, 1, 2, 2, 7, 7, 50, 400]), rng.choice([None, None, 0, 1, 5, 60, 299]), some_fields(rng), rng.random() < 0.5)
