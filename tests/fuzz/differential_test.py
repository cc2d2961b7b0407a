"""A short run of the differential fuzzer with fixed seeds finds nothing, and the fuzzer finds what is wrong when something is."""
import dataclasses
import os

import numpy as np
import onnx
import pytest

import differential
import generators
import oracles
import templates
import verdicts
from problems import Problem, model_of

SEEDS = {"single": 240, "graph": 60, "shapes": 120, "edges": 60, "node": 60, "sampling": 30, "chains": 40, "patterns": 40, "quantised": 40}


@pytest.fixture(scope="module")
def oracle():
    made = oracles.Oracle()
    yield made
    made.stop()


@pytest.mark.parametrize("name", SEEDS)
def test_random_models_give_what_the_oracles_give(name, oracle, tmp_path, record_property):
    problems = [problem for seed in range(SEEDS[name]) if (problem := generators.GENERATORS[name](seed, oracle)) is not None]
    found, compared = verdicts.check(problems, oracle, tmp_path)
    record_property("runs_compared", compared)
    wrong = [finding for finding in found if finding.kind not in ("refused", "doubt")]
    assert not wrong, "\n".join(map(differential.describe, wrong))
    assert compared > len(problems) / 2


# Over the fake driver, whose kernels run on the host: what the CUDA EP claims it can lower and run, and the numbers are right.
@pytest.mark.parametrize("name, seeds", [("graph", 60), ("single", 80), ("chains", 30)])
def test_what_the_cuda_ep_claims_it_can_do(name, seeds, oracle, tmp_path, record_property):
    fake = os.environ.get("TENON_FAKE_CUDA", "")
    if not os.path.exists(f"{fake}/libtenon_ep_cuda_host.so"):
        pytest.skip("this build has no CUDA plugin")
    ep = verdicts.Ep("TenonCudaExecutionProvider", f"{fake}/libtenon_ep_cuda_host.so", ("use_tf32=0",),
                     {"LD_LIBRARY_PATH": f"{fake}:{os.environ.get('LD_LIBRARY_PATH', '')}"})
    problems = [problem for seed in range(seeds) if (problem := generators.GENERATORS[name](seed, oracle)) is not None]
    found, compared = verdicts.check(problems, oracle, tmp_path, ep)
    record_property("runs_compared", compared)
    wrong = [finding for finding in found if finding.kind != "doubt"]
    assert not wrong, "\n".join(map(differential.describe, wrong))
    assert compared > len(problems) / 4


def test_every_operator_of_the_standard_has_a_template():
    names = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == "" and not schema.deprecated}
    objects = {"Optional", "ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceLength"}
    missing = names - set(templates.corpus()) - templates.LEFT_OUT - objects
    assert not missing, f"operators that no generator knows: {sorted(missing)}"


def problem(operator, value):
    node = onnx.helper.make_node(operator, ["x"], ["y"])
    return Problem("asked", model_of([node], 17, {}, {"x": value}, {}, ["y"]), [{"x": value}])


# Tenon runs another model than the oracle.
def test_a_wrong_result_a_refusal_and_a_crash_are_findings(oracle, tmp_path):
    x = np.array([-1.5, 2, 3.25], np.float32)
    asked, other = problem("Neg", x), problem("Abs", x)
    wanted = oracle.ask("plain", asked.model, asked.feeds)
    outcome = verdicts.by_tenon([other], {other.name: wanted}, tmp_path)[other.name]
    finding, = verdicts.judge(asked, outcome, wanted, oracle)
    assert finding.kind == "wrong" and finding.text == "output 0 at [1] is 2.0, not -2.0 (2 of 3 differ)"
    right = verdicts.by_tenon([asked], {asked.name: wanted}, tmp_path)[asked.name]
    assert not verdicts.judge(asked, right, wanted, oracle)
    refused = dataclasses.replace(right, status="unsupported: no.", feeds=[])
    assert [one.kind for one in verdicts.judge(asked, refused, wanted, oracle)] == ["refused"]
    for status, kind in (("crashed", "crash"), ("hang", "hang")):
        assert [one.kind for one in verdicts.judge(asked, dataclasses.replace(right, status=status), wanted, oracle)] == [kind]


def test_an_oracle_that_ends_is_started_again(oracle):
    asked = problem("Neg", np.ones(2, np.float32))
    oracle.ask("plain", asked.model, asked.feeds)
    oracle.process.kill()
    (status, outputs), = oracle.ask("plain", asked.model, asked.feeds)
    if status != "ok":  # it was asked before its end was seen
        (status, outputs), = oracle.ask("plain", asked.model, asked.feeds)
    assert status == "ok" and np.array_equal(outputs[0], [-1, -1])


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))
