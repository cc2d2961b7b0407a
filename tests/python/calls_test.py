"""Feeds of every kind answer over Tenon as over onnxruntime: equal results, errors of the same class."""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("onnxruntime")
CASES = pathlib.Path(__file__).with_name("call_cases.py")

# Cases that differ, by a pattern of their names, and why. A pattern that fits no difference fails the test.
DIFFERENT = {
    r".* is (fed|bound to) (the value of )?None": "the class says what is wrong: InvalidArgument, not a failure of the operator",
    r"a feed of a None": "alike",
    r".* is fed numpy's .*": "numpy's scalars are arrays without dimensions",
    r".* is fed (tuple|tuple of words)": "tuples are lists",
    r".* is fed complex64": "a type that tensors have, and this model does not",
    r".* is fed structured": "no type that tensors have; onnxruntime takes it for strings",
    r".* of string is fed (S|list of bytes|objects of bytes)": "bytes are UTF-8 text",
    r".* of int64 is fed other byte order": "onnxruntime misreads it",
    r"names in a dictionary": "its keys are names",
    r"values: arrays": "arrays are taken for values",
    r".*(Range|Clip|CumSum|Trilu|QuantizeLinear) with scalars of \[1, 1\]": "one element is a scalar of any rank",
    r"Unsqueeze, Reshape with scalars of (\[1\]|\[1, 1\])": "alike",
}


def answers(python, *engine):
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1"}
    done = subprocess.run([python, CASES, *engine], capture_output=True, text=True, timeout=250, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_call_answers_as_onnxruntime():
    ours, theirs = answers(sys.executable, "tenon"), answers(sys.executable)
    assert list(ours) == list(theirs) and len(ours) > 2000
    used, wrong = set(), []
    for name, expected in theirs.items():
        given = ours[name]
        # What an operator refuses has a class that says what is wrong, and there mostly Fail. Lists and dictionaries that
        # onnxruntime takes are the same here; of the others some are taken, too.
        if expected[0] == "error" and name.startswith(("a sequence of", "a map of")):
            continue
        kind = 1 if " with scalars of " in name and expected[0] == "error" else 2
        if given[:kind] == expected[:kind]:
            continue
        reason = next((pattern for pattern in DIFFERENT if re.fullmatch(pattern, name)), None)
        if reason is None:
            wrong.append((name, given, expected))
        else:
            used.add(reason)
    assert not wrong, f"{len(wrong)}: {wrong[:10]}"
    assert used == set(DIFFERENT)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
