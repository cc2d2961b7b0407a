"""Other vendors' EP plugins in our host, on real models, against ONNX Runtime's CPU EP.

The plugins come from PyPI (requirements.txt); a plugin that is not installed is skipped.

TENON_VENDOR_MODELS: the models that run, with ',' between them (all). TENON_VULKAN_DRIVER: the ICD file of a Vulkan
driver for WebGPU; without one it asks the system's.
"""
import importlib.util
import json
import os
import pathlib
import subprocess

import numpy as np
import onnx
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
RUN_MODELS = [name for name in os.environ.get("TENON_VENDOR_MODELS", ",".join(INPUTS)).split(",") if name]
# Package, library, EP, the device to offer to it here.
PLUGINS = {
    "openvino": ("onnxruntime_ep_openvino", "libonnxruntime_providers_openvino_plugin.so", "OpenVINOExecutionProvider",
                 "type=cpu,vendor=0x8086"),
    "webgpu": ("onnxruntime_ep_webgpu", "libonnxruntime_providers_webgpu.so", "WebGpuExecutionProvider",
               "type=gpu,vendor=0x1ae0"),
    "nxrt": ("nxrt_ep_cpu", "libonnx_runtime_ep_cpu_plugin.so", "cpu_ep", None),
}
# By default OpenVINO computes in bf16 on a CPU that has it (AVX512_BF16, AMX), with an error above 1e-2.
OPTIONS = {"openvino": {"load_config": json.dumps({"CPU": {"INFERENCE_PRECISION_HINT": "f32"}})}}


def arguments(name):
    package, library, ep, offer = PLUGINS[name]
    spec = importlib.util.find_spec(package)
    if spec is None:
        pytest.skip(f"{package} is not installed")
    path = pathlib.Path(spec.submodule_search_locations[0]) / library
    return ["--plugin", f"{name}={path}", *(["--offer", offer] if offer else [])], ep


def environment():
    driver = os.environ.get("TENON_VULKAN_DRIVER")
    return {**os.environ, **({"VK_DRIVER_FILES": driver, "VK_ICD_FILENAMES": driver} if driver else {})}


def tenon(*args):
    done = subprocess.run([CLI, *map(str, args)], capture_output=True, text=True, timeout=600, env=environment())
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


@pytest.mark.parametrize("model", RUN_MODELS)
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
    options = [text for pair in OPTIONS.get(name, {}).items() for text in ("--ep-option", "=".join(pair))]
    tenon("run", file, *inputs, "--output-dir", tmp_path / "out", *plugin, "--ep", ep, *options)
    for index, value in enumerate(wanted):
        got = np.load(tmp_path / "out" / f"{index}.npy")
        assert got.shape == value.shape
        np.testing.assert_allclose(got, value, rtol=2e-3, atol=2e-3 * max(1.0, np.abs(value).max()))


def drive(name, *words):
    """Through the C ABI: the lines that the program prints."""
    _, library, _, offer = PLUGINS[name]
    path = arguments(name)[0][1]
    done = subprocess.run([os.environ["TENON_EPS_PROGRAM"], os.environ["TENON_LIBRARY"], "plugin", path, *map(str, words)],
                          capture_output=True, text=True, timeout=300,
                          env={**environment(), "TENON_OFFER_DEVICES": offer or ""})
    assert done.returncode == 0, (library, done.stdout, done.stderr)
    return done.stdout.splitlines()


def numbers(line):
    return np.array(line.split("] ")[1].split(), float)


# Issue 4: EPContext. What OpenVINO has compiled is a model of its own, which loads without compiling again.
@pytest.mark.parametrize("embed", [0, 1])
def test_openvino_writes_and_reads_a_compiled_model(embed, tmp_path):
    file = MODELS / "magika.onnx"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    ep = ["ep", "OpenVINOExecutionProvider"]
    wanted = drive("openvino", *ep, "session", file, "run", "")
    made = tmp_path / "made.onnx"
    config = ["config", "ep.context_enable=1", "config", f"ep.context_embed_mode={embed}", "config",
              f"ep.context_file_path={made}"]
    written = drive("openvino", *config, *ep, "session", file, "run", "")
    assert written[0] == "session made" and written[-1] == wanted[-1]
    nodes = onnx.load(str(made), load_external_data=False).graph.node
    assert [node.op_type for node in nodes] == ["EPContext"]
    again = drive("openvino", *ep, "session", made, "nodes", "-", "run", "")
    assert again[1].startswith("EPContext") and again[1].endswith("OpenVINOExecutionProvider")
    np.testing.assert_allclose(numbers(again[-1]), numbers(wanted[-1]), rtol=1e-4, atol=1e-4)
    # The CPU EP alone has nothing that could run it.
    assert drive("openvino", "session", made)[0].startswith("session: code")
    break_context(made, embed)
    assert drive("openvino", *ep, "session", made)[0].startswith("session: code")


def break_context(made, embed):
    """Cuts the compiled model short: the node's attribute, or the file that it names."""
    model = onnx.load(str(made), load_external_data=False)
    attribute = next(one for one in model.graph.node[0].attribute if one.name == "ep_cache_context")
    if embed:
        attribute.s = attribute.s[: len(attribute.s) // 3]
        made.unlink()
        onnx.save(model, str(made))
    else:
        blob = made.parent / attribute.s.decode()
        blob.write_bytes(blob.read_bytes()[:100])


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-rs"]))
