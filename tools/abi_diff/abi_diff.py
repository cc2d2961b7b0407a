"""Plays the same calls of ONNX Runtime's C ABI against a stock library and against Tenon's, and compares what comes of them.

    python tools/abi_diff/abi_diff.py STOCK OURS                          # all: each function's arguments, random sequences, callbacks, scenarios
    python tools/abi_diff/abi_diff.py STOCK OURS --seconds 20             # as many of them as fit
    python tools/abi_diff/abi_diff.py STOCK OURS --only random --seed 7   # another thousand sequences
    python tools/abi_diff/abi_diff.py STOCK OURS --job 'sweep CreateTensorAsOrtValue' --verbose

Each side runs in processes of its own; the calls are made against the stock library (where they do not crash it, and where it gives the
same answer twice), then played against ours. Compared are codes, messages, shapes, types, bytes. A crash or a hang of ours is always a
failure; another difference is one unless a line of accepted.txt explains it. Exit status 1 says that there was a failure."""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import generate
import models
import scenarios
import signatures

HERE = pathlib.Path(__file__).resolve().parent
SEQUENCE = 40  # calls
LOCATION = re.compile(r"^(\[[\w ]+\] : \d+ : \w+ : )?([\w./]+\.(cc|h|cpp):\d+ \S+ )")


