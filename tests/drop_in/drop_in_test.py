"""Each C program prints the same against stock libonnxruntime and against libtenon, but for differences.txt.

Run with TENON_LIBRARY (libtenon) and TENON_PROGRAMS (the folder of the built programs) set. The stock library is the one of
stock.py."""
import difflib
import os
import pathlib
import re
import subprocess

import models
import pytest
import stock

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ["session_options", "session_info", "ep_devices", "global_threads", "custom_ops", "custom_kernels", "odd_models",
            "run_errors", "run_results", "io_binding", "async", "concurrency", "shapes"]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drop_in") / "models"
    models.write(folder)
    return folder


def lines_of(program, library, model_folder, tmp_path):
    command = [str(pathlib.Path(os.environ["TENON_PROGRAMS"]).resolve() / f"drop_in_{program}"), str(library), "models"]
    run_in = tmp_path / pathlib.Path(library).name
    run_in.mkdir(exist_ok=True)
    (run_in / "models").symlink_to(model_folder)
    done = subprocess.run(command, cwd=run_in, capture_output=True, text=True, errors="replace", timeout=300)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout.splitlines()


def explained():
    """Of differences.txt: (program, pattern of stock's line, pattern of ours, reason)."""
    rows = []
    for line in (HERE / "differences.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            program, stock, ours, reason = (part.strip() for part in line.split(" | "))
            assert reason, line
            rows.append((program, re.compile(stock), re.compile(ours), reason))
    return rows


def differences(theirs, ours):
    """Blocks of lines that differ, paired line by line; a side that has fewer gives "" for the rest."""
    pairs = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        left, right = theirs[a:b], ours[c:d]
        count = max(len(left), len(right))
        pairs += zip(left + [""] * (count - len(left)), right + [""] * (count - len(right)))
    return pairs


used = set()


@pytest.mark.parametrize("program", PROGRAMS)
def test_same_effects_codes_and_messages_as_stock(program, model_folder, tmp_path):
    theirs = lines_of(program, stock.library(), model_folder, tmp_path)
    ours = lines_of(program, os.environ["TENON_LIBRARY"], model_folder, tmp_path)
    assert theirs[-1] == ours[-1] == "end"
    unexplained = []
    for pair in differences(theirs, ours):
        for index, (where, left, right, _) in enumerate(explained()):
            found = left.fullmatch(pair[0]), right.fullmatch(pair[1])
            if where == program and all(found) and len({one.groupdict().get("code") for one in found}) == 1:
                used.add(index)
                break
        else:
            unexplained.append(f"stock: {pair[0]}\n ours: {pair[1]}")
    assert not unexplained, f"{len(unexplained)} of {len(theirs)} lines differ:\n" + "\n".join(unexplained)


def test_broken_models_in_onnxruntimes_format_are_refused(model_folder, tmp_path):
    lines = lines_of("ort_mutants", os.environ["TENON_LIBRARY"], model_folder, tmp_path)
    assert lines == ["sessions 1, statuses 1", "end"]


def test_the_list_of_differences_has_no_row_that_nothing_needs():
    left_over = [row[0] + ": " + row[1].pattern for index, row in enumerate(explained()) if index not in used]
    assert not left_over


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
