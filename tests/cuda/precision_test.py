"""Whole models on a GPU: exact float32, TF32, float16 and bfloat16 beside ONNX Runtime's CPU EP in float32. Models of
bench/export_models.py are looked for in TENON_MODELS, or exported where torch and its friends are; else skipped, with
the reason, as is everything where there is no GPU."""
import importlib.util
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest

import hosts
import node_cases
import small_models
from node_cases import driver

onnxruntime = pytest.importorskip("onnxruntime")
PLUGIN = os.environ["TENON_CUDA_PLUGIN"]
EXPORTER = pathlib.Path(__file__).resolve().parents[2] / "bench" / "export_models.py"


@pytest.fixture(scope="module")
def device():
    onnxruntime.register_execution_provider_library("tenon_cuda", PLUGIN)
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == hosts.EP]
    if not devices:
        pytest.skip("there is no CUDA device")
    return devices[0]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    def find(name):
        known = pathlib.Path(os.environ.get("TENON_MODELS", ".")) / f"{name}.onnx"
        if known.is_file():
            return known
        missing = [module for module in ("torch", "torchvision", "transformers", "onnxscript")
                   if importlib.util.find_spec(module) is None]
        if missing:
            pytest.skip(f"TENON_MODELS has no {known.name}, and it cannot be exported without {', '.join(missing)}")
        folder = tmp_path_factory.mktemp("exported")
        model, kind, batch = name.rsplit("_", 2)
        subprocess.run([sys.executable, EXPORTER, "export", folder, "--models", model, "--types", kind, "--batches", batch[1:]],
                       check=True)
        return folder / known.name
    return find


def relative_error(got, wanted):
    got, wanted = np.asarray(got).astype(np.float32), np.asarray(wanted)
    assert got.shape == wanted.shape and np.isfinite(got).all()
    return float(np.abs(got - wanted).max() / np.abs(wanted).max())


def random_inputs(model, random):
    inputs = {}
    for value in model.graph.input:
        shape = [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if np.dtype(dtype).kind in "iu":
            high = {"attention_mask": 2, "token_type_ids": 2}.get(value.name, 1000)
            inputs[value.name] = random.integers(0, high, shape).astype(dtype)
        else:
            inputs[value.name] = random.normal(size=shape).astype(np.float32).astype(dtype)
    if "attention_mask" in inputs:
        inputs["attention_mask"][:, 0] = 1
    return inputs


class Reference:
    """The CPU EP in float32."""

    def __init__(self, model):
        twin = small_models.twin(model).SerializeToString()
        self.session = onnxruntime.InferenceSession(twin, providers=["CPUExecutionProvider"])
        self.widened = {value.name for value in self.session.get_inputs() if value.type == "tensor(float)"}

    def run(self, inputs):
        return self.session.run(None, {name: value.astype(np.float32) if name in self.widened else value
                                       for name, value in inputs.items()})


# Compute: within 1e-4 (float32), 1e-3 (TF32) and 1e-2 (float16) of the CPU EP, whatever the inputs; all of the model on
# the device.
@pytest.mark.parametrize("name, batch", [("resnet50", 1), ("mobilenet_v2", 1), ("bert_base", 1), ("bert_base", 16)],
                         ids=["resnet50", "mobilenet_v2", "bert_base", "bert_base_b16"])
@pytest.mark.parametrize("kind, tf32, allowed", [("f32", 0, 1e-4), ("f32", 1, 1e-3), ("f16", 1, 1e-2)],
                         ids=["exact", "tf32", "f16"])
def test_an_exported_model_is_right(device, exported, record_property, name, batch, kind, tf32, allowed):
    model = onnx.load(str(exported(f"{name}_{kind}_b{batch}")))
    chosen = onnxruntime.SessionOptions()
    chosen.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    chosen.add_provider_for_devices([device], {"use_tf32": str(tf32)})
    session = onnxruntime.InferenceSession(model.SerializeToString(), chosen)
    reference = Reference(model)
    for seed in (9, 10, 11):
        inputs = random_inputs(model, np.random.default_rng(seed))
        wanted = reference.run(inputs)
        for _ in range(3):  # queued, captured, launched
            errors = [relative_error(a, b) for a, b in zip(session.run(None, inputs), wanted)]
            print(f"{name} b{batch} {kind} tf32={tf32} seed {seed}: {errors}")
            record_property(f"relative_error_{seed}", max(errors))
            assert max(errors) <= allowed


# Compute: bfloat16 where the model has it; and graphs that change between 16 and 32 bits. In our host, which takes such
# inputs as bytes.
@pytest.mark.parametrize("make", [small_models.encoder, small_models.cnn, small_models.mixed], ids=lambda make: make.__name__)
@pytest.mark.parametrize("kind, allowed", [("f32", 1e-4), ("f16", 1e-2), ("bf16", 1e-2)], ids=["f32", "f16", "bf16"])
def test_a_small_model_is_right(device, tmp_path, make, kind, allowed):
    model, random = make(kind), np.random.default_rng(10)
    reference = Reference(model)
    dtype, cases, wanted = small_models.TYPES[kind][1], [], {}
    for batch, size in ((1, 32), (3, 47), (4, 128)):
        if make is small_models.encoder:
            inputs = small_models.tokens(random, batch, size)
        elif make is small_models.cnn:
            inputs = {"image": random.normal(size=(batch, 3, size, size + 5)).astype(np.float32).astype(dtype)}
        else:
            inputs = {"x": random.normal(size=(batch, 32)).astype(np.float32)}
        wanted[f"{batch}"] = reference.run(inputs)
        cases.append(driver.Case(f"{batch}", model.SerializeToString(), inputs, [None] * len(model.graph.output)))
    outcomes = node_cases.in_tenon(cases, tmp_path, PLUGIN, ["use_tf32=0"])
    for name, outcome in outcomes.items():
        assert outcome.ok, outcome.status
        assert set(outcome.claimed) == {hosts.EP}, outcome.claimed
        errors = [relative_error(a, b) for a, b in zip(outcome.outputs, wanted[name])]
        print(f"{make.__name__} {kind} batch {name}: {errors}")
        assert max(errors) <= allowed
