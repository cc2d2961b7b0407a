"""Calls that programs make answer over Tenon as over onnxruntime: results are equal, errors have the same class."""
import json
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("onnxruntime")
import api_cases

# What differs, and why.
DIFFERENT = {
    "None": "the class says what is wrong: InvalidArgument, not a failure of the operator",
    "numpy's scalar": "taken as an array without dimensions",
    "a number that is too large": "numpy's OverflowError names the number",
    "a product that does not fit": "InvalidArgument, with both shapes",
}
# Texts that programs compare or show: they are the same but for what the pattern takes away.
SAME_TEXT = {"too few inputs": "", "too many inputs": "", "a wrong rank": "", "a wrong dimension": "", "a wrong type": "",
             "no such file": "", "an entry that is not there": "", "a binding without outputs": "", "numbers for strings": "",
             "a binding of a wrong type": "", "a run that is terminated": "", "a wrong output": " ", "no model": ""}


def answers(*engine):
    done = subprocess.run([sys.executable, pathlib.Path(api_cases.__file__), *engine], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def both():
    return answers("tenon"), answers()


@pytest.mark.parametrize("name", api_cases.CASES)
def test_a_call_answers_as_onnxruntime(both, name):
    ours, theirs = both[0][name], both[1][name]
    if name in DIFFERENT:
        assert ours != theirs, f"listed as different ({DIFFERENT[name]}), and is the same"
        return
    assert ours[0] == theirs[0], (ours, theirs)
    if ours[0] == "ok":
        assert ours[1] == theirs[1]
    elif name in SAME_TEXT:
        left, right = (re.sub(f"[{SAME_TEXT[name]}]" if SAME_TEXT[name] else "$^", "", text[1]) for text in (ours, theirs))
        assert left == right


def test_what_is_listed_is_a_case():
    assert not (set(DIFFERENT) | set(SAME_TEXT)) - set(api_cases.CASES)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
