"""Runs problems of the differential fuzzer in Tenon and in its oracles, and says where Tenon disagrees with every oracle."""
import collections
import dataclasses
import pathlib
import re
import subprocess

import numpy as np
import onnx

import known
from problems import is_tensor

import driver  # tests/golden; templates.py has put it on the path

# (relative, of the largest value) by element type; a model that computes in 16 bits anywhere has that type's everywhere.
TOLERANCES = {"float64": (1e-5, 2e-6), "float32": (1e-3, 2e-5), "float16": (4e-2, 1e-2), "bfloat16": (8e-2, 4e-2)}
SECONDS_A_CASE = 10
MOST_DIMENSIONS = 12  # of a tensor in Tenon


@dataclasses.dataclass
class Ep:
    """An EP that is asked before Tenon's own: its plugin, options KEY=VALUE, and variables of the process that loads it."""
    name: str
    library: str
    options: tuple = ()
    environment: dict = dataclasses.field(default_factory=dict)

    def arguments(self):
        return [f"--plugin=asked={self.library}", f"--ep={self.name}", *(f"--ep-option={option}" for option in self.options)]


@dataclasses.dataclass
class Finding:
    kind: str  # crash, hang, internal, wrong, refused, doubt; broken: the EP cannot do what it claimed
    problem: object
    feed: int
    text: str
    operators: tuple = ()

    def key(self):
        """Findings with one key have one cause, as a rule."""
        text = re.sub(r"[-\d.,e+]+|\"[^\"]*\"|nan|inf|True|False", "#", self.text)[:120] if self.kind in ("refused", "internal") else ""
        return (self.kind, self.operators[:4], text)


def by_tenon(problems, wanted, folder, ep=None):
    """{problem name: driver.Outcome}; the status is "hang" where a problem never ended. `ep`: an Ep that comes first."""
    groups, outcomes = collections.defaultdict(list), {}
    for problem in problems:
        groups[problem.threads, problem.bound, tuple(sorted(problem.environment.items()))].append(problem)
    for (threads, bound, environment), group in groups.items():
        options = [f"--threads={threads}", *(["--guarded"] if bound and not ep else []), *(ep.arguments() if ep else [])]
        left = []
        for problem in group:
            outputs = [[value if is_tensor(value) and value.size and value.ndim <= MOST_DIMENSIONS else None for value in found] if bound and status == "ok" else [] for status, found in wanted[problem.name]]
            left.append(driver.Case(problem.name, problem.model, problem.feeds[0], outputs[0], list(zip(problem.feeds[1:], outputs[1:]))))
        while left:
            try:
                found = driver.run(left, folder, options, {**dict(environment), **(ep.environment if ep else {})}, timeout=30 + SECONDS_A_CASE)
            except subprocess.TimeoutExpired:
                found = driver._read(pathlib.Path(folder))
                for outcome in found.values():
                    if outcome.status == "crashed":
                        outcome.status = "hang"
            if not found:
                break
            outcomes.update(found)
            left = [case for case in left if case.name not in found]
    return outcomes


def narrow(model, feeds):
    """The narrowest float type that the model computes in."""
    numbers = {tensor.data_type for tensor in model.graph.initializer} | {value.type.tensor_type.elem_type for value in model.graph.input}
    for node in model.graph.node:
        numbers |= {attribute.i for attribute in node.attribute if attribute.name in ("to", "dtype", "output_dtype", "stash_type", "output_datatype")}
        numbers |= {attribute.t.data_type for attribute in node.attribute if attribute.type == onnx.AttributeProto.TENSOR}
    if onnx.TensorProto.BFLOAT16 in numbers or any(one in numbers for one in (17, 18, 19, 20, 23, 24)):
        return "bfloat16"
    return "float16" if onnx.TensorProto.FLOAT16 in numbers else "float32"


def differs(want, have, kind):
    """(text, mask of what differs) or None."""
    if isinstance(want, list) or isinstance(have, list):
        if not isinstance(want, list) or not isinstance(have, list) or len(want) != len(have):
            return f"{type(have).__name__} of {len(have) if hasattr(have, '__len__') else 0}, not {type(want).__name__} of {len(want) if hasattr(want, '__len__') else 0}", None
        return next((found for found in (differs(a, b, kind) for a, b in zip(want, have)) if found), None)
    if isinstance(want, dict):
        if not isinstance(have, dict) or want.keys() != have.keys():
            return "another map", None
        return differs(np.array(list(want.values())), np.array([have[key] for key in want]), kind)
    if want is None or have is None:
        return None if want is have else ("an optional differs", None)
    want, have = np.asarray(want), np.asarray(have)
    if want.dtype.kind in "OUS":
        same = want.shape == have.shape and [str(one) for one in want.flatten()] == [str(one) for one in have.flatten()]
        return None if same else (f"{have.tolist()!r:.80}, not {want.tolist()!r:.80}", None)
    if want.shape != have.shape or want.dtype != have.dtype:
        return f"is {have.dtype}{list(have.shape)}, not {want.dtype}{list(want.shape)}", None
    if want.size == 0:
        return None
    with np.errstate(all="ignore"):
        a, b = (value.astype(np.complex128 if value.dtype.kind == "c" else np.float64) for value in (want, have))
        if want.dtype.kind in "iub":
            close = want == have
        else:
            order = ("bfloat16", "float16", "float32", "float64")
            own = want.dtype.name if want.dtype.name in order else "float32" if want.dtype.kind == "c" else "bfloat16"
            relative, absolute = TOLERANCES[min(own, kind, key=order.index)]
            finite = np.abs(a[np.isfinite(a)])
            scale = max(float(finite.max(initial=0)), 1e-2)
            close = np.isclose(b, a, rtol=relative, atol=absolute * scale, equal_nan=True)
            if kind == "float16":  # sums beyond 65504 are infinite or not, by where they are rounded
                close |= (~np.isfinite(a) | (np.abs(a) > 6e4)) & (~np.isfinite(b) | (np.abs(b) > 6e4))
    if np.all(close):
        return None
    at = tuple(int(i) for i in np.argwhere(~np.atleast_1d(close))[0]) if want.ndim else ()
    return f"at {list(at)} is {have[at]}, not {want[at]} ({np.sum(~close)} of {want.size} differ)", ~close


