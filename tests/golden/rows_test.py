"""Every operator that Tenon claims, at every version, in every element type that the schema allows, with constant and
run-time operands, with and without optional inputs, and beside convolutions that work on blocks of eight channels: some
kernel takes it, and gives what ONNX Runtime (or where that has no kernel, a wider type there, or the onnx package's
reference) gives."""
import collections
import functools
import itertools
import json
import os
import pathlib
import warnings

import ml_dtypes
import numpy as np
import onnx
import pytest

import driver
from operator_examples import EXAMPLES, is_float, optional, type_bits

HERE = pathlib.Path(__file__).resolve().parent
# {"operators": {name: why it is not claimed}, "elsewhere": {name: where it is tested}, "types": {type: where it is tested},
#  "cases": {"Operator-version constraint=type": reason}}
GAPS = json.loads((HERE / "row_gaps.json").read_text())
OLDEST = 7  # opset that Tenon reads

DTYPES = {"float": np.float32, "double": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "bool": np.bool_,
          "complex64": np.complex64, "complex128": np.complex128, **{f"{u}int{bits}": np.dtype(f"{u}int{bits}") for u in ("", "u") for bits in (8, 16, 32, 64)}}
DTYPES = {f"tensor({name})": np.dtype(dtype) for name, dtype in DTYPES.items()}
# Types that numpy itself lacks: floats of 8, 6 and 4 bits, integers of 4 and 2 bits. onnx's reference is their oracle.
SMALL = {f"tensor({name})": np.dtype(getattr(ml_dtypes, dtype)) for name, dtype in (
    ("float8e4m3fn", "float8_e4m3fn"), ("float8e4m3fnuz", "float8_e4m3fnuz"), ("float8e5m2", "float8_e5m2"), ("float8e5m2fnuz", "float8_e5m2fnuz"),
    ("float8e8m0", "float8_e8m0fnu"), ("float6e2m3", "float6_e2m3fn"), ("float6e3m2", "float6_e3m2fn"), ("float4e2m1", "float4_e2m1fn"),
    ("uint4", "uint4"), ("int4", "int4"), ("uint2", "uint2"), ("int2", "int2"))}
DTYPES.update(SMALL)
WIDER = {"tensor(float16)": "tensor(float)", "tensor(bfloat16)": "tensor(float)", "tensor(int8)": "tensor(int32)", "tensor(uint8)": "tensor(int32)",
         "tensor(int16)": "tensor(int32)", "tensor(uint16)": "tensor(int32)", "tensor(uint32)": "tensor(int64)", "tensor(uint64)": "tensor(int64)",
         "tensor(double)": "tensor(float)", "tensor(int32)": "tensor(int64)", "tensor(int64)": "tensor(float)"}
FIRST_CHOICE = ("tensor(float)", "tensor(int64)", "tensor(bool)", "tensor(int32)")
# onnxruntime computes these of integers in integers; the standard's reference or its function body does not.
REFERENCE_FOR_INTEGERS = ("Gemm",)
DOUBLE_FOR_INTEGERS = ("ReduceLogSumExp",)
# Values only move: bool can be asked as uint8.
MOVES = ("OneHot", "Resize", "Upsample")


def codes(array):
    """Small types by their bits, so that NaN equals NaN."""
    if array.dtype not in SMALL.values():
        return array
    return array.view(np.uint8) & ((1 << type_bits(array.dtype)) - 1)


@functools.cache
def schemas():
    """[(schema in force, opset to import)] of each operator of ai.onnx, without those that only older opsets have."""
    by_name = collections.defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated:
            by_name[schema.name].append(schema)
    found = []
    for versions in by_name.values():
        versions.sort(key=lambda schema: schema.since_version)
        for at, schema in enumerate(versions):
            if at + 1 < len(versions) and versions[at + 1].since_version <= OLDEST:
                continue
            found.append((schema, max(OLDEST, schema.since_version)))
    return found


def number(type_text):
    return onnx.helper.np_dtype_to_tensor_dtype(DTYPES[type_text])


def given_values(given, dtype):
    given = np.asarray(given)
    return (np.abs(given) if dtype.kind == "u" else given).astype(dtype)


