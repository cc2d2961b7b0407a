"""The programs of examples/python run, and copy nothing."""
import importlib.util
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from onnx import helper, numpy_helper

import models

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


def run(name, *arguments):
    done = subprocess.run([sys.executable, EXAMPLES / f"{name}.py", *map(str, arguments)], capture_output=True, text=True,
                          timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def picture_model(tmp_path):
    """Means of 4x4 blocks of a picture, by a convolution."""
    weights = numpy_helper.from_array(np.full((2, 3, 4, 4), 1 / 48, np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], strides=[4, 4])]
    path = tmp_path / "picture.onnx"
    path.write_bytes(models.model(nodes, [models.value("x", models.FLOAT, [1, 3, "h", 64])],
                                  [models.value("y", models.FLOAT, None)], [weights]).SerializeToString())
    return path


def test_a_model_runs_on_arrays(picture_model):
    out = run("run_model", picture_model, "h=32")
    assert "y: float32[1, 2, 8, 16]" in out and "; 0 bytes copied" in out


def test_a_model_runs_on_torch_tensors(tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("not installed: torch")
    path = tmp_path / "neg.onnx"
    path.write_bytes(models.one_node("Neg"))
    assert run("torch_tensors", path) == "[1, 2], changed with its input: True, 0 bytes copied\n"


@pytest.mark.parametrize("arguments", [(), ("video",)])
def test_a_model_runs_on_frames_of_opencv(picture_model, tmp_path, arguments):
    cv2 = pytest.importorskip("cv2")
    if arguments:
        arguments = (tmp_path / "video.avi",)
        writer = cv2.VideoWriter(str(arguments[0]), cv2.VideoWriter_fourcc(*"MJPG"), 10, (96, 80))
        if not writer.isOpened():
            pytest.skip("this OpenCV writes no video")
        for value in range(3):
            writer.write(np.full((80, 96, 3), 100 + 50 * value, np.uint8))
        writer.release()
    out = run("opencv_frames", picture_model, *arguments, "--frames", "5", "--size", "32", "64")
    assert f"{3 if arguments else 5} frames" in out and ", 0 bytes copied;" in out
    if arguments:
        assert abs(float(out.split()[-1]) - 200 / 255) < 0.02


def test_a_model_runs_on_frames_of_another_process(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(models.one_node("Neg", shape=["n", 1000]))
    out = run("two_processes", path, 3).splitlines()
    assert out == ["frame 0: the result's largest value is -0.0000", "frame 1: the result's largest value is -1.0000",
                   "frame 2: the result's largest value is -2.0000", "3 frames, 0 bytes copied"]


def test_each_example_is_tested_and_says_how_it_is_called():
    tested = pathlib.Path(__file__).read_text()
    for example in EXAMPLES.glob("*.py"):
        assert f'"{example.stem}"' in tested
        done = subprocess.run([sys.executable, example, "--help"] if "argparse" in example.read_text() else
                              [sys.executable, example], capture_output=True, text=True, env=dict(os.environ))
        if "No module named" in done.stderr:
            continue
        assert f"{example.name} MODEL" in done.stdout + done.stderr


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
