"""If, Loop and Scan of an EP that has its host make the kernels: ONNX Runtime's library and Tenon's give the same
outputs, and call the EP's helpers with the same tensors. A mistake of the EP is a status that names it."""
import os
import pathlib
import subprocess

import onnx
import onnx.parser
import pytest

TENON = os.environ.get("TENON_LIBRARY", "")
PROGRAM = os.environ.get("TENON_RUN_PLUGIN", "")
PLUGIN = os.environ.get("TENON_FLOW_PLUGIN", "")

# Inputs are floats that count up in halves from -1; unknown dimensions are 2.
MODELS = {
    "if": """
        g (float[4] x) => (float[n] y) {
          s = ReduceSum<keepdims = 0>(x)
          zero = Constant<value = float {0.0}>()
          c = Less(s, zero)
          h = Mul(x, x)
          y = If(c) <then_branch = t () => (float[a] a) { a = Add(h, x) },
                     else_branch = e () => (float[b] b) { b = Concat<axis = 0>(h, x) }>
        }""",
    "loop": """
        g (float[3] x, float[2] u) => (float[3] y, float[k, 3] all) {
          m = Constant<value = int64 {4}>()
          yes = Constant<value = bool {1}>()
          w = Constant<value = float[3] {1.0, 2.0, 3.0}>()
          h = Neg(x)
          y, all = Loop(m, yes, x) <body = b (int64 i, bool c, float[3] a) => (bool d, float[3] r, float[3] s) {
            d = Identity(c) f = Cast<to = 1>(i) t = Mul(w, f) p = Add(a, t) r = Add(p, h) s = Mul(r, r) }>
        }""",
    "loop_of_growing_values": """
        g (float[2] x) => (float[k] z) {
          m = Constant<value = int64 {3}>()
          yes = Constant<value = bool {1}>()
          y = Loop(m, yes, x) <body = b (int64 i, bool c, float[a] a) => (bool d, float[b] r) {
            d = Identity(c) r = Concat<axis = 0>(a, x) }>
          z = Add(y, y)
        }""",
    "scan": """
        g (float[2] s, float[5, 2] x) => (float[2] y, float[5, 2] all) {
          y, all = Scan<num_scan_inputs = 1, body = b (float[2] a, float[2] v) => (float[2] r, float[2] o) {
            r = Add(a, v) o = Identity(r) }>(s, x)
        }""",
    "scan_along_other_axes": """
        g (float[2, 3] s, float[2, 4, 3] x, float[3, 2, 4] u) => (float[2, 3] y, float[2, 3, 4] all, float[3, 4, 2] more) {
          y, all, more = Scan<num_scan_inputs = 2, scan_input_axes = [1, 2], scan_input_directions = [0, 1],
              scan_output_axes = [2, 1], scan_output_directions = [1, 0],
              body = b (float[2, 3] a, float[2, 3] v, float[3, 2] t) => (float[2, 3] r, float[2, 3] o, float[3, 2] o2) {
            tt = Transpose(t) z = Add(v, tt) r = Add(a, z) o = Mul(r, r) o2 = Transpose(z) }>(s, x, u)
        }""",
    "loop_in_if": """
        g (float[3] x) => (float[3] y) {
          s = ReduceSum<keepdims = 0>(x)
          big = Constant<value = float {99.0}>()
          c = Less(s, big)
          y = If(c) <then_branch = t () => (float[3] p) {
                        m = Constant<value = int64 {2}>()
                        yes = Constant<value = bool {1}>()
                        p = Loop(m, yes, x) <body = b (int64 i, bool k, float[3] a) => (bool d, float[3] r) {
                          d = Identity(k) r = Mul(a, a) }> },
                     else_branch = e () => (float[3] q) { q = Neg(x) }>
        }""",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    paths = {}
    for name, text in MODELS.items():
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
        paths[name] = folder / f"{name}.onnx"
        onnx.save(model, str(paths[name]))
    return paths


def run(library, model, folder, lie="", **environment):
    out = folder / f"{pathlib.Path(library).name}.txt"
    out.write_text("")
    environment = {**os.environ, "TENON_FLOW_OUT": str(out), "TENON_FLOW_LIE": lie, **environment}
    done = subprocess.run([PROGRAM, str(library), PLUGIN, "FlowEp", str(model)], capture_output=True, text=True,
                          timeout=120, env=environment)
    return done, out.read_text().splitlines()


@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_calls_are_the_references(name, reference, models, tmp_path):
    wanted, wanted_calls = run(reference, models[name], tmp_path)
    assert wanted.returncode == 0, wanted.stdout + wanted.stderr
    got, calls = run(TENON, models[name], tmp_path)
    assert got.returncode == 0, got.stdout + got.stderr
    assert got.stdout == wanted.stdout
    if name == "loop_in_if":
        # The reference gives the body's nodes to EPs too; Tenon runs bodies on its CPU EP.
        calls = wanted_calls = []
    assert sorted(calls) == sorted(wanted_calls)


def test_helpers_are_called_and_released(models, tmp_path):
    _, loop = run(TENON, models["loop"], tmp_path)
    assert loop == ["concat 4 into 48 bytes: [3] [3] [3] [3]"] * 2 + ["release a helper of Loop"]
    _, scan = run(TENON, models["scan_along_other_axes"], tmp_path)
    assert sum(line.startswith("transpose") for line in scan) == 8
    assert scan[-1] == "release a helper of Scan"


@pytest.mark.parametrize("name", MODELS)
def test_helpers_of_an_ep_with_its_own_memory_get_that(name, models, tmp_path):
    wanted, wanted_calls = run(TENON, models[name], tmp_path)
    got, calls = run(TENON, models[name], tmp_path, TENON_FLOW_DEVICE="1")
    assert got.returncode == 0, got.stdout + got.stderr
    assert got.stdout == wanted.stdout
    assert calls == wanted_calls


# (lie, model, part of the message, code) at load; the codes and texts of nulls are the reference's.
REFUSED = [
    ("null info", "if", "Must specify a non-null OrtKernelInfo instance to create an If OrtKernelImpl"),
    ("null helper", "loop", "Must specify a non-null OrtLoopKernelHelper instance to create a Loop OrtKernelImpl"),
    ("null out", "loop", "Must specify a non-null OrtLoopKernelHelper instance to create a Loop OrtKernelImpl"),
    ("null Release", "loop", "OrtLoopKernelHelper must have a non-null OrtLoopKernelHelper::Release function"),
    ("null ConcatOutput", "loop", "OrtLoopKernelHelper must have a non-null OrtLoopKernelHelper::ConcatOutput function"),
    ("null Transpose", "scan", "OrtScanKernelHelper must have a non-null OrtScanKernelHelper::Transpose function"),
]


@pytest.mark.parametrize("lie, model, says", REFUSED)
@pytest.mark.parametrize("host", ["reference", "tenon"])
def test_nulls_are_refused_when_the_kernel_is_made(host, lie, model, says, reference, models, tmp_path):
    done, calls = run(reference if host == "reference" else TENON, models[model], tmp_path, lie)
    assert done.returncode == 3, done.stdout + done.stderr
    assert says in done.stdout
    assert calls == []


# What the reference does not survive, or does not see.
@pytest.mark.parametrize("lie, model, says", [
    ("helper of version 0", "loop", "OrtLoopKernelHelper"),
    ("an If for a Loop", "loop", "The OrtKernelInfo is of a node Loop, not If"),
    ("throw ConcatOutput", "loop", "the helper's own exception"),
    ("fail ConcatOutput", "loop", "the helper cannot"),
    ("throw Transpose", "scan_along_other_axes", "the helper's own exception"),
    ("fail Transpose", "scan_along_other_axes", "the helper cannot"),
])
def test_a_lie_is_a_status(lie, model, says, models, tmp_path):
    done, _ = run(TENON, models[model], tmp_path, lie)
    assert done.returncode == 3, done.stdout + done.stderr
    assert says in done.stdout


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
