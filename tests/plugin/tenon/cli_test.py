"""The same plugin in our own host, through the command line: outputs come to the host, and equal the CPU EP's."""
import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

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


@pytest.mark.parametrize("largest, tolerance", [(256, 1e-5), (100_000, 5e-2)])
def test_magika_computes_what_onnxruntimes_cpu_ep_computes(tmp_path, largest, tolerance):
    """Node by node as the model has them. With numbers that are no bytes the model's own variances cancel, and the order
    of a sum decides how much is left (docs/how-to/plugins.md)."""
    model = pathlib.Path(os.environ.get("TENON_MODELS", "")) / "magika.onnx"
    if not model.is_file():
        pytest.skip("TENON_MODELS has no magika.onnx")
    x = numpy.random.default_rng(8).integers(0, largest + 1, (1, 2048)).astype(numpy.int32)
    numpy.save(tmp_path / "x.npy", x)
    wanted, = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).run(None, {"bytes": x})
    got = run(model, tmp_path / "sim", "--input", f"bytes={tmp_path / 'x.npy'}", *ON_SIM)
    numpy.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance)


def test_explain_shows_the_copies_that_shared_memory_saves(tmp_path):
    """S6.1: the same model with HOST_ACCESSIBLE memory, and on the CPU device, where all memory is the host's."""
    model = tmp_path / "model.onnx"
    onnx.save(sim.relu_chain(), str(model))
    text = tenon("explain", model, "--dim", "n=3", *ON_SIM, "--ep-option", "exclude=Sigmoid")
    assert "host_accessible" in text
    # The input and the output are in plain host memory; nothing is copied at the boundaries.
    assert [line.split(",")[0] for line in text.splitlines() if line.startswith("copy: ")] == ['copy: "x"', 'copy: "y"']


def test_explain_measures_a_plugins_regions_too(tmp_path):
    model = tmp_path / "model.onnx"
    onnx.save(sim.relu_chain(), str(model))
    told = json.loads(tenon("explain", model, "--dim", "n=3", *ON_SIM, "--ep-option", "exclude=Sigmoid", "--runs", 2, "--json"))
    steps = told["plan"]["steps"]
    assert {step["ep"] for step in steps} == {0, 1}
    assert [step["runs"] for step in steps if step["copy"] is None] == [2] * sum(step["copy"] is None for step in steps)


def test_explain_lists_the_nodes_of_regions(tmp_path):
    model = tmp_path / "model.onnx"
    onnx.save(sim.perceptron(), str(model))
    arguments = ["explain", model, "--dim", "n=3", *ON_SIM, "--ep-option", "exclude=Relu"]
    plan = json.loads(tenon(*arguments, "--json"))["plan"]
    regions = {at: [node["name"] for node in step["region"]["nodes"]]
               for at, step in enumerate(plan["steps"]) if step["region"] is not None}
    assert list(regions.values()) == [["matmul0", "add0"], ["gemm1", "tanh1"]]
    for at, names in regions.items():
        assert plan["steps"][at]["model_nodes"] == names and plan["eps"][plan["steps"][at]["ep"]] == sim.EP
        for node in plan["nodes"]:
            if node["name"] in names:
                assert (node["fate"], node["step"], node["ep"], node["passes"]) == ("region", at, 1, [])
    relu = plan["nodes"][2]
    assert (relu["name"], relu["fate"], relu["ep"]) == ("relu0", "step", 0)
    text = tenon(*arguments)
    assert text.startswith(f"plan for x float32[3,64] on cpu, {sim.EP}: ")
    assert '\n  region: MatMul "matmul0", Add "add0"\n' in text
    assert f'\nnode Add "add0": step {next(iter(regions))}, in a region, EP {sim.EP}\n' in text


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """Runs the command, and gives its events by category."""
    path = tmp_path / "trace.json"

    def run_traced(*arguments):
        monkeypatch.setenv("TENON_TRACE_FILE", str(path))
        tenon(*arguments)
        monkeypatch.delenv("TENON_TRACE_FILE")
        found = {}
        for event in json.loads(path.read_text()):
            found.setdefault(event.get("cat", event["name"]), []).append(event)
        return found

    return run_traced


