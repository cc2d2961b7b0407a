"""S6.1 for programs of the C ABI and of the command line: the records of copies before and after a run, and strict mode.

TENON_LIBRARY, TENON_CLI, TENON_COPIES_PROGRAM, TENON_SIM_PLUGIN and TENON_FLOW_PLUGIN are set by CMake.
"""
import json
import os
import subprocess

import numpy
import onnx
import onnx.parser
import pytest

OURS = os.environ["TENON_LIBRARY"]
SIM, SIM_EP, FLOW = os.environ["TENON_SIM_PLUGIN"], "TenonSimExecutionProvider", os.environ["TENON_FLOW_PLUGIN"]

# Abs is an operator that the simulated EP does not have.
MIXED = """
    g (float[4] x) => (float[4] y) {
      w = Constant<value = float[4] {1.0, 2.0, 3.0, 4.0}>()
      a = Abs(x) b = Add(a, w) c = Abs(b) y = Mul(c, w)
    }"""
LOOP = """
    g (float[3] x) => (float[3] y, float[4, 3] all) {
      m = Constant<value = int64 {4}>()
      yes = Constant<value = bool {1}>()
      y, all = Loop(m, yes, x) <body = b (int64 i, bool c, float[3] a) => (bool d, float[3] r, float[3] s) {
        d = Identity(c) r = Add(a, x) s = Mul(r, r) }>
    }"""
SCAN = """
    g (float[2, 3] s, float[2, 4, 3] x) => (float[2, 3] y, float[2, 3, 4] all) {
      y, all = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [2],
          body = b (float[2, 3] a, float[2, 3] v) => (float[2, 3] r, float[2, 3] o) {
        r = Add(a, v) o = Mul(r, r) }>(s, x)
    }"""


def save(folder, text):
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    path = folder / "model.onnx"
    onnx.save(model, str(path))
    return path


def program(model, *words, library=OURS, **variables):
    return subprocess.run([os.environ["TENON_COPIES_PROGRAM"], library, str(model), *words], capture_output=True,
                          text=True, timeout=120, env={**os.environ, **variables})


def records(model, *words, **variables):
    done = program(model, *words, **variables)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    found = {}
    for line in done.stdout.splitlines():
        when, _, rest = line.partition(" ")
        found.setdefault(when, []).append(rest)
    assert "unheard" not in found
    assert found.pop("copied") == ["tensor 1 of CopyTensors 16 cpu > cpu caller_asked 0"]
    return found


def tenon(command, model, *words):
    return subprocess.run([os.environ["TENON_CLI"], command, str(model), "--json", *map(str, words)],
                          capture_output=True, text=True, timeout=120)


def test_another_host_has_no_such_function(reference, tmp_path):
    done = program(save(tmp_path, MIXED), library=str(reference))
    assert (done.returncode, done.stdout) == (0, "no copy ledger here\n")


def test_a_run_without_copies_has_no_records(tmp_path):
    assert records(save(tmp_path, MIXED)) == {"open": ["0"]}


def test_constants_of_a_kernel_registry_are_in_the_first_runs_ledger(tmp_path):
    words = ["plugin", SIM, SIM_EP, "mode=kernels"]
    found = records(save(tmp_path, MIXED), *words)
    assert found["explained"] == found["first"]
    assert found["first"][0] == "w 16 cpu > gpu:0 (vendor 0x544e) not_compatible 1"
    assert found.get("second", []) == [line for line in found["first"] if line.endswith(" 0")]


def test_strict_mode_refuses_a_constant_of_a_kernel_registry(tmp_path):
    done = program(save(tmp_path, MIXED), "strict", "plugin", SIM, SIM_EP, "mode=kernels")
    assert done.returncode == 3
    assert done.stdout.startswith("CreateSession: ") and '"w" would have to be copied from cpu to gpu:0' in done.stdout
    assert "tenon.disallow_copies" in done.stdout


def test_a_strict_env_refuses_copytensors(tmp_path):
    done = program(save(tmp_path, MIXED), "strict_env")
    assert done.returncode == 3
    assert "tensor 1 of CopyTensors\" would have to be copied from cpu to cpu (caller_asked)" in done.stdout


@pytest.mark.parametrize("text, device, wanted", [
    (LOOP, "", ["all 48 cpu > cpu scan_slices 0"]),
    (SCAN, "", ["x 96 cpu > cpu scan_slices 0", "all 96 cpu > cpu scan_slices 0"]),
    (LOOP, "1", ["all 12 cpu > {there} not_compatible 0"] * 4 + ["all 48 {there} > {there} scan_slices 0",
                                                                 "all 48 {there} > cpu not_compatible 0"]),
    (SCAN, "1", ["x 96 cpu > {there} not_compatible 0", "x 96 {there} > {there} scan_slices 0",
                 "x 96 {there} > cpu not_compatible 0", "all 96 cpu > {there} not_compatible 0",
                 "all 96 {there} > {there} scan_slices 0", "all 96 {there} > cpu not_compatible 0"]),
])
def test_control_flow_of_an_ep_is_named(text, device, wanted, tmp_path):
    """What its helper moves, and what it takes to bring it where the helper works."""
    variables = {"TENON_FLOW_DEVICE": device} if device else {}
    words = ["plugin", FLOW, "FlowEp"]
    model = save(tmp_path, text)
    found = records(model, *words, **variables)
    spaces = [line.split(" > ")[1].split(" not_")[0] for line in found["first"] if "gpu" in line or "npu" in line]
    there = spaces[0] if spaces else ""
    assert found["first"] == [line.format(there=there) for line in wanted]
    # The body may copy.
    assert found["second"] == found["first"] and found["open"] == ["1"]
    done = program(model, "strict", *words, **variables)
    assert done.returncode == 3 and "would have to be copied" in done.stdout and "tenon.disallow_copies" in done.stdout


