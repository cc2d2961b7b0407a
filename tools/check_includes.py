"""Checks that includes follow the arrows between the folders of src/ (docs/explanation/architecture.md), that programs use
the public headers alone and do not include each other, that the table of environment variables (src/base/env.cc) is the
only reader of the environment and holds none that only tests read, and that EPs and passes read nodes through the
descriptions of src/ops."""
import pathlib
import re
import sys

ARROWS = {
    "base": [],
    "graph": ["base"],
    "ops": ["base", "graph"],
    "device": ["base"],
    "interop": ["base", "device"],
    "ep/api": ["base", "graph", "ops", "device", "interop"],
    "ep/sdk": ["base", "graph", "interop", "ep/api"],
    "plan": ["base", "graph", "ops", "device", "interop", "ep/api"],
    "ep/cpu": ["base", "graph", "ops", "device", "interop", "ep/api"],
    "ep/cuda/driver": ["base"],
    "ep/cuda/fake": ["base", "device", "interop", "ep/cuda/driver"],
    "ep/cuda": ["base", "graph", "ops", "device", "interop", "ep/api", "ep/sdk", "ep/cuda/driver", "ep/cuda/fake"],
    "ep/cuda/compute": ["base", "graph", "ops", "device", "interop", "plan", "ep/api", "ep/sdk", "ep/cuda/driver", "ep/cuda/fake", "ep/cuda"],
    "ep/cuda/ops": ["base", "graph", "ops", "device", "plan", "ep/cuda/driver", "ep/cuda", "ep/cuda/compute"],
    "ep/cuda/plugin": ["ep/cuda", "ep/cuda/compute"],
    "ep/cuda/fake_plugin": ["base", "ops", "ep/sdk", "ep/cuda", "ep/cuda/compute", "ep/cuda/ops"],
    "ep/sim": ["base", "graph", "ops", "device", "interop", "ep/api", "ep/sdk"],
    "runtime": ["base", "graph", "ops", "device", "interop", "plan", "ep/api", "ep/cpu"],
    "abi/objects": ["base", "graph", "ops", "device", "interop", "plan", "ep/api", "runtime"],
    "ep/host": ["base", "graph", "ops", "device", "interop", "plan", "ep/api", "runtime", "abi/objects"],
    "abi": ["base", "graph", "ops", "device", "interop", "plan", "ep/api", "runtime", "abi/objects", "ep/host"],
    "drop_in": ["abi"],
}

# Programs of the public API, with what they may include besides their own folder and <tenon/...>. The simulated EP's plugin
# has a C interface for tests; abi_since.h is generated numbers of the C ABI.
PROGRAMS = {
    "programs": [],
    "cli": ["programs/"],
    "demo": ["programs/"],
    "conformance": ["programs/", "src/ep/sim/sim_test_api.h", "src/ep/api/abi_since.h"],
}

# Reads of a node's attribute by name. Only src/ops knows names and defaults.
READS_ATTRIBUTE = re.compile(r'\b(?:(?:int|float|string)_or|ints)\("|(?:\.|->)find\("[A-Za-z]\w*"\)')
TESTS = re.compile(r"(_test\.cc|testing\.h)$")
DESCRIBED = ("ep/", "plan/")
# Files that still read attributes themselves. The list only shrinks.
NOT_YET_DESCRIBED = set()


def folder_of(path):
    for folder in sorted(ARROWS, key=len, reverse=True):
        if path.startswith(folder + "/"):
            return folder
    return None


def cycle():
    """A folder that can reach itself along the arrows, or None."""
    for folder in ARROWS:
        seen, todo = set(), list(ARROWS[folder])
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                todo += ARROWS[at]
        if folder in seen:
            return folder
    return None


def wrong_in_programs(root):
    wrong = []
    for folder, allowed in PROGRAMS.items():
        for source in sorted((root / folder).rglob("*")):
            if source.suffix not in (".cc", ".h"):
                continue
            may = [folder + "/", *allowed, *(["base/testing.h"] if source.name.endswith("_test.cc") else [])]
            for number, line in enumerate(source.read_text().splitlines(), 1):
                match = re.match(r'\s*#\s*include "([^"]+)"', line)
                if match and not match[1].startswith(tuple(may)):
                    wrong.append(f"{source.relative_to(root)}:{number}: a program must not include {match[1]}")
    return wrong


def main():
    root = pathlib.Path(__file__).resolve().parent.parent / "src"
    wrong, read, undescribed = wrong_in_programs(root.parent), set(), set()
    if cycle():
        wrong.append(f"the arrows form a cycle through {cycle()}")
    for source in sorted(root.rglob("*")):
        if source.suffix not in (".cc", ".h"):
            continue
        name = source.relative_to(root).as_posix()
        folder = folder_of(name)
        if folder is None:
            wrong.append(f"src/{name}: its folder has no row of arrows")
            continue
        for number, line in enumerate(source.read_text().splitlines(), 1):
            match = re.match(r'#include "([^"]+)"', line)
            target = match and folder_of(match[1])
            if target and target != folder and target not in ARROWS[folder]:
                wrong.append(f"src/{name}:{number}: {folder} must not include {target} ({match[1]})")
            if re.search(r"\bgetenv\b", line.split("//")[0]) and name not in ("base/env.cc", "base/testing.h"):
                wrong.append(f"src/{name}:{number}: only base/env.cc reads the environment")
            if name.startswith(DESCRIBED) and folder != "ep/host" and not TESTS.search(name) and READS_ATTRIBUTE.search(line):
                undescribed.add(name)
                if name not in NOT_YET_DESCRIBED:
                    wrong.append(f"src/{name}:{number}: an attribute is read outside src/ops; take a description from there")
            if not TESTS.search(name) and not name.startswith("base/env."):
                read.update(re.findall(r"\bEnv::(k\w+)", line))
    for name in sorted(NOT_YET_DESCRIBED - undescribed):
        wrong.append(f"src/{name} reads no attribute any more: take it from NOT_YET_DESCRIBED")
    variables = re.search(r"enum class Env[^{]*{([^}]*)}", (root / "base/env.h").read_text())[1]
    for variable in re.findall(r"\bk\w+", variables):
        if variable not in read:
            wrong.append(f"src/base/env.h: Env::{variable} is read by no source of src/ that ships; tests read theirs with "
                         "test_variable() (base/testing.h)")
    print("\n".join(wrong) or "includes follow the arrows")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
