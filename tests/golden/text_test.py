"""Strings, sequences and optionals against ONNX Runtime and Python: operators that move strings, regular expressions,
casts, sequences that control flow carries, and what is refused."""
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import driver

WORDS = np.array(["red", "", "green", "grün", "a longer string than fits inline", "blue", "x", "red", "Ωmega", "0", "zero", "b"], dtype=object)
STRING, FLOAT, INT64, BOOL = TensorProto.STRING, TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def model(nodes, inputs, outputs, initializers=(), opset=21):
    infos = [helper.make_value_info(name, kind) if isinstance(kind, onnx.TypeProto) else helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs]
    made = [helper.make_value_info(name, kind) if isinstance(kind, onnx.TypeProto) else helper.make_tensor_value_info(name, kind, None) for name, kind in outputs]
    graph = helper.make_graph(list(nodes), "g", infos, made, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10).SerializeToString()


def constant(name, values):
    return onnx.numpy_helper.from_array(np.asarray(values), name)


def sequence_type(kind):
    return helper.make_sequence_type_proto(helper.make_tensor_type_proto(kind, None))


def moves():
    """(name, node's operator, further inputs, attributes) of what moves strings about."""
    yield "Identity", [], {}
    yield "Reshape", [[2, 6]], {}
    yield "Flatten", [], {"axis": 1}
    yield "Transpose", [], {"perm": [1, 0]}
    yield "Slice", [[0, 1], [3, 3], [0, 1], [2, 1]], {}
    yield "Gather", [[2, 0, -1]], {"axis": 1}
    yield "GatherElements", [[[0, 1, 2, 3]]], {"axis": 1}
    yield "GatherND", [[[0, 1], [2, 3]]], {}
    yield "Tile", [[2, 1]], {}
    yield "Expand", [[2, 3, 4]], {}
    yield "Unsqueeze", [[0]], {}
    yield "Squeeze", None, {}
    yield "Split", [[1, 3]], {"axis": 1}
    yield "Compress", [[True, False, True]], {"axis": 0}
    yield "Shape", [], {}
    yield "Size", [], {}


def move_cases():
    x = WORDS.reshape(3, 4)
    for op, more, attributes in moves():
        feeds = {"x": x}
        if more is None:
            feeds, more = {"x": x.reshape(3, 1, 4)}, [[1]]
        constants = [constant(f"c{i}", value) for i, value in enumerate(more)]
        outputs = ["y", "z"] if op == "Split" else ["y"]
        kind = INT64 if op in ("Shape", "Size") else STRING
        node = helper.make_node(op, ["x", *(one.name for one in constants)], outputs, **attributes)
        for rank in ("static", "dynamic"):
            dims = list(feeds["x"].shape) if rank == "static" else [None] * feeds["x"].ndim
            yield driver.Case(f"{op} {rank}", model([node], [("x", STRING, dims)], [(name, kind) for name in outputs], constants), feeds, [None] * len(outputs))
    y = x[::-1].copy()
    mask = np.array([[True], [False], [True]])
    yield driver.Case("Where", model([helper.make_node("Where", ["m", "x", "y"], ["z"])], [("m", BOOL, [3, 1]), ("x", STRING, [3, 4]), ("y", STRING, [3, 4])], [("z", STRING)]),
                      {"m": mask, "x": x, "y": y}, [None])
    yield driver.Case("Concat", model([helper.make_node("Concat", ["x", "y", "x"], ["z"], axis=0)], [("x", STRING, [3, 4]), ("y", STRING, [3, 4])], [("z", STRING)]), {"x": x, "y": y}, [None])
    yield driver.Case("Equal", model([helper.make_node("Equal", ["x", "y"], ["z"])], [("x", STRING, [3, 4]), ("y", STRING, [4])], [("z", BOOL)]), {"x": x, "y": x[0]}, [None])
    yield driver.Case("constant", model([helper.make_node("Concat", ["x", "c"], ["z"], axis=0)], [("x", STRING, [3, 4])], [("z", STRING)], [constant("c", x)]), {"x": x}, [None])
    yield driver.Case("empty", model([helper.make_node("Identity", ["x"], ["z"])], [("x", STRING, [None, 4])], [("z", STRING)]), {"x": x[:0]}, [None])
    indices = np.array([[1], [0]])
    yield driver.Case("ScatterND", model([helper.make_node("ScatterND", ["x", "i", "u"], ["z"])], [("x", STRING, [3, 4]), ("i", INT64, [2, 1]), ("u", STRING, [2, 4])], [("z", STRING)]),
                      {"x": x, "i": indices, "u": y[:2]}, [None])
    yield from control_flow_cases(x, y)


