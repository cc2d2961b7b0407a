"""A plugin EP (probe/) writes down what its host tells it; ONNX Runtime's library and Tenon's tell it the same.

What has no order in the reference (uses of a value, attributes, initializers) is sorted before it is compared. A line
that differs for a reason stands in DIFFERENCES with the reason, as a pattern for the reference's line and one for ours.
"""
import importlib.util
import os
import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
TENON = os.environ.get("TENON_LIBRARY", "")
PROGRAM = os.environ.get("TENON_RUN_PLUGIN", "")
PROBE = os.environ.get("TENON_PROBE", "")
MODELS = ("chain", "mixed", "attributes", "branches", "external")
# Compile of a subgraph's part ends the reference's process when the probe looks at the graph around it.
MODES = {"look": MODELS, "misuse": MODELS, "fuse": ("chain", "mixed", "attributes", "external"),
         "fuse-drop": ("chain", "external"), "pairs": ("chain", "mixed"), "kernels": ("chain", "mixed", "attributes")}
CASES = [(mode, model) for mode, models in MODES.items() for model in models]

# (pattern of the reference's line, pattern of Tenon's line, reason)
DIFFERENCES = [
    (r"Node_GetAttributeByName\(nodes\[0\], NULL, .*code 6", r"Node_GetAttributeByName\(nodes\[0\], NULL, .*code 2",
     "a null name is the caller's mistake; the reference lets the C++ library throw"),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("probe_models", HERE / "probe" / "models.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.write_all(tmp_path_factory.mktemp("models"))


def run(library, mode, model, out):
    environment = {**os.environ, "PROBE_OUT": str(out), "PROBE_MODE": mode}
    done = subprocess.run([PROGRAM, str(library), PROBE, "ProbeEp", str(model)], capture_output=True, text=True,
                          timeout=120, env=environment)
    assert done.returncode in (0, 3), f"{library}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout.splitlines(), out.read_text().splitlines()


def sorted_inside(line, pattern, separator):
    found = re.search(pattern, line)
    if found is None:
        return line
    return line[:found.start(1)] + separator.join(sorted(found[1].split(separator))) + line[found.end(1):]


def plain(line):
    line = re.sub(r"(ProbeEp_)+\d+(_\d+)+", "ProbeEp_#", line)  # regions are named by a hash of the model
    line = re.sub(r'node \d+ "ProbeEp_#', 'node "ProbeEp_#', line)
    line = re.sub(r"(operator set domains: .* at least )\d+", r"\1#", line)
    uses = re.search(r' uses \d+:((?: "[^"]*" -?\d+)+)', line)
    if uses is not None:
        each = sorted(re.findall(r'"[^"]*" -?\d+', uses[1]))
        line = line[:uses.start(1)] + " " + " ".join(each) + line[uses.end(1):]
    return sorted_inside(line, r" implicit\(([^)]*)\)", ", ").rstrip()


def without_order(lines):
    """The same lines with runs of attributes, initializers and metadata sorted, and without the opsets' line."""
    kind = re.compile(r"\s*(attribute \"[^\"]*\" type|metadata)|(  value .* constant 1)")
    result, run_of, last = [], [], None
    for line in (plain(line) for line in lines if not line.startswith("opsets ")):
        found = kind.match(line)
        now = found and (found[1] or "value").split()[0]
        if now != last:
            result += sorted(run_of)
            run_of, last = [], now
        (run_of if now else result).append(line)
    return result + sorted(run_of)


def last_capability(lines):
    """From the last GetCapability on: the reference asks about each subgraph before the graph around it."""
    start = max(i for i, line in enumerate(lines) if line == "=== GetCapability")
    return lines[start:]


def kernels_by_text(lines):
    """Kernels are made in the order in which the EP claimed them here, and in the graph's order by the reference."""
    blocks, block = [], []
    for line in lines:
        if line.startswith(("create_kernel", "=== kernel context")):
            blocks.append(block)
            block = []
        block.append(line)
    return blocks[0] + [line for one in sorted([*blocks[1:], block]) for line in one] if blocks else block


def outputs(lines):
    """What the program printed, without the texts of errors, which name nodes in each host's way."""
    return [re.sub(r"(: code \d+): .*", r"\1", line) for line in lines]


def same(theirs, ours):
    return theirs == ours or any(re.match(a, theirs) and re.match(b, ours) for a, b, _ in DIFFERENCES)


@pytest.mark.parametrize("mode,model", CASES, ids=[f"{mode}-{model}" for mode, model in CASES])
def test_the_host_tells_what_the_reference_tells(mode, model, reference, models, tmp_path):
    theirs_out, theirs = run(reference, mode, models[model], tmp_path / "reference.txt")
    ours_out, ours = run(TENON, mode, models[model], tmp_path / "tenon.txt")
    theirs, ours = (kernels_by_text(without_order(last_capability(lines))) for lines in (theirs, ours))
    assert len(theirs) > 20
    differing = [f"reference: {a}\n    tenon: {b}" for a, b in zip(theirs, ours) if not same(a, b)]
    assert not differing, "\n".join(differing[:20])
    assert len(theirs) == len(ours)
    if model != "branches":  # Tenon has no kernel for If: there, what the EP is told is all that counts
        assert outputs(theirs_out) == outputs(ours_out)


# Null objects, arrays that are null with a length: each ends the reference's process.
def test_what_ends_the_reference_is_refused(models, tmp_path):
    _, lines = run(TENON, "refusals", models["chain"], tmp_path / "tenon.txt")
    start = lines.index("--- refusals")
    answers = [line for line in lines[start + 1:] if ": code " in line or line.endswith(": ok")]
    assert len(answers) >= 12
    for line in answers[:12]:
        assert ": code 2: " in line or "twice" in line, line


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
