"""compute-sanitizer over the CUDA EP, on a machine with a GPU: memcheck, racecheck and synccheck.

    sanitizer.py [-t SECONDS] [-j JOBS] [-v] [--tools NAME,...] [--only REGEX] [--logs FOLDER] BUILD MODELS

BUILD holds bin and lib, MODELS magika.onnx. Each test, or part of one, is a process of its own, and so is each program;
JOBS of them run at once, racecheck's with small sizes (TENON_SMALL_SIZES, TENON_PART). Prints what is not clean and one
line for each tool. Fails when a tool finds something, a check fails or does not end within SECONDS."""
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

TOOLS = ["racecheck", "memcheck", "synccheck"]
# By itself racecheck takes all cores for each process.
OPTIONS = {"racecheck": ["--racecheck-num-workers", "2"]}
# cuBLASLt's Hopper kernels order their copies by barriers that racecheck does not know. (To leave them out of what it
# looks at, by --kernel-name-exclude, ends in an illegal address.) Off Windows cuDeviceGetLuid is not supported, which
# memcheck reports and the EP expects.
THEIRS = r"Race reported .* nvjet_|to cuDeviceGetLuid"
FOUND = 99
PROBLEMS = pathlib.Path(__file__).resolve().parents[1] / "problems"

TESTS = [
    ("tenon_ep_cuda_compute_test",
     "Attention.*:ConvChoices.*:DepthwiseConv.*:DepthwiseTilesOnDevice.*:FaultWalk.*:HalvesProducts.*:PlainProducts.*:"
     "PlanTest.*:SplitProductOnDevice.*:SplitProducts.*"),
    ("tenon_cuda_operators_test", "*-Large.*"),
    ("tenon_cuda_operators_test", "Large.IntegerProducts"),
]
# In how many processes a test's cases run: under racecheck, whose sizes are small; under the others. The longest come first.
PARTS = [
    (r"Recurrent\.HiddenSizes", 6, 4),
    (r"Recurrent\.(EveryCell|SequencesEnd)", 4, 2),
    (r"Heads/Attention", 3, 2),
    (r"HalvesProducts\.AreRight", 2, 2),
    (r"ConvChoices\.(Products|Convolutions)Agree", 3, 4),
    (r"FaultWalk\.Making", 3, 4),
    (r"Attention\.MasksOfEvery", 3, 2),
    (r"Operators\.(Resize|TopKOfRows)|Quantization\.EveryType", 2, 2),
]

DECODER_PARTS = 6

living = set()
Check = collections.namedtuple("Check", "name command settings")
Outcome = collections.namedtuple("Outcome", "tool name verdict seconds detail")


def parts_of(test, tool):
    for pattern, race, other in PARTS:
        if re.match(pattern, test):
            return race if tool == "racecheck" else other
    return 1


def tests_of(program, chosen):
    listed = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={chosen}"], capture_output=True, text=True,
                            check=True).stdout
    suite = ""
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if name.endswith("."):
            suite = name
        elif name.startswith("  "):
            yield suite + name.strip()


def decoders(tool, build, plugin, logs):
    """Layers of decoders: products of few rows, attention over caches, norms, weights of 4 and 8 bits (decoder_cases.py)."""
    import decoder_cases
    import driver
    cases = list(decoder_cases.layers().values())
    for part in range(DECODER_PARTS):
        folder = logs / f"{tool}_decoders{part}"
        folder.mkdir(exist_ok=True)
        files = driver.write(cases[part::DECODER_PARTS], folder)
        yield Check(f"decoder layers {part}/{DECODER_PARTS}",
                    [build / "bin/golden_driver", *files, "--threads=1", f"--plugin=cuda={plugin}",
                     "--ep=TenonCudaExecutionProvider"], {})


