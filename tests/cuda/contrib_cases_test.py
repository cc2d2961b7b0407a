"""The CUDA EP's operators of ONNX Runtime's own, beside ONNX Runtime's CPU EP, in both hosts (decoder_cases.py).

Without a GPU (TENON_CASES_ON=fake) every kernel that is a template runs on the host."""
import os

import pytest

import decoder_cases
import hosts
import node_cases
import node_cases_test

FAKE = node_cases_test.FAKE
# Sums of thousands in float32, rounded to 16 bits here and there.
LEAST = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 4e-2}
pytest.importorskip("onnxruntime")


def least(case):
    return max(LEAST.get(array.dtype.name, 0.0) for array in case.inputs.values())


# On the host a kernel is compiled once for each of its instances, which takes most of the time.
EVERY = int(os.environ.get("TENON_CASES_EVERY", "7" if FAKE else "1"))


def chosen(cases):
    return dict(list(cases.items())[::EVERY])


FAMILIES = {"golden": lambda: chosen(decoder_cases.from_golden()), "layers": decoder_cases.layers,
            "norms": decoder_cases.norms_in_float}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    cases = FAMILIES[request.param]()
    return request.param, cases, node_cases.in_onnxruntime(list(cases.values()), tmp_path_factory.mktemp("cpu"))


@pytest.mark.parametrize("host", node_cases_test.HOSTS)
def test_gives_what_the_cpu_gives(host, family, tmp_path):
    if not FAKE and not node_cases_test.has_gpu():
        pytest.skip("there is no CUDA device")
    name, cases, references = family
    library, environment = node_cases_test.plugin()
    outcomes = node_cases.HOSTS[host](list(cases.values()), tmp_path, library, node_cases_test.OPTIONS, environment)
    wrong, checked = [], 0
    for key, case in cases.items():
        reference, outcome = references[key], outcomes[key]
        if not reference.ok or node_cases_test.needs_a_gpu(outcome) or (
                outcome.claimed and not outcome.claimed.get(hosts.EP)):
            continue
        checked += 1
        text = outcome.status if not outcome.ok else node_cases.differences(outcome.outputs, reference.outputs, least(case))
        if text:
            wrong.append(f"{key}: {text[:300]}")
    print(f"{host}: {name}: {checked} of {len(cases)} cases are on the CUDA EP, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong)
    # Of the golden problems many have sizes or lengths that only a run knows, which are not claimed.
    assert checked > (20 if name == "golden" else len(cases) * 0.9)


# Nothing of a decoder's layer that takes time is left to the CPU.
@pytest.mark.parametrize("host", node_cases_test.HOSTS)
def test_claims_whole_layers(host, tmp_path):
    if not FAKE and not node_cases_test.has_gpu():
        pytest.skip("there is no CUDA device")
    cases = dict(list(decoder_cases.layers().items())[:8])
    library, environment = node_cases_test.plugin()
    outcomes = node_cases.HOSTS[host](list(cases.values()), tmp_path, library, node_cases_test.OPTIONS, environment)
    wanted = {"GroupQueryAttention", "SkipSimplifiedLayerNormalization", "Sigmoid", "Mul"}
    for name, outcome in outcomes.items():
        assert wanted <= set(outcome.claimed[hosts.EP]), (name, outcome.claimed)
