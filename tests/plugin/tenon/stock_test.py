"""The programs of places_test.cc, streams_test.cc and others in stock onnxruntime, as in libtenon: in the package of this
Python, and in the versions that TENON_ORT has."""
import os
import pathlib
import subprocess

import onnxruntime
import pytest


def libraries():
    found = list((pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    folder = os.environ.get("TENON_ORT")
    if folder:
        found += pathlib.Path(folder).glob("*/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*")
    return {path.name: path for path in found}


@pytest.mark.parametrize("name", sorted(libraries()))
def test_the_plugins_programs_pass_in_stock_onnxruntime(name):
    runs = {"TENON_TEST_RUNS": "100"} if name != max(libraries()) else {}
    done = subprocess.run([os.environ["TENON_HOSTS_TEST"]], capture_output=True, text=True, timeout=600,
                          env={**os.environ, **runs, "TENON_TEST_HOST": str(libraries()[name])})
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