def first_difference(wanted, got, kind):
    if len(wanted) != len(got):
        return -1, f"{len(got)} outputs, not {len(wanted)}", None
    for index, (want, have) in enumerate(zip(wanted, got)):
        found = differs(want, have, kind)
        if found:
            return index, f"output {index} {found[0]}", found[1]
    return None


def moved(array, factor):
    """The floats a few digits off, the second half of them the other way: some functions do not see a common factor."""
    own = factor - 1 if array.dtype != np.float16 else (factor - 1) * 400
    steps = np.full(array.size, own)
    steps[array.size // 2 + 1:] *= -1
    with np.errstate(all="ignore"):
        return (array * (1 + steps.reshape(array.shape))).astype(array.dtype)


def nudged(problem, feed, factor):
    """[(model, feed)] with floats a few digits off: those of the feed, those of the initializers."""
    found = []
    if any(is_tensor(value) and value.dtype.kind == "f" and value.size for value in feed.values()):
        found.append((problem.model, {name: moved(value, factor) if is_tensor(value) and value.dtype.kind == "f" else value for name, value in feed.items()}))
    model, some = problem.proto(), False
    for tensor in model.graph.initializer:
        if tensor.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16):
            tensor.CopyFrom(onnx.numpy_helper.from_array(moved(onnx.numpy_helper.to_array(tensor), factor), tensor.name))
            some = True
    if some:
        found.append((model.SerializeToString(), feed))
    return found


ROUNDING = ("QuantizeLinear", "DynamicQuantize", "QLinear", "MatMulIntegerToFloat", "QGemm", "QAttention", "QEmbed")


def hangs_on_digits(problem, feed, wanted, got, oracle):
    """Whether each element that differs is as far off in an answer of ONNX Runtime's own, on floats that are a few digits off."""
    rounds = any(word in name for name in problem.operators() for word in ROUNDING)
    left = [True] * len(wanted)  # what no nudge has explained of each output: nothing, all, or a mask
    for model, other in [nudge for factor in ((1 + 4e-6, 1 - 4e-6, 1 + 1e-3, 1 - 1e-3) if rounds else (1 + 4e-6, 1 - 4e-6)) for nudge in nudged(problem, feed, factor)]:
        (status, outputs), = oracle.ask("plain", model, [other])
        if status != "ok" or len(outputs) != len(wanted):
            continue
        for index, (want, have, own) in enumerate(zip(wanted, got, outputs)):
            if not all(is_tensor(value) for value in (want, have, own)) or want.dtype.kind in "OUScb":
                left[index] = left[index] is not False and differs(want, have, "float16") is not None
                continue
            if have.shape != want.shape or own.shape != want.shape or have.dtype != want.dtype:
                continue
            with np.errstate(all="ignore"):
                a, b, c = (np.nan_to_num(value.astype(np.float64), nan=1e300, posinf=1e300, neginf=-1e300) for value in (want, have, own))
                found = differs(want, have, "float32")
                far = np.zeros(want.shape, bool) if found is None else (np.abs(c - a) < np.abs(b - a) / 20) & found[1]
            far = far if left[index] is True else far & left[index]
            left[index] = far if far.any() else False
        if not any(mask is not False for mask in left):
            return True
    return False


def as_near_in_double(problem, feed, wanted, got, oracle):
    """Whether Tenon is about as near as ONNX Runtime to what the same model of float64 gives."""
    import random_bodies
    model = problem.proto()
    random_bodies.retype(model, np.float64)
    wide = {name: value.astype(np.float64) if is_tensor(value) and value.dtype == np.float32 else value for name, value in feed.items()}
    for which in ("plain", "reference"):
        (status, exact), = oracle.ask(which, model.SerializeToString(), [wide])
        if status != "ok" or len(exact) != len(wanted):
            continue
        if all(near(*values) for values in zip(exact, wanted, got)):
            return True
    return False


