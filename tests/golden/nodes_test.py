"""The node cases that the onnx package generates, through libtenon, under ordinary and harder settings."""
import functools
import json
import os
import pathlib
import warnings

import numpy as np
import onnx
import pytest

import driver

HERE = pathlib.Path(__file__).resolve().parent
# {"operators": {name: reason}, "cases": {name: reason}}: what Tenon does not claim (yet).
NOT_CLAIMED = json.loads((HERE / "not_claimed.json").read_text())
# Their numbers are any: only types and shapes are compared (random_test.py has the rest).
RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
SETTINGS = {
    "1 thread": (["--threads=1"], {}),
    "2 threads": (["--threads=2"], {}),
    "baseline": (["--threads=1"], {"TENON_CPU_ISA": "baseline"}),
    "no winograd": (["--threads=1", "--no-winograd"], {}),
    "guarded": (["--threads=1", "--guarded"], {}),
}


def _value(value, declared=None):
    """A numpy array, or what the driver takes for a sequence or an optional. `declared` is an input's TypeProto."""
    if isinstance(value, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(value)
    if value is None:
        return None
    if isinstance(value, list):
        return [_value(one) for one in value]
    assert isinstance(value, (np.ndarray, np.generic)), type(value)
    value = np.asarray(value)
    return driver.Content(value) if declared is not None and declared.HasField("optional_type") else value


@functools.cache
def collect():
    """[(onnx case, driver case)]"""
    from onnx.backend.test.loader import load_model_tests
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    collected = []
    for case in cases:
        feeds, expected = (case.data_sets[0] if case.data_sets else ([], []))
        declared = case.model.graph.input
        inputs = [_value(feed, value.type) for feed, value in zip(feeds, declared)]
        outputs = [_value(value) for value in expected]
        names = [value.name for value in declared]
        collected.append((case, driver.Case(case.name, case.model.SerializeToString(), dict(zip(names, inputs)), outputs,
                                            random=is_random(case))))
    return collected


def is_random(case):
    return any(node.op_type in RANDOM for node in case.model.graph.node)


def reason_not_claimed(case):
    if case.name in NOT_CLAIMED["cases"]:
        return NOT_CLAIMED["cases"][case.name]
    for node in case.model.graph.node:
        key = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        if key in NOT_CLAIMED["operators"]:
            return f"{key}: {NOT_CLAIMED['operators'][key]}"
    return None


def differs(case, outcome):
    """None when the outputs are the expected ones, else what is wrong."""
    expected = [_value(value) for value in case.data_sets[0][1]]
    if len(outcome.outputs) < len(expected):
        return f"{len(outcome.outputs)} outputs, not {len(expected)}"
    return _differ(case, expected, outcome.outputs)


def _differ(case, expected, outputs):
    for index, (want, got) in enumerate(zip(expected, outputs)):
        if isinstance(want, list):
            if not isinstance(got, list) or len(got) != len(want):
                return f"output {index} is no sequence of {len(want)} tensors"
            within = _differ(case, want, got)
            if within is not None:
                return f"of the sequence that is output {index}, {within}"
            continue
        if want is None or got is None or isinstance(got, list):
            if want is None and got is None:
                continue
            return f"output {index} is {type(got)}, not {type(want)}"
        if want.dtype.kind in "OUS":
            want = want.astype(object)
        if want.dtype != got.dtype or want.shape != got.shape:
            return f"output {index} is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
        if is_random(case):
            continue
        if want.dtype.kind in "fV":
            # Halves: half of the last digit may round either way.
            # A case of several nodes rounds its intermediate values too, and so does the reference of Attention.
            bits = 10 if want.dtype == np.float16 else 7 if want.dtype.itemsize == 2 else None
            steps = 1 if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type != "Attention" else 4
            relative = max(case.rtol, 0 if bits is None else steps * 2.0 ** -bits)
            close = np.isclose(got.astype(np.float64), want.astype(np.float64), rtol=relative, atol=max(case.atol, 1e-6),
                               equal_nan=True)
        else:
            close = got == want
        if not np.all(close):
            where = tuple(int(i) for i in np.argwhere(~close)[0])
            return f"output {index} at {list(where)} is {got[where]}, not {want[where]} ({np.sum(~close)} differ)"
    return None


@pytest.fixture(scope="module", params=SETTINGS)
def outcomes(request, tmp_path_factory):
    options, environment = SETTINGS[request.param]
    cases = [case for _, case in collect()]
    return driver.run(cases, tmp_path_factory.mktemp("nodes"), options, environment)


# One test a setting and not one a case: 1,900 tests times five settings would drown the report. Every failure is listed.
def test_node_cases_give_the_expected_outputs(outcomes, record_property):
    passed, skipped, failures = 0, 0, []
    for case, _ in collect():
        why_not = reason_not_claimed(case)
        outcome = outcomes[case.name]
        problem = outcome.status if not outcome.ok else differs(case, outcome)
        if why_not is None:
            passed += problem is None
            if problem is not None:
                failures.append(f"{case.name}: {problem}")
        elif problem is None:
            failures.append(f"{case.name} passes although it is listed as not claimed ({why_not})")
        elif outcome.status == "crashed" or outcome.status.startswith("internal"):
            failures.append(f"{case.name}: {problem}")
        else:
            skipped += 1
    record_property("node_cases_passed", passed)
    record_property("node_cases_skipped", skipped)
    print(f"{passed} node cases pass, {skipped} are not claimed, {len(failures)} fail")
    assert not failures, "\n".join(failures)
    assert passed > 900


def test_listed_operators_and_cases_exist():
    names = {case.name for case, _ in collect()}
    assert not set(NOT_CLAIMED["cases"]) - names
    operators = {node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
                 for case, _ in collect() for node in case.model.graph.node}
    assert not set(NOT_CLAIMED["operators"]) - operators


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))
