"""Other vendors' EP plugins in our host, on real models, against ONNX Runtime's CPU EP.

The plugins come from PyPI (requirements.txt); a plugin that is not installed is skipped.
"""
import importlib.util
import json
import os
import pathlib
import subprocess

import numpy as np
import onnxruntime
import pytest

CLI = os.environ["TENON_CLI"]
MODELS = pathlib.Path(os.environ.get("TENON_MODELS", ""))
INPUTS = {
    "magika": {"bytes": lambda random: random.integers(0, 256, (2, 2048)).astype(np.int32)},
    "minilm_l3": {"input_ids": lambda random: random.integers(0, 30000, (1, 32)).astype(np.int64),
                  "attention_mask": lambda random: np.ones((1, 32), np.int64),
                  "token_type_ids": lambda random: np.zeros((1, 32), np.int64)},
    "nudenet_yolov8n": {"images": lambda random: random.random((1, 3, 320, 320), np.float32)},
    "ppocr_v6_det": {"x": lambda random: random.standard_normal((1, 3, 160, 320)).astype(np.float32)},
}
# Package, library, EP, what it has to be offered here.
PLUGINS = {
    "openvino": ("onnxruntime_ep_openvino", "libonnxruntime_providers_openvino_plugin.so", "OpenVINOExecutionProvider",
                 "type=cpu,vendor=0x8086"),
    "webgpu": ("onnxruntime_ep_webgpu", "libonnxruntime_providers_webgpu.so", "WebGpuExecutionProvider",
               "type=gpu,vendor=0x10005"),
    "nxrt": ("nxrt_ep_cpu", "libonnx_runtime_ep_cpu_plugin.so", "cpu_ep", None),
}


def arguments(name):
    package, library, ep, offer = PLUGINS[name]
    spec = importlib.util.find_spec(package)
    if spec is None:
        pytest.skip(f"{package} is not installed")
    path = pathlib.Path(spec.submodule_search_locations[0]) / library
    return ["--plugin", f"{name}={path}", *(["--offer", offer] if offer else [])], ep


def tenon(*args):
    done = subprocess.run([CLI, *map(str, args)], capture_output=True, text=True, timeout=300)
    if "No supported adapters" in done.stderr:
        pytest.skip("WebGPU finds no Vulkan driver here that it supports")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_lists_its_devices(name):
    plugin, ep = arguments(name)
    devices = json.loads(tenon("devices", "--json", *plugin))
    assert [device["ep_name"] for device in devices][:2] == ["CPUExecutionProvider", ep]
    assert devices[1]["library"] == name and devices[1]["ep_version"]


@pytest.mark.parametrize("model", INPUTS)
@pytest.mark.parametrize("name", PLUGINS)
def test_results_are_those_of_onnx_runtime(name, model, tmp_path):
    plugin, ep = arguments(name)
    file = MODELS / f"{model}.onnx"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(7)
    feeds = {}
    for given in session.get_inputs():
        feeds[given.name] = INPUTS[model][given.name](random)
        np.save(tmp_path / f"{given.name}.npy", feeds[given.name])
    wanted = session.run(None, feeds)
    inputs = [text for key in feeds for text in ("--input", f"{key}={tmp_path / key}.npy")]
    tenon("run", file, *inputs, "--output-dir", tmp_path / "out", *plugin, "--ep", ep)
    for index, value in enumerate(wanted):
        got = np.load(tmp_path / "out" / f"{index}.npy")
        assert got.shape == value.shape
        np.testing.assert_allclose(got, value, rtol=2e-3, atol=2e-3 * max(1.0, np.abs(value).max()))


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-rs"]))
