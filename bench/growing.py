#!/usr/bin/env python3
"""Times models whose inputs have another shape in each run, beside ONNX Runtime, and prints the ratios.

    bench/growing.py [MODEL.onnx ...] [--threads 1 2] [--steps 48] [--prompt 16] [--rounds 3] [--json FILE]

Without a model: small decoders in plain operators, written as PyTorch exports them, whose caches are inputs and grow by a
token a run. A model of one's own has the inputs ids, mask and past0, past1, ..., or as many of them as it wants, and its
outputs are the logits and the caches, in the order of the inputs.

A round begins with a prompt and goes on token by token. Of the first round every shape is new to the session; later ones
meet the same shapes again. Both packages run the same rounds in turns in one process, and their logits are compared. `new`
and `again` are milliseconds of a step (the prompt left out): the median over the steps of the first round, and over those
of the others; `ratio` is ONNX Runtime's median by Tenon's: above 1, Tenon is faster. `rounds` has the ratio of the sums.
Tenon is the package that the interpreter imports: pip install ., or PYTHONPATH=build/test/python.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import time

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import tenon  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


class Decoder:
    """RMS norms, rotary embedding, fewer heads of keys than of queries, SwiGLU; shapes are computed from shapes, as
    `x.view(b, s, -1, 64)` and `expand` are exported."""

    def __init__(self, layers, size, heads, kv_heads, inner, vocabulary=8000, depth=64):
        self.layers, self.size, self.heads, self.kv_heads, self.inner, self.depth = layers, size, heads, kv_heads, inner, depth
        self.nodes, self.held, self.random = [], [], np.random.default_rng(0)
        past = [f"past{i}" for i in range(2 * layers)]
        x = self.node("Gather", [self.weights(vocabulary, size), "ids"])
        begin = self.dim("past0", 2)
        length, total = self.dim("ids", 1), self.node("Add", [self.dim("past0", 2), self.dim("ids", 1)])
        places = self.node("Add", [self.node("Range", [self.number(0), length, self.number(1)]), begin])
        seen = self.node("LessOrEqual", [self.node("Range", [self.number(0), total, self.number(1)]), self.node("Unsqueeze", [places, self.ints(1)])])
        kept = self.node("Unsqueeze", [self.node("Cast", ["mask"], to=TensorProto.BOOL), self.ints(1, 2)])
        mask = self.node("Where", [self.node("And", [seen, kept]), self.floats(0.0), self.floats(-3.4e38)])
        angles = self.node("Mul", [self.node("Unsqueeze", [self.node("Cast", [places], to=TensorProto.FLOAT), self.ints(1)]),
                                   self.floats(10000.0 ** (-np.arange(depth // 2) / (depth // 2)))])
        angles = self.node("Concat", [angles, angles], axis=-1)
        self.cos, self.sin = self.node("Cos", [angles]), self.node("Sin", [angles])
        presents = []
        for layer in range(layers):
            normed = self.norm(x)
            q = self.rotate(self.split_heads(self.product(normed, size, heads * depth)))
            k = self.rotate(self.split_heads(self.product(normed, size, kv_heads * depth)))
            v = self.split_heads(self.product(normed, size, kv_heads * depth))
            k, v = (self.node("Concat", [past[2 * layer + i], new], name=f"present{2 * layer + i}", axis=2) for i, new in enumerate((k, v)))
            presents += [k, v]
            scores = self.node("Mul", [self.node("MatMul", [q, self.node("Transpose", [self.repeated(k)], perm=[0, 1, 3, 2])]), self.floats(depth**-0.5)])
            mixed = self.node("MatMul", [self.node("Softmax", [self.node("Add", [scores, mask])], axis=-1), self.repeated(v)])
            joined = self.node("Reshape", [self.node("Transpose", [mixed], perm=[0, 2, 1, 3]), self.shape(self.dim(x, 0), self.dim(x, 1), -1)])
            x = self.node("Add", [x, self.product(joined, heads * depth, size)])
            normed = self.norm(x)
            gate = self.product(normed, size, inner)
            gate = self.node("Mul", [gate, self.node("Sigmoid", [gate])])
            x = self.node("Add", [x, self.product(self.node("Mul", [gate, self.product(normed, size, inner)]), inner, size)])
        logits = self.node("MatMul", [self.norm(x), self.weights(size, vocabulary)], name="logits")
        infos = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "tokens"]), helper.make_tensor_value_info("mask", TensorProto.INT64, ["batch", "total"])]
        infos += [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", kv_heads, "past", depth]) for name in past]
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in [logits, *presents]]
        graph = helper.make_graph(self.nodes, "decoder", infos, made, self.held)
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

    def node(self, op, inputs, name=None, **attributes):
        name = name or f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"{name}/node", **attributes))
        return name

    def hold(self, array):
        self.held.append(numpy_helper.from_array(array, f"constant_{len(self.held)}"))
        return self.held[-1].name

    def floats(self, values):
        return self.hold(np.asarray(values, np.float32))

    def number(self, value):
        return self.hold(np.asarray(value, np.int64))

    def ints(self, *values):
        return self.hold(np.asarray(values, np.int64))

    def weights(self, *shape):
        return self.floats(self.random.standard_normal(shape) * 0.02)

    def dim(self, x, axis):
        return self.node("Gather", [self.node("Shape", [x]), self.number(axis)], axis=0)

    def shape(self, *sizes):
        parts = [self.ints(size) if isinstance(size, int) else self.node("Unsqueeze", [size, self.ints(0)]) for size in sizes]
        return self.node("Concat", parts, axis=0)

    def product(self, x, inputs, outputs):
        return self.node("MatMul", [x, self.weights(inputs, outputs)])

    def norm(self, x):
        mean = self.node("ReduceMean", [self.node("Pow", [x, self.floats(2.0)])], axes=[-1])
        root = self.node("Sqrt", [self.node("Add", [mean, self.floats(1e-6)])])
        return self.node("Mul", [self.floats(1 + 0.1 * self.random.standard_normal(self.size)), self.node("Mul", [x, self.node("Div", [self.floats(1.0), root])])])

    def split_heads(self, x):
        return self.node("Transpose", [self.node("Reshape", [x, self.shape(self.dim(x, 0), self.dim(x, 1), -1, self.depth)])], perm=[0, 2, 1, 3])

    def rotate(self, x):
        half = self.node("Div", [self.dim(x, 3), self.number(2)])
        middle = self.node("Unsqueeze", [half, self.ints(0)])
        first = self.node("Slice", [x, self.ints(0), middle, self.ints(3)])
        second = self.node("Slice", [x, middle, self.ints(2**63 - 1), self.ints(3)])
        turned = self.node("Concat", [self.node("Neg", [second]), first], axis=-1)
        return self.node("Add", [self.node("Mul", [x, self.cos]), self.node("Mul", [turned, self.sin])])

    def repeated(self, x):
        times = self.heads // self.kv_heads
        wide = self.node("Unsqueeze", [x, self.ints(2)])
        sizes = [self.dim(x, axis) for axis in range(4)]
        target = self.shape(sizes[0], sizes[1], times, sizes[2], sizes[3])
        ones = self.node("ConstantOfShape", [self.ints(5)], value=numpy_helper.from_array(np.array([1], np.int64)))
        kept = self.node("Equal", [target, self.node("Mul", [ones, self.number(-1)])])
        wide = self.node("Expand", [wide, self.node("Where", [kept, ones, target])])
        return self.node("Reshape", [wide, self.shape(sizes[0], self.node("Mul", [sizes[1], self.number(times)]), sizes[2], sizes[3])])


def made_models():
    yield "4 layers of 256", Decoder(4, 256, 4, 2, 704).model
    yield "8 layers of 512", Decoder(8, 512, 8, 2, 1408).model
    yield "6 layers of 1024", Decoder(6, 1024, 16, 4, 2816).model


class Runner:
    def __init__(self, package, model, threads):
        options = package.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = package.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.pasts = [each for each in self.session.get_inputs() if each.name.startswith("past")]
        self.names = {each.name for each in self.session.get_inputs()}

    def round(self, steps, prompt):
        """The milliseconds of each run, and the last token's logits of each."""
        random = np.random.default_rng(1)
        cache = [np.zeros((1, past.shape[1], 0, past.shape[3]), np.float32) for past in self.pasts]
        times, logits, ids = [], [], random.integers(0, 1000, (1, prompt))
        for _ in range(steps + 1):
            feed = {"ids": ids, "mask": np.ones((1, cache[0].shape[2] + ids.shape[1]), np.int64), **{past.name: value for past, value in zip(self.pasts, cache)}}
            feed = {name: value for name, value in feed.items() if name in self.names}
            begin = time.perf_counter()
            made = self.session.run(None, feed)
            times.append(1e3 * (time.perf_counter() - begin))
            cache, ids = made[1:], random.integers(0, 1000, (1, 1))
            logits.append(made[0][0, -1])
        return times[1:], np.array(logits)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("models", nargs="*", type=pathlib.Path)
    arguments.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    arguments.add_argument("--steps", type=int, default=48)
    arguments.add_argument("--prompt", type=int, default=16)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--json", type=pathlib.Path)
    options = arguments.parse_args()
    onnxruntime.set_default_logger_severity(4)
    print(f"{platform.processor() or platform.machine()}, onnxruntime {onnxruntime.__version__}, tenon {tenon.__version__}")
    print(f"{'model':24} {'threads':>7} {'new':>8} {'ORT':>8} {'ratio':>6} {'again':>8} {'ORT':>8} {'ratio':>6}   rounds            error")
    rows = []
    for name, model in [(path.stem, str(path)) for path in options.models] or made_models():
        for threads in options.threads:
            runners = [Runner(package, model, threads) for package in (tenon, onnxruntime)]
            found = [[runner.round(options.steps, options.prompt) for runner in runners] for _ in range(max(2, options.rounds))]
            error = max(float(np.abs(ours[1] - theirs[1]).max() / np.abs(theirs[1]).max()) for ours, theirs in found)
            new = [statistics.median(found[0][side][0]) for side in (0, 1)]
            again = [statistics.median([t for one in found[1:] for t in one[side][0]]) for side in (0, 1)]
            rounds = [sum(theirs[0]) / sum(ours[0]) for ours, theirs in found]
            rows.append({"model": name, "threads": threads, "new": new, "again": again, "rounds": rounds, "error": error})
            print(f"{name:24} {threads:7} {new[0]:8.2f} {new[1]:8.2f} {new[1] / new[0]:6.2f} {again[0]:8.2f} {again[1]:8.2f} {again[1] / again[0]:6.2f}   "
                  f"{' '.join(f'{ratio:.2f}' for ratio in rounds):17} {error:.1e}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
