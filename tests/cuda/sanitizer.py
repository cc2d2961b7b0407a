"""compute-sanitizer over programs that use the CUDA EP, on a machine with a GPU: memcheck, racecheck and synccheck.

    sanitizer.py [-t SECONDS] [-j JOBS] [-v] [--tools NAME,...] [--logs FOLDER] PROGRAM[:GTEST_FILTER]... [-- COMMAND...]...

Each test of a GoogleTest program is a process of its own, and so is each COMMAND; JOBS of them run at once. Prints what is
not clean and one line for each tool. Fails when a tool finds something, a check fails or does not end within SECONDS."""
import argparse
import collections
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

TOOLS = ["memcheck", "racecheck", "synccheck"]
# By itself racecheck takes all cores for each process.
OPTIONS = {"racecheck": ["--racecheck-num-workers", "2"]}
# cuBLASLt's Hopper kernels order their copies by barriers that racecheck does not know. (To leave them out of what it
# looks at, by --kernel-name-exclude, ends in an illegal address.)
THEIRS = r"Race reported .* nvjet_"
FOUND = 99

living = set()
Check = collections.namedtuple("Check", "name command")
Outcome = collections.namedtuple("Outcome", "tool name verdict seconds detail")


def checks_of(program):
    """A check for each test of PROGRAM[:GTEST_FILTER]."""
    path, _, chosen = program.partition(":")
    listed = subprocess.run([path, "--gtest_list_tests", f"--gtest_filter={chosen or '*'}"], capture_output=True, text=True,
                            check=True).stdout
    suite = ""
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if name.endswith("."):
            suite = name
        elif name.startswith("  "):
            test = suite + name.strip()
            yield Check(test, [path, f"--gtest_filter={test}"])


def run(sanitizer, tool, check, limit, logs):
    begin = time.monotonic()
    log = logs / (re.sub(r"[^\w.]", "_", f"{tool}_{check.name}") + ".log")
    # No leaks are asked for: the driver's context and the pool live to the end of the process.
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "200",
               "--target-processes", "all", *OPTIONS.get(tool, []), *check.command]
    with open(log, "wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        living.add(process.pid)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)  # the program too
            process.wait()
        living.discard(process.pid)
    text = log.read_text(errors="replace")
    summaries = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: .*", text)
    found = re.findall(r"=========\s+(?:Error|Warning|Invalid|Barrier|Uninitialized|Program hit).*", text)
    ours = [line for line in found if not re.search(THEIRS, line)]
    detail = next(iter(ours), "")
    if code is None:
        verdict, detail = "not finished", f"within {limit:.0f} s; {detail or 'nothing found until then'}"
    elif not summaries:
        verdict, detail = "not run", text.strip()[-300:]
    elif (code == FOUND or any("SUMMARY: 0 " not in line for line in summaries)) and (ours or not found):
        verdict, detail = "found", f"{summaries[-1]}; {detail}"
    elif code not in (0, FOUND) or "[  FAILED  ]" in text:
        verdict, detail = "failed", f"the program ends with {code}: " + " ".join(text.split()[-40:])
    elif "[  SKIPPED ] 1 test" in text:
        verdict = "skipped"
    else:
        verdict, detail = "clean", f"but for {len(found)} reports of cuBLASLt's" if found else ""
    return Outcome(tool, check.name, verdict, time.monotonic() - begin, detail)


def end(*_):
    for pid in list(living):
        os.killpg(pid, signal.SIGKILL)
    os._exit(1)


def main():
    signal.signal(signal.SIGTERM, end)
    arguments, *commands = [list(group) for group in split(sys.argv[1:], "--")]
    parser = argparse.ArgumentParser()
    parser.add_argument("-t", type=float, default=300, metavar="SECONDS")
    parser.add_argument("-j", type=int, default=max(1, (os.cpu_count() or 2) // 2), metavar="JOBS")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--logs", type=pathlib.Path)
    parser.add_argument("-v", action="store_true", help="also what is clean, check by check")
    parser.add_argument("programs", nargs="*")
    chosen = parser.parse_args(arguments)
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if sanitizer is None:
        print("not run: there is no compute-sanitizer on this machine")
        return 0
    logs = chosen.logs or pathlib.Path(tempfile.mkdtemp(prefix="sanitizer"))
    logs.mkdir(parents=True, exist_ok=True)
    checks = [check for program in chosen.programs for check in checks_of(program)]
    checks += [Check(" ".join(pathlib.Path(word).name for word in command[:3]), command) for command in commands]
    outcomes = []
    with ThreadPoolExecutor(chosen.j) as pool:
        asked = [pool.submit(run, sanitizer, tool, check, chosen.t, logs)
                 for tool in chosen.tools.split(",") for check in checks]
        for future in as_completed(asked):
            outcome = future.result()
            outcomes.append(outcome)
            if chosen.v or outcome.verdict not in ("clean", "skipped"):
                print(f"{outcome.tool} {outcome.name}: {outcome.verdict} after {outcome.seconds:.0f} s: {outcome.detail}",
                      flush=True)
    for tool in chosen.tools.split(","):
        count = collections.Counter(outcome.verdict for outcome in outcomes if outcome.tool == tool)
        longest = max((outcome for outcome in outcomes if outcome.tool == tool), key=lambda outcome: outcome.seconds)
        print(f"{tool}: {len(checks)} checks: {', '.join(f'{n} {verdict}' for verdict, n in sorted(count.items()))}; "
              f"the longest, {longest.name}, took {longest.seconds:.0f} s; logs in {logs}")
    return int(any(outcome.verdict not in ("clean", "skipped") for outcome in outcomes))


def split(words, mark):
    groups = [[]]
    for word in words:
        if word == mark:
            groups.append([])
        else:
            groups[-1].append(word)
    return groups


if __name__ == "__main__":
    raise SystemExit(main())
