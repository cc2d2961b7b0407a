"""The job: find out what a model is, run it, read its plan and time it, from the command line alone."""
import json
import re

import numpy
import pytest


@pytest.fixture
def x(desk):
    numpy.save(desk.folder / "x.npy", numpy.full((2, 1, 8, 8), 0.5, numpy.float32))
    return "x=x.npy"


def refused(desk, code, *command):
    """The message of a command that fails so."""
    done = desk.call("tenon", *command)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    return done.stderr


def test_each_message_leads_to_the_next_command(desk, model):
    """From the name of a file to its results, with what the messages say and nothing else."""
    assert 'There is no file "smal.onnx"' in refused(desk, 4, "run", "smal.onnx")
    assert "--input x=FILE.npy" in refused(desk, 2, "run", "small.onnx")
    said = refused(desk, 2, "run", "small.onnx", "--random")
    dimension = re.search(r"--dim (\w+)=N", said)[1]
    assert "y float32[2,2,8,8]" in desk.output("tenon", "run", "small.onnx", "--random", "--dim", f"{dimension}=2")


def test_results_are_written_as_arrays(desk, model, x):
    desk.output("tenon", "run", "small.onnx", "--input", x, "--output-dir", "out")
    listed = json.loads((desk.folder / "out/outputs.json").read_text())
    assert listed == [{"name": "y", "dtype": "float32", "shape": [2, 2, 8, 8], "file": "0.npy"}]
    assert numpy.load(desk.folder / "out/0.npy").shape == (2, 2, 8, 8)


@pytest.mark.parametrize("command", [["run", "--random"], ["bench", "--runs", "3"], ["explain"]])
def test_each_command_has_text_and_json(desk, model, command):
    arguments = ["tenon", command[0], "small.onnx", *command[1:], "--dim", "batch=2"]
    assert desk.output(*arguments)
    assert json.loads(desk.output(*arguments, "--json"))["model"] == "small.onnx"


def test_a_plugin_of_the_tree_runs_the_model(desk, model, x):
    (plugin,) = desk.tree.rglob("libtenon_ep_sim.so")
    named = ["--plugin", f"sim={plugin}"]
    devices = json.loads(desk.output("tenon", "devices", *named, "--json"))
    (ep,) = {device["ep_name"] for device in devices if device["library"] == "sim"}
    assert ep in refused(desk, 2, "run", "small.onnx", "--input", x, *named)
    desk.output("tenon", "run", "small.onnx", "--input", x, *named, "--ep", ep, "--output-dir", "sim")
    desk.output("tenon", "run", "small.onnx", "--input", x, "--output-dir", "cpu")
    ours, theirs = (numpy.load(desk.folder / where / "0.npy") for where in ("sim", "cpu"))
    numpy.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_help_and_the_manual_name_every_exit_code(desk):
    codes = re.findall(r"(\d+) [a-z]", desk.output("tenon", "--help").split("Exit codes:")[1])
    assert [int(code) for code in codes] == list(range(len(codes)))
    (manual,) = desk.tree.rglob("man1/tenon.1*")
    assert "Exit codes" in manual.read_text() or "EXIT STATUS" in manual.read_text()
