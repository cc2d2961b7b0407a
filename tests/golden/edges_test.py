"""Random graphs at the edges of what operators allow (random_edges.py), against ONNX Runtime without its optimizations."""
import functools
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest

import driver
import random_edges

# Seeds whose graphs hold what ONNX leaves open, with the reason.
OPEN = {}
SEEDS = range(1500)
# Refused on purpose where ONNX Runtime gives an empty output (docs/operators.md).
REFUSED = ("is larger than the padded input",)


def reference(case):
    """[(status, outputs)] of each feed."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(case.model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return [(str(error), [])] * len(case.feeds)
    results = []
    for feed in case.feeds:
        try:
            results.append(("ok", session.run(None, feed)))
        except Exception as error:
            results.append((str(error), []))
    return results


def by_onnxruntime(cases, folder):
    """{name: [(status, outputs)]}, computed in other processes: ONNX Runtime does not survive some of the graphs."""
    cases, results = list(cases), {}
    path = pathlib.Path(folder) / "reference"
    while len(results) < len(cases):
        path.write_bytes(pickle.dumps(cases[len(results):]))
        done = subprocess.run([sys.executable, __file__, "reference", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        begin = 0
        while begin + 8 <= len(done.stdout):
            size = int.from_bytes(done.stdout[begin:begin + 8], "little")
            if begin + 8 + size > len(done.stdout):
                break
            results[cases[len(results)].name] = pickle.loads(done.stdout[begin + 8:begin + 8 + size])
            begin += 8 + size
        if done.returncode != 0 and len(results) < len(cases):
            case = cases[len(results)]
            results[case.name] = [(f"onnxruntime ended with {done.returncode}", [])] * len(case.feeds)
    return results


def differs(wanted, got, keeps_nan=True):
    if not keeps_nan and any(np.isnan(array.astype(np.float64)).any() for array in (*wanted, *got)):
        return None
    if len(wanted) != len(got):
        return f"{len(got)} outputs, not {len(wanted)}"
    for index, (want, have) in enumerate(zip(wanted, got)):
        if want.shape != have.shape or want.dtype != have.dtype:
            return f"output {index} is {have.dtype}{list(have.shape)}, not {want.dtype}{list(want.shape)}"
        with np.errstate(invalid="ignore", over="ignore"):
            scale = np.abs(want[np.isfinite(want)]).max(initial=1.0) if want.size else 1.0
            close = np.isclose(have.astype(np.float64), want.astype(np.float64), rtol=2e-3, atol=2e-5 * scale, equal_nan=True)
        if not close.all():
            where = tuple(int(i) for i in np.argwhere(~close)[0])
            return f"output {index} at {list(where)} is {have[where]}, not {want[where]} ({np.sum(~close)} of {want.size} differ)"
    return None


def run_all(cases, folder, options=(), environment=None):
    """{name: Outcome}; a case that ends the process is left out of the next one."""
    left, outcomes = list(cases), {}
    while left:
        found = driver.run(left, folder, options, environment)
        outcomes.update(found)
        left = [case for case in left if case.name not in found]
        assert found, "golden_driver ran no case"
    return outcomes


def compare(cases, folder, options=()):
    """([problem], how many feeds were compared)"""
    asked = [driver.Case(case.name, case.model, case.feeds[0], [], [(feed, []) for feed in case.feeds[1:]]) for case in cases]
    outcomes, wanted_by, problems, compared = run_all(asked, folder, options), by_onnxruntime(cases, folder), [], 0
    for case in cases:
        outcome = outcomes[case.name]
        if outcome.status == "crashed":
            problems.append(f"{case.name}: crash: {case.steps}")
            continue
        for index, (status, wanted) in enumerate(wanted_by[case.name]):
            ours, got = outcome.feeds[index] if index < len(outcome.feeds) else (outcome.status, [])
            if ours.startswith("internal"):
                problems.append(f"{case.name}: feed {index}: {ours}")
            elif any(reason in ours for reason in REFUSED):
                continue
            elif status == "ok" and ours != "ok":
                problems.append(f"{case.name}: feed {index}: refused: {ours} {case.steps}")
            elif status == "ok":
                compared += 1
                problem = differs(wanted, got, case.keeps_nan)
                if problem:
                    problems.append(f"{case.name}: feed {index}: wrong: {problem} {case.steps}")
    return problems, compared


@functools.cache
def collect(seeds):
    return [case for case in map(random_edges.make, seeds) if case is not None]


@pytest.mark.parametrize("threads", [1, 2])
def test_random_graphs_give_what_onnxruntime_gives(threads, tmp_path, record_property):
    cases = [case for case in collect(tuple(SEEDS)) if case.name not in OPEN]
    problems, compared = compare(cases, tmp_path, [f"--threads={threads}"])
    record_property("feeds_compared", compared)
    print(f"{compared} runs of {len(cases)} graphs compared")
    assert not problems, "\n".join(problems)
    assert compared > len(cases)


if __name__ == "__main__":
    import tempfile
    if sys.argv[1] == "reference":
        for asked in pickle.loads(pathlib.Path(sys.argv[2]).read_bytes()):
            data = pickle.dumps(reference(asked))
            sys.stdout.buffer.write(len(data).to_bytes(8, "little") + data)
            sys.stdout.buffer.flush()
        sys.exit(0)
    first, count, threads = (int(value) for value in (*sys.argv[1:], "2")[:3])
    with tempfile.TemporaryDirectory() as folder:
        total = 0
        for begin in range(first, first + count, 500):
            problems, compared = compare(collect(tuple(range(begin, min(begin + 500, first + count)))), folder, [f"--threads={threads}"])
            total += compared
            print("\n".join(problems), flush=True)
        print(f"{total} runs compared")
