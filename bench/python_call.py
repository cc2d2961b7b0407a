#!/usr/bin/env python3
"""Times calls of the Python package on models of one node beside onnxruntime's package, and prints the ratios.

Beside arrays of floats there are the inputs and outputs of pipelines of scikit-learn: strings in arrays, tables and lists,
dictionaries, sequences, counted n-grams and ZipMap's dictionaries.

    bench/python_call.py [--rounds N] [--calls N] [--json FILE] [--limit 0.5] [--only TEXT]

Both packages run in turns in one process, on the same arrays, with one thread; their results are compared first. A figure
is the CPU time of the thread for one call in nanoseconds, the median of the rounds. `ratio` is Tenon's time divided by
onnxruntime's: below 1, Tenon is faster. With --limit the program fails where `run` has a higher ratio.
Tenon is the package that the interpreter imports: pip install ., or PYTHONPATH=build/test/python.
"""
import argparse
import json
import os
import platform
import statistics
import sys
import time

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import tenon  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402


def one_node(op, elements, inputs):
    names = [f"x{i}" for i in range(inputs)]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", elements]) for name in [*names, "y"]]
    graph = helper.make_graph([helper.make_node(op, names, ["y"])], "g", infos[:-1], infos[-1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def object_model(op, feed_type, result_type, domain="ai.onnx.ml", opset=17, inputs="x", outputs="y", **attributes):
    graph = helper.make_graph([helper.make_node(op, list(inputs), list(outputs), domain=domain, **attributes)], "g",
                              [helper.make_value_info("x", feed_type)], [helper.make_value_info("y", result_type)])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def object_cases(rows=60):
    """Name, model and feed."""
    words = [f"category {i}" for i in range(200)]
    table = np.random.default_rng(0).choice(np.array(words, object), (rows, 3))
    tensor, sequence, mapping = helper.make_tensor_type_proto, helper.make_sequence_type_proto, helper.make_map_type_proto
    texts, floats = tensor(TensorProto.STRING, ["n", "m"]), tensor(TensorProto.FLOAT, None)
    encoder = object_model("OneHotEncoder", texts, floats, cats_strings=words)
    yield "OneHotEncoder, object array", encoder, table
    yield "OneHotEncoder, U array", encoder, table.astype("U")
    yield "OneHotEncoder, columns", encoder, np.asfortranarray(table)
    yield "OneHotEncoder, lists", encoder, table.tolist()
    labels = ["yes", "no", "maybe"]
    maps = sequence(mapping(TensorProto.STRING, tensor(TensorProto.FLOAT, [])))
    yield "ZipMap", object_model("ZipMap", tensor(TensorProto.FLOAT, ["n", 3]), maps, classlabels_strings=labels), np.ones((rows, 3), np.float32)
    dictionary = mapping(TensorProto.STRING, tensor(TensorProto.FLOAT, []))
    yield ("DictVectorizer, 200 words", object_model("DictVectorizer", dictionary, floats, string_vocabulary=words),
           {word: 1.5 for word in words})
    yield ("ConcatFromSequence", object_model("ConcatFromSequence", sequence(tensor(TensorProto.FLOAT, None)), floats, domain="", axis=0),
           list(np.ones((rows, 1, 4), np.float32)))
    letters = list("abcdefghijklmnopqrstuvwxyz ")
    pool = letters + [letter for first in letters for second in letters for letter in (first, second)]
    grams = len(letters) + len(letters) ** 2
    yield ("TfIdfVectorizer, characters",
           object_model("TfIdfVectorizer", texts, floats, domain="", mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0,
                        ngram_counts=[0, len(letters)], ngram_indexes=list(range(grams)), pool_strings=pool),
           np.array([list("a text of some thirty letters "[:30])] * rows, object))
    column, strings = np.tile(table[:, 0], 16), tensor(TensorProto.STRING, None)
    for op, result, inputs, outputs in [("StringConcat", strings, "xx", "y"), ("StringSplit", strings, "x", "yn"),
                                        ("SplitToSequence", sequence(strings), "x", "y")]:
        model = object_model(op, tensor(TensorProto.STRING, ["n"]), result, domain="", opset=20, inputs=inputs, outputs=outputs)
        yield f"{op}, {len(column)} strings", model, column
    yield ("Tokenizer, characters", object_model("Tokenizer", tensor(TensorProto.STRING, ["n"]), tensor(TensorProto.STRING, None), domain="com.microsoft",
                                                 mark=0, mincharnum=1, pad_value="#", tokenexp="."), table[:, 0].copy())


def text_cases():
    """The same for strings of other sizes, numbers and alphabets, and for more operators that take or give them."""
    random, tensor = np.random.default_rng(0), helper.make_tensor_type_proto
    strings, integers, floats = (tensor(t, ["n"]) for t in (TensorProto.STRING, TensorProto.INT64, TensorProto.FLOAT))

    def column(words, count):
        return random.choice(np.array(words, object), count)

    def model(op, feed, result, **more):
        return object_model(op, feed, result, **{"domain": "", "opset": 20, **more})

    alphabets = {"4 bytes": [f"{i:04}" for i in range(500)], "100 bytes": [f"{i:0100}" for i in range(500)],
                 "latin": [f"catégorie numéro {i}" for i in range(200)], "chinese": [f"第{i}号的类别名称" for i in range(200)]}
    concat = model("StringConcat", strings, tensor(TensorProto.STRING, None), inputs="xx")
    for label, words in alphabets.items():
        for count in (1, 16, 1000):
            yield f"StringConcat, {count} of {label}", concat, column(words, count)
        x = column(words, 200).reshape(-1, 2)
        encoder = object_model("OneHotEncoder", tensor(TensorProto.STRING, ["n", 2]), tensor(TensorProto.FLOAT, None), cats_strings=words[:20],
                               zeros=1)
        yield f"OneHotEncoder, U, {label}", encoder, x.astype("U")
        yield f"OneHotEncoder, {label}", encoder, x
    words = [f"category {i}" for i in range(200)]
    few, many = column(words, 16), column(words, 1000)
    labels = list(range(200))
    for x in (few, many):
        n = len(x)
        yield (f"LabelEncoder, {n} to numbers", object_model("LabelEncoder", strings, integers, keys_strings=words, values_int64s=labels), x)
        yield (f"LabelEncoder, {n} to words", object_model("LabelEncoder", integers, strings, keys_int64s=labels, values_strings=words),
               random.integers(0, 200, n))
        yield f"StringNormalizer, {n}", model("StringNormalizer", strings, strings, case_change_action="UPPER", locale="C"), x
        yield f"RegexFullMatch, {n}", model("RegexFullMatch", strings, tensor(TensorProto.BOOL, ["n"]), pattern="[a-z]+ [0-9]+"), x
        yield f"Identity, {n} strings", model("Identity", strings, strings), x
        yield (f"Tokenizer, {n}", model("Tokenizer", strings, tensor(TensorProto.STRING, None), domain="com.microsoft", mark=0, mincharnum=1,
                                        pad_value="#", separators=[" "]), x)
        for kind, numbers in {"short integers": random.integers(0, 100, n), "long integers": random.integers(0, 10**12, n)}.items():
            yield f"Cast, {n} {kind} to strings", model("Cast", integers, strings, to=TensorProto.STRING), numbers
            yield f"Cast, {n} strings to {kind}", model("Cast", strings, integers, to=TensorProto.INT64), numbers.astype(str).astype(object)
        numbers = random.integers(-4000, 4000, n).astype(np.float32) / 8  # of few digits: onnxruntime prints eight
        yield f"Cast, {n} floats to strings", model("Cast", floats, strings, to=TensorProto.STRING), numbers
        yield f"Cast, {n} strings to floats", model("Cast", strings, floats, to=TensorProto.FLOAT), numbers.astype(str).astype(object)


def session(package, model):
    options = package.SessionOptions()
    options.intra_op_num_threads = 1
    return package.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def bound(made, feed):
    binding, y = made.io_binding(), np.empty_like(next(iter(feed.values())))
    for name, x in feed.items():
        binding.bind_cpu_input(name, x)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    return lambda: (made.run_with_iobinding(binding), y)


def cases():
    for op, elements, inputs in [("Relu", 64, 1), ("Add", 64, 2), ("Sum", 16, 8), ("Relu", 16384, 1)]:
        model, label = one_node(op, elements, inputs), f"{op} of {inputs}, {elements} floats"
        feed = {f"x{i}": np.random.default_rng(i).standard_normal((1, elements), np.float32) for i in range(inputs)}
        packages = {"tenon": tenon, "onnxruntime": onnxruntime}
        made = {name: session(package, model) for name, package in packages.items()}
        yield label, "run", {n: (lambda s=s: s.run(None, feed)) for n, s in made.items()}
        yield label, "run, named", {n: (lambda s=s: s.run(["y"], feed)) for n, s in made.items()}
        values = {n: {k: p.OrtValue.ortvalue_from_numpy(x) for k, x in feed.items()} for n, p in packages.items()}
        yield label, "OrtValues", {n: (lambda n=n: made[n].run_with_ort_values(["y"], values[n])) for n in made}
        yield label, "IOBinding", {n: bound(made[n], feed) for n in made}
    for label, model, x in [*object_cases(), *text_cases()]:
        made = {name: session(package, model) for name, package in packages.items()}
        yield label, "run", {n: (lambda s=s, x=x: s.run(None, {"x": x})) for n, s in made.items()}


def check(ours, theirs):
    if isinstance(theirs, (list, dict)) or theirs.dtype == object:
        np.testing.assert_equal(ours, theirs)
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def timed(call, calls):
    begin = time.thread_time_ns()
    for _ in range(calls):
        call()
    return (time.thread_time_ns() - begin) / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--json")
    parser.add_argument("--limit", type=float)
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    arguments = parser.parse_args()
    print(f"tenon {tenon.__version__}, onnxruntime {onnxruntime.__version__}, Python {platform.python_version()}, "
          f"numpy {np.__version__}; ns for one call")
    print(f"{'model':36} {'call':12} {'tenon':>8} {'onnxruntime':>12} {'ratio':>6}")
    rows, bad = [], False
    for label, kind, calls in cases():
        if arguments.only not in label:
            continue
        results = [call() for call in calls.values()]
        if kind.startswith("run"):
            check(results[0][0], results[1][0])
        times = {name: [] for name in calls}
        for _ in range(arguments.rounds):
            for name, call in calls.items():
                times[name].append(timed(call, arguments.calls))
        ours, theirs = (statistics.median(t) for t in times.values())
        rows.append({"model": label, "call": kind, "tenon_ns": ours, "onnxruntime_ns": theirs, "ratio": ours / theirs})
        print(f"{label:36} {kind:12} {ours:8.0f} {theirs:12.0f} {ours / theirs:6.2f}", flush=True)
        bad |= arguments.limit is not None and kind == "run" and ours / theirs > arguments.limit
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