class Question:
    """An example with a type for each constraint and some of its optional inputs."""

    def __init__(self, example, schema, opset, types, present):
        self.example, self.schema, self.opset, self.types, self.present = example, schema, opset, types, present
        self.inputs = {}  # name -> array; in the order of the inputs
        self.slots = []  # a name each, "" where absent
        seed = sum(map(ord, example.operator))
        self.rng = np.random.default_rng(seed)
        for index, given in enumerate(example.inputs):
            if isinstance(given, optional):
                given = given.value if index in present else None
            if given is None:
                self.slots.append("")
                continue
            dtype = DTYPES[self.type_of(schema.inputs, index)]
            name = f"x{index}"
            self.slots.append(name)
            self.inputs[name] = self.values(given, dtype) if isinstance(given, tuple) else given_values(given, dtype)
        while self.slots and not self.slots[-1]:
            self.slots.pop()

    def type_of(self, parameters, index):
        text = parameters[min(index, len(parameters) - 1)].type_str
        return self.types.get(text, text)

    def values(self, shape, dtype):
        low, high = self.example.low, self.example.high
        if dtype == np.bool_:
            return self.rng.integers(0, 2, shape).astype(dtype)
        if dtype in SMALL.values():
            if dtype == ml_dtypes.float8_e8m0fnu:
                return np.exp2(self.rng.integers(-1, 2, shape).astype(np.float32)).astype(dtype)
            return self.rng.integers(0 if dtype.name.startswith("uint") else -2, 2, shape).astype(np.float32).astype(dtype)
        if dtype.kind == "c":
            real, imaginary = (self.values(shape, np.dtype(np.float32)) for _ in range(2))
            return (real + 1j * imaginary).astype(dtype)
        if dtype.kind == "u":
            low = max(low, 0)
        if dtype.kind in "iu":
            return self.rng.integers(int(np.ceil(low)), int(np.floor(high)) + 1, shape).astype(dtype)
        return (self.rng.integers(int(np.ceil(low * 8)), int(np.floor(high * 8)) + 1, shape) / 8).astype(dtype)

    def node(self):
        node = onnx.NodeProto(op_type=self.schema.name, name="asked", input=self.slots, output=[f"y{i}" for i in range(self.example.outputs)])
        numbers = {name: number(text) for name, text in self.types.items()}
        for name, value in self.example.attributes.items():
            if name in self.schema.attributes:
                node.attribute.append(onnx.helper.make_attribute(name, value(numbers) if callable(value) else value))
        return node

    def model(self, constants=(), blocked=False):
        """The inputs named in `constants` are initializers. blocked: convolutions by 1 stand before and after."""
        graph = onnx.GraphProto(name="g")
        node = self.node()
        for name, value in self.inputs.items():
            if name in constants:
                graph.initializer.append(tensor_of(name, value))
                continue
            graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
            if blocked and value.dtype == np.float32 and 3 <= value.ndim <= 4:
                graph.node.append(identity_conv(graph, name, name + "_b", value.shape[1], value.ndim))
                for at, slot in enumerate(node.input):
                    if slot == name:
                        node.input[at] = name + "_b"
        graph.node.append(node)
        for name in node.output:
            graph.output.append(onnx.ValueInfoProto(name=name))
        model = onnx.ModelProto(ir_version=8 if self.opset < 19 else 10, graph=graph)
        model.opset_import.add().version = self.opset
        return model

    def after_conv(self, model, outputs):
        """The model with a convolution by 1 behind each float output of rank 3 and 4."""
        for at, value in enumerate(outputs):
            if value.dtype != np.float32 or not 3 <= value.ndim <= 4 or value.size == 0:
                continue
            name = f"y{at}"
            model.graph.node.append(identity_conv(model.graph, name, name + "_b", value.shape[1], value.ndim))
            model.graph.output[at].name = name + "_b"
        return model


def tensor_of(name, value):
    tensor = onnx.TensorProto(name=name, data_type=onnx.helper.np_dtype_to_tensor_dtype(value.dtype), dims=value.shape)
    tensor.raw_data = driver.bytes_of(value)
    return tensor


def identity_conv(graph, source, target, channels, rank):
    name = f"one_{channels}_{rank}"
    if all(tensor.name != name for tensor in graph.initializer):
        graph.initializer.append(tensor_of(name, np.eye(channels, dtype=np.float32).reshape((channels, channels) + (1,) * (rank - 2))))
    return onnx.NodeProto(op_type="Conv", input=[source, name], output=[target])


# --- the oracle

def by_onnxruntime(question):
    try:
        session = driver.plain_session(question.model().SerializeToString())
        if any(value.dtype == ml_dtypes.bfloat16 for value in question.inputs.values()):
            return None
        outputs = session.run(None, question.inputs)
        return outputs if all(output.dtype != object for output in outputs) else None
    except Exception:  # it has no kernel for the type
        return None


