"""A program as users write it, for the type checkers (typing_test.py); it also runs: typed_program.py MODEL"""
from __future__ import annotations

import sys
from typing import Any

import numpy as np
import tenon


def options() -> tenon.SessionOptions:
    made = tenon.SessionOptions()
    made.graph_optimization_level = tenon.GraphOptimizationLevel.ORT_ENABLE_ALL
    made.intra_op_num_threads = 1
    made.add_session_config_entry("tenon.disallow_copies", "1")
    return made


def names(session: tenon.InferenceSession) -> dict[str, list[int | str | None]]:
    return {info.name: info.shape for info in session.get_inputs()}


def run(path: str) -> float:
    session = tenon.InferenceSession(path, options(), providers=["CPUExecutionProvider"])
    x: np.ndarray[Any, np.dtype[np.float32]] = np.ones((3, 2), np.float32)
    first: list[Any] = session.run(None, {"x": x})
    value = tenon.OrtValue.ortvalue_from_numpy(x)
    values: list[tenon.OrtValue] = session.run_with_ort_values(["y"], {"x": value})
    timeline = tenon.Timeline("frames")
    session.run(None, {"x": value}, signals=[timeline.fence(1)])
    timeline.wait(1, timeout=60.0)
    binding: tenon.IOBinding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    outputs: list[tenon.OrtValue] = binding.get_outputs()
    shape: list[int] = outputs[0].shape()
    plan: tenon.PlanReport = session.explain({"x": (3, 2)})
    meta: str = session.get_modelmeta().producer_name
    copies: list[int] = [copy.size_bytes for copy in session.last_copies]
    memory = tenon.import_memory(np.zeros(6, np.float32), [3, 2], np.float32, name="page")
    try:
        session.run(["z"], {"x": memory})
    except tenon.InvalidArgument as error:
        code: int = error.code
        assert code == 2
    print(names(session), shape, meta, copies, len(str(plan)) > 0, tenon.get_available_providers())
    return float(first[0].sum() + values[0].numpy().sum())


if __name__ == "__main__":
    print(run(sys.argv[1]))
