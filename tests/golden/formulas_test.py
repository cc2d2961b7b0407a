"""Operators of com.microsoft that ONNX Runtime has on GPUs alone, against the formulas of their schemas and of the models that
they come from."""
import numpy as np
import pytest

import driver
from contrib_problems import problem
from contrib_test import differs

RNG = np.random.default_rng(31)


def floats(*shape, kind=np.float32):
    return RNG.uniform(-1, 1, shape).astype(kind)


def compare(problems, tmp_path):
    """(problem, expected outputs) each; on one thread and with the baseline kernels."""
    failures = []
    for number, environment in enumerate(({}, {"TENON_CPU_ISA": "baseline"})):
        cases = [driver.Case(f"{i} {asked.name}", asked.model.SerializeToString(), asked.inputs, wanted) for i, (asked, wanted) in enumerate(problems)]
        folder = tmp_path / str(number)
        folder.mkdir()
        outcomes = driver.run_all(cases, folder, ["--threads=1"], environment)
        for case, (asked, wanted) in zip(cases, problems):
            wrong = differs(asked, wanted, outcomes[case.name])
            if wrong is not None:
                failures.append(f"{case.name}: {wrong}")
    assert not failures, "\n".join(failures)


def t5_bucket(distance, count, furthest, both):
    """As transformers' T5Attention has it."""
    first = 0
    if both:
        count //= 2
        first = count if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    near = count // 2
    if distance < near:
        return first + distance
    return first + min(near + int(np.log(distance / near) / np.log(furthest / near) * (count - near)), count - 1)


def test_position_bias_has_the_buckets_of_t5(tmp_path):
    problems = []
    for both in (0, 1):
        for count, furthest in ((32, 128), (8, 20)):
            for queries, keys in ((7, 7), (3, 50), (150, 150)):
                table = floats(count, 4)
                wanted = np.array([[table[t5_bucket(k - q, count, furthest, both)] for k in range(keys)] for q in range(queries)])
                problems.append((problem("RelativePositionBias", [table, np.array([queries]), np.array([keys])], max_distance=furthest, is_bidirectional=both,
                                         constants=(0,), title=f"{queries} {keys}"), [wanted.transpose(2, 0, 1)[None]]))
    compare(problems, tmp_path)


def test_gated_position_bias_is_its_formula(tmp_path):
    problems = []
    for batch, tokens, heads, depth, width in ((2, 5, 3, 4, 8), (1, 2, 1, 6, 2)):
        query, bias, weight = floats(batch, tokens, heads * depth), floats(heads * depth), floats(depth, width)
        more, relative, factor = floats(width), floats(1, heads, tokens, tokens), floats(1, heads, 1, 1)
        rows = (query + bias).reshape(batch, tokens, heads, depth).transpose(0, 2, 1, 3)
        sums = (rows @ weight + more).reshape(batch, heads, tokens, 2, width // 2).sum(-1)
        u, r = np.split(1 / (1 + np.exp(-sums)), 2, axis=-1)
        wanted = (u * (r * factor - 1) + 2) * relative
        problems.append((problem("GatedRelativePositionBias", [query, bias, relative, weight, more, factor], num_heads=heads), [wanted.astype(np.float32)]))
    compare(problems, tmp_path)


def test_gemma_rotary_turns_queries_and_keys(tmp_path):
    angles = RNG.uniform(0, 3, (2, 5, 8)).astype(np.float32)
    q, q_rotated, k, k_rotated = (floats(2, 3, 5, 8, kind=np.float16) for _ in range(4))
    sin, cos = np.sin(angles)[:, None], np.cos(angles)[:, None]
    wanted = [(a.astype(np.float32) * cos + b.astype(np.float32) * sin).astype(np.float16) for a, b in ((q, q_rotated), (k, k_rotated))]
    compare([(problem("GemmaRotaryEmbedding", [angles, q, q_rotated, k, k_rotated], outputs=2), wanted)], tmp_path)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_fourier_transforms_of_real_rows(kind, tmp_path):
    problems = []
    for shape in ((8,), (3, 10), (2, 3, 32)):
        x = floats(*shape, kind=kind)
        spectrum = np.fft.rfft(x.astype(np.float64))
        pairs = np.stack([spectrum.real, spectrum.imag], -1).astype(kind)
        problems.append((problem("Rfft", [x], signal_ndim=1, dynamic=len(shape) == 2), [pairs]))
        problems.append((problem("Irfft", [pairs], signal_ndim=1, dynamic=len(shape) == 2), [x]))
    compare(problems, tmp_path)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))
