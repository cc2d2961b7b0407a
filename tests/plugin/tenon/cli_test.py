"""The same plugin in our own host, through the command line: outputs come to the host, and equal the CPU EP's."""
import os
import pathlib
import subprocess

import numpy
import onnx
import onnxruntime
import pytest
import sim

ON_SIM = ["--plugin", f"sim={sim.LIBRARY}", "--ep", sim.EP]
RANDOM = ["--random", "--seed", "5", "--dim", "n=3"]


def tenon(*arguments):
    done = subprocess.run([os.environ["TENON_CLI"], *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(model, folder, *arguments):
    tenon("run", model, "--output-dir", folder, *arguments)
    return numpy.load(folder / "0.npy")


@pytest.mark.parametrize("mode", ["compile", "kernels"])
@pytest.mark.parametrize("exclude", ["", "Add", "Tanh", "MatMul,Gemm"])
def test_outputs_equal_the_cpu_eps(tmp_path, mode, exclude):
    model = tmp_path / "model.onnx"
    onnx.save(sim.perceptron(), str(model))
    wanted = run(model, tmp_path / "cpu", *RANDOM)
    got = run(model, tmp_path / "sim", *RANDOM, *ON_SIM, "--ep-option", f"mode={mode}", "--ep-option",
              f"exclude={exclude}")
    numpy.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("largest", [256, 100_000])
def test_magika_computes_what_onnxruntimes_cpu_ep_computes(tmp_path, largest):
    """Node by node as the model has them. Tenon's CPU EP normalises more exactly, and differs where the model's own
    variances cancel (bytes beyond 256; docs/how-to/plugins.md)."""
    model = pathlib.Path(os.environ.get("TENON_MODELS", "")) / "magika.onnx"
    if not model.is_file():
        pytest.skip("TENON_MODELS has no magika.onnx")
    x = numpy.random.default_rng(8).integers(0, largest + 1, (1, 2048)).astype(numpy.int32)
    numpy.save(tmp_path / "x.npy", x)
    wanted, = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).run(None, {"bytes": x})
    got = run(model, tmp_path / "sim", "--input", f"bytes={tmp_path / 'x.npy'}", *ON_SIM)
    numpy.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)


def test_explain_shows_the_copies_that_shared_memory_saves(tmp_path):
    """S6.1: the same model with HOST_ACCESSIBLE memory, and on the CPU device, where all memory is the host's."""
    model = tmp_path / "model.onnx"
    onnx.save(sim.relu_chain(), str(model))
    text = tenon("explain", model, "--dim", "n=3", *ON_SIM, "--ep-option", "exclude=Sigmoid")
    assert "host_accessible" in text
    # The input and the output are in plain host memory; nothing is copied at the boundaries.
    assert [line.split(",")[0] for line in text.splitlines() if line.startswith("copy: ")] == ['copy: "x"', 'copy: "y"']