def by_reference(question):
    from onnx.reference import ReferenceEvaluator
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return [np.asarray(output) for output in ReferenceEvaluator(question.model()).run(None, question.inputs)]
    except Exception:
        return None


def output_dtypes(question, outputs):
    """Where the schema names the output's constraint, its type; else what the oracle gave."""
    found = []
    for index, output in enumerate(outputs):
        text = question.type_of(question.schema.outputs, index)
        found.append(DTYPES.get(text, output.dtype))
    return found


def by_parts(question):
    parts = []
    for part in (np.real, np.imag):
        types = {name: {"tensor(complex64)": "tensor(float)", "tensor(complex128)": "tensor(float)"}.get(text, text)
                 for name, text in question.types.items()}
        asked = Question(question.example, question.schema, question.opset, types, question.present)
        asked.inputs = {name: part(value).astype(np.float32) if value.dtype.kind == "c" else value for name, value in question.inputs.items()}
        parts.append(by_onnxruntime(asked))
    if parts[0] is None or parts[1] is None or question.schema.name in ("Equal", "NonZero"):
        return None
    return [(real + 1j * imaginary).astype(dtype) if dtype.kind == "c" else real
            for real, imaginary, dtype in zip(*parts, output_dtypes(question, parts[0]))]


def other_versions(question):
    """The same question at other versions of the operator, the nearest older ones first."""
    since = question.schema.since_version
    found = [(schema, opset) for schema, opset in schemas() if schema.name == question.schema.name and schema.since_version != since]
    found.sort(key=lambda one: (one[0].since_version > since, abs(one[0].since_version - since)))
    for schema, opset in found:
        if not applies(question.example, schema):
            continue
        try:
            asked = Question(question.example, schema, opset, question.types, question.present)
        except KeyError:  # it names its types otherwise
            continue
        asked.inputs = question.inputs
        yield asked


def expected(question):
    """(outputs, bits of precision that a comparison of floats may ask for at most, by how much integers may be off), or
    None"""
    exact = 52
    if any(text in SMALL for text in question.types.values()):
        outputs = by_reference(question)
        if outputs is None and question.types.get("T1") in SMALL:  # ml_dtypes converts some only by way of float32
            asked = Question(question.example, question.schema, question.opset, {**question.types, "T1": "tensor(float)"}, question.present)
            asked.inputs["x0"] = question.inputs["x0"].astype(np.float32)
            outputs = by_reference(asked)
        return outputs and ([output.astype(dtype) for output, dtype in zip(outputs, output_dtypes(question, outputs))], exact, 0)
    # Interpolated integers are cut off: what is 3 in one precision is 2.9999999 in another.
    resized = 1 if question.schema.name in ("Resize", "Upsample") else 0
    integers = question.inputs and next(iter(question.inputs.values())).dtype.kind in "iu"
    if integers and question.schema.name in REFERENCE_FOR_INTEGERS:
        outputs = next(filter(None, map(by_reference, (question, *other_versions(question)))), None)
        if outputs is not None:
            return [output.astype(dtype) for output, dtype in zip(outputs, output_dtypes(question, outputs))], exact, 0
    if question.schema.name == "BitCast":
        return [question.inputs["x0"].view(DTYPES[question.types["T2"]])], exact, 0
    wider_types = dict(WIDER)
    if integers and question.schema.name in DOUBLE_FOR_INTEGERS:
        wider_types = {text: "tensor(double)" for text in WIDER}
    else:
        outputs = by_onnxruntime(question)
        if outputs is not None:
            return outputs, exact, 0
    if any("complex" in text for text in question.types.values()):
        # Values move or are weighed: the real and the imaginary parts do so by themselves.
        parts = by_parts(question)
        if parts is not None:
            return parts, 17, 0
    if question.schema.name in MOVES:
        wider_types["tensor(bool)"] = "tensor(uint8)"
    allowed = {constraint.type_param_str: constraint.allowed_type_strs for constraint in question.schema.type_constraints}
    types = dict(question.types)
    for _ in range(5):
        wider = {}
        for name, text in types.items():
            # A type that is computed exactly by another one is given to it: values are small.
            to = wider_types.get(text, text)
            wider[name] = to if to in allowed[name] else text
        if wider == types:
            break
        types = wider
        asked = Question(question.example, question.schema, question.opset, types, question.present)
        # The same values, as the narrow type holds them.
        for name, value in asked.inputs.items():
            asked.inputs[name] = question.inputs[name].astype(value.dtype)
        for other in (asked, *other_versions(asked)):
            outputs = by_onnxruntime(other)
            if outputs is not None:
                with np.errstate(all="ignore"):
                    return [output.astype(dtype) for output, dtype in zip(outputs, output_dtypes(question, outputs))], 17, resized
    for other in (question, *other_versions(question)):
        outputs = by_onnxruntime(other) or by_reference(other)
        if outputs is not None:
            return [output.astype(dtype) for output, dtype in zip(outputs, output_dtypes(question, outputs))], exact, 0
    return None


