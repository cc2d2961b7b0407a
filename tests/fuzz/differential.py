"""Differential fuzzing: random small models in Tenon and in ONNX Runtime, and in the onnx package's reference where these disagree.

    differential.py [--seconds N] [--seed N] [--count N] [--generators single,graph,...] [--operators Conv,com.microsoft.Gelu,...]
                    [--jobs N] [--save FOLDER] [--refused FILE] [--ep NAME=LIBRARY] [--ep-option KEY=VALUE]...
    differential.py --replay FOLDER/NAME       a saved finding, or "single 17": a generator and its number

TENON_GOLDEN_DRIVER names the program that runs models in Tenon (tests/golden/golden_driver.cc). A finding is printed as it
is found, made smaller, and saved as NAME.onnx, with inputs and settings in NAME.pickle. The exit status is 1 with findings.
Models that Tenon refuses and ONNX Runtime runs are listed apart, by operator, at the end. With --ep an EP's plugin comes
first, problems without a node on it do not count, and findings are what goes wrong with it and not without it."""
import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import pickle
import re
import resource
import sys
import tempfile
import time

import numpy as np

import templates
import generators
import minimise
import oracles
import verdicts
from problems import Problem

BATCH = 60
# Of a process, in bytes: a problem that takes more is a finding or broken, and does not end the others.
MOST_MEMORY = 12 << 30


def describe(finding):
    """A line: seed, operators, and what is wrong."""
    problem = finding.problem
    model = problem.proto()
    feed = problem.feeds[min(finding.feed, len(problem.feeds) - 1)]
    inputs = " ".join(f"{name}:{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else f"{name}:{type(value).__name__}" for name, value in feed.items())
    held = " ".join(f"{tensor.name}:{list(tensor.dims)}" for tensor in model.graph.initializer)
    nodes = "; ".join(f"{node.op_type}({', '.join(node.input)})" + "".join(f" {a.name}={text_of(a)}" for a in node.attribute) for node in model.graph.node)
    opset = next((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), 0)
    settings = f"threads={problem.threads}{' bound' if problem.bound else ''}{''.join(f' {k}={v}' for k, v in problem.environment.items())}"
    return f"{finding.kind} [{problem.name}] {finding.text[:300]}\n    opset {opset} {nodes[:900]}\n    inputs {inputs} held {held} {settings} feed {finding.feed} of {len(problem.feeds)}"


def text_of(attribute):
    import onnx
    value = onnx.helper.get_attribute_value(attribute)
    return "graph" if attribute.type == onnx.AttributeProto.GRAPH else re.sub(r"\s+", " ", str(value))[:60]


def save(finding, folder):
    name = re.sub(r"\W+", "_", f"{finding.kind}_{'_'.join(finding.operators[:3])}_{finding.problem.name}")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.onnx").write_bytes(finding.problem.model)
    (folder / f"{name}.pickle").write_bytes(pickle.dumps(finding))
    return name


def make(words, operators, oracle):
    generator, number = words.rsplit(" ", 1)
    return generators.GENERATORS[generator](int(number), oracle, operators)


def turns(shares, seed):
    """Generators and numbers in turn, as often as their shares say."""
    order = [name for name, share in shares.items() for _ in range(share)]
    step = seed
    while True:
        yield f"{order[step % len(order)]} {step}"
        step += 1


def work(job, jobs, options, results):
    """A process of its own: makes, runs and judges until the time is up; puts (findings, made, compared, by generator)."""
    if not options.ep:  # a driver of a GPU asks for more addresses than there is memory
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY if most == resource.RLIM_INFINITY else min(MOST_MEMORY, most), most))
    oracle = oracles.Oracle()
    end = time.monotonic() + options.seconds
    shares = {name: generators.SHARES[name] for name in options.generators}
    numbers = turns(shares, options.seed * 1_000_000 + job)
    seen, done = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end and (not options.count or done < options.count):
            problems = []
            while len(problems) < min(BATCH, options.count or BATCH) and time.monotonic() < end:
                words = next(numbers)
                for _ in range(jobs - 1):
                    next(numbers)
                done += 1
                try:
                    problem = make(words, options.operators, oracle)
                except Exception as error:
                    results.put(("broken", f"{words}: {type(error).__name__}: {error}"))
                    continue
                if problem is not None:
                    problems.append(problem)
            try:
                found, compared = verdicts.check(problems, oracle, folder, options.ep) if problems else ([], 0)
            except Exception as error:  # the others go on, and nobody waits for this process
                results.put(("broken", f"{[problem.name for problem in problems]}: {type(error).__name__}: {error}"))
                continue
            results.put(("count", len(problems), compared))
            for finding in found:
                key = finding.key()
                seen[key] += 1
                if seen[key] > (3 if finding.kind not in ("refused", "doubt") else 1):
                    results.put(("again", finding.kind))
                    continue
                if finding.kind not in ("refused", "doubt"):
                    finding = minimise.minimise(finding, oracle, folder, options.ep)
                results.put(("finding", finding))
    oracle.stop()
    results.put(("end",))


