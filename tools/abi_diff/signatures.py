"""The functions of ONNX Runtime's C ABI with a role for each parameter, from the tables in tools/abi.

A role says what a caller passes: an object, a number, a text, an array, or a place for a result. Most follow from the C type
and the parameter after it; OVERRIDES has the few that do not."""
import csv
import dataclasses
import pathlib
import re

ABI = pathlib.Path(__file__).resolve().parents[1] / "abi"
TABLES = ("OrtApi", "OrtEpApi", "OrtModelEditorApi", "OrtCompileApi", "OrtInteropApi")
# Structs that the ABI only ever hands around by pointer look like OrtX; these are filled in by the caller instead.
FILLED_IN = {row["struct"] for row in csv.DictReader(open(ABI / "structs.csv", newline="", encoding="utf-8"))}
ENUMS = {}
for _row in csv.DictReader(open(ABI / "enums.csv", newline="", encoding="utf-8")):
    ENUMS.setdefault(_row["enum"], []).append(int(_row["value"], 0))
TYPEDEFS = {row["name"] for row in csv.DictReader(open(ABI / "typedefs.csv", newline="", encoding="utf-8"))}
NUMBERS = {"int": 4, "int32_t": 4, "uint32_t": 4, "int64_t": 8, "uint64_t": 8, "size_t": 8, "float": 4, "bool": 1, "char": 1}
SIGNED = {"int", "int32_t", "int64_t"}

# (function, parameter) -> role, where the C type does not tell it.
OVERRIDES = {
    # Arrays of objects that the call takes over.
    ("SetGraphInputs", "inputs"): "objects", ("SetGraphOutputs", "outputs"): "objects", ("CreateNode", "attributes"): "objects",
    ("Graph_GetGraphView", "nodes"): "objects",
    # Places for results that look like arrays that are read.
    ("Run", "outputs"): "fetches", ("RunAsync", "output"): "fetches",
    ("GetSymbolicDimensions", "dim_params"): "out_texts", ("SetSymbolicDimensions", "dim_params"): "texts",
    ("Graph_GetOperatorSets", "domains"): "out_texts", ("Node_GetSubgraphs", "attribute_names"): "out_texts_same",
    ("ValueInfo_GetValueConsumers", "input_indices"): "out_numbers_same", ("Graph_GetOperatorSets", "opset_versions"): "out_numbers_same",
    ("GetStringTensorContent", "s"): "out_bytes", ("GetStringTensorContent", "offsets"): "out_numbers",
    ("GetStringTensorElement", "s"): "out_bytes", ("ReadOpAttr", "data"): "out_bytes",
    ("CreateTensorWithDataAsOrtValue", "p_data"): "data", ("CreateTensorWithDataAndDeleterAsOrtValue", "p_data"): "data",
    ("CreateSessionFromArray", "model_data"): "model_bytes", ("CreateOpAttr", "data"): "attr_data",
    ("AllocatorFree", "p"): "allocation", ("AllocatorAlloc", "out"): "out_allocation",
    ("ReleaseAvailableProviders", "ptr"): "provider_list", ("GetAvailableProviders", "out_ptr"): "out_provider_list",
    ("GetOpaqueValue", "data_container"): "out_bytes", ("GetBoundOutputNames", "buffer"): "out_packed_names",
    ("GetBoundOutputNames", "lengths"): "out_lengths", ("GetBoundOutputValues", "output"): "out_allocated_values",
    ("ModelMetadataGetCustomMetadataMapKeys", "keys"): "out_allocated_texts",
    ("KernelInfoGetAttributeArray_string", "out"): "out_allocated_texts",
    ("CreateArenaCfgV2", "arena_config_values"): "numbers_same", ("CreateModel", "opset_versions"): "numbers_same",
    ("KernelDefBuilder_AddInputOutputAliases", "input_indices"): "numbers_same",
    ("KernelDefBuilder_AddInputOutputAliases", "output_indices"): "numbers",
    ("KernelDefBuilder_AddInputOutputMutableAliases", "input_indices"): "numbers_same",
    ("KernelDefBuilder_AddInputOutputMutableAliases", "output_indices"): "numbers",
    ("KernelContext_GetScratchBuffer", "out"): "out_pointer", ("TensorAt", "out"): "out_element",
}


@dataclasses.dataclass(frozen=True)
class Parameter:
    name: str
    type: str  # as C writes it
    base: str  # without const, struct, enum and stars
    role: str
    count: int = -1  # index of the parameter that has an array's length


@dataclasses.dataclass(frozen=True)
class Function:
    table: str
    slot: int
    name: str
    returns: str
    parameters: tuple


