"""What tests of several folders share."""

import pathlib
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def reference():
    """The library of the stock onnxruntime that the C API header describes."""
    found = subprocess.run([sys.executable, "-c", "import onnxruntime; print(onnxruntime.__version__, onnxruntime.__file__)"],
                           capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip("the onnxruntime package of requirements.txt is not installed")
    version, package = found.stdout.split(maxsplit=1)
    assert version.startswith("1.31."), f"onnxruntime {version} is not the version that the header describes"
    return next(pathlib.Path(package.strip()).parent.glob("capi/libonnxruntime.so*"))
