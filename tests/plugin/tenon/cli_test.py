"""The same plugin in our own host, through the command line: outputs come to the host, and equal the CPU EP's."""
import os
import subprocess

import numpy
import onnx
import pytest
import sim


def run(model, folder, *arguments):
    done = subprocess.run([os.environ["TENON_CLI"], "run", str(model), "--random", "--seed", "5", "--dim", "n=3",
                           "--output-dir", str(folder), *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return numpy.load(folder / "0.npy")


@pytest.mark.parametrize("mode", ["compile", "kernels"])
@pytest.mark.parametrize("exclude", ["", "Add", "Tanh", "MatMul,Gemm"])
def test_outputs_equal_the_cpu_eps(tmp_path, mode, exclude):
    model = tmp_path / "model.onnx"
    onnx.save(sim.perceptron(), str(model))
    wanted = run(model, tmp_path / "cpu")
    got = run(model, tmp_path / "sim", "--plugin", f"sim={sim.LIBRARY}", "--ep", sim.EP, "--ep-option", f"mode={mode}",
              "--ep-option", f"exclude={exclude}")
    numpy.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
