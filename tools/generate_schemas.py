"""Writes src/graph/schema_table.inc: every operator of ai.onnx, ai.onnx.ml and ai.onnx.preview, from the pinned onnx
package, and of com.microsoft, from the pinned onnxruntime package. The collective operators of com.microsoft are missing
there, because the package is built without NCCL; collective_schemas() has them.

    python tools/generate_schemas.py          writes the file
    python tools/generate_schemas.py --check  exits with 1 if the file differs
"""
import argparse
import pathlib
import sys

import numpy
import onnx
import onnx.defs
import onnx.helper
import onnxruntime
import onnxruntime.capi.onnxruntime_pybind11_state as onnxruntime_state

ONNX_VERSION = "1.23.2"
ORT_VERSION = "1.31.1"
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview")
CONTRIB_DOMAIN = "com.microsoft"
BLOCKED_DOMAIN = "com.microsoft.nchwc"  # of models that onnxruntime has written for one kind of machine
# Operators that ONNX Runtime has in ai.onnx beyond the standard, and that exporters and optimisers write.
ORT_IN_ONNX = ("Affine", "Crop", "DynamicSlice", "ImageScaler", "MemcpyFromHost", "MemcpyToHost", "ParametricSoftplus", "Scale", "ScaledTanh",
               "SimplifiedLayerNormalization")
TABLE = pathlib.Path(__file__).resolve().parent.parent / "src" / "graph" / "schema_table.inc"
OPTIONS = {"Single": 0, "Optional": 1, "Variadic": 2}
MIXED = 3  # a variadic list whose entries have types of their own
UNBOUNDED = 2**31 - 1
LINE_WIDTH = 120


class Pool:
    """Rows of one array in which equal lists share their place."""

    def __init__(self):
        self.rows = []

    def place(self, wanted):
        for start in range(len(self.rows) - len(wanted) + 1):
            if self.rows[start:start + len(wanted)] == wanted:
                return start
        self.rows.extend(wanted)
        return len(self.rows) - len(wanted)


def quoted(text):
    assert '"' not in text and "\\" not in text and text.isprintable(), text
    return f'"{text}"'


def joined(texts):
    texts = list(texts)
    assert all("|" not in text for text in texts), texts
    return quoted("|".join(texts))


def default_text(value):
    if isinstance(value, bytes):
        return value.decode()
    return str(numpy.float32(value)) if isinstance(value, float) else str(value)


def kind_number(kind):
    """AttributeProto.AttributeType of an onnx or onnxruntime enumerator."""
    return onnx.AttributeProto.AttributeType.Value(kind.name)


def default_value(attribute):
    """The AttributeProto of the default; onnxruntime's classes have it as bytes."""
    if hasattr(attribute, "default_value"):
        return attribute.default_value
    value = onnx.AttributeProto()
    value.ParseFromString(attribute._default_value)
    return value


def attribute_row(attribute):
    default = ""
    proto = default_value(attribute)
    if proto.type != onnx.AttributeProto.UNDEFINED:
        value = onnx.helper.get_attribute_value(proto)
        values = [value] if isinstance(value, (int, float, bytes)) else value
        default = ", " + joined(default_text(item) for item in values)
    return f"{{{quoted(attribute.name)}, {kind_number(attribute.type)}, {int(attribute.required)}{default}}}"


def element_type_bits():
    return {onnx.helper.tensor_dtype_to_string(number)[len("TensorProto."):].lower(): 1 << number
            for number in onnx.TensorProto.DataType.values() if number != onnx.TensorProto.UNDEFINED}


def constraint_row(name, types, bits):
    tensors, others = 0, []
    for text in types:
        if text.startswith("tensor("):
            tensors |= bits[text[len("tensor("):-1]]
        else:
            others.append(text)
    listed = f", {joined(others)}" if others else ""
    return f"{{{quoted(name)}, {tensors:#x}, {int(bool(others))}{listed}}}"


def type_text(parameter):
    return parameter.type_str if hasattr(parameter, "type_str") else parameter.typeStr


def option(parameter):
    number = OPTIONS[parameter.option.name]
    one_type = parameter.is_homogeneous if hasattr(parameter, "is_homogeneous") else parameter.isHomogeneous
    return MIXED if number == OPTIONS["Variadic"] and not one_type else number


def parameter_rows(parameters):
    return [f"{{{quoted(p.name)}, {quoted(type_text(p))}, {option(p)}}}" for p in parameters]


def lists_of(schema, bits):
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    # A parameter may name a type instead of a constraint: then the type is a constraint of that name.
    for parameter in [*schema.inputs, *schema.outputs]:
        constraints.setdefault(type_text(parameter), [type_text(parameter)])
    attributes = sorted(schema.attributes.values(), key=lambda a: a.name)
    return {
        "inputs": parameter_rows(schema.inputs),
        "outputs": parameter_rows(schema.outputs),
        "attributes": [attribute_row(a) for a in attributes],
        "constraints": [constraint_row(name, types, bits) for name, types in constraints.items()],
    }


