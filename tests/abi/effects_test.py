"""The C programs of effects/ make the same calls on ONNX Runtime's library and on Tenon's; their outputs are equal.

A line that differs for a reason stands in effects/differences.json with the reason; one that is listed there and no
longer differs fails too. Where the reference's message cites its own source files, only its code counts.
"""
import json
import os
import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = pathlib.Path(os.environ.get("TENON_EFFECTS", "."))
TENON = os.environ.get("TENON_LIBRARY", "")
NAMES = sorted(path.stem for path in (HERE / "effects").glob("*.c"))
DIFFERENCES = json.loads((HERE / "effects" / "differences.json").read_text())


def output(name, library):
    done = subprocess.run([str(PROGRAMS / f"tenon_effects_{name}"), str(library)], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, f"{name} on {library}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout.replace(str(library), "LIBRARY").splitlines()


def same(theirs, ours):
    if theirs == ours:
        return True
    location = re.match(r"(.*: code \d+: )/onnxruntime_src/", theirs)
    return location is not None and ours.startswith(location[1])


@pytest.mark.parametrize("name", NAMES)
def test_effects_are_the_references(name, reference):
    theirs, ours = output(name, reference), output(name, TENON)
    assert len(theirs) > 5
    explained = {(one["reference"], one["tenon"]) for one in DIFFERENCES.get(name, [])}
    differing = {pair for pair in zip(theirs, ours) if not same(*pair)}
    unexplained = [f"reference: {a}\n    tenon: {b}" for a, b in differing - explained]
    assert not unexplained, "\n".join(sorted(unexplained))
    assert len(theirs) == len(ours)
    assert explained <= differing, f"no longer different: {explained - differing}"


def test_every_difference_has_a_reason():
    for name, entries in DIFFERENCES.items():
        assert name in NAMES
        assert all(len(entry["why"]) > 20 for entry in entries)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