def differs(want, got, most_bits, steps):
    if len(got) < len(want):
        return f"{len(got)} outputs, not {len(want)}"
    for index, (w, g) in enumerate(zip(want, got)):
        if w.shape != g.shape or w.dtype != g.dtype:
            return f"output {index} is {g.dtype}{list(g.shape)}, not {w.dtype}{list(w.shape)}"
        if is_float(w.dtype):
            bits = {np.dtype(np.float64): 23, np.dtype(np.float32): 17, np.dtype(np.float16): 8}.get(w.dtype, 5)
            bits = min(bits, most_bits)
            w, g = w.astype(np.float64), g.astype(np.float64)
            largest = np.max(np.abs(w[np.isfinite(w)]), initial=1e-3)
            close = np.isclose(g, w, rtol=2.0 ** -bits, atol=largest * 2.0 ** -bits, equal_nan=True)
        elif steps and w.dtype.kind in "iu":
            close = np.abs(g.astype(np.float64) - w.astype(np.float64)) <= steps
        else:
            close = codes(w) == codes(g)
        if not np.all(close):
            at = tuple(int(i) for i in np.argwhere(~close)[0])
            return f"output {index} at {list(at)} is {g[at]}, not {w[at]} ({np.sum(~close)} of {w.size} differ)"
    return None


# --- the questions

def type_choices(schema, example):
    for types in all_type_choices(schema, example):
        if example.where is None or example.where({name: DTYPES[text] for name, text in types.items()}):
            yield types


def all_type_choices(schema, example):
    """Types for every constraint: each allowed one beside the others' first choices."""
    allowed = {}
    for constraint in schema.type_constraints:
        texts = [text for text in constraint.allowed_type_strs if text in DTYPES]
        if texts:
            allowed[constraint.type_param_str] = texts
    first = {name: next((text for text in FIRST_CHOICE if text in texts), texts[0]) for name, texts in allowed.items()}
    yield first
    if example.pairs:
        for texts in itertools.product(*allowed.values()):
            if dict(zip(allowed, texts)) != first:
                yield dict(zip(allowed, texts))
        return
    for name, texts in allowed.items():
        for text in texts:
            if text != first[name]:
                yield {**first, name: text}


def presences(example):
    slots = [index for index, given in enumerate(example.inputs) if isinstance(given, optional)]
    yield tuple(slots)
    if slots:
        yield ()
    if len(slots) > 1:
        yield from ((slot,) for slot in slots)


def constant_choices(question, every):
    names = list(question.inputs)
    if not every:
        return [(), tuple(names[1:])] if len(names) > 1 else [()]
    if len(names) <= 4:
        return [chosen for size in range(len(names) + 1) for chosen in itertools.combinations(names, size)]
    return [(), tuple(names), tuple(names[1:]), *((name,) for name in names)]


def applies(example, schema):
    if not example.versions[0] <= schema.since_version <= example.versions[1]:
        return False
    return len(example.inputs) <= schema.max_input


def title(question):
    types = " ".join(f"{name}={text[7:-1]}" for name, text in sorted(question.types.items()))
    return f"{question.schema.name}-{question.schema.since_version} {types}"


def probe(schema, opset):
    """A model of the operator with the inputs and attributes that it must have."""
    node = onnx.NodeProto(op_type=schema.name, output=[f"y{i}" for i in range(max(1, schema.min_output))])
    graph = onnx.GraphProto(name="g")
    for index in range(schema.min_input):
        text = schema.inputs[min(index, len(schema.inputs) - 1)].type_str
        allowed = next((constraint.allowed_type_strs for constraint in schema.type_constraints if constraint.type_param_str == text), [text])
        chosen = [known for known in (*FIRST_CHOICE, "tensor(uint8)", "tensor(int8)", "tensor(float16)") if known in allowed]
        if not chosen:
            return None  # sequences, optionals and strings have no tensors to ask with
        node.input.append(f"x{index}")
        graph.input.append(onnx.helper.make_tensor_value_info(f"x{index}", number(chosen[0]), None))
    for attribute in schema.attributes.values():
        if attribute.required:
            kind = int(attribute.type.value)
            value = {1: 1.0, 2: 1, 3: "a", 6: [1.0], 7: [1], 8: ["a"]}.get(kind)
            if value is not None:
                node.attribute.append(onnx.helper.make_attribute(attribute.name, value))
    graph.node.append(node)
    for name in node.output:
        graph.output.append(onnx.ValueInfoProto(name=name))
    model = onnx.ModelProto(ir_version=10, graph=graph)
    model.opset_import.add().version = opset
    return model.SerializeToString()