def checks_of(tool, build, models, logs):
    plugin, checks = build / "lib/libtenon_ep_cuda.so", []
    settings = {"TENON_SMALL_SIZES": "1"} if tool == "racecheck" else {}
    for program, chosen in TESTS:
        for test in tests_of(build / "bin" / program, chosen):
            parts = parts_of(test, tool)
            for part in range(parts):
                checks.append(Check(f"{test} {part}/{parts}" if parts > 1 else test,
                                    [build / "bin" / program, f"--gtest_filter={test}"],
                                    {"TENON_PART": f"{part}/{parts}", **settings}))
    checks.sort(key=lambda check: -int(check.settings["TENON_PART"].split("/")[1]))
    bench = [build / "bin/tenon", "bench", models / "magika.onnx", "--runs", "3", "--plugin", f"cuda={plugin}", "--ep",
             "TenonCudaExecutionProvider", "--dim", "unk__214=1"]
    if tool == "racecheck":  # what is measured runs hundreds of times
        bench += ["--ep-option", "cudnn_conv_algo_search=HEURISTIC"]
    host = build / "lib/libtenon.so"
    frame = [build / "bin/tenon_abi_conformance", host, "--plugin", f"cuda={plugin}", "--filter", "FullInference",
             "--same-process", "--vulkan-gpu"]
    sharing = [build / "bin/tenon_cuda_sharing", host, plugin]
    lines = [Check(f"problems {file.stem}", [build / "bin/tenon_problems", "--ep", f"cuda={plugin}", "--tf32", "--quiet",
                                             "--every", "10" if tool == "racecheck" else "4", "--file", file], {})
             for file in sorted(PROBLEMS.glob("*.txt")) if file.name != "CMakeLists.txt"]
    return [Check("magika", bench, {}), *lines, *decoders(tool, build, plugin, logs), *checks, Check("full inference", frame, {}), Check("sharing", sharing, {})]


def run(sanitizer, tool, check, limit, logs):
    begin = time.monotonic()
    log = logs / (re.sub(r"[^\w.]", "_", f"{tool}_{check.name}") + ".log")
    # No leaks are asked for: the driver's context and the pool live to the end of the process.
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "200",
               "--target-processes", "all", *OPTIONS.get(tool, []), *check.command]
    with open(log, "wb") as file, tempfile.TemporaryDirectory() as folder:
        settings = {**os.environ, "TEST_TMPDIR": folder, **check.settings}
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True, env=settings)
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
        verdict, detail = "clean", f"but for {len(found)} known reports" if found else ""
    return Outcome(tool, check.name, verdict, time.monotonic() - begin, detail)


def end(*_):
    for pid in list(living):
        os.killpg(pid, signal.SIGKILL)
    os._exit(1)


def main():
    signal.signal(signal.SIGTERM, end)
    parser = argparse.ArgumentParser()
    parser.add_argument("-t", type=float, default=300, metavar="SECONDS")
    parser.add_argument("-j", type=int, default=max(1, os.cpu_count() or 2), metavar="JOBS")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--only", default="", metavar="REGEX", help="checks whose names have it")
    parser.add_argument("--logs", type=pathlib.Path)
    parser.add_argument("-v", action="store_true", help="also what is clean, check by check")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path)
    chosen = parser.parse_args()
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if sanitizer is None:
        print("not run: there is no compute-sanitizer on this machine")
        return 0
    logs = chosen.logs or pathlib.Path(tempfile.mkdtemp(prefix="sanitizer"))
    logs.mkdir(parents=True, exist_ok=True)
    asked = [(tool, check) for tool in chosen.tools.split(",") for check in checks_of(tool, chosen.build, chosen.models, logs)
             if re.search(chosen.only, check.name)]
    outcomes = []
    with ThreadPoolExecutor(chosen.j) as pool:
        for future in as_completed([pool.submit(run, sanitizer, tool, check, chosen.t, logs) for tool, check in asked]):
            outcome = future.result()
            outcomes.append(outcome)
            if chosen.v or outcome.verdict not in ("clean", "skipped"):
                print(f"{outcome.tool} {outcome.name}: {outcome.verdict} after {outcome.seconds:.0f} s: {outcome.detail}",
                      flush=True)
    for tool in chosen.tools.split(","):
        of_tool = [outcome for outcome in outcomes if outcome.tool == tool]
        count = collections.Counter(outcome.verdict for outcome in of_tool)
        longest = max(of_tool, key=lambda outcome: outcome.seconds, default=None)
        if longest is not None:
            print(f"{tool}: {len(of_tool)} checks: {', '.join(f'{n} {verdict}' for verdict, n in sorted(count.items()))}; "
                  f"the longest, {longest.name}, took {longest.seconds:.0f} s; logs in {logs}")
    return int(not outcomes or any(outcome.verdict not in ("clean", "skipped") for outcome in outcomes))


if __name__ == "__main__":
    raise SystemExit(main())
