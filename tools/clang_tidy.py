#!/usr/bin/env python3
"""Runs clang-tidy on source files, several at a time, and remembers the files that had no report.

    tools/clang_tidy.py BUILD_FOLDER -j JOBS [--seconds SECONDS] < FILES

FILES is one path a line, relative to the repository. A file is read again when one of the files it includes, the
checks, its compile command or clang-tidy itself has changed; BUILD_FOLDER/tidy holds an empty file, named by a hash
of all of these, for each clean result. Standard headers are taken as unchanged: the hash covers the files that the
compiler lists without system headers. After SECONDS no further file is begun, and the number of files left is printed.
Ends with 1 if a file has a report.
"""

import argparse
import hashlib
import json
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CLANG_TIDY = "clang-tidy-19"
CLANG = "clang++-19"
# How often a test's vector grows is of no interest.
TEST_CHECKS = "--checks=-performance-inefficient-vector-operation"
# Steps of constant evaluation: clang counts them, and src/graph/schema.cc packs its table so. g++ counts operations, by an
# option that clang does not know.
EXTRA_ARGUMENT = "--extra-arg=-fconstexpr-steps=400000000"
GCC_OPTION = "-fconstexpr-ops-limit="


def without_outputs(arguments):
    """The arguments of a compile command apart from the compiler, `-c`, `-o FILE` and the source file."""
    kept, words = [], iter(arguments[1:-1])
    for word in words:
        if word == "-o":
            next(words, None)
        elif word != "-c":
            kept.append(word)
    return kept


def included_files(command):
    """The source file and the headers that it includes, without system headers; None where clang cannot read it."""
    arguments = without_outputs(command["arguments"])
    listed = subprocess.run([CLANG, *arguments, "-w", "-MM", "-MT", "x", command["file"]], cwd=command["directory"],
                            capture_output=True, text=True)
    if listed.returncode:
        return None
    return shlex.split(listed.stdout.replace("\\\n", " "))[1:]


def fingerprint(command, common, root):
    """A hash of all that clang-tidy's answer about a file depends on; None if the included files are not known."""
    names = included_files(command)
    if names is None:
        return None
    result = hashlib.sha256(common)
    result.update("\0".join(without_outputs(command["arguments"])).replace(root, "").encode())
    for name in names:
        path = Path(command["directory"], name).resolve()
        result.update(str(path).replace(root, "").encode() + b"\0" + path.read_bytes())
    return result.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="the build folder, which holds compile_commands.json")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no file after that time")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds

    root = str(Path.cwd())
    commands = {}
    for command in json.loads((options.build / "compile_commands.json").read_text()):
        command["arguments"] = [word for word in shlex.split(command.pop("command")) if not word.startswith(GCC_OPTION)]
        commands[str(Path(command["directory"], command["file"]))] = command
    files = [line.strip() for line in sys.stdin if line.strip()]
    unknown = [file for file in files if str(Path(root, file)) not in commands]
    if unknown:
        sys.exit(f"{options.build}/compile_commands.json has no command for {unknown[0]}")

    version = subprocess.run([CLANG_TIDY, "--version"], capture_output=True, check=True).stdout
    common = version + Path(".clang-tidy").read_bytes()
    clean = options.build / "tidy"
    clean.mkdir(exist_ok=True)
    (clean / "compile_commands.json").write_text(json.dumps(list(commands.values())))

    def read(file):
        mark = fingerprint(commands[str(Path(root, file))], common, root)
        if mark and (clean / mark).exists():
            return "unchanged", ""
        if time.monotonic() > end:
            return "left", ""
        relaxed = [TEST_CHECKS] if file.endswith("_test.cc") else []
        tidy = subprocess.run([CLANG_TIDY, "--quiet", *relaxed, EXTRA_ARGUMENT, "-p", str(clean), file],
                              capture_output=True, text=True)
        if tidy.returncode:
            return "reported", tidy.stdout + tidy.stderr
        if mark:
            (clean / mark).touch()
        return "clean", ""

    counts = {"clean": 0, "unchanged": 0, "reported": 0, "left": 0}
    with ThreadPoolExecutor(options.jobs) as pool:
        for file, (outcome, text) in zip(files, pool.map(read, files)):
            counts[outcome] += 1
            if text:
                print(f"{file}:\n{text}", flush=True)
    print(f"clang-tidy: {counts['clean']} files clean, {counts['unchanged']} clean and unchanged since, "
          f"{counts['reported']} with reports" + (f", {counts['left']} not read: the time is up" if counts["left"] else ""),
          file=sys.stderr)
    return 1 if counts["reported"] else 0


if __name__ == "__main__":
    sys.exit(main())
