"""Plays jobs against one library and writes what came of each call. Usage: player.py LIBRARY FOLDER JOBS RESULTS [EP]

JOBS and RESULTS are files of JSON. A job is {"name", "kind", "seed", "count", "calls"}: with "calls" these are played, without
them they are made here, from the seed. Each job runs in a process of its own that is forked from one with a pool of objects, so a crash ends
that job alone. Run it in a folder of its own; FOLDER holds models/."""
import ctypes
import csv
import json
import os
import pathlib
import random
import signal
import struct
import sys
import traceback

import describe
import generate
import hooks
import models
import scenarios
import signatures
from library import Library

SECONDS = 60  # for one job


class Player:
    def __init__(self, library, folder):
        self.library, self.folder = Library(library), pathlib.Path(folder)
        self.get = describe.Getter(self.library)
        self.seen, self.models, self.known = {}, {}, set()
        self.report = lambda line: None
        with open(signatures.ABI / "used.csv", newline="", encoding="utf-8") as file:
            self.weights = {row["name"]: 1 + 3 * min(int(row["programs_calling"]), 3) for row in csv.DictReader(file)}
        self.library.callbacks.update(hooks.callbacks(self))

    def play(self, identity, name, arguments):
        """One call, reported before (so that a crash has a name) and after it."""
        self.report({"call": [identity, name, arguments]})
        if identity in self.known:
            return {}
        gone = self.library.missing(arguments)
        if gone:
            self.report({"result": {"skipped": gone}})
            return {"skipped": gone}
        before = set(self.library.objects)
        results = self.library.call(identity, name, arguments)
        if name == "AllocatorFree" and results["status"] is None and arguments[1] is not None:
            self.library.drop(arguments[1]["object"])
        if name == "ReleaseAvailableProviders" and arguments[0] is not None:
            self.library.drop(arguments[0]["object"])
        if name.startswith("CreateSession") and len(arguments) > 3 and isinstance(arguments[1], dict) and "text" in arguments[1]:
            self.models[f"{identity}.out"] = pathlib.PurePath(arguments[1]["text"]).stem
        if name == "CreateTensorAsOrtValue" and f"{identity}.out" in self.library.objects:
            self.fill(self.library.objects[f"{identity}.out"].pointer)
        for one in sorted(set(self.library.objects) - before):
            created = self.library.objects[one]
            if created.kind in describe.DESCRIBERS:
                self.seen[one] = results["new " + one] = describe.DESCRIBERS[created.kind](self.get, created.pointer)
        self.report({"result": results})
        return results

    def fill(self, value):
        """Memory of a new tensor holds anything; 1, 2, 3, ... from here on."""
        seen = describe.value(self.get, value)
        size = (seen.get("bytes") or [None, None])[1]
        data = self.get("GetTensorMutableData", value, out=ctypes.c_void_p)[1] if size else None
        if not data or not seen.get("memory") or seen["memory"]["device"] != 0 or size > 1 << 20 or seen["tensor"]["type"] == 8:
            return
        kind = seen["tensor"]["type"]
        one = {1: "f", 11: "d", 6: "i", 12: "I", 7: "q", 13: "Q", 5: "h", 4: "H"}.get(kind)
        if one is None:
            ctypes.memset(data, 1 if kind == 9 else 0, size)
        else:
            count = size // struct.calcsize(one)
            ctypes.memmove(data, struct.pack(f"={count}{one}", *[k % 100 + 1 for k in range(count)]), size)

    def must(self, identity, name, *arguments):
        results = self.play("pool." + identity, name, list(arguments))
        if results.get("status") is not None:
            raise SystemExit(f"the pool cannot be made: {name}: {results['status']}")

    def make_pool(self):
        room, obj = {"room": 1}, lambda name: {"object": f"pool.{name}"}
        self.must("env", "CreateEnv", 4, {"text": "abi_diff"}, room)
        self.must("allocator", "GetAllocatorWithDefaultOptions", room)
        self.must("cpu", "CreateCpuMemoryInfo", 0, 0, room)
        self.must("arena", "CreateCpuMemoryInfo", 1, 0, room)
        self.must("options", "CreateSessionOptions", room)
        for name, number in (("SetIntraOpNumThreads", 1), ("SetInterOpNumThreads", 1)):
            self.must("options." + name, name, obj("options.options"), number)
        self.must("run", "CreateRunOptions", room)
        for name in models.INPUTS:
            self.must(name, "CreateSession", obj("env.out"), {"text": f"models/{name}.onnx"}, obj("options.options"), room)
        for number, (kind, shape) in enumerate([(1, [2, 4]), (1, [2, 4]), (1, [2, 3]), (1, []), (7, []), (7, [3]), (9, []), (1, [2]), (7, [2]),
                                                (1, [1, 3, 4]), (1, [0, 4]), (8, [2]), (8, [2]), (11, [2]), (8, [])]):
            self.must(f"value{number}", "CreateTensorAsOrtValue", obj("allocator.out"), {"numbers": shape}, len(shape), kind, room)
            if kind == 8:
                texts = ["one", "\xc3\xa9"][:1 if not shape else 2]
                self.must(f"value{number}.fill", "FillStringTensor", obj(f"value{number}.out"), {"texts": texts}, len(texts))
                self.seen[f"pool.value{number}.out"] = describe.value(self.get, self.library.objects[f"pool.value{number}.out"].pointer)
        self.must("list_value", "CreateValue", {"objects": ["pool.value0.out", "pool.value1.out"]}, 2, 2, room)
        self.must("map_value", "CreateValue", {"objects": ["pool.value11.out", "pool.value7.out"]}, 2, 3, room)
        self.must("binding", "CreateIoBinding", obj("add.out"), room)
        self.must("info", "SessionGetInputTypeInfo", obj("add.out"), 0, room)
        self.must("listinfo", "SessionGetOutputTypeInfo", obj("sequence.out"), 0, room)
        self.must("mapinfo", "SessionGetOutputTypeInfo", obj("map.out"), 1, room)
        self.must("shape", "CreateTensorTypeAndShapeInfo", room)
        self.must("tensorinfo", "CastTypeInfoToTensorInfo", obj("info.type_info"), room)
        self.must("metadata", "SessionGetModelMetadata", obj("add.out"), room)
        self.must("pairs", "CreateKeyValuePairs", room)
        self.must("pairs.add", "AddKeyValuePair", obj("pairs.out"), {"text": "a"}, {"text": "b"})
        self.must("devices", "GetEpDevices", obj("env.out"), room, room)
        self.must("graph", "CreateGraph", room)

    def sequence(self, job, names=None):
        try:
            self.calls_of(job, names)
        except Exception as error:  # inside of a callback nobody else sees it
            self.report({"end": "error", "error": repr(error), "trace": traceback.format_exc()})
            os._exit(0)

    def calls_of(self, job, names):
        if "calls" in job:
            for identity, name, arguments in job["calls"]:
                self.play(identity, name, arguments)
            return
        generator = generate.Generator(self, random.Random(job["seed"]), self.folder, signatures.not_implemented(), job.get("misuse", 0.01))
        for number in range(job["count"]):
            self.play(str(number), *generator.next(names))

    def functions_of(self, kinds):
        """Names of the functions that take an object of these kinds, for a hook."""
        left_out = signatures.not_implemented() | set(generate.LEFT_OUT)
        return [name for name, function in self.library.functions.items()
                if name not in left_out and not name.startswith("Release") and any(p.role == "object" and p.base in kinds for p in function.parameters)]

    def sweep(self, job):
        """Each argument of one function in turn is null, odd or out of range, the others being what they are in a call that goes well."""
        if "calls" in job:
            return self.sequence(job)
        function = self.library.functions[job["function"]]
        number = 0
        for attempt in range(job["count"]):
            generator = generate.Generator(self, random.Random(f"{job['function']} {job['seed']} {attempt}"), self.folder, set(), 0)
            base = generator.arguments(function)
            takes = [p for p in function.parameters if p.role in ("text", "texts", "number", "enum", "length", "object", "objects", "numbers") or p.role in generate.PLACES]
            self.play(f"{number}", job["function"], base)
            number += 1
            wild = generate.Generator(self, random.Random(f"{job['function']} wild {attempt}"), self.folder, set(), 0.5)
            for i, parameter in enumerate(function.parameters):
                if parameter not in takes or len(function.parameters) == 1 and job["function"].startswith("Release"):
                    continue
                for odd in self.odd_values(function, i, wild, base):
                    arguments = [odd if k == i else one for k, one in enumerate(base)]
                    if odd is None and parameter.count >= 0 and isinstance(arguments[parameter.count], int):  # no array, of no elements
                        none = [0 if k == parameter.count else None if function.parameters[k].count == parameter.count else one
                                for k, one in enumerate(base)]
                        self.play(f"{number}", job["function"], none)
                        number += 1
                    if self.library.missing(arguments):
                        continue
                    self.play(f"{number}", job["function"], arguments)
                    number += 1

    def odd_values(self, function, i, wild, base):
        parameter = function.parameters[i]
        if parameter.role in ("number", "enum"):
            huge = ["size" in parameter.name and "alloc" in function.name.lower()]
            values = [-1, 0, 1, 3, 99, 2 ** 31 - 1] if not huge[0] else [0, 1, 2 ** 62, 2 ** 63 - 1]
            return [one for one in values if not ("thread" in parameter.name and one > 4)]
        if parameter.role == "length":
            arrays = [k for k, p in enumerate(function.parameters) if p.count == i]
            if arrays and all(function.parameters[k].role.startswith("out_") for k in arrays):
                return [0, 1, 2, 5]
            return [0]
        if parameter.role == "text":
            return [None, {"text": ""}, {"text": "\xff\xfe"}, {"text": "a\nb"}, {"text": "x" * 2000}, {"text": wild.text(function, parameter.name)}]
        if parameter.role == "texts" and isinstance(base[i], dict):
            return [None, {"texts": [None] * len(base[i]["texts"])}, {"texts": [""] * len(base[i]["texts"])}]
        if parameter.role == "numbers" and isinstance(base[i], dict):
            count = len(base[i]["numbers"])
            return [None] + [{"numbers": [one] * count} for one in (-1, 0, 2 ** 31, 2 ** 62)]
        if parameter.role == "object":
            return [None, wild.object(parameter.base)]
        if parameter.role == "objects" and isinstance(base[i], dict):
            return [None, {"objects": [None] * len(base[i]["objects"])}]
        return [None]

    def run(self, job):
        kind = job["kind"]
        if kind == "random":
            self.sequence(job)
        elif kind == "sweep":
            self.sweep(job)
        elif kind == "scenario":
            scenarios.play(self, job["scenario"])
        else:
            hooks.run(self, job)


