"""What makes models of a node or a few, with random values: the same ones each time."""
import collections

import numpy as np
from onnx import helper, numpy_helper

import driver

F32, F16, F64, I32, I64, U8, I8, BOOL = (np.float32, np.float16, np.float64, np.int32, np.int64, np.uint8, np.int8,
                                         np.bool_)


class Maker:
    def __init__(self):
        self.cases, self.random, self.family, self.made = [], np.random.default_rng(17), "", collections.Counter()

    def array(self, shape, dtype, low=-4, high=4):
        if dtype == BOOL:
            return self.random.integers(0, 2, shape).astype(BOOL)
        if np.dtype(dtype).kind in "iu":
            return self.random.integers(max(low, 0) if np.dtype(dtype).kind == "u" else low, high + 1, shape).astype(dtype)
        return np.asarray(self.random.uniform(low, high, shape)).astype(dtype)

    def integers(self, low, high):
        return int(self.random.integers(low, high + 1))

    def shape(self, rank, low=1, high=6):
        return [self.integers(low, high) for _ in range(rank)]

    def add(self, name, nodes, inputs, outputs, constants=None, dynamic=None, opset=18, wanted=None):
        """`outputs`: {name: type or None where it is the first input's}; dynamic: symbols instead of sizes, or "rank" where
        not even the ranks are known; wanted: the outputs, where they are known without an oracle."""
        if dynamic is None:
            dynamic = len(self.cases) % 3 == 2
        name = "_".join(part for part in ("random", self.family, name) if part)
        self.made[name] += 1
        name += f"_{self.made[name]}"
        first = next(iter(inputs.values())).dtype

        def dims(key, array):
            if dynamic == "rank":
                return None
            return [f"{key}{i}" for i in range(array.ndim)] if dynamic else list(array.shape)
        infos = [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(array.dtype), dims(key, array))
                 for key, array in inputs.items()]
        made = [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(np.dtype(dtype or first)), None)
                for key, dtype in outputs.items()]
        held = [numpy_helper.from_array(np.asarray(array), key) for key, array in (constants or {}).items()]
        graph = helper.make_graph(nodes, name, infos, made, held)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        self.cases.append(driver.Case(name, model.SerializeToString(), dict(inputs), wanted or [None] * len(outputs)))

    def one(self, op, inputs, out=None, constants=None, outputs=1, dynamic=None, opset=18, wanted=None, **attributes):
        """One node: `inputs` in order, those in `constants` by name; None for what is left out."""
        constants = constants or {}
        order = [name or "" for name in inputs] if isinstance(inputs, list) else [*inputs, *constants]
        fed = {} if isinstance(inputs, list) else inputs
        names = [f"y{i}" for i in range(outputs)]
        self.add(op, [helper.make_node(op, order, names, **attributes)], fed, {name: out for name in names}, constants,
                 dynamic, opset, wanted)