def control_flow_cases(x, y):
    def branch(name, source):
        return helper.make_graph([helper.make_node("Identity", [source], [name])], name, [], [helper.make_tensor_value_info(name, STRING, None)])
    node = helper.make_node("If", ["c"], ["z"], then_branch=branch("t", "x"), else_branch=branch("e", "y"))
    for flag in (True, False):
        yield driver.Case(f"If {flag}", model([node], [("c", BOOL, []), ("x", STRING, [3, 4]), ("y", STRING, [3, 4])], [("z", STRING)]), {"c": np.array(flag), "x": x, "y": y}, [None])
    # Each iteration appends to each string, and gives it out.
    body = helper.make_graph(
        [helper.make_node("Identity", ["cond"], ["go"]), helper.make_node("StringConcat", ["s", "tail"], ["next"]), helper.make_node("Identity", ["next"], ["scanned"])], "body",
        [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("cond", BOOL, []), helper.make_tensor_value_info("s", STRING, [4])],
        [helper.make_tensor_value_info("go", BOOL, []), helper.make_tensor_value_info("next", STRING, [4]), helper.make_tensor_value_info("scanned", STRING, [4])])
    loop = helper.make_node("Loop", ["n", "", "x"], ["last", "all"], body=body)
    for n in (0, 1, 5):
        yield driver.Case(f"Loop {n}", model([loop], [("n", INT64, []), ("x", STRING, [4]), ("tail", STRING, [])], [("last", STRING), ("all", STRING)]),
                          {"n": np.array(n), "x": x[0], "tail": np.array("ü!", dtype=object)}, [None, None])


