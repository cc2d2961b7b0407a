"""Changes of whole models that the differential fuzzer makes: what stands around a node, and other ways to write the same graph."""
import numpy as np
import onnx
from onnx import helper, numpy_helper

AFTER = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Neg", "Abs", "Identity")


def around(r, nodes, held, wanted, t):
    """An activation, a bias, a factor or a residual behind the only node's first output; gives the outputs' names."""
    floats = any(slot is not None and getattr(slot, "dtype", None) in (np.float32, np.float16) for slot in t.slots)
    if not floats or not wanted or r.random() < 0.6:
        return wanted
    first, last = wanted[0], wanted[0]
    kind = next(slot.dtype for slot in t.slots if slot is not None and getattr(slot, "dtype", None) in (np.float32, np.float16))
    for step in range(int(r.integers(1, 4))):
        name, choice = f"after{step}", r.random()
        if choice < 0.5:
            nodes.append(helper.make_node(AFTER[int(r.integers(len(AFTER)))], [last], [name]))
        elif choice < 0.8:
            held[f"number{step}"] = np.full([1] * int(r.integers(2)), r.choice((0.5, 2.0, -1.0, 0.0)), kind)
            pair = [last, f"number{step}"] if r.random() < 0.6 else [f"number{step}", last]
            nodes.append(helper.make_node(("Add", "Mul", "Sub")[int(r.integers(3))], pair, [name]))
        else:
            nodes.append(helper.make_node(("Add", "Mul")[int(r.integers(2))], [last, first], [name]))
        last = name
    return [last, *wanted[1:]] if r.random() < 0.7 else [last, *wanted]


def quantised_edges(r, g):
    """QuantizeLinear and DequantizeLinear on edges of float32."""
    if g.opset < 13:
        return
    at = 0
    share = r.choice((0.3, 0.7, 1.0))
    done = {}
    while at < len(g.nodes):
        node = g.nodes[at]
        for i, name in enumerate(node.input):
            value = g.values.get(name, g.held.get(name, g.given.get(name)))
            if not name or value is None or value.dtype != np.float32 or value.size == 0 or r.random() > share or node.op_type in ("Resize", "QuantizeLinear", "DequantizeLinear"):
                continue
            if name not in done:
                kind = np.uint8 if name in g.values and r.random() < 0.7 else np.int8
                scale = max(float(np.abs(value).max()), 1e-2) / 100
                base = f"q{len(done)}"
                g.held[f"{base}_scale"], g.held[f"{base}_zero"] = np.float32(scale), np.array(r.choice((0, 3, 128 if kind == np.uint8 else -5)), kind)
                pair = [helper.make_node("QuantizeLinear", [name, f"{base}_scale", f"{base}_zero"], [f"{base}_codes"]),
                        helper.make_node("DequantizeLinear", [f"{base}_codes", f"{base}_scale", f"{base}_zero"], [f"{base}_back"])]
                g.nodes[at:at] = pair
                at += 2
                done[name] = f"{base}_back"
            node.input[i] = done[name]
        at += 1


def renamed(nodes, suffix):
    """The nodes with new names for what they make."""
    made = {name for node in nodes for name in node.output if name}
    copies = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = node.name and node.name + suffix
        for field in (copy.input, copy.output):
            for i, name in enumerate(field):
                if name in made:
                    field[i] = name + suffix
        copies.append(copy)
    return copies


def in_a_body(r, g, outputs):
    """The last nodes in the branches of an If, or in the body of a Loop, with what they read captured; gives the outputs' names."""
    if any(attribute.type == onnx.AttributeProto.GRAPH for node in g.nodes for attribute in node.attribute):
        return outputs
    first = int(r.integers(len(g.nodes)))
    inner = g.nodes[first:]
    made = {name for node in inner for name in node.output}
    out = [name for name in outputs if name in made]
    if not out:
        return outputs

    def infos(names, suffix):
        return [helper.make_tensor_value_info(name + suffix, helper.np_dtype_to_tensor_dtype(g.values[name].dtype), None) for name in names]
    if r.random() < 0.5:
        condition = np.array(bool(r.integers(2)))
        (g.given if r.random() < 0.6 else g.held)["condition"] = condition
        branches = [helper.make_graph(renamed(inner, suffix), suffix, [], infos(out, suffix)) for suffix in ("_then", "_else")]
        body = helper.make_node("If", ["condition"], [f"{name}_out" for name in out], then_branch=branches[0], else_branch=branches[1])
    else:
        (g.given if r.random() < 0.5 else g.held)["trips"] = np.array(int(r.integers(1, 4)), np.int64)
        keep = helper.make_node("Identity", ["body_go"], ["body_on"])
        graph = helper.make_graph([keep, *renamed(inner, "_body")], "body",
                                  [helper.make_tensor_value_info("body_i", onnx.TensorProto.INT64, []), helper.make_tensor_value_info("body_go", onnx.TensorProto.BOOL, [])],
                                  [helper.make_tensor_value_info("body_on", onnx.TensorProto.BOOL, []), *infos(out, "_body")])
        body = helper.make_node("Loop", ["trips", ""], [f"{name}_out" for name in out], body=graph)
    g.nodes[first:] = [body]
    return [f"{name}_out" if name in made else name for name in outputs]


def retyped(r, model, given):
    """The model of float32 in another float type."""
    import random_bodies
    dtype = (np.float16, np.float16, np.float64)[int(r.integers(3))]
    proto = onnx.load_from_string(model)
    random_bodies.retype(proto, dtype)
    return proto.SerializeToString(), {name: value.astype(dtype) if getattr(value, "dtype", None) == np.float32 else value for name, value in given.items()}


def model(r, data):
    """Other ways to write the same: Constant nodes, Identity behind inputs, values that are read twice, a declared initializer."""
    if r.random() < 0.6:
        return data
    proto = onnx.load_from_string(data)
    graph = proto.graph
    kind = r.integers(4)
    if kind == 0:
        kept = []
        for tensor in graph.initializer:
            if r.random() < 0.6:
                graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))
            else:
                kept.append(tensor)
        del graph.initializer[:]
        graph.initializer.extend(kept)
    elif kind == 1 and graph.node and any(graph.node[0].input):
        name = next(name for name in graph.node[0].input if name)
        graph.node.insert(0, helper.make_node("Identity", [name], ["through"]))
        for node in graph.node[1:]:
            for i, given in enumerate(node.input):
                if given == name and r.random() < 0.7:
                    node.input[i] = "through"
    elif kind == 2 and graph.initializer:
        tensor = graph.initializer[int(r.integers(len(graph.initializer)))]
        graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    elif kind == 3 and graph.initializer:
        tensor = graph.initializer[int(r.integers(len(graph.initializer)))]
        if tensor.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.INT64) and np.prod(tensor.dims) == numpy_helper.to_array(tensor).size:
            held = onnx.TensorProto()
            held.CopyFrom(tensor)
            held.name = tensor.name + "_held"
            tensor_name = tensor.name
            kept = [one for one in graph.initializer if one.name != tensor_name]
            del graph.initializer[:]
            graph.initializer.extend([*kept, held])
            graph.node.insert(0, helper.make_node("Identity", [held.name], [tensor_name]))
    return proto.SerializeToString()
