"""tenon.backend: the onnx package's own test suite for backends, with the results of tests/golden."""
import functools
import json
import os
import pathlib
import subprocess
import sys
import unittest
import warnings

import numpy as np
import onnx
import pytest
import tenon
import tenon.backend
from onnx import TensorProto, helper

import models

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
NOT_CLAIMED = json.loads((GOLDEN / "not_claimed.json").read_text())
# Their numbers are any; tests/golden/random_test.py looks at them.
RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
# Cases that tests/golden does not have, or looks at in another way.
OTHERS = {
    "test_gradient_of_add": "training",
    "test_gradient_of_add_and_mul": "training",
    "test_loop16_seq_none": "the suite cannot compare a sequence of scalars",
}
# Models of the first years have operators of versions that onnxruntime does not have either.
TOO_OLD = "the oldest that is read is 7"
X = np.arange(6, dtype=np.float32).reshape(3, 2)


def reason_not_claimed(name):
    case = name.removesuffix("_cpu")
    if case in NOT_CLAIMED["cases"]:
        return NOT_CLAIMED["cases"][case]
    model = cases().get(case)
    for node in model.graph.node if model is not None else []:
        key = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        if key in NOT_CLAIMED["operators"]:
            return f"{key}: {NOT_CLAIMED['operators'][key]}"
        if key in RANDOM:
            return f"{key}: any numbers"
    return OTHERS.get(case)


@functools.cache
def cases():
    from onnx.backend.test.loader import load_model_tests
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case.model for case in load_model_tests(kind="node")}


def test_the_onnx_packages_suite_passes(tmp_path, monkeypatch, record_property):
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))
    from onnx.backend.test import BackendTest
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suite = BackendTest(tenon.backend, __name__).test_cases
    result = unittest.TestResult()
    tests = [test for case in suite.values() for test in unittest.defaultTestLoader.loadTestsFromTestCase(case)
             if test.id().endswith("_cpu")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for test in tests:
            test.run(result)
    problems = {test.id().split(".")[-1]: text for test, text in result.failures + result.errors}
    unexpected = [f"{name}: {text.strip().splitlines()[-1]}" for name, text in problems.items()
                  if reason_not_claimed(name) is None and TOO_OLD not in text]
    passed_though_listed = [test.id().split(".")[-1] for test in tests
                            if test.id().split(".")[-1].removesuffix("_cpu") in {**NOT_CLAIMED["cases"], **OTHERS}
                            and test.id().split(".")[-1] not in problems]
    passed = len(tests) - len(problems) - len(result.skipped)
    record_property("cases_passed", passed)
    print(f"{passed} of {len(tests)} cases pass, {len(problems) - len(unexpected)} are not claimed, "
          f"{len(result.skipped)} are skipped, {len(unexpected)} fail")
    assert not unexpected, "\n".join(unexpected)
    assert not passed_though_listed, "listed, and pass: " + ", ".join(passed_though_listed)
    assert passed > 1900


def test_a_model_is_prepared_from_all_that_it_can_be():
    model = onnx.load_from_string(models.one_node("Neg"))
    prepared = tenon.backend.prepare(model)
    session = tenon.InferenceSession(model.SerializeToString())
    for what in (model, model.SerializeToString(), session, prepared):
        assert np.array_equal(tenon.backend.run_model(what, [X])[0], -X)
    assert tenon.backend.prepare(prepared) is prepared
    assert np.array_equal(prepared.run(X)[0], -X) and np.array_equal(prepared.run({"x": X})[0], -X)
    assert np.array_equal(tenon.backend.run(model, [X], "CPU", intra_op_num_threads=1, logid="a")[0], -X)
    with pytest.raises(ValueError, match="2 inputs are given, and the model has 1: x"):
        prepared.run([X, X])
    with pytest.raises(RuntimeError, match="enable_profiling"):
        tenon.backend.prepare(model, enable_profiling=True)
    with pytest.raises(RuntimeError, match="terminate"):
        prepared.run(X, terminate=True)
    with pytest.raises(onnx.checker.ValidationError):
        tenon.backend.prepare(onnx.ModelProto())


def test_devices_are_those_that_are_there():
    assert tenon.backend.supports_device("CPU") and not tenon.backend.supports_device("TPU")
    assert tenon.backend.is_compatible(onnx.ModelProto()) and not tenon.backend.is_compatible(onnx.ModelProto(), "TPU")
    gpus = sum(device.device.type == tenon.OrtHardwareDeviceType.GPU for device in tenon.get_ep_devices())
    assert not tenon.backend.supports_device(f"CUDA:{gpus}")
    with pytest.raises(RuntimeError, match="TPU"):
        tenon.backend.prepare(models.one_node("Neg"), "TPU")


def test_one_node_runs():
    assert np.array_equal(tenon.backend.run_node(helper.make_node("Add", ["a", "b"], ["c"]), [X, X])[0], X + X)
    assert np.array_equal(tenon.backend.run_node(helper.make_node("Mul", ["a", "a"], ["c"]), {"a": X})[0], X * X)
    split = helper.make_node("Split", ["a"], ["b", "c"], axis=1, num_outputs=2)
    outputs = tenon.backend.run_node(split, [X], outputs_info=[(np.float32, (3, 1)), (np.float32, (3, 1))])
    assert [output.tolist() for output in outputs] == [X[:, :1].tolist(), X[:, 1:].tolist()]
    # Softmax of version 1 flattens what follows the axis.
    old = tenon.backend.run_node(helper.make_node("Softmax", ["a"], ["b"], axis=0), [X], opset_version=1)[0]
    assert old.sum() == pytest.approx(1)
    binarizer = helper.make_node("Binarizer", ["a"], ["b"], domain="ai.onnx.ml", threshold=2.0)
    assert np.array_equal(tenon.backend.run_node(binarizer, [X])[0], (X > 2).astype(np.float32))
    with pytest.raises(ValueError, match="1 inputs are given, and the node has 2: a, b"):
        tenon.backend.run_node(helper.make_node("Add", ["a", "b"], ["c"]), [X])


@pytest.mark.parametrize("name", ["INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1"])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (0, 3), ()])
def test_elements_of_less_than_a_byte_pass(name, shape):
    number = getattr(TensorProto, name)
    node = helper.make_node("Identity", ["x"], ["y"])
    model = models.model([node], [models.value("x", number, shape)], [models.value("y", number, shape)], opset=25)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    x = np.resize(np.arange(-2 if name.startswith("I") else 0, 2), shape).astype(dtype)
    y, = tenon.backend.run_model(model, [x])
    assert y.dtype == dtype and np.array_equal(y.astype(np.float32), x.astype(np.float32))


def test_it_stands_in_for_onnxruntimes_backend():
    program = """
import numpy as np, onnx, tenon
tenon.install_as_onnxruntime()
import onnxruntime.backend as backend
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
model = onnx.load_from_string(bytes.fromhex(input()))
rep = backend.prepare(model, "CPU")
assert isinstance(rep, OnnxRuntimeBackendRep) and issubclass(OnnxRuntimeBackend, onnx.backend.base.Backend)
print(rep.run([np.ones((1, 2), np.float32)])[0].tolist(), backend.supports_device("CPU"), type(rep).__module__)
"""
    done = subprocess.run([sys.executable, "-c", program], input=models.one_node("Neg").hex(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "[[-1.0, -1.0]] True tenon.backend"


def test_it_says_what_it_needs():
    program = "import sys; sys.modules['onnx'] = None; import tenon.backend"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ))
    assert "tenon.backend needs the package onnx" in done.stderr


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))