def build():
    """(driver cases, {case name: (title, expected outputs)}, titles without an oracle, operators without an example)"""
    cases, wanted, unknown, missing = [], {}, set(), set()
    for schema, opset in schemas():
        if schema.name in GAPS["operators"] or schema.name in GAPS["elsewhere"]:
            continue
        examples = [example for example in EXAMPLES.get(schema.name, ()) if applies(example, schema)]
        if not examples:
            missing.add(f"{schema.name}-{schema.since_version}")
        for example in examples:
            for at, types in enumerate(type_choices(schema, example)):
                for present in presences(example):
                    question = Question(example, schema, opset, types, present)
                    known = expected(question)
                    if known is None:
                        unknown.add(title(question))
                        continue
                    outputs = known[0]
                    every = at == 0 and len(present) == max(map(len, presences(example)))
                    models = [(constants, question.model(constants)) for constants in constant_choices(question, every)]
                    if at == 0 and "tensor(float)" in types.values():
                        rest = tuple(list(question.inputs)[1:])
                        for constants in dict.fromkeys([(), rest]):
                            models.append((constants, question.after_conv(question.model(constants, blocked=True), outputs)))
                    for constants, model in models:
                        name = f"{len(cases)} {title(question)}"
                        inputs = {key: value for key, value in question.inputs.items() if key not in constants}
                        cases.append(driver.Case(name, model.SerializeToString(), inputs, outputs))
                        wanted[name] = (title(question), constants, *known)
    return cases, wanted, unknown, missing


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    cases, wanted, unknown, missing = build()
    return cases, wanted, unknown, missing, driver.run_all(cases, tmp_path_factory.mktemp("rows"))


def test_every_claimed_operator_has_an_example(results, tmp_path):
    assert not results[3], f"operators without an example: {sorted(results[3])}"


# The lists of what is not there are as short as they can be.
def test_what_is_listed_as_missing_is_missing(tmp_path):
    cases = []
    for schema, opset in schemas():
        if schema.name in GAPS["operators"]:
            model = probe(schema, opset)
            if model is not None:
                cases.append(driver.Case(f"{schema.name}-{schema.since_version}", model, {}, [None]))
    outcomes = driver.run_all(cases, tmp_path)
    claimed = {name: outcome.status for name, outcome in outcomes.items() if not outcome.unsupported}
    assert not claimed, f"listed as missing, but not refused as unsupported: {claimed}"
    assert cases


# One test, as for the onnx package's node cases: every failure is listed.
def test_some_kernel_takes_every_type_constness_and_layout(results, record_property):
    cases, wanted, unknown, _, outcomes = results
    failures, listed = collections.defaultdict(list), set()
    for case in cases:
        name, constants, outputs, bits, steps = wanted[case.name]
        outcome = outcomes[case.name]
        problem = outcome.status if not outcome.ok else differs(outputs, outcome.outputs, bits, steps)
        if problem is not None and outcome.unsupported and name in GAPS["cases"]:
            listed.add(name)
        elif problem is not None:
            failures[name].append(f"constants {constants}: {problem}")
    works = sorted(set(GAPS["cases"]) - listed)
    record_property("row_cases", len(cases))
    print(f"{len(cases)} cases, {len(failures)} combinations fail, {len(unknown)} have no oracle")
    if os.environ.get("TENON_ROWS_REPORT"):
        pathlib.Path(os.environ["TENON_ROWS_REPORT"]).write_text(
            json.dumps({"failures": failures, "unknown": sorted(unknown), "works": works}, indent=1))
    unlisted = {text[7:-1] for schema, _ in schemas() for constraint in schema.type_constraints
                for text in constraint.allowed_type_strs if text.startswith("tensor(") and text not in DTYPES}
    assert unlisted <= {name.lower() for name in GAPS["types"]}, f"types that are neither asked nor listed: {unlisted}"
    assert not works, f"listed as gaps, but they work: {works}"
    assert not unknown, f"nothing says what these give: {sorted(unknown)}"
    assert not failures, "\n".join(f"{name}: {texts[0][:300]} ({len(texts)} models)" for name, texts in failures.items())


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))