def sequence_cases():
    kind = sequence_type(FLOAT)
    parts = [np.arange(3, dtype=np.float32), np.arange(4, dtype=np.float32), np.zeros(0, np.float32)]
    item = np.array([7, 8], np.float32)
    for index in (None, 0, 1, 3, -1, -3):
        more = [] if index is None else ["p"]
        feeds = {"s": parts, "t": item, **({} if index is None else {"p": np.array(index)})}
        inputs = [("s", kind, None), ("t", FLOAT, [None]), *([] if index is None else [("p", INT64, [])])]
        yield driver.Case(f"SequenceInsert {index}", model([helper.make_node("SequenceInsert", ["s", "t", *more], ["y"])], inputs, [("y", kind)]), feeds, [None])
    for index in (None, 0, 2, -3):
        more = [] if index is None else ["p"]
        feeds = {"s": parts, **({} if index is None else {"p": np.array(index)})}
        inputs = [("s", kind, None), *([] if index is None else [("p", INT64, [])])]
        yield driver.Case(f"SequenceErase {index}", model([helper.make_node("SequenceErase", ["s", *more], ["y"])], inputs, [("y", kind)]), feeds, [None])
    for index in (0, 1, -1):
        # What follows an element of a size that only the run knows.
        nodes = [helper.make_node("SequenceAt", ["s", "p"], ["e"]), helper.make_node("Add", ["e", "e"], ["y"])]
        yield driver.Case(f"SequenceAt {index}", model(nodes, [("s", kind, None), ("p", INT64, [])], [("y", FLOAT)]), {"s": parts, "p": np.array(index)}, [None])
    yield driver.Case("SequenceLength", model([helper.make_node("SequenceLength", ["s"], ["y"])], [("s", kind, None)], [("y", INT64)]), {"s": parts}, [None])
    yield driver.Case("SequenceLength of none", model([helper.make_node("SequenceLength", ["s"], ["y"])], [("s", kind, None)], [("y", INT64)]), {"s": []}, [None])
    for axis, new in ((0, 0), (1, 0), (0, 1), (-1, 1), (2, 1)):
        same = [np.full((2, 3), i, np.float32) for i in range(3)]
        node = helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=axis, new_axis=new)
        yield driver.Case(f"ConcatFromSequence {axis} {new}", model([node], [("s", kind, None)], [("y", FLOAT)]), {"s": same}, [None])
    for axis, keep, split in ((0, 1, None), (1, 0, None), (1, 1, 2), (0, 1, [1, 2, 0]), (-1, 0, 3)):
        more = [] if split is None else [constant("p", split)]
        node = helper.make_node("SplitToSequence", ["x", *(one.name for one in more)], ["y"], axis=axis, keepdims=keep)
        x = np.arange(15, dtype=np.float32).reshape(3, 5)
        yield driver.Case(f"SplitToSequence {axis} {keep} {split}", model([node], [("x", FLOAT, [3, 5])], [("y", kind)], more), {"x": x}, [None])
    words = sequence_type(STRING)
    yield driver.Case("strings", model([helper.make_node("SplitToSequence", ["x"], ["s"], axis=0), helper.make_node("SequenceInsert", ["s", "x"], ["y"])], [("x", STRING, [3, 4])], [("y", words)]),
                      {"x": WORDS.reshape(3, 4)}, [None])
    yield driver.Case("strings joined", model([helper.make_node("SequenceConstruct", ["x", "x"], ["s"]), helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=1)], [("x", STRING, [3, 4])], [("y", STRING)]),
                      {"x": WORDS.reshape(3, 4)}, [None])
    # A loop that appends in each iteration, beside one that reads what the iteration before has appended.
    body = helper.make_graph(
        [helper.make_node("Identity", ["cond"], ["go"]), helper.make_node("SequenceAt", ["s", "last"], ["e"]), helper.make_node("Concat", ["e", "e"], ["longer"], axis=0),
         helper.make_node("SequenceInsert", ["s", "longer"], ["next"])], "body",
        [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("cond", BOOL, []), helper.make_value_info("s", kind)],
        [helper.make_tensor_value_info("go", BOOL, []), helper.make_value_info("next", kind)])
    nodes = [helper.make_node("SequenceConstruct", ["x"], ["first"]), helper.make_node("Loop", ["n", "", "first"], ["y"], body=body)]
    for n in (0, 1, 6):
        yield driver.Case(f"growing {n}", model(nodes, [("n", INT64, []), ("x", FLOAT, [2])], [("y", kind)], [constant("last", -1)]), {"n": np.array(n), "x": item}, [None])


def differs(want, got):
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"{got} is no sequence of {len(want)}"
        return next(filter(None, map(differs, want, got)), None)
    if want.shape != got.shape:
        return f"shape {list(got.shape)}, not {list(want.shape)}"
    return None if np.array_equal(want.astype(object), got.astype(object)) else f"{got}, not {want}"


@pytest.mark.parametrize("options", (("--threads=1",), ("--threads=2", "--guarded")), ids=" ".join)
@pytest.mark.parametrize("cases", (move_cases, sequence_cases))
def test_results_are_those_of_onnx_runtime(cases, options, tmp_path):
    asked = list(cases())
    outcomes = driver.run_all(asked, tmp_path, options)
    failures, compared = [], 0
    for case in asked:
        outcome = outcomes[case.name]
        try:
            wanted = driver.plain_session(case.model).run(None, case.inputs)
        except Exception as error:
            if not outcome.ok:
                failures.append(f"{case.name}: {outcome.status}; and ONNX Runtime: {str(error)[:200]}")
            continue
        compared += 1
        found = outcome.status if not outcome.ok else next(filter(None, (differs(np.asarray(want) if not isinstance(want, list) else want, got) for want, got in zip(wanted, outcome.outputs))), None)
        if found:
            failures.append(f"{case.name}: {found}")
    assert not failures, f"{len(failures)} of {compared}:\n" + "\n".join(failures)
    assert compared > 0.7 * len(asked)


