"""Random graphs at the edges of what operators allow (random_edges.py), against ONNX Runtime without its optimizations."""
import functools
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest

import driver
import random_decoders
import random_edges
import random_single

# Seeds whose graphs hold what ONNX leaves open, with the reason.
OPEN = {}
SEEDS = range(1500)


def reference(case):
    """[(status, outputs)] of each feed."""
    try:
        session = driver.plain_session(case.model)
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


def differs(wanted, got, keeps_nan=True, op=None):
    if not keeps_nan and any(np.isnan(array.astype(np.float64)).any() for array in (*wanted, *got)):
        return None
    if len(wanted) != len(got):
        return f"{len(got)} outputs, not {len(wanted)}"
    for index, (want, have) in enumerate(zip(wanted, got)):
        if want.shape != have.shape or want.dtype != have.dtype:
            return f"output {index} is {have.dtype}{list(have.shape)}, not {want.dtype}{list(want.shape)}"
        with np.errstate(invalid="ignore", over="ignore"):
            scale = np.abs(want[np.isfinite(want)]).max(initial=1.0) if want.size else 1.0
            # Which whole number the sum of 0.7 * 40 and 0.3 * 40 is hangs on the order of additions.
            whole = 1 if op == "Resize" and want.dtype.kind in "iu" else 0
            loose = 500 if want.dtype == np.float16 else 1
            close = np.isclose(have.astype(np.float64), want.astype(np.float64), rtol=2e-3 * min(loose, 20), atol=max(whole, 2e-5 * loose * scale),
                               equal_nan=True)
            if want.dtype == np.float16:  # ONNX Runtime keeps more digits, and larger numbers, between some of the nodes
                close |= ~np.isfinite(want) | ~np.isfinite(have) | (np.abs(want) > 6e4) | (np.abs(have) > 6e4)
        if not close.all():
            where = tuple(int(i) for i in np.argwhere(~close)[0])
            return f"output {index} at {list(where)} is {have[where]}, not {want[where]} ({np.sum(~close)} of {want.size} differ)"
    return None


def hangs_on_digits(case, index, wanted, got, folder):
    """A graph that makes much of the last digits (the logarithm of a difference, a rounded product) says nothing: where Tenon
    differs, ONNX Runtime differs from itself on inputs that are a few digits off."""
    if any(want.shape != have.shape for want, have in zip(wanted, got)):
        return False
    differing = [~np.isclose(have.astype(np.float64), want.astype(np.float64), rtol=2e-3, atol=1e-6, equal_nan=True) for want, have in zip(wanted, got)]
    for factor in (1 + 4e-6, 1 - 4e-6):
        feed = {name: (array * factor).astype(array.dtype) if array.dtype.kind == "f" else array for name, array in case.feeds[index].items()}
        nudged = random_edges.Case(case.name, case.model, [feed], case.steps)
        status, outputs = by_onnxruntime([nudged], folder)[case.name][0]
        if status != "ok" or any(a.shape != b.shape for a, b in zip(outputs, wanted)):
            return True
        for k, where in enumerate(differing):
            with np.errstate(invalid="ignore"):
                gap, own = (np.nan_to_num(np.abs(array.astype(np.float64) - wanted[k].astype(np.float64)), nan=1e300, posinf=1e300)
                            for array in (got[k], outputs[k]))
            where &= own < gap / 20
    return not any(where.any() for where in differing)


def compare(cases, folder, options=()):
    """([problem], how many feeds were compared)"""
    asked = [driver.Case(case.name, case.model, case.feeds[0], [], [(feed, []) for feed in case.feeds[1:]]) for case in cases]
    outcomes, wanted_by, problems, compared = driver.run_all(asked, folder, options), by_onnxruntime(cases, folder), [], 0
    for case in cases:
        outcome = outcomes[case.name]
        if outcome.status == "crashed":
            problems.append(f"{case.name}: crash: {case.steps}")
            continue
        for index, (status, wanted) in enumerate(wanted_by[case.name]):
            ours, got = outcome.feeds[index] if index < len(outcome.feeds) else (outcome.status, [])
            if ours.startswith("internal"):
                problems.append(f"{case.name}: feed {index}: {ours}")
            elif status == "ok" and ours != "ok":
                problems.append(f"{case.name}: feed {index}: refused: {ours} {case.steps}")
            elif status == "ok":
                compared += 1
                problem = differs(wanted, got, case.keeps_nan, case.steps[0].split("-")[0])
                if problem and not hangs_on_digits(case, index, wanted, got, folder):
                    problems.append(f"{case.name}: feed {index}: wrong: {problem} {case.steps}")
    return problems, compared


@functools.cache
def collect(maker, seeds):
    return [case for case in map(maker.make, seeds) if case is not None]


@pytest.mark.parametrize("maker", [random_edges, random_single, random_single.sampling, random_decoders], ids=["graphs", "single", "sampling", "decoders"])
@pytest.mark.parametrize("threads", [1, 2])
def test_random_graphs_give_what_onnxruntime_gives(maker, threads, tmp_path, record_property):
    cases = [case for case in collect(maker, SEEDS) if case.name not in OPEN]
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
    maker = {"graphs": random_edges, "single": random_single, "sampling": random_single.sampling, "decoders": random_decoders}[sys.argv[1]]
    first, count = (int(value) for value in sys.argv[2:4])
    options = sys.argv[4:] or ["--threads=2"]
    with tempfile.TemporaryDirectory() as folder:
        total = 0
        for begin in range(first, first + count, 500):
            problems, compared = compare(collect(maker, range(begin, min(begin + 500, first + count))), folder, options)
            total += compared
            print("\n".join(problems), flush=True)
        print(f"{total} runs compared")
