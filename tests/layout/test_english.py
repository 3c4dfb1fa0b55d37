"""The English of comments, messages and guides: no sentence begins or reads in ways that other projects avoid."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]

PATTERNS = [
    r"^(What|Who|Whom|Whose|Whoever|Whatever|Whichever)\b",
    r"^Of (a|an|one|those|what|which|whom|it|its|them|some|other)\b",
    r"^(That|Those|These) (which|who|that|of)\b",
    r"\b(whoever|whomever)\b",
    r"\b(is|are|be|been|was|were) told\b",
    r"\b(is none\b|for ever\b|hears? (nothing|of)|no such thing)",
    r"\b(Edition|Wish|edition|wish)s?\b",
]
HARD = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS))


def paragraphs(text):
    """(line, text) of each paragraph of a guide, without headings and examples."""
    number, found, fenced = 0, [], False
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.startswith("```"):
            fenced = not fenced
        elif line.strip() and not fenced and not line.startswith("#"):
            found.append(line.lstrip("-*| \t"))
            continue
        if found:
            yield number - len(found), " ".join(found)
        found = []


def comments(text):
    """(line, text) of each comment of a source; adjacent comment lines are joined."""
    found = []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if whole := re.match(r"\s*// ?(.*)", line):
            found.append(whole[1])
            continue
        if found:
            yield number - len(found), " ".join(found)
        found = []
        if trailing := re.search(r"[;{},)]\s+// ?(.*)", line):
            yield number, trailing[1]


def literals(text):
    """(line, text) of each string of several words outside of tests: messages, names of metrics, descriptions of keys."""
    string = r'"(?:[^"\\\n]|\\.)*"'
    for match in re.finditer(rf"{string}(?:\s*{string})*", text):
        joined = "".join(one[1:-1] for one in re.findall(string, match[0]))
        if " " in joined:
            yield text.count("\n", 0, match.start()) + 1, joined


def hard_sentences(text, name):
    """(line, hard words, sentence)"""
    blocks = list((paragraphs if name.endswith(".md") else comments)(text))
    if name.startswith("src/") and not re.search(r"_test|_bench|for_tests|fixture", name):
        blocks += literals(text)
    for line, block in blocks:
        for sentence in re.split(r"(?<=[.:;!?])\s+", block):
            for found in HARD.finditer(sentence):
                yield line, found[0], sentence


def test_patterns_are_found():
    source = 'int a;  // Whoever asks\n// The size. Of a file,\n// it is told.\nfail("a rate, "\n     "which is none");\n'
    assert [line for line, *_ in hard_sentences(source, "src/a.cc")] == [1, 2, 2, 4]
    assert [line for line, *_ in hard_sentences(source, "src/a_test.cc")] == [1, 2, 2]
    guide = "# What it is\n\nPlain text.\nWhat a file is\n\n```\nWhat an example says\n```\n- **Who asks**\n"
    assert [line for line, *_ in hard_sentences(guide, "a.md")] == [3, 9]


def test_no_sentence_is_hard():
    listed = subprocess.run(["git", "ls-files", "*.cc", "*.h", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True)
    hard = [f"{name}:{line}: \"{found}\" in: {sentence}" for name in listed.stdout.split()
            if not name.startswith("docs/decisions") and (ROOT / name).exists()
            for line, found, sentence in hard_sentences((ROOT / name).read_text(), name)]
    assert hard == [], "\n".join(hard)
