"""docs/reference/plugin-members.md: each member of a plugin's structs is set to null in turn, and a program that uses the whole EP
runs in Tenon and in each stock onnxruntime, in a process of its own. The page's table says what was seen, and Tenon never crashes.

TENON_SOURCE, TENON_LIBRARY, TENON_SIM_PLUGIN, TENON_MEMBER_PLUGIN and TENON_MEMBER_PROGRAM are set by CMake; TENON_ORT has the
stock environments. A page that differs is written to the working directory as plugin-members.md: read it, then move it there.
"""
import concurrent.futures
import csv
import os
import pathlib
import re
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE"])
PAGE = SOURCE / "docs/reference/plugin-members.md"
STRUCTS = ["OrtEpFactory", "OrtEp", "OrtNodeComputeInfo", "OrtKernelImpl", "OrtAllocator", "OrtDataTransferImpl",
           "OrtSyncStreamImpl", "OrtSyncNotificationImpl", "OrtExternalResourceImporterImpl", "OrtExternalMemoryHandle",
           "OrtExternalSemaphoreHandle", "OrtEpProfilerImpl"]
DATA = {"ort_version_supported", "version", "flags", "ep_device", "descriptor"}  # members that are no functions
ROW = re.compile(r"\| `(\w+)` \| (\d+) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$")


def members():
    with (SOURCE / "tools/abi/ort_abi.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["table"] in STRUCTS and row["name"] not in DATA]
    return sorted(rows, key=lambda row: (STRUCTS.index(row["table"]), int(row["offset"])))


def hosts():
    found = {}
    for path in pathlib.Path(os.environ.get("TENON_ORT") or "/nonexistent").glob("*/lib/python*/site-packages/onnxruntime/capi"):
        for library in path.glob("libonnxruntime.so.1*"):
            found[library.name.split(".so.")[1]] = library
    return dict(sorted(found.items(), key=lambda item: int(item[0].split(".")[1])))


def walk(library, member, folder):
    """How each step ends, the exit status, and whether the plugin has the member."""
    folder.mkdir(parents=True)
    environment = {**os.environ, "TENON_MEMBER_PLUGIN": os.environ["TENON_SIM_PLUGIN"], "TENON_MEMBER_FOUND": str(folder / "found")}
    if member is not None:
        environment["TENON_NULL_MEMBER"] = f"{member['table']}:{member['offset']}"
    done = subprocess.run([os.environ["TENON_MEMBER_PROGRAM"], str(library), os.environ["TENON_MEMBER_PLUGIN"]], env=environment,
                          cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    found = (folder / "found").read_text().split() if (folder / "found").exists() else []
    begun = [line[2:] for line in done.stdout.splitlines() if line.startswith("> ")]
    ended = [line for line in done.stdout.splitlines() if not line.startswith("> ")]
    return done.returncode, begun, ended, found


def seen(library, member, whole, folder):
    status, begun, ended, found = walk(library, member, folder)
    assert found, f"{member['table']}::{member['name']} is in no struct that {library} asks for"
    if status != 0:
        return f"crash: {begun[-1]}"
    for line, right in zip(ended, whole):
        if line != right:
            step, text = line.split(": ", 1)
            return f"{'changes' if text.startswith('ok') else 'status'}: {step}"
    assert len(ended) == len(whole)
    return "works"


def observe(library, rows, folder):
    status, _, whole, _ = walk(library, None, folder / "whole")
    assert status == 0 and all(": ok" in line for line in whole), whole
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        cells = pool.map(lambda row: seen(library, row, whole, folder / f"{row['table']}_{row['name']}"), rows)
    return {(row["table"], row["name"]): cell for row, cell in zip(rows, cells)}


def stock_cell(cells):
    """The newest host's, then others that differ: "status: copies; 1.24.4, 1.28.0: crash: copies"."""
    newest = list(cells.values())[-1]
    others = {}
    for host, cell in cells.items():
        if cell != newest:
            others.setdefault(cell, []).append(host)
    return "; ".join([newest, *(f"{', '.join(which)}: {cell}" for cell, which in others.items())])


def check(found, columns):
    """Compares the page's rows with what was found, for these columns (2: Tenon, 3: stock)."""
    lines, table, wrong, listed = PAGE.read_text().splitlines(), None, [], set()
    for number, line in enumerate(lines):
        if line.startswith("## "):
            table = line[3:].strip("`")
        row = ROW.match(line)
        if row is None:
            continue
        name, cells = row[1], list(row.groups())
        listed.add((table, name))
        for column in columns:
            expected = found.get((table, name), {}).get(column)
            if expected is not None and cells[column] != expected:
                wrong.append(f"{table}::{name}: the page says \"{cells[column]}\" instead of \"{expected}\"")
                cells[column] = expected
        lines[number] = f"| `{cells[0]}` | " + " | ".join(cells[1:]) + " |"
    missing = set(found) - listed
    if wrong:
        pathlib.Path("plugin-members.md").write_text("\n".join(lines) + "\n")
    assert not wrong and not missing, (wrong, missing)


def test_tenon_answers_each_null_member_as_the_page_says(tmp_path):
    rows = members()
    cells = observe(os.environ["TENON_LIBRARY"], rows, tmp_path / "tenon")
    assert [key for key, cell in cells.items() if cell.startswith("crash")] == []
    check({(row["table"], row["name"]): {1: row["since"], 2: cells[row["table"], row["name"]]} for row in rows}, (1, 2))


@pytest.mark.skipif(not hosts(), reason="TENON_ORT has no stock onnxruntime")
def test_stock_hosts_answer_as_the_page_says(tmp_path):
    cells = {}
    for host, library in hosts().items():
        rows = [row for row in members() if int(row["since"]) <= int(host.split(".")[1])]
        for key, cell in observe(library, rows, tmp_path / host).items():
            cells.setdefault(key, {})[host] = cell
    check({key: {3: stock_cell(by_host)} for key, by_host in cells.items()}, (3,))
