"""The programs of memory_spaces_test.cc, streams_test.cc and others in stock onnxruntime, as in libtenon: in the package of this
Python, and in the versions that TENON_ORT has."""
import os
import subprocess

import pytest
import stock


LIBRARIES = stock.libraries()


@pytest.mark.parametrize("version", sorted(LIBRARIES))
def test_the_plugins_programs_pass_in_stock_onnxruntime(version):
    runs = {"TENON_TEST_RUNS": "100"} if version != max(LIBRARIES) else {}
    done = subprocess.run([os.environ["TENON_HOSTS_TEST"]], capture_output=True, text=True, timeout=600,
                          env={**os.environ, **runs, "TENON_TEST_HOST": str(LIBRARIES[version])})
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