def near(exact, want, have):
    if not all(is_tensor(value) for value in (exact, want, have)) or want.dtype.kind != "f" or not exact.shape == want.shape == have.shape:
        return differs(want, have, "float32") is None
    with np.errstate(all="ignore"):
        theirs, ours = (np.abs(value.astype(np.float64) - exact.astype(np.float64)) for value in (want, have))
        scale = float(np.abs(exact[np.isfinite(exact)]).max(initial=0)) if exact.size else 0
        return bool(np.all((ours <= 3 * theirs + 1e-6 * scale) | ~np.isfinite(exact)))


def judge(problem, outcome, wanted, oracle):
    """The findings of a problem; `wanted` is what the plain oracle gives."""
    model = problem.proto()
    names = tuple(dict.fromkeys(problem.operators()))

    def finding(kind, feed, text):
        return [Finding(kind, problem, feed, text, names)]
    if outcome is None:
        return []
    if outcome.status == "hang" and any("TimeoutError" in status or any(getattr(value, "nbytes", 0) > 1 << 28 for value in values) for status, values in wanted):
        return []  # a loop without an end, or far too much work
    if outcome.status == "hang" and "Loop" in names and all(status != "ok" for status, _ in wanted):
        return []  # ONNX Runtime ends such a loop with an error, when its sequence or its scan outputs become impossible
    if outcome.status in ("crashed", "hang"):
        return finding("crash" if outcome.status == "crashed" else "hang", len(outcome.feeds), outcome.status)
    kind = narrow(model, problem.feeds)
    for index, (status, want) in enumerate(wanted):
        ours, got = outcome.feeds[index] if index < len(outcome.feeds) else (outcome.status, [])
        if ours.startswith("internal"):
            return finding("internal", index, ours)
        if status == "ok" and ours != "ok":
            if known.refusal(problem, ours):
                continue
            return finding("refused", index, ours)
        if status == "ok":
            found = first_difference(want, got, kind)
            if not found or known.difference(problem, problem.feeds[index], want, got):
                continue
            (other, second), = oracle.ask("optimised", problem.model, [problem.feeds[index]])
            if other == "ok" and not first_difference(second, got, kind):
                continue
            (other, third), = oracle.ask("reference", problem.model, [problem.feeds[index]])
            if other == "ok" and (not first_difference(third, got, kind) or len(third) == len(want) and all(map(near, want, third, got))):
                continue  # the oracles are as far apart
            if hangs_on_digits(problem, problem.feeds[index], want, got, oracle) or as_near_in_double(problem, problem.feeds[index], want, got, oracle):
                continue
            return finding("wrong", index, found[1])
        if ours == "ok" and len(model.graph.node) == 1:
            (other, third), = oracle.ask("reference", problem.model, [problem.feeds[index]])
            found = first_difference(third, got, kind) if other == "ok" else None
            if found and not known.difference(problem, problem.feeds[index], third, got):
                return finding("doubt", index, found[1])
    return []


# What a driver without a GPU says of a kernel that only a GPU runs.
NO_KERNEL = "The fake driver has no kernel"


def judge_ep(problem, outcome, wanted, oracle, folder, ep):
    """The findings of a problem whose nodes an EP claimed: what Tenon's own EP does better by itself."""
    if outcome is None or NO_KERNEL in " ".join([outcome.status, *(status for status, _ in outcome.feeds)]):
        return []
    found = judge(problem, outcome, wanted, oracle)
    if not found or (alone := by_tenon([problem], {problem.name: wanted}, folder).get(problem.name)) is None:
        return []
    if found[0].kind == "wrong" and known.writes_twice(problem, problem.feeds[found[0].feed]):
        return []
    # A skip may be broadcast over the input, not the other way (com.microsoft.SkipLayerNormalization).
    if "and the kernel asks for" in found[0].text and any(name.startswith("com.microsoft.Skip") for name in problem.operators()):
        return []
    if found[0].kind == "refused":
        index = found[0].feed
        works = index < len(alone.feeds) and alone.feeds[index][0] == "ok"
        return [dataclasses.replace(found[0], kind="broken", text=f"{ep.name}: {found[0].text}")] if works else []
    same = judge(problem, alone, wanted, oracle)
    return [] if same and same[0].kind == found[0].kind else found


def check(problems, oracle, folder, ep=None):
    """(findings, runs that were compared); with an EP only of problems of which it has nodes."""
    wanted = {problem.name: oracle.ask("plain", problem.model, problem.feeds) for problem in problems}
    outcomes = by_tenon(problems, wanted, folder, ep)
    found, compared = [], 0
    for problem in problems:
        outcome = outcomes.get(problem.name)
        if ep is None:
            found += judge(problem, outcome, wanted[problem.name], oracle)
        elif outcome is not None and outcome.claimed and ep.name not in outcome.claimed:
            continue  # all nodes are the CPU EP's
        else:
            found += judge_ep(problem, outcome, wanted[problem.name], oracle, folder, ep)
        if outcome is not None:
            compared += sum(status == "ok" and ours == "ok" for (status, _), (ours, _) in zip(wanted[problem.name], outcome.feeds))
    return found, compared
