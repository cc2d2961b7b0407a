"""Quantised operators of com.microsoft beside ONNX Runtime, over generated problems of every attribute.

Each file quantized_contrib_<family>.py has a function problems() that yields Problem. The model of a problem is one node; each
problem runs with its weights as constants and as inputs, on one thread and on two, and with the baseline kernels.
"""
import dataclasses
import importlib
import os
import pathlib

import numpy as np
import onnx
import pytest

import driver

HERE = pathlib.Path(__file__).resolve().parent
SETTINGS = {"1 thread": (["--threads=1"], {}), "2 threads": (["--threads=2"], {}),
            "baseline": (["--threads=1", "--guarded"], {"TENON_CPU_ISA": "baseline"})}


@dataclasses.dataclass
class Problem:
    name: str
    operator: str
    inputs: list  # arrays, None where one is absent
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: int = 1
    # Indices of the inputs that a real model has as constants.
    weights: tuple = ()
    # Largest difference over the largest magnitude of an output. Of integers: by how many steps elements may differ, and
    # which share of them.
    tolerance: float = 1e-5
    steps: int = 0
    share: float = 1.0
    domain: str = "com.microsoft"
    # What ONNX Runtime gives, where it is not asked: a function of nothing.
    expected: object = None

    def model(self, constant):
        graph = onnx.GraphProto(name="g")
        slots = []
        for index, array in enumerate(self.inputs):
            slots.append("" if array is None else f"x{index}")
            if array is None:
                continue
            tensor = onnx.numpy_helper.from_array(np.asarray(array, order="C"), f"x{index}")
            if constant and index in self.weights:
                graph.initializer.append(tensor)
            else:
                graph.input.append(onnx.helper.make_tensor_value_info(f"x{index}", tensor.data_type, array.shape))
        while slots and not slots[-1]:
            slots.pop()
        node = onnx.helper.make_node(self.operator, slots, [f"y{i}" for i in range(self.outputs)], name="asked", domain=self.domain, **self.attributes)
        graph.node.append(node)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output)
        model = onnx.ModelProto(ir_version=10, graph=graph)
        model.opset_import.add().version = 21
        if self.domain:
            model.opset_import.add(domain=self.domain).version = 1
        return model.SerializeToString()

    def feeds(self, constant):
        return {f"x{index}": array for index, array in enumerate(self.inputs)
                if array is not None and not (constant and index in self.weights)}


def families():
    return sorted(path.stem for path in HERE.glob("quantized_contrib_*.py") if path.stem != "quantized_contrib_test")


def by_onnxruntime(problem, constant):
    import onnxruntime
    if problem.expected is not None:
        return problem.expected()
    # Its Python package takes no inputs of types that numpy lacks.
    lacking = {index for index, array in enumerate(problem.inputs) if array is not None and str(array.dtype) in ("int4", "uint4")}
    if lacking:
        problem = dataclasses.replace(problem, weights=tuple(lacking | (set(problem.weights) if constant else set())))
        constant = True
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(problem.model(constant), options, providers=["CPUExecutionProvider"])
    return session.run(None, problem.feeds(constant))


def differs(problem, want, got):
    for index, (w, g) in enumerate(zip(want, got, strict=True)):
        if w.shape != g.shape or w.dtype != g.dtype:
            return f"output {index} is {g.dtype}{list(g.shape)}, not {w.dtype}{list(w.shape)}"
        w, g = w.astype(np.float64), g.astype(np.float64)
        same = (w == g) | (np.isnan(w) & np.isnan(g))
        if np.array_equal(w, w.astype(np.int64)) if problem.steps else False:
            wrong = np.abs(w - g) > problem.steps
            if np.mean(~same) > problem.share:
                return f"output {index}: {np.mean(~same):.2%} of the elements differ"
        else:
            largest = np.max(np.abs(w[np.isfinite(w)]), initial=np.finfo(np.float32).tiny)
            with np.errstate(invalid="ignore"):
                wrong = ~same & ~(np.abs(w - g) <= problem.tolerance * largest)
        if np.any(wrong):
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return f"output {index} at {list(at)} is {g[at]}, not {w[at]} ({np.sum(wrong)} of {w.size} differ)"
    return None


@pytest.mark.parametrize("family", families())
def test_operators_give_what_onnx_runtime_gives(family, tmp_path):
    problems = list(importlib.import_module(family).problems())
    only = os.environ.get("TENON_PROBLEM_FILTER", "")
    problems = [problem for problem in problems if only in f"{problem.operator} {problem.name}"]
    cases, wanted, failures = [], {}, []
    for problem in problems:
        for constant in dict.fromkeys([False, bool(problem.weights)]):
            name = f"{problem.operator} {problem.name}{' constant' if constant else ''}"
            assert name not in wanted, f"two problems have the name {name}"
            try:
                want = [np.asarray(array) for array in by_onnxruntime(problem, constant)]
            except Exception as error:
                failures.append(f"{name}: ONNX Runtime: {str(error)[:300]}")
                continue
            wanted[name] = (problem, want)
            cases.append(driver.Case(name, problem.model(constant), problem.feeds(constant), want))
    for setting, (options, environment) in SETTINGS.items():
        folder = tmp_path / setting.replace(" ", "_")
        folder.mkdir()
        outcomes = driver.run_all(cases, folder, options, environment)
        for case in cases:
            problem, want = wanted[case.name]
            outcome = outcomes[case.name]
            wrong = outcome.status if not outcome.ok else differs(problem, want, outcome.outputs)
            if wrong is not None:
                failures.append(f"{case.name} ({setting}): {wrong[:400]}")
    print(f"{family}: {len(cases)} models, {len(failures)} failures")
    assert not failures, f"{len(failures)} failures:\n" + "\n".join(failures)
    assert cases


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))
