"""Makes a finding of the differential fuzzer smaller: one feed, fewer nodes, smaller sizes, for as long as it stays one."""
import dataclasses

import numpy as np
import onnx
from onnx import helper

import mutations
import verdicts
from problems import all_nodes, is_tensor, number_of

TRIES = 60


def same(problem, finding, oracle, folder, ep=None):
    """The finding of the same kind in a changed problem, or None."""
    try:
        found, _ = verdicts.check([problem], oracle, folder, ep)
    except Exception:
        return None
    return next((one for one in found if one.kind == finding.kind), None)


def reads(node):
    """Names that a node and the graphs inside it read."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            names += [name for inner in all_nodes(attribute.g) for name in inner.input if name]
    return names


def every_value(problem, feed, oracle):
    """{name: array} of all edges, as ONNX Runtime computes them."""
    model = problem.proto()
    names = [name for node in model.graph.node for name in node.output if name]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    (status, found), = oracle.ask("plain", model.SerializeToString(), [feed])
    return dict(zip(names, found)) if status == "ok" else {}


def window(problem, feed, values, first, last):
    """The nodes first..last alone, with what ONNX Runtime gives in the place of those before."""
    model = problem.proto()
    nodes = list(model.graph.node)[first:last + 1]
    held = {tensor.name for tensor in model.graph.initializer}
    made, needed = set(), []
    for node in nodes:
        needed += [name for name in reads(node) if name not in made and name not in needed]
        made |= set(node.output)
    given, infos = {}, []
    for name in needed:
        if name in held:
            continue
        value = feed.get(name, values.get(name))
        if not is_tensor(value):
            if any(name in one.output for one in model.graph.node) or name in feed:
                return None
            continue  # a name inside of a body
        given[name] = value
        infos.append(helper.make_tensor_value_info(name, number_of(np.asarray(value)), list(np.shape(value))))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    kept = [tensor for tensor in model.graph.initializer if tensor.name in needed]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    del model.graph.input[:]
    model.graph.input.extend(infos)
    outputs = [name for name in nodes[-1].output if name]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    return dataclasses.replace(problem, model=model.SerializeToString(), feeds=[given])


def fewer_nodes(finding, oracle, folder, ep=None):
    problem, feed = finding.problem, finding.problem.feeds[-1]
    nodes = list(problem.proto().graph.node)
    if len(nodes) < 2:
        return finding
    values, tries = every_value(problem, feed, oracle), 0
    for length in range(1, len(nodes)):
        for first in range(len(nodes) - length + 1):
            tries += 1
            if tries > TRIES:
                return finding
            smaller = window(problem, feed, values, first, first + length - 1)
            found = smaller and same(smaller, finding, oracle, folder, ep)
            if found:
                return found
    return finding


def fewer_feeds(finding, oracle, folder, ep=None):
    problem = finding.problem
    for feeds in ([problem.feeds[min(finding.feed, len(problem.feeds) - 1)]], problem.feeds[:finding.feed + 1]):
        for threads, bound, environment in ((1, False, {}), (problem.threads, problem.bound, problem.environment)):
            found = same(dataclasses.replace(problem, feeds=feeds, threads=threads, bound=bound, environment=environment), finding, oracle, folder, ep)
            if found:
                return found
    return finding


def smaller_sizes(finding, oracle, folder, ep=None):
    tries = 0
    for _ in range(3):
        feed = finding.problem.feeds[-1]
        sizes = sorted({size for value in feed.values() if is_tensor(value) for size in value.shape if size > 1}, reverse=True)
        for old in sizes:
            for new in (1, 2, old // 2):
                if new >= old or tries > TRIES:
                    continue
                tries += 1
                r = np.random.default_rng(0)
                made = {name: mutations.values_like(r, value, [new if size == old else size for size in value.shape]) if is_tensor(value) and old in value.shape else value
                        for name, value in feed.items()}
                model = finding.problem.proto()
                for value in model.graph.input:
                    if value.name in made and is_tensor(made[value.name]) and value.type.tensor_type.HasField("shape"):
                        value.CopyFrom(helper.make_tensor_value_info(value.name, number_of(made[value.name]), list(made[value.name].shape)))
                found = same(dataclasses.replace(finding.problem, model=model.SerializeToString(), feeds=[made]), finding, oracle, folder, ep)
                if found:
                    finding = found
                    break
            else:
                continue
            break
        else:
            break
    return finding


def minimise(finding, oracle, folder, ep=None):
    finding = fewer_feeds(finding, oracle, folder, ep)
    if len(finding.problem.feeds) > 1:
        return finding
    finding = fewer_nodes(finding, oracle, folder, ep)
    return smaller_sizes(finding, oracle, folder, ep)
