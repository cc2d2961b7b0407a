"""Whole models of tests/golden/models.json against ONNX Runtime, under ordinary and harder settings.

TENON_MODELS is the folder that tools/fetch_models.py fills; a model that is not there is skipped.
"""
import functools
import json
import os
import pathlib
import sys

import numpy as np
import pytest

import driver
from nodes_test import NOT_CLAIMED, SETTINGS

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from model_inputs import make_inputs  # noqa: E402

MODELS = {model["id"]: model for model in json.loads((ROOT / "tests/golden/models.json").read_text())["models"]}


def path_of(name):
    folder = os.environ.get("TENON_MODELS", "")
    path = pathlib.Path(folder) / f"{name}.onnx"
    if not folder or not path.exists():
        pytest.skip(f"{name}.onnx is not in TENON_MODELS ({folder or 'unset'}): tools/fetch_models.py {name}")
    return path


@functools.cache
def reference(name):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(path_of(name)), options, providers=["CPUExecutionProvider"])
    return session.run(None, make_inputs(MODELS[name]))


def difference(model, want, got):
    """What is wrong, or None."""
    for index, (expected, actual) in enumerate(zip(want, got, strict=True)):
        expected = np.asarray(expected)
        if expected.dtype != actual.dtype or expected.shape != actual.shape:
            return f"output {index} is {actual.dtype}{list(actual.shape)}, not {expected.dtype}{list(expected.shape)}"
        error = np.max(np.abs(actual.astype(np.float64) - expected), initial=0)
        if model["relative"]:
            error /= max(np.max(np.abs(expected), initial=0), np.finfo(np.float32).tiny)
        if not error <= model["tolerance"]:
            return f"output {index} differs by {error:.3g}, beyond {model['tolerance']}"
        if model["argmax_equal"] and not np.array_equal(np.argmax(actual, axis=-1), np.argmax(expected, axis=-1)):
            return f"output {index} has its largest elements elsewhere"
    return None


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", MODELS)
def test_model_gives_what_onnx_runtime_gives(name, setting, tmp_path, record_property):
    model = MODELS[name]
    path = path_of(name)
    why_not = NOT_CLAIMED["models"].get(name)
    options, environment = SETTINGS[setting]
    want = reference(name)
    outputs = [np.asarray(array) for array in want]
    (outcome,) = driver.run([driver.Case(name, path, make_inputs(model), outputs)], tmp_path, options, environment).values()
    problem = difference(model, want, outcome.outputs) if outcome.ok else outcome.status
    if why_not is None:
        assert problem is None, f"{name}: {problem}"
    else:
        assert problem is not None, f"{name} is listed as not claimed ({why_not}), but it passes"
        assert outcome.ok or outcome.unsupported, f"{name}: {problem}"
        pytest.skip(f"not claimed: {why_not}")


def test_a_wrong_output_would_be_seen():
    model = MODELS["magika"]
    want = [np.linspace(0, 1, 5, dtype=np.float32)]
    assert difference(model, want, want) is None
    assert "beyond" in difference(model, want, [want[0] + np.float32(0.01)])
    assert "beyond" in difference(model, want, [np.full(5, np.nan, np.float32)])
    assert "not float32[5]" in difference(model, want, [want[0][:4]])


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
