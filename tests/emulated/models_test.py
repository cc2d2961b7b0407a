"""Real models by a `tenon` that was built for another processor, against ONNX Runtime's CPU EP.

TENON_EMULATED_CLI: the emulator, its arguments and the program, with '|' between them. TENON_MODELS: where the models lie.
"""
import os
import pathlib
import subprocess

import numpy as np
import onnxruntime
import pytest

COMMAND = os.environ["TENON_EMULATED_CLI"].split("|")
MODELS = pathlib.Path(os.environ.get("TENON_MODELS", ""))


def magika(random):
    return {"bytes": random.integers(0, 256, (2, 2048)).astype(np.int32)}


def minilm_l3(random):
    return {"input_ids": random.integers(0, 30000, (2, 24)).astype(np.int64),
            "attention_mask": (np.arange(24) < [[24], [17]]).astype(np.int64)}


def test_the_program_is_for_another_processor():
    magic = pathlib.Path(COMMAND[-1]).read_bytes()[:20]
    assert magic[:4] == b"\x7fELF" and int.from_bytes(magic[18:20], "little") == 183, "not for 64-bit Arm"


@pytest.mark.parametrize("make_inputs", [magika, minilm_l3])
def test_results_are_those_of_onnx_runtime(make_inputs, tmp_path):
    file = MODELS / f"{make_inputs.__name__}.onnx"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    feeds = make_inputs(np.random.default_rng(7))
    wanted = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, feeds)
    arguments = []
    for name, value in feeds.items():
        np.save(tmp_path / f"{name}.npy", value)
        arguments += ["--input", f"{name}={tmp_path / name}.npy"]
    done = subprocess.run([*COMMAND, "run", str(file), *arguments, "--output-dir", str(tmp_path / "out")],
                          capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    for index, value in enumerate(wanted):
        got = np.load(tmp_path / "out" / f"{index}.npy")
        assert got.shape == value.shape and got.dtype == value.dtype
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-4 * max(1.0, np.abs(value).max()))
