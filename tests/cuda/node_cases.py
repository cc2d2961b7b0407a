"""The onnx package's node cases and random ones (random_cases.py, random_graphs.py) through the CUDA plugin: what is claimed, and whether
the results are right. What node_cases_test.py and gpu_node_cases_test.py share."""
import functools
import os
import pathlib
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "golden"))

import driver  # noqa: E402
import hosts  # noqa: E402
import nodes_test  # noqa: E402
import random_cases  # noqa: E402
import random_graphs  # noqa: E402
import random_maker  # noqa: E402

CLAIMED = HERE / "claimed.txt"
# Types of which several elements share a byte.
PACKED = {getattr(onnx.TensorProto, name) for name in ("UINT4", "INT4", "FLOAT4E2M1", "UINT2", "INT2", "FLOAT6E2M3", "FLOAT6E3M2")}
# How many processes share the cases.
JOBS = int(os.environ.get("TENON_CUDA_JOBS", "2"))


def _is_plain(value):
    return isinstance(value, np.ndarray) and value.dtype.kind not in "OUS" and driver.type_number(value) not in PACKED


@functools.cache
def all_cases():
    """{name: driver.Case} of those that take and give plain tensors, and the same ones in every run."""
    cases = {case.name: case for _, case in nodes_test.collect()
             if not case.random and all(map(_is_plain, (*case.inputs.values(), *case.outputs)))}
    return cases | {case.name: case for case in (*random_cases.make(), *random_graphs.make())}


def tolerance(array):
    """Relative to the largest magnitude; None: equal."""
    if array.dtype.kind not in "fV" or array.dtype.itemsize == 1:
        return None
    return {8: 1e-5, 4: 1e-4}.get(array.dtype.itemsize, 1e-2)