def fuzz(options):
    templates.corpus()  # made once; the processes inherit it
    results, found, made, compared, again, broken = multiprocessing.Queue(), [], 0, 0, collections.Counter(), []
    workers = [multiprocessing.Process(target=work, args=(job, options.jobs, options, results), daemon=False) for job in range(options.jobs)]
    for worker in workers:
        worker.start()
    ended = 0
    while ended < len(workers):
        kind, *rest = results.get()
        if kind == "end":
            ended += 1
        elif kind == "count":
            made, compared = made + rest[0], compared + rest[1]
        elif kind == "again":
            again[rest[0]] += 1
        elif kind == "broken":
            broken.append(rest[0])
        else:
            finding, = rest
            found.append(finding)
            text = describe(finding)
            if options.save:
                text += f"\n    saved as {save(finding, options.save)}"
            if finding.kind not in ("refused", "doubt") or options.verbose:
                print(text, flush=True)
    for worker in workers:
        worker.join()
    refused = collections.Counter((finding.operators[0] if finding.operators else "", finding.text[:160]) for finding in found if finding.kind == "refused")
    if options.refused:
        pathlib.Path(options.refused).write_text(json.dumps([[*key, count] for key, count in sorted(refused.items())], indent=1))
    wrong = [finding for finding in found if finding.kind not in ("refused", "doubt")]
    print(f"{made} problems, {compared} runs compared, {len(wrong)} findings, {len(refused)} refusals, "
          f"{sum(finding.kind == 'doubt' for finding in found)} doubts, again {dict(again)}, broken generators {len(broken)} {broken[:3]}")
    return wrong, compared


def replay(words, options):
    oracle = oracles.Oracle(120)
    path = pathlib.Path(words + ".pickle")
    problem = pickle.loads(path.read_bytes()).problem if path.exists() else make(words, options.operators, oracle)
    assert isinstance(problem, Problem), "the seed makes no problem"
    with tempfile.TemporaryDirectory() as folder:
        found, compared = verdicts.check([problem], oracle, folder, options.ep)
        print(f"{compared} runs compared")
        for finding in found:
            print(describe(finding))
            if options.minimise:
                print("smaller:", describe(minimise.minimise(finding, oracle, folder, options.ep)))
    oracle.stop()
    return bool(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=0, help="problems of each job at most")
    parser.add_argument("--generators", type=lambda text: text.split(","), default=list(generators.SHARES))
    parser.add_argument("--operators", type=lambda text: text.split(","), default=None)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--save", default=None)
    parser.add_argument("--refused", default=None)
    parser.add_argument("--replay", default=None)
    parser.add_argument("--minimise", action="store_true")
    parser.add_argument("--ep", default=None, help="NAME=LIBRARY: an EP and its plugin")
    parser.add_argument("--ep-option", action="append", default=[], help="KEY=VALUE, for that EP")
    parser.add_argument("--verbose", action="store_true", help="refusals and doubts, too")
    options = parser.parse_args()
    if options.ep:
        options.ep = verdicts.Ep(*options.ep.split("=", 1), tuple(options.ep_option))
    if options.replay:
        return replay(options.replay, options)
    wrong, compared = fuzz(options)
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
