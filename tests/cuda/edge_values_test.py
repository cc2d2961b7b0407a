"""NaN, infinities and values outside of a type's range on the CUDA EP: as on the CPU EP, bit for bit where nothing is rounded.

Without a GPU (TENON_CASES_ON=fake) templates, generated kernels, products and convolutions run on the host; models that
need other kernels are left to a GPU."""
import numpy as np
import pytest

import edge_values
import node_cases
import node_cases_test


def differs(got, wanted):
    """None when the arrays agree element by element, else what is wrong."""
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return f"{got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype.kind in "fV":  # V: bfloat16
        tolerance = {2: 1e-2 if wanted.dtype.kind == "V" else 2e-3, 4: 2e-5, 8: 1e-6}[wanted.dtype.itemsize]
        with np.errstate(invalid="ignore"):
            close = np.isclose(got.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        close = got == wanted
    if np.all(close):
        return None
    where = tuple(int(i) for i in np.argwhere(~close)[0])
    return f"at {list(where)} {got[where]}, not {wanted[where]} ({np.sum(~close)} of {close.size} differ)"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    if not node_cases_test.FAKE and not node_cases_test.has_gpu():
        pytest.skip("there is no CUDA device")
    cases = edge_values.make()
    library, environment = node_cases_test.plugin()
    return ({case.name: case for case in cases},
            node_cases.in_tenon(cases, tmp_path_factory.mktemp("cpu")),
            node_cases.in_tenon(cases, tmp_path_factory.mktemp("cuda"), library, node_cases_test.OPTIONS, environment))


def test_edge_values_are_those_of_the_cpu_ep(outcomes, record_property):
    cases, by_cpu, by_cuda = outcomes
    wrong, checked = [], 0
    for name, case in cases.items():
        want, got = by_cpu[name], by_cuda[name]
        if not want.ok:
            wrong.append(f"{name}: the CPU EP: {want.status[:300]}")
            continue
        if node_cases_test.needs_a_gpu(got):
            continue
        checked += 1
        if not got.ok:
            wrong.append(f"{name}: {got.status[:300]}")
            continue
        for index, pair in enumerate(zip(got.outputs, want.outputs)):
            if (text := differs(*pair)) is not None:
                wrong.append(f"{name}: output {index}: {text}")
    record_property("edge_values_checked", checked)
    print(f"{checked} of {len(cases)} models of edge values, {len(wrong)} results wrong")
    assert not wrong, "\n".join(wrong)
    assert checked > 300


# A model that the CUDA EP leaves to the CPU EP would compare that with itself.
def test_the_cuda_ep_claims_them(outcomes):
    _, _, by_cuda = outcomes
    claimed = set(node_cases.claims(by_cuda))
    unclaimed = [name for name, outcome in by_cuda.items() if outcome.ok and name not in claimed]
    assert not unclaimed, ", ".join(unclaimed)