# Python's syntax is the same for these, but that \Z is RE2's \z.
PATTERNS = [r"", r"a", r"a*", r"(a|b)+c?", r"[a-c]{2,3}", r"[^a-c]+", r"\d+\.\d*", r"\w+@\w+\.(com|org)", r"(?i)ABC", r"(?s).*", r".*", r"a{3}", r"a{2,}", r"(ab){1,2}", r"x??y", r"^abc$", r"\bab\b",
            r"a\b.*", r"(?:a|)b", r"[\d_-]+", r"[]a]+", r"\x41+", r"ü+", r"[à-ü]+", r"(?P<year>\d{4})-(\d\d)", r"a|b|", r"(a*)*", r"(a?){20}a{20}", r"\s*\S+\s*", r"[\w.]+", r"(?i:a)B", r"a.c", r"\$\^\*", r"(((a)))", r"(?m)^a$"]
TEXTS = ["", "a", "aa", "aaa", "abc", "ABC", "abab", "ab c", "a c", "a\nc", "12.5", "12.", "me@host.com", "me@host.net", "ü", "üü", "à", "2024-06", "b", "y", "xy", "a-_9", "]a]", "AAA", "a" * 20, "$^*", " word ", "aB", "AB", "_"]
WRONG = ["(", ")", "[", "[z-a]", "a**", "*a", "a{2000}", r"\1", r"(?<=a)b", r"(?!a)", r"\8", "(?P<>a)", "[[:nope:]]", r"\x{110000}", "a{3,2}", "(?z)"]


def test_regular_expressions_match_as_pythons_do(tmp_path):
    x = np.array(TEXTS, dtype=object)
    cases = [driver.Case(pattern, model([helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)], [("x", STRING, [len(TEXTS)])], [("y", BOOL)]), {"x": x}, [None]) for pattern in PATTERNS]
    outcomes = driver.run_all(cases, tmp_path)
    failures = []
    for pattern in PATTERNS:
        want = np.array([re.fullmatch(pattern, text, re.ASCII) is not None for text in TEXTS])
        outcome = outcomes[pattern]
        if not outcome.ok or not np.array_equal(outcome.outputs[0], want):
            failures.append(f"{pattern!r}: {outcome.status} {[TEXTS[i] for i in np.flatnonzero(outcome.outputs[0] != want)] if outcome.ok else ''}")
    assert not failures, "\n".join(failures)


def test_what_is_no_regular_expression_is_refused(tmp_path):
    x = np.array(["a"], dtype=object)
    cases = [driver.Case(f"case {i}", model([helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)], [("x", STRING, [1])], [("y", BOOL)]), {"x": x}, [None]) for i, pattern in enumerate(WRONG)]
    outcomes = driver.run_all(cases, tmp_path)
    taken = {WRONG[i]: outcomes[f"case {i}"].status for i in range(len(WRONG)) if not outcomes[f"case {i}"].status.startswith("invalid_argument")}
    assert not taken


def test_a_long_text_is_matched_in_linear_time(tmp_path):
    x = np.array(["a" * 100_000], dtype=object)
    case = driver.Case("long", model([helper.make_node("RegexFullMatch", ["x"], ["y"], pattern="(a*)*(a|aa)+b?")], [("x", STRING, [1])], [("y", BOOL)]), {"x": x}, [None])
    outcome = driver.run([case], tmp_path, timeout=60)["long"]
    assert outcome.ok and outcome.outputs[0].tolist() == [True]


