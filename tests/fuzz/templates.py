"""Templates of the differential fuzzer: a node with inputs that it takes, for every operator that tests/golden has problems of.

They come from the examples of rows_test.py, the problems of com.microsoft and ai.onnx.ml, and the onnx package's node cases;
mutations.py makes new problems of them."""
import collections
import dataclasses
import functools
import importlib
import os
import pathlib
import pickle
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))

# Random numbers have no second opinion, and training is not claimed.
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Dropout", "Sampling"}
LEFT_OUT = RANDOM | {"ImageDecoder", "Adagrad", "Adam", "Momentum", "Gradient"}
DOMAINS = ("", "ai.onnx.ml", "com.microsoft")
LARGEST = 1 << 16  # elements of an input


@dataclasses.dataclass
class Template:
    operator: str
    domain: str
    opset: int  # of ai.onnx
    version: int  # of the operator's own domain
    slots: list  # a value for each input, None where one is absent
    types: list  # TypeProto of the inputs that are no tensors, else None
    attributes: dict  # name -> AttributeProto
    outputs: int
    source: str

    @property
    def name(self):
        return f"{self.domain}.{self.operator}" if self.domain else self.operator

    def copy(self):
        return dataclasses.replace(self, slots=list(self.slots), types=list(self.types), attributes=dict(self.attributes))


def of_model(model, feeds, source):
    """The template of a model of one node; None where there are more of them, or what the fuzzer leaves alone."""
    if len(model.graph.node) != 1:
        return None
    node, = model.graph.node
    domain = "" if node.domain == "ai.onnx" else node.domain
    if domain not in DOMAINS or node.op_type in LEFT_OUT:
        return None
    opsets = {"" if one.domain == "ai.onnx" else one.domain: one.version for one in model.opset_import}
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    declared = {value.name: value.type for value in model.graph.input}
    slots, types = [], []
    for name in node.input:
        value = feeds.get(name, held.get(name))
        tensor = isinstance(value, (np.ndarray, np.generic))
        if name and value is None or tensor and value.size > LARGEST:
            return None
        slots.append(np.asarray(value) if tensor else value)
        types.append(None if tensor or not name else declared[name])
    return Template(node.op_type, domain, max(opsets.get("", 21), 7), opsets.get(domain, 1), slots, types,
                    {attribute.name: attribute for attribute in node.attribute}, len(node.output), source)


def of_rows():
    import rows_test
    for schema, opset in rows_test.schemas():
        for example in rows_test.EXAMPLES.get(schema.name, ()):
            if not rows_test.applies(example, schema):
                continue
            for types in rows_test.type_choices(schema, example):
                for present in rows_test.presences(example):
                    question = rows_test.Question(example, schema, opset, types, present)
                    yield question.model(), question.inputs


def of_contrib():
    for path in sorted(GOLDEN.glob("contrib_*.py")):
        if path.stem not in ("contrib_test", "contrib_problems"):
            for problem in importlib.import_module(path.stem).problems():
                yield problem.model, problem.inputs


def of_quantized():
    for path in sorted(GOLDEN.glob("quantized_contrib_*.py")):
        if path.stem != "quantized_contrib_test":
            for problem in importlib.import_module(path.stem).problems():
                yield onnx.load_from_string(problem.model(False)), problem.feeds(False)


def of_ml():
    import ml_test
    problems = ml_test.Problems()
    for add in ml_test.FAMILIES.values():
        add(problems)
    for case in problems.cases:
        yield onnx.load_from_string(case.model), case.inputs


def of_node_cases():
    from onnx.backend.test.case.node import collect_testcases
    for case in collect_testcases(None):
        if case.model is None or not case.data_sets:
            continue
        inputs, _ = case.data_sets[0]
        feeds = {}
        for info, value in zip(case.model.graph.input, inputs):
            if info.type.WhichOneof("value") == "tensor_type":
                feeds[info.name] = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
            elif info.type.WhichOneof("value") == "sequence_type" and isinstance(value, list):
                feeds[info.name] = [np.asarray(one) for one in value]
        yield case.model, feeds


SOURCES = {"rows": of_rows, "contrib": of_contrib, "quantized": of_quantized, "ml": of_ml, "cases": of_node_cases}


@functools.cache
def corpus():
    """{operator: [Template]}, operators of other domains than ai.onnx with their domain before them. A file that TENON_FUZZ_CORPUS
    names keeps them from one run to the next: making the node cases takes seconds."""
    kept = os.environ.get("TENON_FUZZ_CORPUS")
    if kept and pathlib.Path(kept).exists():
        return pickle.loads(pathlib.Path(kept).read_bytes())
    found = collections.defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for source, models in SOURCES.items():
            for model, feeds in models():
                template = of_model(model, feeds, source)
                if template is not None:
                    found[template.name].append(template)
    if kept:
        pathlib.Path(kept).write_bytes(pickle.dumps(dict(found)))
    return dict(found)


@functools.cache
def since(operator, domain, version):
    """The version of the schema that is in force; None where the onnx package has none."""
    try:
        schema = onnx.defs.get_schema(operator, version, domain)
        return None if schema.deprecated else schema.since_version
    except onnx.defs.SchemaError:
        return None
