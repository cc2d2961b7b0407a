"""Pages in Markdown: links lead somewhere, named files exist, lines are short, and the start page lists every page.
Comments of sources may name pages too; those have to exist as well."""
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHELVES = ("tutorial", "how-to", "reference", "explanation")
COLUMNS = 125
TABLE_COLUMNS = 200  # Markdown cannot break a row
FOLDERS = ("src", "include", "tests", "tools", "cli", "demo", "bench", "examples", "cmake", "docs", "conformance", "programs")
TEXT = {".h", ".cc", ".c", ".cu", ".cuh", ".py", ".sh", ".txt", ".cmake", ".md", ".in", ".inc", ".comp", ".yml", ".yaml"}


def tracked():
    """Files of the repository, also new ones that git does not ignore."""
    done = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True,
                          capture_output=True)
    if done.returncode == 0:
        return sorted(ROOT / name for name in set(done.stdout.splitlines()) if (ROOT / name).is_file())
    return sorted(path for folder in (*FOLDERS, ".") for path in (ROOT / folder).glob("*" if folder == "." else "**/*")
                  if path.is_file())


FILES = tracked()
PAGES = [path for path in FILES if path.suffix == ".md"]
SHELVED = [path for path in PAGES if path.parent.parent == ROOT / "docs" and path.parent.name in SHELVES]


def name(path):
    return str(path.relative_to(ROOT))


def without_code_blocks(text):
    """The text with fenced blocks emptied, so that line numbers stay."""
    return re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.S | re.M)


def anchors(text):
    """The anchors that headings get: lower case, blanks to dashes, no other signs."""
    headings = re.findall(r"^#+ (.*)$", without_code_blocks(text), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def broken_links(page, text):
    bad = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code_blocks(text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        if not path.exists():
            bad.append(target)
        elif anchor and path.suffix == ".md" and anchor not in anchors(path.read_text()):
            bad.append(target)
    return bad


def exists(path):
    """Whether a named path is there: a file, a folder, or a pattern (`x_*.cc`, `x.*`, `{a,b}.h`, `x.h/.cc`, `<name>`)."""
    choice = re.search(r"\{([^}]*)\}", path)
    if choice:
        return all(exists(path[:choice.start()] + part + path[choice.end():]) for part in choice[1].split(","))
    both = re.fullmatch(r"(.*)(\.\w+)/(\.\w+)", path)
    if both:
        return exists(both[1] + both[2]) and exists(both[1] + both[3])
    pattern = re.sub(r"<[^>]*>", "*", path).rstrip("/")
    return any(ROOT.glob(pattern)) if "*" in pattern else (ROOT / pattern).exists()


def missing_paths(text):
    """Paths that begin with a folder of the repository, in `code` of a page, and are not there."""
    folders = "|".join(FOLDERS)
    code = re.findall(r"`([^`\n]+)`", without_code_blocks(text))
    paths = {word.rstrip(".,:;") for span in code for word in span.split() if re.match(rf"({folders})/[\w<{{*]", word)}
    return sorted(path for path in paths if not exists(path))


def pages_that_are_named(text):
    return set(re.findall(r"\bdocs/[\w/-]+\.(?:md|png)", text))


def long_lines(text):
    return [number for number, line in enumerate(text.splitlines(), 1)
            if len(line) > (TABLE_COLUMNS if line.startswith("|") else COLUMNS)]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings(page):
    assert broken_links(page, page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_files_exist(page):
    if page.name != "CHANGELOG.md":  # it tells of files that have gone since
        assert missing_paths(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_lines_are_short(page):
    assert long_lines(page.read_text()) == []


@pytest.mark.parametrize("page", SHELVED, ids=name)
def test_a_page_names_the_files_that_it_speaks_of(page):
    """A line `Files: ...` of existing paths, so that a reader finds the code and a mover of code finds the page."""
    lines = re.findall(r"^Files: (.*(?:\n(?!\n).*)*)", page.read_text(), flags=re.M)
    assert len(lines) == 1
    assert re.findall(rf"`(?:{'|'.join(FOLDERS)})/[^`]+`", lines[0]) != []


def test_the_start_page_lists_every_page():
    start = (ROOT / "docs" / "README.md").read_text()
    assert {page.parent.name for page in SHELVED} == set(SHELVES)
    assert [name(page) for page in SHELVED if f"({page.parent.name}/{page.name})" not in start] == []


def test_pages_named_by_sources_exist():
    bad = []
    for path in FILES:
        if path.suffix not in TEXT and path.name not in ("dev", "run") or path == pathlib.Path(__file__).resolve():
            continue
        text = path.read_text(errors="replace")
        bad += [(name(path), page) for page in pages_that_are_named(text) if not (ROOT / page).exists()]
    assert bad == []


def test_the_checks_find_what_is_wrong():
    page = ROOT / "docs" / "README.md"
    assert broken_links(page, "[a](nowhere.md) [b](README.md#nothing) [c](README.md#tutorial)") == \
        ["nowhere.md", "README.md#nothing"]
    assert missing_paths("`src/none.cc` `src/base/env.cc` `src/base/none*.h` `src/base/{env,none}.cc` `src/base`") == \
        ["src/base/none*.h", "src/base/{env,none}.cc", "src/none.cc"]
    assert long_lines("x" * 126 + "\n| " + "x" * 126 + "\n" + "x" * 125) == [1]
    assert pages_that_are_named("see docs/fences.md and docs/how-to/debugging.md.") == \
        {"docs/fences.md", "docs/how-to/debugging.md"}