def test_casts_from_and_to_strings(tmp_path):
    numbers = np.array([0, 1, -1.5, 3.1415926, 1e-7, 1e10, 0.1, 123456.78, np.inf, -np.inf, np.nan], np.float32)
    texts = np.array(["0", " 12 ", "-1.5", "+3.25e2", "1e-3", "INF", "-inf", "NaN"], dtype=object)
    whole = np.array(["0", "-12", "+7", "9223372036854775807", "3.9"], dtype=object)
    cases = [driver.Case("floats", model([helper.make_node("Cast", ["x"], ["y"], to=STRING)], [("x", FLOAT, [None])], [("y", STRING)]), {"x": numbers}, [None]),
             driver.Case("back", model([helper.make_node("Cast", ["x"], ["s"], to=STRING), helper.make_node("Cast", ["s"], ["y"], to=FLOAT)], [("x", FLOAT, [None])], [("y", FLOAT)]), {"x": numbers}, [None]),
             driver.Case("texts", model([helper.make_node("Cast", ["x"], ["y"], to=FLOAT)], [("x", STRING, [None])], [("y", FLOAT)]), {"x": texts}, [None]),
             driver.Case("integers", model([helper.make_node("Cast", ["x"], ["y"], to=INT64)], [("x", STRING, [None])], [("y", INT64)]), {"x": whole}, [None]),
             driver.Case("wrong", model([helper.make_node("Cast", ["x"], ["y"], to=FLOAT)], [("x", STRING, [None])], [("y", FLOAT)]), {"x": np.array(["12 monkeys"], dtype=object)}, [None])]
    outcomes = driver.run_all(cases, tmp_path)
    assert outcomes["floats"].outputs[0].tolist() == ["0", "1", "-1.5", "3.1415925", "1e-07", "1e+10", "0.1", "123456.78", "INF", "-INF", "NaN"]
    assert np.array_equal(outcomes["back"].outputs[0], numbers, equal_nan=True)
    assert np.array_equal(outcomes["texts"].outputs[0], np.array([0, 12, -1.5, 325, 1e-3, np.inf, -np.inf, np.nan], np.float32), equal_nan=True)
    assert outcomes["integers"].outputs[0].tolist() == [0, -12, 7, 2 ** 63 - 1, 3]
    assert outcomes["wrong"].status.startswith("invalid_argument") and "12 monkeys" in outcomes["wrong"].status


def test_mistakes_with_sequences_are_refused(tmp_path):
    kind = sequence_type(FLOAT)
    one = [np.zeros(2, np.float32)]
    at = model([helper.make_node("SequenceAt", ["s", "p"], ["y"])], [("s", kind, None), ("p", INT64, [])], [("y", FLOAT)])
    erase = model([helper.make_node("SequenceErase", ["s"], ["y"])], [("s", kind, None)], [("y", kind)])
    join = model([helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)], [("s", kind, None)], [("y", FLOAT)])
    get = model([helper.make_node("OptionalGetElement", ["s"], ["y"])], [("s", helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, None)), None)], [("y", FLOAT)])
    mixed = model([helper.make_node("SequenceConstruct", ["x", "p"], ["y"])], [("x", FLOAT, [2]), ("p", INT64, [])], [("y", kind)])
    cases = [driver.Case("beyond", at, {"s": one, "p": np.array(1)}, [None]), driver.Case("before", at, {"s": one, "p": np.array(-2)}, [None]), driver.Case("of none", erase, {"s": []}, [None]),
             driver.Case("ranks", join, {"s": [np.zeros((2, 1), np.float32), np.zeros(2, np.float32)]}, [None]), driver.Case("no shape", join, {"s": []}, [None]),
             driver.Case("types", at, {"s": [np.zeros(2, np.int64)], "p": np.array(0)}, [None]), driver.Case("nothing", get, {"s": None}, [None]),
             driver.Case("mixed", mixed, {"x": one[0], "p": np.array(0)}, [None])]
    outcomes = driver.run_all(cases, tmp_path)
    statuses = {name: outcome.status for name, outcome in outcomes.items()}
    assert statuses.keys() == {case.name for case in cases}
    assert all(status.split(":")[0] in ("invalid_argument", "out_of_range") for status in statuses.values()), statuses
    assert "Index 1" in statuses["beyond"] and "int64" in statuses["mixed"]


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))