def difference(got, wanted, least=0.0):
    """None when the arrays agree, else what is wrong. `least`: no float is held to more."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return f"{got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    allowed = tolerance(wanted)
    if allowed is None:
        close = got == wanted
    else:
        a, b = got.astype(np.float64), wanted.astype(np.float64)
        finite = np.abs(b[np.isfinite(b)])
        allowed = max(allowed, least)
        largest = max(float(finite.max()) if finite.size else 0.0, 1e-6)
        with np.errstate(invalid="ignore"):
            close = (np.abs(a - b) <= allowed * largest) | (a == b) | (np.isnan(a) & np.isnan(b))
    if np.all(close):
        return None
    where = tuple(int(i) for i in np.argwhere(~close)[0])
    return f"at {list(where)} {got[where]}, not {wanted[where]} ({np.sum(~close)} of {close.size} differ)"


def differences(outputs, wanted, least=0.0):
    if len(outputs) < len(wanted):
        return f"{len(outputs)} outputs, not {len(wanted)}"
    for index, (got, want) in enumerate(zip(outputs, wanted)):
        if want is not None and (text := difference(got, want, least)) is not None:
            return f"output {index}: {text}"
    return None


def _shards(cases):
    return [part for part in (cases[i::JOBS] for i in range(JOBS)) if part]


def in_onnxruntime(cases, folder, plugin=None, options=(), environment=None):
    """{name: driver.Outcome}"""
    def work(index, part):
        return hosts.run_in_onnxruntime(part, folder / f"ort{index}", plugin, options, environment)
    with ThreadPoolExecutor(JOBS) as pool:
        parts = list(pool.map(work, *zip(*enumerate(_shards(cases)))))
    return {name: driver.Outcome(status, outputs, claimed)
            for part in parts for name, (status, outputs, claimed) in part.items()}


def in_tenon(cases, folder, plugin=None, options=(), environment=None):
    chosen = [] if plugin is None else [f"--plugin=cuda={plugin}", f"--ep={hosts.EP}",
                                        *(f"--ep-option={option}" for option in options)]

    def work(index, part):
        outcomes, left = {}, part
        while left:
            inside = folder / f"tenon{index}"
            inside.mkdir(parents=True, exist_ok=True)
            read = driver.run(left, inside, ["--threads=1", *chosen], environment)
            assert read, "golden_driver read no case"
            outcomes |= read
            left = left[len(read):]
        return outcomes
    with ThreadPoolExecutor(JOBS) as pool:
        parts = list(pool.map(work, *zip(*enumerate(_shards(cases)))))
    return {name: outcome for part in parts for name, outcome in part.items()}


HOSTS = {"tenon": in_tenon, "onnxruntime": in_onnxruntime}


def claims(outcomes):
    """{name: "whole" or "part"} of the cases of which the CUDA EP has nodes."""
    found = {}
    for name, outcome in outcomes.items():
        if outcome.claimed.get(hosts.EP):
            found[name] = "whole" if set(outcome.claimed) == {hosts.EP} else "part"
    return found


@functools.cache
def _listed():
    first, *lines = CLAIMED.read_text().splitlines()
    return re.search(r"onnxruntime ([0-9.]+[0-9])", first)[1], [line.split() for line in lines]


def listed_version():
    """The onnxruntime that the list was made with."""
    return _listed()[0]


def listed_claims(host):
    """{name: "whole" or "part"}"""
    column = 1 + list(HOSTS).index(host)
    return {words[0]: words[column] for words in _listed()[1] if words[column] != "none"}


def write_claims(version, found):
    """`found`: {name of a host: its claims}. A case a line, so that a diff shows what has changed."""
    lines = [f"# Cases of which nodes run on the CUDA EP: name, in Tenon, in onnxruntime {version}. "
             "node_cases_test.py --write makes this list."]
    lines += [" ".join((name, *(found[host].get(name, "none") for host in HOSTS)))
              for name in sorted(set().union(*found.values()))]
    CLAIMED.write_text("\n".join(lines) + "\n")


def wrong_claims(host, outcomes):
    """Lines that say which claims of the list are lost, and which are new."""
    listed, found = listed_claims(host), claims(outcomes)
    lost = [f"{name}: the claim ({listed[name]}) is {found.get(name, 'lost')}" for name in listed
            if name in outcomes and listed[name] != found.get(name)]
    return lost + [f"{name}: claimed ({found[name]}) and not in {CLAIMED.name}" for name in found if name not in listed]


# What onnx itself holds backends to: some of its expected outputs are written with few digits.
EXPECTED = 1e-3


def wrong_values(host, cases, outcomes, references, excused=lambda outcome: False):
    """Lines for what failed or differs. `references`: {name of a host: its CPU EP's outcomes}. What a host can neither
    load nor feed on its CPU EP says nothing."""
    wrong = []
    for name, outcome in outcomes.items():
        case = cases[name]
        claimed, known = outcome.claimed.get(hosts.EP), references.get(host, {}).get(name)
        # No process may end, whatever the CPU EP makes of the case, unless it ends too.
        if outcome.status.startswith("crashed") and (known is None or not known.status.startswith("crashed")):
            wrong.append(f"{name}: {outcome.status[:300]}")
            continue
        if excused(outcome) or (outcome.claimed and not claimed):
            continue
        if not outcome.claimed and (known is None or not known.ok):
            continue
        # The CPU EP's part fails, or the host's Python has no numpy for the type.
        if not outcome.ok and known is not None and outcome.status[:80] == known.status[:80]:
            continue
        if "can't be converted to MLDataType" in outcome.status:
            continue
        if not outcome.ok:
            wrong.append(f"{name}: {outcome.status[:300]}")
            continue
        wanted = case.outputs
        if wanted is not None and (text := differences(outcome.outputs, wanted, EXPECTED)) is not None:
            wrong.append(f"{name}: {text}")
            continue
        for other, results in references.items():
            reference = results.get(name)
            if reference is None or not reference.ok:
                continue
            # A CPU EP that is wrong itself says nothing.
            if wanted is not None and differences(reference.outputs, wanted, EXPECTED) is not None:
                continue
            if (text := differences(outcome.outputs, reference.outputs)) is not None:
                wrong.append(f"{name}: beside the CPU EP of {other}: {text}")
    return wrong