def test_a_trace_shows_copies_waits_and_the_eps_work(tmp_path, trace):
    model = tmp_path / "model.onnx"
    onnx.save(sim.relu_chain(), str(model))
    on_sim = ["--dim", "n=3", *ON_SIM, "--ep-option", "exclude=Sigmoid"]
    plan = json.loads(tenon("explain", model, *on_sim, "--json"))["plan"]
    events = trace("run", model, "--random", *on_sim)

    assert [event["args"]["name"] for event in events["process_name"]] == ["tenon"]
    loading = {event["name"]: event["args"] for event in events["load"]}
    assert loading["claim"]["ep"] == loading["compile"]["ep"] == sim.EP
    assert loading["load"]["path"] == str(model) and loading["compile"]["nodes"] == 2 == len(loading["compile"]["regions"])

    kernels = {event["args"]["step"]: event for event in events["kernel"]}
    assert set(kernels) == {at for at, step in enumerate(plan["steps"]) if step["kernel"] != "copy"}
    for at, event in kernels.items():
        told, step = event["args"], plan["steps"][at]
        assert (told["kernel"], told["stream"]) == (step["kernel"], step["stream"])
        assert told["provider"] == ("CPUExecutionProvider" if step["ep"] == 0 else sim.EP)
        assert told["output_type_shape"] == [{"float": [3, 4]}]
    assert [kernels[at]["args"]["node"] for at in sorted(kernels)] == ["first", "middle", "last"]

    # Each copy as the plan announces it, with the name of its value.
    copies = {event["args"]["step"]: event for event in events["copy"]}
    assert set(copies) == {at for at, step in enumerate(plan["steps"]) if step["kernel"] == "copy"}
    for at, event in copies.items():
        record = plan["copies"][plan["steps"][at]["copy"]]
        assert event["name"] == record["what"] and event["args"]["stream"] == 1
        assert event["args"]["bytes"] == record["bytes"] == 48 and event["args"]["reason"] == record["reason"]
        assert event["args"]["from"] != event["args"]["to"]

    # The host's step waits for the point of the EP's: a span, and an arrow from the one to the other.
    wait = next(event for event in events["wait"] if event["name"] == "host for a stream")
    (begin,), (end,) = ([event for event in events["order"] if event["ph"] == phase] for phase in "sf")
    assert wait["args"]["step"] == 2 and wait["args"]["awaited_stream"] == 1 and begin["id"] == end["id"]
    producer = kernels[1]
    assert producer["ts"] <= begin["ts"] <= producer["ts"] + producer["dur"]
    assert wait["ts"] + wait["dur"] <= end["ts"] + 0.002 and end["ts"] <= kernels[2]["ts"] + 0.002
    whole, = events["run"]
    assert sum(event["dur"] for kind in ("kernel", "copy", "wait") for event in events[kind]) <= whole["dur"]
    spans = [event for kind in events.values() for event in kind if event["ph"] == "X"]
    assert {event["args"]["session"] for event in spans} == {1}

    # The tool that draws pages' pictures reads it.
    tool = pathlib.Path(__file__).parents[3] / "tools" / "draw_trace.py"
    picture = tmp_path / "trace.svg"
    subprocess.run([sys.executable, tool, tmp_path / "trace.json", picture, "--zoom", "run"], check=True, timeout=120)
    texts = {element.text for element in xml.etree.ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")}
    assert {"load", "run", "kernel", "copy", "wait"} <= texts


def test_a_trace_file_that_cannot_be_written_is_warned_about(tmp_path, monkeypatch):
    model = tmp_path / "model.onnx"
    onnx.save(sim.relu_chain(), str(model))
    monkeypatch.setenv("TENON_TRACE_FILE", str(tmp_path / "no" / "trace.json"))
    done = subprocess.run([os.environ["TENON_CLI"], "run", model, "--random", "--dim", "n=3"], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0
    assert f'The trace file "{tmp_path}/no/trace.json" cannot be written: open: No such file or directory' in done.stderr
