"""Versions of a float32 model in float16 or bfloat16, as converters make them: see narrow()."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
LARGEST_BFLOAT16 = np.uint32(0x7F7F0000).view(np.float32)


def bits16(array, name):
    """The numbers of an array rounded to 16 bits, as uint16, and as the float32 numbers that they are."""
    array = np.asarray(array, np.float32)
    if name == "float16":
        small = np.where(np.isfinite(array), np.clip(array, -65504, 65504), array).astype(np.float16)
        return small.view(np.uint16), small.astype(np.float32)
    # What is no infinity becomes none, as in a mask.
    array = np.where(np.isfinite(array), np.clip(array, -LARGEST_BFLOAT16, LARGEST_BFLOAT16), array).astype(np.float32)
    words = array.view(np.uint32)
    words = (words + 0x7FFF + ((words >> 16) & 1)) >> 16
    return words.astype(np.uint16), (words.astype(np.uint32) << 16).view(np.float32)


def narrow_tensor(tensor, name):
    array = numpy_helper.to_array(tensor)
    bits, _ = bits16(array, name)
    made = TensorProto(name=tensor.name, dims=tensor.dims, data_type=TYPES[name])
    made.raw_data = np.ascontiguousarray(bits).tobytes()
    return made


def rounded_tensor(tensor, name):
    array = numpy_helper.to_array(tensor)
    return numpy_helper.from_array(bits16(array, name)[1].reshape(array.shape), tensor.name)


def rounded(model, name):
    """The float32 model with the weights that the version in 16 bits has."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for index, tensor in enumerate(model.graph.initializer):
        if tensor.data_type == TensorProto.FLOAT:
            model.graph.initializer[index].CopyFrom(rounded_tensor(tensor, name))
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.t.data_type == TensorProto.FLOAT:
                attribute.t.CopyFrom(rounded_tensor(attribute.t, name))
    return model


class Narrower:
    def __init__(self, model, name):
        self.name, self.type = name, TYPES[name]
        self.text = f"tensor({name})"
        self.opsets = {one.domain: one.version for one in model.opset_import}
        self.graph = model.graph
        self.nodes = []
        self.count = 0

    def cast(self, value, to):
        self.count += 1
        made = f"{value}:cast{self.count}"
        self.nodes.append(helper.make_node("Cast", [value], [made], to=to))
        return made

    def allowed(self, schema, index, outputs=False):
        """Whether the schema lets a float be of this type there; None where it is no float."""
        rows = schema.outputs if outputs else schema.inputs
        row = rows[min(index, len(rows) - 1)]
        if row.type_str == "tensor(float)":
            return False
        types = {one.type_param_str: one.allowed_type_strs for one in schema.type_constraints}.get(row.type_str, [])
        if "tensor(float)" not in types:
            return None
        return self.text in types

    def node(self, node, floats):
        schema = onnx.defs.get_schema(node.op_type, self.opsets[node.domain], node.domain)
        kinds = [self.allowed(schema, i) for i in range(len(node.input))]
        # An operator that does not know the type at all is an island of float32.
        island = node.op_type not in ("Cast", "Constant") and any(
            self.allowed(schema, i, outputs=True) is False
            for i, value in enumerate(node.output) if value in floats)
        for attribute in node.attribute:
            if island:
                break
            if attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = self.type
            if attribute.t.data_type == TensorProto.FLOAT and attribute.name == "value":
                attribute.t.CopyFrom(narrow_tensor(attribute.t, self.name))
        for i, value in enumerate(node.input):
            if value in floats and (island or kinds[i] is False):
                node.input[i] = self.cast(value, TensorProto.FLOAT)
        self.nodes.append(node)
        if not island:
            return
        for i, value in enumerate(node.output):
            if value in floats:
                node.output[i] = f"{value}:island"
                self.nodes.append(helper.make_node("Cast", [node.output[i]], [value], to=self.type))

    def run(self):
        graph = self.graph
        typed = [*graph.input, *graph.output, *graph.value_info]
        floats = {one.name for one in typed if one.type.tensor_type.elem_type == TensorProto.FLOAT}
        floats |= {one.name for one in graph.initializer if one.data_type == TensorProto.FLOAT}
        for one in typed:
            if one.name in floats:
                one.type.tensor_type.elem_type = self.type
        for index, tensor in enumerate(graph.initializer):
            if tensor.data_type == TensorProto.FLOAT:
                graph.initializer[index].CopyFrom(narrow_tensor(tensor, self.name))
        for node in graph.node:
            self.node(node, floats)
        nodes = self.nodes
        del graph.node[:]
        graph.node.extend(nodes)
        del graph.value_info[:]


def narrow(model, name):
    """The model with `name` ("float16" or "bfloat16") for float32: inputs, outputs, weights and computation. Operators
    without the type, and inputs that are float32 in every version, get casts around them."""
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    Narrower(model, name).run()
    return model