def split(text):
    """At the commas outside of parentheses."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part and part != "void"]


def declared(text):
    """("const char**", "keys") of one parameter's text."""
    if "(*" in text:
        return "callback", re.search(r"\(\*(\w+)\)", text)[1]
    text = re.sub(r"\b(struct|enum)\s+", "", text)
    array = text.endswith("[]")
    text = text.removesuffix("[]")
    match = re.match(r"(.*?)(\w+)$", text)
    kind, name = match[1].strip(), match[2]
    if not kind:  # a type alone
        return text, "unnamed"
    return kind + ("*" if array else ""), name


def base_of(kind):
    return re.sub(r"\bconst\b|[*\s]", "", kind)


def is_length(kind, name):
    return base_of(kind) in ("size_t", "int") and "*" not in kind and (
        re.search(r"(_len|_length|_count|^num_|_num|len|_cnt|num_keys|total)$|^num_|_length$|_lens?$", name) is not None)


def role_of(function, kind, name, base, following, has_allocator):
    stars = kind.count("*")
    own = base.startswith("Ort") and base not in ENUMS and base not in TYPEDEFS
    counted = following is not None and is_length(*following)
    if kind == "callback" or base in TYPEDEFS:
        return "callback"
    if stars == 0:
        return "length" if is_length(kind, name) else "enum" if base in ENUMS else "number"
    if own:
        const = kind.startswith("const")
        if stars == 1:
            return "struct" if base in FILLED_IN else "object"
        if stars == 2 and counted:
            return "objects" if kind.count("const") == 2 or not const else "out_objects"
        if stars == 2:
            return "out_borrowed" if const else "out_new"
        return "out_borrowed_array"
    if base in ("char", "ORTCHAR_T"):
        if stars == 1:
            return "text" if "const" in kind else "out_sized_text"
        if stars == 2 and (counted or "const*" in kind.replace(" ", "").replace("constchar", "")) and has_allocator is None:
            return "texts"
        if stars == 2 and re.search(r"\*\s*const\s*\*", kind):
            return "texts"
        if stars == 2:
            return "out_allocated_text" if has_allocator and "const" not in kind else "out_text"
        return "out_borrowed_texts"
    if base == "void":
        return "pointer" if stars == 1 else "out_pointer"
    if stars == 1 and kind.startswith("const"):
        return "numbers" if counted else "numbers_same"
    if stars == 1:
        return "out_numbers" if counted else "out_number"
    return "out_borrowed_numbers"


def function_of(row):
    texts = [declared(part) for part in split(row["parameters"])]
    has_allocator = True if any(base_of(kind) == "OrtAllocator" for kind, _ in texts) else None
    parameters = []
    for i, (kind, name) in enumerate(texts):
        following = texts[i + 1] if i + 1 < len(texts) else None
        base = base_of(kind)
        role = OVERRIDES.get((row["name"], name)) or role_of(row["name"], kind, name, base, following, has_allocator)
        if role == "out_number" and i > 0 and base == "size_t" and (
                parameters[-1].role == "out_sized_text" or row["name"].startswith("KernelInfoGetAttributeArray_") and
                parameters[-1].role == "out_number"):
            role = "in_out_size"
            if parameters[-1].role == "out_number":
                parameters[-1] = dataclasses.replace(parameters[-1], role="out_sized_numbers")
        parameters.append(Parameter(name, kind, base, role))
    # Each length belongs to the arrays directly before it.
    for i, parameter in enumerate(parameters):
        if parameter.role == "length":
            for k in range(i - 1, -1, -1):
                if parameters[k].role in ("object", "length", "number", "enum", "text", "out_new"):
                    break
                parameters[k] = dataclasses.replace(parameters[k], count=i)
    return Function(row["table"], int(row["slot"]), row["name"], re.sub(r"\bstruct |\benum ", "", row["returns"]), tuple(parameters))


def functions():
    """{name: Function} of the tables that programs and plugins call."""
    with open(ABI / "ort_abi.csv", newline="", encoding="utf-8") as file:
        return {row["name"]: function_of(row) for row in csv.DictReader(file) if row["table"] in TABLES}


def not_implemented():
    """Names of those that Tenon does not have yet."""
    listed = (ABI.parents[1] / "tests" / "abi" / "not_implemented.txt").read_text().split()
    return {name for table, _, name in (word.partition(".") for word in listed) if table in TABLES}


if __name__ == "__main__":
    for one in functions().values():
        print(one.table, one.slot, one.name, one.returns, *(f"\n    {p.name}: {p.type} {p.role} {p.count if p.count >= 0 else ''}" for p in one.parameters))
