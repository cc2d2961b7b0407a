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
