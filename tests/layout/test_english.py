"""The English of comments and guides: sentences that begin or read as no other project's do. Their number only falls."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Lower it with every text that you mend.
LEFT = 138

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
    """(line, text) of each comment of a source; lines that follow each other are one."""
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


def hard_sentences(text, is_guide):
    for line, block in (paragraphs if is_guide else comments)(text):
        for sentence in re.split(r"(?<=[.:;!?])\s+", block):
            for _ in HARD.finditer(sentence):
                yield line, sentence


def test_patterns_are_found():
    source = "int a;  // Whoever asks\n// The size. Of a file,\n// it is told.\n"
    assert [line for line, _ in hard_sentences(source, is_guide=False)] == [1, 2, 2]
    guide = "# What it is\n\nPlain text.\nWhat a file is\n\n```\nWhat an example says\n```\n- Who asks\n"
    assert [line for line, _ in hard_sentences(guide, is_guide=True)] == [3, 9]


def test_no_more_hard_sentences_than_before():
    listed = subprocess.run(["git", "ls-files", "*.cc", "*.h", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True)
    hard = [f"{name}:{line}: {sentence}" for name in listed.stdout.split()
            if not name.startswith("docs/decisions") and (ROOT / name).exists()
            for line, sentence in hard_sentences((ROOT / name).read_text(), name.endswith(".md"))]
    assert len(hard) <= LEFT, "more than before:\n" + "\n".join(hard)
    assert len(hard) == LEFT, f"there are fewer: lower LEFT in {pathlib.Path(__file__).name} to {len(hard)}"
