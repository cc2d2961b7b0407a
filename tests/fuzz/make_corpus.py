"""Seeds for tenon_fuzz_model: the onnx package's own node cases, small ones, and a few models with functions and subgraphs.

    python tests/fuzz/make_corpus.py DIRECTORY
"""
import pathlib
import sys
import warnings

import onnx.backend.test.case.node as node_cases
import onnx.parser

LARGEST = 4096
PER_OPERATOR = 2

WRITTEN = {
    "function": """<ir_version: 10, opset_import: ["" : 17, "local" : 1]>
        g (float[N, 4] x) => (float[N, 4] y) { a = local.twice<k = 2.0>(x) y = local.twice(a) }
        <domain: "local", opset_import: ["" : 17]>
        twice<k: float = 0.5>(v) => (w) { h = Elu<alpha: float = @k>(v) w = Add(h, h) }""",
    "subgraph": """<ir_version: 8, opset_import: ["" : 17]>
        g (bool c, float[2] x) => (float[2] y) <float[2] k = {1, 2}> {
          a = Relu(x)
          y = If (c) <then_branch = t () => (float[2] r) { r = Add(a, k) },
                      else_branch = e () => (float[2] s) { s = Neg(x) }> }""",
    "loop": """<ir_version: 8, opset_import: ["" : 17]>
        g (int64 m, bool go, float[2] x) => (float[n] y, float[k, 2] all, int64[k] counts) {
          h = Neg(x)
          y, all, counts = Loop(m, go, x) <body = b (int64 i, bool c, float[a] v) => (bool d, float[e] r, float[2] s, int64 t) {
            d = Identity(c) r = Concat<axis = 0>(v, h) s = Identity(h) t = Size(v) }> }""",
    "loop_of_found_sizes": """<ir_version: 8, opset_import: ["" : 17]>
        g (int64 m, float[6] x) => (float[k] y) {
          yes = Constant<value = bool {1}>()
          y = Loop(m, yes, x) <body = b (int64 i, bool c, float[a] v) => (bool d, float[e] r) {
            two = Constant<value = int64 {2}>() odd = Mod(i, two) zero = Constant<value = int64 {0}>() even = Equal(odd, zero)
            r = If(even) <then_branch = t () => (float[p] p) { nz = NonZero(v) tn = Transpose(nz) p = GatherND(v, tn) },
                          else_branch = f () => (float[q] q) { q = Concat<axis = 0>(v, x) }>
            d = Identity(c) }> }""",
    "scan": """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 3] s, float[2, 4, 3] x, float[3, 2, 4] u) => (float[2, 3] y, float[2, 3, 4] all, float[3, 4, 2] more) {
          y, all, more = Scan<num_scan_inputs = 2, scan_input_axes = [1, -1], scan_input_directions = [0, 1],
              scan_output_axes = [-1, 1], scan_output_directions = [1, 0],
              body = b (float[2, 3] a, float[2, 3] v, float[3, 2] t) => (float[2, 3] r, float[2, 3] o, float[3, 2] o2) {
            tt = Transpose(t) z = Add(v, tt) r = Add(a, z) o = Mul(r, r) o2 = Transpose(z) }>(s, x, u) }""",
    "scan_with_a_batch": """<ir_version: 8, opset_import: ["" : 8]>
        g (int64[2] len, float[2, 3] s, float[2, 4, 3] x) => (float[2, 3] y, float[2, 4, 3] all) {
          y, all = Scan<num_scan_inputs = 1, directions = [1], body = b (float[3] a, float[3] v) => (float[3] r, float[3] o) {
            r = Add(a, v) o = Identity(r) }>(len, s, x) }""",
    "constants": """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 4] x) => (float[2, 2] y) {
          shape = Constant<value_ints = [2, 2]>()
          y = Reshape(x, shape) }""",
}


def main(directory):
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in WRITTEN.items():
        (directory / f"written_{name}.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    taken = {}
    for case in node_cases.collect_testcases(None):
        data = case.model.SerializeToString() if case.model is not None else b""
        operator = case.model.graph.node[0].op_type if data else ""
        if not data or len(data) > LARGEST or taken.get(operator, 0) == PER_OPERATOR:
            continue
        taken[operator] = taken.get(operator, 0) + 1
        (directory / f"{case.name}.onnx").write_bytes(data)
    print(f"{sum(taken.values()) + len(WRITTEN)} seeds, {len(taken)} operators")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    warnings.filterwarnings("ignore")
    main(pathlib.Path(sys.argv[1]))
