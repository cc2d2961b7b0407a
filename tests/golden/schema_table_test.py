"""The operator table in the repository equals the one that the generator makes from the pinned onnx package."""
import pathlib
import subprocess
import sys

import pytest

GENERATOR = pathlib.Path(__file__).resolve().parents[2] / "tools" / "generate_schemas.py"


def test_checked_in_table_equals_the_generators_output():
    done = subprocess.run([sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_another_onnx_version_is_refused(tmp_path):
    (tmp_path / "pretend.py").write_text(
        f"import runpy, sys, onnx\nonnx.__version__ = '1.0.0'\nsys.argv = [{str(GENERATOR)!r}, '--check']\n"
        f"runpy.run_path({str(GENERATOR)!r}, run_name='__main__')\n")
    done = subprocess.run([sys.executable, str(tmp_path / "pretend.py")], capture_output=True, text=True)
    assert done.returncode == 1
    assert "1.23.2" in done.stderr and "1.0.0" in done.stderr


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