def child(player, job, pipe):
    """In the forked process: plays the job, each line of what happens into the pipe at once."""
    signal.alarm(SECONDS)

    def report(line):
        os.write(pipe, (json.dumps(line) + "\n").encode())

    player.report = report
    try:
        player.run(job)
        report({"end": "ok"})
    except BaseException as error:  # a mistake of this tool, which must not look like an answer of the library
        report({"end": "error", "error": repr(error), "trace": traceback.format_exc()})
    os._exit(0)


def play_job(player, job):
    """{"job", "log", "end"}. The calls of a sweep stand alone: those that crash are left out when it begins anew."""
    player.known = set(job.get("crashed", []))
    while True:
        log, end = play_once(player, job)
        last = next((entry["call"][0] for entry in reversed(log) if "call" in entry), None)
        if job["kind"] != "sweep" or end["end"] in ("ok", "error") or last in player.known or last is None:
            return {"job": job["name"], "log": log, "crashed": sorted(player.known), **end}
        player.known.add(last)


def play_once(player, job):
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(read)
        child(player, job, write)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        lines = [json.loads(line) for line in pipe if line.endswith(b"\n")]
    _, state = os.waitpid(process, 0)
    log, end = [], {"end": "ok"}
    for line in lines:
        if "call" in line:
            log.append({"call": line["call"], "result": None})
        elif "result" in line:
            log[-1]["result"] = line["result"]
        elif "note" in line:
            log.append(line)
        else:
            end = line
    if os.WIFSIGNALED(state):
        end = {"end": "hang" if os.WTERMSIG(state) == signal.SIGALRM else f"signal {os.WTERMSIG(state)}"}
    return log, end


def main():
    library, folder, jobs, results = sys.argv[1:5]
    os.chdir(folder)
    resource_limit()
    player = Player(library, ".")
    player.ep = sys.argv[5] if len(sys.argv) > 5 else None
    player.make_pool()
    with open(results, "w", encoding="utf-8") as out:
        for job in json.load(open(jobs, encoding="utf-8")):
            out.write(json.dumps(play_job(player, job)) + "\n")
    os._exit(0)  # what the libraries do at exit is another test's


def resource_limit():
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))


if __name__ == "__main__":
    main()
