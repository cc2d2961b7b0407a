"""Whole models on the CUDA plugin, in Tenon's host and in stock onnxruntime, against onnxruntime's CPU EP; prints how
long a run takes. TENON_MODELS is the folder that tools/fetch_models.py fills; a model that is not there is skipped."""
import functools
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy
import pytest

onnxruntime = pytest.importorskip("onnxruntime")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from model_inputs import make_inputs  # noqa: E402

PLUGIN = os.environ["TENON_CUDA_PLUGIN"]
EP = "TenonCudaExecutionProvider"
NAMES = ["nsnet2", "smart_turn_v3"]
MODELS = {model["id"]: model for model in json.loads((ROOT / "tests/golden/models.json").read_text())["models"]}


@pytest.fixture(scope="session")
def device():
    onnxruntime.register_execution_provider_library("tenon_cuda", PLUGIN)
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == EP]
    if not devices:
        pytest.skip("there is no CUDA device")
    return devices[0]


@functools.cache
def path_of(name):
    path = pathlib.Path(os.environ.get("TENON_MODELS", "")) / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"{path} is not there: tools/fetch_models.py {name}")
    return path


@functools.cache
def reference(name):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(path_of(name)), options, providers=["CPUExecutionProvider"])
    return session.run(None, make_inputs(MODELS[name]))


def error_of(name, got):
    worst = 0
    for wanted, actual in zip(reference(name), got, strict=True):
        assert wanted.shape == actual.shape and wanted.dtype == actual.dtype
        worst = max(worst, float(numpy.max(numpy.abs(actual - wanted)) / numpy.max(numpy.abs(wanted))))
    return worst


@pytest.mark.parametrize("name", NAMES)
def test_tenons_host_gives_the_cpu_eps_results(name, device, tmp_path):
    arguments = [str(path_of(name)), "--plugin", f"cuda={PLUGIN}", "--ep", EP, "--ep-option", "use_tf32=0"]
    for value, array in make_inputs(MODELS[name]).items():
        numpy.save(tmp_path / f"{value}.npy", array)
        arguments += ["--input", f"{value}={tmp_path / value}.npy"]
    done = subprocess.run([os.environ["TENON_CLI"], "run", *arguments, "--output-dir", str(tmp_path / "out")],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = [numpy.load(tmp_path / "out" / f"{index}.npy") for index in range(len(reference(name)))]
    error = error_of(name, outputs)
    timed = subprocess.run([os.environ["TENON_CLI"], "bench", *arguments, "--json", "--runs", "50"], capture_output=True,
                           text=True, timeout=300)
    assert timed.returncode == 0, timed.stdout + timed.stderr
    print(f"\n{name} in tenon: error {error:.3g}; {timed.stdout.strip()}")
    assert error <= MODELS[name]["tolerance"]


# No node is left to the CPU EP.
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tf32", [0, 1], ids=["exact", "tf32"])
def test_stock_onnxruntime_runs_all_of_it_and_gives_the_cpu_eps_results(name, tf32, device):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices([device], {"use_tf32": str(tf32)})
    session = onnxruntime.InferenceSession(str(path_of(name)), options)
    feeds = make_inputs(MODELS[name])
    got = session.run(None, feeds)
    times = []
    for _ in range(50):
        begin = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - begin)
    error = error_of(name, got)
    print(f"\n{name} in onnxruntime, use_tf32={tf32}: error {error:.3g}, {sorted(times)[25] * 1e3:.3f} ms a run")
    assert error <= (MODELS[name]["tolerance"] if tf32 == 0 else 1e-2)
