"""The same C calls on ONNX Runtime's library and on Tenon's have the same outcome (tools/abi_diff): a part of them.

Run with TENON_LIBRARY (libtenon) set. The whole of it takes minutes: python tools/abi_diff/abi_diff.py STOCK OURS."""
import os
import pathlib
import subprocess
import sys

import pytest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "abi_diff" / "abi_diff.py"


def play(reference, *arguments):
    return subprocess.run([sys.executable, TOOL, reference, os.environ["TENON_LIBRARY"], *arguments], capture_output=True, text=True, timeout=300)


def test_no_difference_without_a_reason_and_no_crash(reference):
    done = play(reference, "--jobs", "160")
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    assert " compared, " in done.stdout


def test_a_difference_without_a_reason_is_a_failure(reference, tmp_path):
    """Without the list, a difference that is meant fails."""
    (tmp_path / "none.txt").write_text("")
    done = play(reference, "--job", "scenario settings_that_a_session_refuses", "--accepted", tmp_path / "none.txt")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "The first of them makes" in done.stdout


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
