"""Every operator that the CUDA EP claims, over the onnx package's node cases and random ones, in stock onnxruntime and in
our host: the expected result, and that of both CPU EPs.

Without a GPU (TENON_CASES_ON=fake) the claims and the plans are the real ones. Templates, generated kernels, products and
convolutions run on the host; programs with other kernels are left to a GPU. `node_cases_test.py --write` makes the list of
claims anew."""
import os
import pathlib
import sys
import tempfile

import pytest

import bad_cases
import node_cases

FAKE = os.environ.get("TENON_CASES_ON", "fake") == "fake"
# Nothing may be rounded to TF32: results are float32's.
OPTIONS = ["use_tf32=0"]
HOSTS = ["tenon"]
try:
    import onnxruntime
    HOSTS.append("onnxruntime")
except ImportError:
    onnxruntime = None


def plugin():
    """(library, environment) of the plugin, or a reason why there is none."""
    if not FAKE:
        return os.environ["TENON_CUDA_PLUGIN"], {}
    fake = os.environ["TENON_FAKE_CUDA"]
    return f"{fake}/libtenon_ep_cuda_host.so", {
        "LD_LIBRARY_PATH": f"{fake}:{os.environ.get('LD_LIBRARY_PATH', '')}"}


def has_gpu():
    import ctypes
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def needs_a_gpu(outcome):
    return FAKE and "The fake driver has no kernel" in outcome.status


def same_version():
    return node_cases.listed_version() == getattr(onnxruntime, "__version__", "")


def wanted_cases(host):
    cases = node_cases.all_cases()
    if FAKE:
        return cases
    # What no list names is not claimed, which needs no GPU to be seen.
    return {name: case for name, case in cases.items() if name in node_cases.listed_claims(host)}


def run_everywhere(host, folder):
    cases = wanted_cases(host)
    library, environment = plugin()
    return cases, node_cases.HOSTS[host](list(cases.values()), folder, library, OPTIONS, environment)


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """{host: its CPU EP's outcomes}"""
    wanted = {name: case for host in HOSTS for name, case in wanted_cases(host).items()}
    # Without a GPU only of those cases that nobody says the results of: golden.nodes compares the others.
    cases = [case for name, case in wanted.items() if not FAKE or name.startswith("random_")]
    return {host: node_cases.HOSTS[host](cases, tmp_path_factory.mktemp(f"{host}_cpu")) for host in HOSTS}


@pytest.fixture(scope="module", params=HOSTS)
def run(request, tmp_path_factory):
    if not FAKE and not has_gpu():
        pytest.skip("there is no CUDA device")
    return request.param, *run_everywhere(request.param, tmp_path_factory.mktemp(request.param))


# Compute: a claim that is lost shows here, and not as a slower model.
def test_the_list_says_what_is_claimed(run):
    host, _, outcomes = run
    if host == "onnxruntime" and not same_version():
        pytest.skip(f"the list was made with another onnxruntime than {onnxruntime.__version__}")
    wrong = node_cases.wrong_claims(host, outcomes)
    assert not wrong, "\n".join(wrong)


# Compute: every operator against the CPU EP and ONNX Runtime over the node cases that it claims.
def test_what_is_claimed_is_right(run, references, record_property):
    host, cases, outcomes = run
    wrong = node_cases.wrong_values(host, cases, outcomes, references, needs_a_gpu)
    checked = sum(name in node_cases.claims(outcomes) and not needs_a_gpu(outcome) for name, outcome in outcomes.items())
    record_property("node_cases_checked", checked)
    print(f"{host}: {checked} cases with nodes on the CUDA EP, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong)
    assert checked > 800


@pytest.fixture(params=HOSTS)
def host(request):
    if not FAKE and not has_gpu():
        pytest.skip("there is no CUDA device")
    return request.param


# Bad input is an error of its call, and the process goes on.
def test_what_contradicts_itself_is_refused(host, tmp_path):
    cases = bad_cases.refused()
    library, environment = plugin()
    outcomes = node_cases.HOSTS[host](list(cases.values()), tmp_path, library, OPTIONS, environment)
    wrong = [f"{name}: {outcome.status}" for name, outcome in outcomes.items()
             if outcome.ok or "crashed" in outcome.status or needs_a_gpu(outcome)]
    assert len(outcomes) == len(cases) and not wrong, "\n".join(wrong)


# Where a kernel can tell nobody, an index that names nothing reads the nearest element and writes none.
def test_indices_far_outside_touch_nothing_else(host, tmp_path):
    cases = bad_cases.far_indices()
    library, environment = plugin()
    outcomes = node_cases.HOSTS[host](list(cases.values()), tmp_path, library, OPTIONS, environment)
    assert not (wrong := node_cases.wrong_values(host, cases, outcomes, {})), "\n".join(wrong)
    assert set(node_cases.claims(outcomes)) == set(cases)


# The comparison itself finds what is wrong.
def test_a_difference_is_found():
    import numpy as np
    x = np.arange(6, dtype=np.float32)
    assert node_cases.difference(x, x) is None
    assert node_cases.difference(x + np.float32(1e-3), x) is not None
    assert node_cases.difference(x.astype(np.float64), x) is not None
    assert node_cases.difference(x.reshape(2, 3), x) is not None
    assert node_cases.difference(np.array([np.nan]), np.array([1.0])) is not None
    assert node_cases.difference(np.array([np.inf]), np.array([-np.inf])) is not None


def write_list():
    with tempfile.TemporaryDirectory() as folder:
        found = {host: node_cases.claims(run_everywhere(host, pathlib.Path(folder))[1]) for host in HOSTS}
    node_cases.write_claims(onnxruntime.__version__, found)


if __name__ == "__main__":
    if "--write" in sys.argv:
        write_list()
    else:
        raise SystemExit(pytest.main([__file__, "-q", "-s"]))