def limit(number):
    return "kUnbounded" if number == UNBOUNDED else str(number)


def array_text(kind, name, rows):
    lines, line = [], " "
    for row in rows:
        if len(line) + len(row) + 2 > LINE_WIDTH:
            lines.append(line)
            line = " "
        line += f" {row},"
    lines.append(line)
    return f"constexpr {kind} {name}[] = {{\n" + "\n".join(lines) + "\n};\n"


def has_body(schema):
    return any(getattr(schema, name, False) for name in ("has_function", "has_context_dependent_function"))


def collective_schemas():
    """What ONNX Runtime registers where it is built with NCCL (onnxruntime/core/graph/contrib_ops/collective_defs.cc)."""
    schema = onnx.defs.OpSchema
    floats = ["tensor(float16)", "tensor(float)", "tensor(double)"]
    moved = [*floats, "tensor(int64)", "tensor(bool)"]

    def collective(name, types, **integers):
        tensors = [schema.FormalParameter(what, "T", param_option=schema.FormalParameterOption.Variadic)
                   for what in ("input", "output")]
        return schema(name, CONTRIB_DOMAIN, 1, inputs=tensors[:1], outputs=tensors[1:], type_constraints=[("T", types, "")],
                      attributes=[schema.Attribute(key, onnx.helper.make_attribute(key, value)) for key, value in integers.items()])

    return [collective("AllReduce", floats), collective("AllGather", moved, axis=1, group_size=1),
            collective("AllToAll", moved, group_size=1)]


def all_schemas():
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if s.domain in DOMAINS]
    schemas += [s for s in onnxruntime_state.get_all_operator_schema()
                if s.domain in (CONTRIB_DOMAIN, BLOCKED_DOMAIN) or (s.domain == "" and s.name in ORT_IN_ONNX)]
    known = {(s.domain, s.name) for s in schemas}
    return schemas + [s for s in collective_schemas() if (s.domain, s.name) not in known]


def table_text():
    bits = element_type_bits()
    schemas = all_schemas()
    schemas.sort(key=lambda s: (s.domain, s.name, s.since_version))
    lists = [lists_of(schema, bits) for schema in schemas]
    pools = {"parameters": Pool(), "attributes": Pool(), "constraints": Pool()}
    pool_of = {"inputs": "parameters", "outputs": "parameters", "attributes": "attributes", "constraints": "constraints"}
    # Long lists first: short ones are then often found inside them.
    for rows, kind in sorted(((rows, kind) for entry in lists for kind, rows in entry.items()),
                             key=lambda item: (-len(item[0]), item[0])):
        pools[pool_of[kind]].place(rows)

    rows = []
    for schema, entry in zip(schemas, lists):
        spans = ", ".join(f"{pools[pool_of[kind]].place(entry[kind]) if entry[kind] else 0}, {len(entry[kind])}"
                          for kind in ("inputs", "outputs", "attributes", "constraints"))
        rows.append(f"  {{{quoted(schema.domain)}, {quoted(schema.name)}, {schema.since_version}, "
                    f"{schema.min_input}, {limit(schema.max_input)}, {schema.min_output}, {limit(schema.max_output)}, "
                    f"{int(schema.deprecated)}, {int(has_body(schema))}, {spans}}},")

    newest = next(entry for entry in onnx.helper.VERSION_TABLE if entry[2] == onnx.defs.onnx_opset_version())
    parts = [
        f"// Generated by tools/generate_schemas.py from onnx {ONNX_VERSION} and onnxruntime {ORT_VERSION}. Do not edit.",
        "// Sorted by domain, name, since_version. Lists are {start, length} in the arrays before the rows.",
        f"constexpr int kNewestOnnxOpset = {newest[2]};",
        f"constexpr int kNewestMlOpset = {newest[3]};",
        array_text("SchemaParameter", "kParameters", pools["parameters"].rows)
        + array_text("SchemaAttribute", "kAttributes", pools["attributes"].rows)
        + array_text("SchemaConstraint", "kConstraints", pools["constraints"].rows)
        + "constexpr Row kRows[] = {",
        *rows,
        "};",
    ]
    return "\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    for name, wanted, found in (("onnx", ONNX_VERSION, onnx.__version__),
                                ("onnxruntime", ORT_VERSION, onnxruntime.__version__)):
        if found != wanted:
            sys.exit(f"The table comes from {name} {wanted}, and this is {name} {found}.")
    text = table_text()
    if not check:
        TABLE.write_text(text)
    elif TABLE.read_text() != text:
        sys.exit(f"{TABLE.name} differs from what onnx {ONNX_VERSION} and onnxruntime {ORT_VERSION} give; run tools/generate_schemas.py.")


if __name__ == "__main__":
    main()