def test_slices_without_bytes_are_no_copies(tmp_path):
    """Also where an EP's helper would move them: nothing is recorded, and strict mode has nothing to refuse."""
    model = save(tmp_path, SCAN.replace("float[2, ", "float[0, "))
    found = records(model, "plugin", FLOW, "FlowEp")
    assert "first" not in found and "second" not in found
    done = program(model, "strict", "plugin", FLOW, "FlowEp")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("alignment", ["12", "128", "0", "", "16 ", "-16", "x"])
def test_an_alignment_that_is_none_is_refused(alignment, tmp_path):
    done = program(save(tmp_path, LOOP), "plugin", FLOW, "FlowEp", TENON_FLOW_ALIGNMENT=alignment)
    assert done.returncode == 3
    assert f'"tenon.binding_alignment" is "{alignment}", which is no power of two from 1 to 64' in done.stdout


ON_SIM = ["--plugin", f"sim={SIM}", "--ep", SIM_EP]
PLACES = {"cpu": "cpu", "gpu": "gpu:0 (vendor 0x544e)", "gpu:host_accessible": "gpu:0 (vendor 0x544e):host_accessible",
          SIM_EP: "gpu:0 (vendor 0x544e)", f"{SIM_EP}:1": "gpu:1 (vendor 0x544e)",
          "gpu:0 (vendor 0x544e)": "gpu:0 (vendor 0x544e)"}


@pytest.mark.parametrize("mode", ["compile", "kernels"])
@pytest.mark.parametrize("x", PLACES)
@pytest.mark.parametrize("y", PLACES)
def test_explained_placements_are_those_of_a_run(mode, x, y, tmp_path):
    model = save(tmp_path, "g (float[4] x) => (float[4] y) { a = Neg(x) b = Abs(a) y = Neg(b) }")
    words = [*ON_SIM, "--ep-option", f"mode={mode}", "--space", f"x={x}", "--space", f"y={y}"]
    explained, ran = tenon("explain", model, *words), tenon("run", model, "--random", *words)
    assert explained.returncode == 0 and ran.returncode == 0, explained.stderr + ran.stderr
    before, after = json.loads(explained.stdout), json.loads(ran.stdout)
    assert before["copies"] == after["copies"]
    assert before["bytes_copied"] == after["bytes_copied"] == sum(copy["bytes"] for copy in after["copies"])
    for copy in after["copies"]:
        assert copy["reason"] == "not_compatible" and not copy["once"]
    # Between the two devices it goes over the host.
    copies_of = {"cpu": 1, f"{SIM_EP}:1": 2}
    ways = {name: [(copy["from"], copy["to"]) for copy in after["copies"] if copy["what"] == name] for name in "xy"}
    assert len(ways["x"]) == copies_of.get(x, 0) and len(ways["y"]) == copies_of.get(y, 0)
    assert not ways["x"] or ways["x"][0][0] == PLACES[x]
    assert not ways["y"] or ways["y"][-1][1] == PLACES[y]


def test_a_run_writes_what_it_computed_wherever_that_is(tmp_path):
    model = save(tmp_path, MIXED)
    numpy.save(tmp_path / "x.npy", numpy.array([-1, 2, -3, 4], numpy.float32))
    words = ["--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out"]
    for spaces in [[], ["--space", "x=gpu@4", "--space", "y=gpu"], ["--space", "y=gpu:host_accessible@8"]]:
        done = tenon("run", model, *ON_SIM, *spaces, *words)
        assert done.returncode == 0, done.stderr
        numpy.testing.assert_array_equal(numpy.load(tmp_path / "out" / "0.npy"), [2, 8, 18, 32])


@pytest.mark.parametrize("space, code, says", [
    ("x", 2, "has not the form NAME=SPACE"),
    ("z=cpu", 4, 'the model has no input or output "z"'),
    ("x=tpu", 4, 'There is no memory space "tpu"; there are cpu, gpu:0 (vendor 0x544e)'),
    ("x=gpu@3", 2, '"3" is no power of two from 1 to 32'),
    ("x=gpu@", 2, '"" is no power of two'),
])
def test_what_is_no_placement_is_refused(space, code, says, tmp_path):
    for command in ["run", "explain"]:
        done = tenon(command, save(tmp_path, MIXED), *ON_SIM, "--space", space, *(["--random"] if command == "run" else []))
        assert done.returncode == code and says in done.stderr, done.stderr


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