def plan(options):
    """The jobs, those that find most first: each round has some of every kind."""
    missing = signatures.not_implemented()
    functions = [name for name in signatures.functions()
                 if name not in generate.LEFT_OUT and name not in missing and not name.endswith("ProviderOptions")]
    # Their objects exist in callbacks only; nulls are another test's (tests/abi/null_arguments.cc).
    inside = {"OrtKernelInfo", "OrtKernelContext", "OrtShapeInferContext"}
    swept = [name for name in functions if not any(p.base in inside for p in signatures.functions()[name].parameters) and not name.startswith("Release")]
    kinds = {
        "scenario": [{"name": f"scenario {name}", "kind": "scenario", "scenario": name} for name in scenarios.NAMES],
        "sweep": [{"name": f"sweep {name}", "kind": "sweep", "function": name, "seed": options.seed, "count": 4} for name in swept],
        "callbacks": [{"name": f"{kind} {n}", "kind": kind, "seed": options.seed * 1000 + n, "count": SEQUENCE}
                      for n in range(options.callbacks) for kind in ("kernel_info", "kernel_context", "shape_infer")],
        "graph": [{"name": f"graph {n}", "kind": "graph", "seed": options.seed * 1000 + n, "count": SEQUENCE} for n in range(options.callbacks)],
        "random": [{"name": f"random {options.seed * 10000 + n}", "kind": "random", "seed": options.seed * 10000 + n, "count": SEQUENCE}
                   for n in range(options.sequences)],
    }
    if options.only:
        kinds = {kind: jobs for kind, jobs in kinds.items() if kind in options.only.split(",")}
    if options.job:
        return [job for jobs in kinds.values() for job in jobs if job["name"] == options.job]
    # Scenarios first; the others evenly mixed, so that whatever part fits into the time has some of each.
    jobs = kinds.pop("scenario", [])
    total = max(map(len, kinds.values()), default=0)
    for n in range(total):
        for one in kinds.values():
            jobs += one[n * len(one) // total:(n + 1) * len(one) // total]
    return jobs


def play(library, folder, jobs, plugin, name):
    """{job: log} of one side. Jobs whose process did not come to its end have their reason in "end"."""
    folder.mkdir(exist_ok=True)
    if not (folder / "models").exists():
        (folder / "models").symlink_to(folder.parent / "models")
    (folder / f"{name}.jobs").write_text(json.dumps(jobs))
    done = subprocess.run([sys.executable, HERE / "player.py", library, folder, folder / f"{name}.jobs", folder / f"{name}.results", plugin],
                          capture_output=True, text=True, errors="replace", env={**os.environ, "ORT_DISABLE_TELEMETRY": "1"})
    if done.returncode != 0:
        raise SystemExit(f"{library}: the player ended with {done.returncode}\n{done.stderr[-3000:]}")
    results = {}
    for line in (folder / f"{name}.results").read_text().splitlines():
        one = json.loads(line)
        if one["end"] == "error":
            raise SystemExit(f"{library}: {one['job']}: {one['trace']}")
        results[one["job"]] = one
    return results


def outcome(result):
    """Text of a call's status: "ok", or the code and the first line of the message without a source location."""
    if result is None:
        return "crash"
    status = result.get("status")
    if status is None:
        return "ok"
    text = (status[1] or "").split("\n")[0]
    for _ in range(2):
        text = LOCATION.sub(lambda match: match[1] or "", text)
    return f"{status[0]} {text}"


def same_status(theirs, ours):
    if outcome(theirs) == outcome(ours):
        return True
    a, b = theirs.get("status"), ours.get("status")
    # A message that cites the reference's own sources is nobody's to parse: its code counts.
    return a is not None and b is not None and a[0] == b[0] and "/onnxruntime_src/" in (a[1] or "")


def differences(theirs, ours, path=""):
    """(path, their value, our value) of every place in which two results differ."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in [*theirs, *(key for key in ours if key not in theirs)]:
            if path or key != "status":
                yield from differences(theirs.get(key), ours.get(key), f"{path}/{re.sub(r'^new .*', 'new', key)}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for n, pair in enumerate(zip(theirs, ours)):
            yield from differences(*pair, f"{path}/{n}")
    elif theirs != ours:
        yield path, theirs, ours


class Comparison:
    def __init__(self):
        self.calls = self.compared = self.stock_crashes = 0
        self.functions = collections.Counter()
        self.found = collections.OrderedDict()  # (function, kind, theirs, ours) -> [job, call, how often]

    def note(self, function, kind, theirs, ours, job, call):
        entry = self.found.setdefault((function, kind, theirs, ours), [job, call, 0])
        entry[2] += 1

    def job(self, theirs, again, ours):
        repeatable = {n for n, (a, b) in enumerate(zip(theirs["log"], again["log"])) if a == b} if again else None
        name = theirs["job"]
        for n, entry in enumerate(theirs["log"]):
            mine = ours["log"][n] if n < len(ours["log"]) else None
            if "note" in entry:
                if mine is None or mine != entry:
                    self.note(name.split()[0], "note", entry["note"], str(mine and mine.get("note")), name, None)
                    return
                continue
            _, function, _ = call = entry["call"]
            self.calls += 1
            self.functions[function] += 1
            if mine is None or "call" not in mine:  # a callback that is not called, or ends earlier
                self.note(function, "note", outcome(entry["result"]), "not played", name, call)
                return
            if mine["result"] is None:
                self.note(function, "crash", outcome(entry["result"]), ours["end"] if ours["end"] != "ok" else "crash", name, call)
                if theirs["job"].split()[0] != "sweep":
                    return
                continue
            if entry["result"] is None:
                self.stock_crashes += 1
                continue
            if "skipped" in mine["result"] or "skipped" in entry["result"]:
                return
            if repeatable is not None and n not in repeatable:
                continue
            self.compared += 1
            if not same_status(entry["result"], mine["result"]):
                a, b = outcome(entry["result"]), outcome(mine["result"])
                self.note(function, "code" if a.split(" ")[0] != b.split(" ")[0] else "message", a, b, name, call)
                if "ok" in (a, b):  # what follows has other objects
                    return
                continue
            for path, a, b in list(differences(entry["result"], mine["result"]))[:8]:
                self.note(function, "result", f"{path}: {a}"[:300], f"{path}: {b}"[:300], name, call)
        if ours["end"] != "ok" and theirs["end"] == "ok":
            self.note(name.split()[0], "crash", "ok", ours["end"], name, None)


def accepted(file):
    """Of accepted.txt: (function, pattern of theirs, pattern of ours, reason)."""
    rows = []
    for line in file.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            function, theirs, ours, reason = (part.strip() for part in line.split(" | "))
            assert reason, line
            rows.append((re.compile(function), re.compile(theirs, re.S), re.compile(ours, re.S), reason))
    return rows


def plugin_in(folder):
    library = folder / "plugin.so"
    subprocess.run([os.environ.get("CC", "cc"), "-std=c99", "-shared", "-fPIC", "-o", library, HERE / "plugin.c", "-I", HERE.parents[1] / "include"], check=True)
    return library


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stock", type=pathlib.Path)
    parser.add_argument("ours", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, help="end after about so long; without it all jobs are played")
    parser.add_argument("--jobs", type=int, help="play the first so many jobs, the same ones on every machine")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sequences", type=int, default=1000, help="random ones (default 1000)")
    parser.add_argument("--callbacks", type=int, default=100, help="sequences in each kind of callback (default 100)")
    parser.add_argument("--only", help="of scenario, sweep, callbacks, graph, random; with commas between")
    parser.add_argument("--job", help="one job by its name")
    parser.add_argument("--accepted", type=pathlib.Path, default=HERE / "accepted.txt", help="the list of explained differences")
    parser.add_argument("--plugin", type=pathlib.Path, help="plugin.c as a library; without it the C compiler makes it")
    parser.add_argument("--verbose", action="store_true", help="show each finding's call")
    options = parser.parse_args()
    options.stock, options.ours = options.stock.resolve(), options.ours.resolve()
    jobs, seen, begin = plan(options), Comparison(), time.monotonic()
    if not jobs:
        raise SystemExit("there is no such job")
    jobs = jobs[:options.jobs]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        models.write(folder / "models")
        plugin = options.plugin or plugin_in(folder)
        step, at = 40 if options.seconds else 400, 0
        while at < len(jobs):
            part = jobs[at:at + step]
            at += step
            theirs = play(options.stock, folder / "stock", part, plugin, "made")
            made = [{**job, "calls": [entry["call"] for entry in theirs[job["name"]]["log"] if "call" in entry and not entry["call"][0].startswith("pool.")]}
                    for job in part]
            again = play(options.stock, folder / "stock", [{**job, "crashed": theirs[job["name"]]["crashed"]} for job in made], plugin, "again")
            ours = play(options.ours, folder / "ours", made, plugin, "played")
            for job in part:
                seen.job(theirs[job["name"]], again[job["name"]], ours[job["name"]])
            if options.seconds and (time.monotonic() - begin) * (1 + step / at) > options.seconds:
                break
    return report(seen, at, len(jobs), options)


def report(seen, played, total, options):
    rows, failures, explained = accepted(options.accepted), 0, 0
    for (function, kind, theirs, ours), (job, call, count) in seen.found.items():
        if kind != "crash" and any(f.fullmatch(function) and a.fullmatch(theirs) and b.fullmatch(ours) for f, a, b, _ in rows):
            explained += 1
            continue
        failures += 1
        print(f"{kind.upper()} {function} ({count} times, first in '{job}')\n    stock: {theirs}\n     ours: {ours}")
        if options.verbose and call:
            print(f"     call: {json.dumps(call)[:2000]}")
    print(f"{min(played, total)} of {total} jobs: {seen.calls} calls of {len(seen.functions)} functions, {seen.compared} compared, "
          f"{seen.stock_crashes} crash the stock library; {explained} differences are explained, {failures} are not")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
