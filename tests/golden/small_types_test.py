"""Cast to and from the types that numpy lacks, over every float16 number, beside the onnx package's reference."""
import itertools

import ml_dtypes
import numpy as np
import onnx
import onnx.reference
import pytest

import driver

T = onnx.TensorProto
FLOATS = (T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ, T.FLOAT8E8M0, T.FLOAT6E2M3, T.FLOAT6E3M2, T.FLOAT4E2M1)
INTEGERS = (T.UINT4, T.INT4, T.UINT2, T.INT2)
ALL_HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def model_of(source, target, like=False, **attributes):
    op = onnx.helper.make_node("CastLike", ["x", "like"], ["y"], **attributes) if like else onnx.helper.make_node("Cast", ["x"], ["y"], to=target, **attributes)
    inputs = [onnx.helper.make_tensor_value_info("x", source, [None])]
    if like:
        inputs.append(onnx.helper.make_tensor_value_info("like", target, [1]))
    graph = onnx.helper.make_graph([op], "g", inputs, [onnx.ValueInfoProto(name="y")])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 28)], ir_version=13)


def dtype_of(number):
    return onnx.helper.tensor_dtype_to_np_dtype(number)


def cast_by_reference(model, x):
    with np.errstate(all="ignore"):
        return onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})[0]


def e8m0(x, saturate, mode):
    """The specification's table, which the reference leaves for numbers below the smallest one."""
    x = np.abs(x.astype(np.float64))
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(x))
        part = x / np.exp2(exponent)
        exponent += {"up": part > 1, "down": part < 0, "nearest": part >= 1.5}[mode]
    code = np.where(x < 2.0 ** -127, -1, np.where(np.isinf(x) | (exponent > 127), 255, exponent + 127))
    code = np.clip(code, 0, 254) if saturate else np.where(code < 0, 255, code)
    return np.where(np.isnan(x), 255, code).astype(np.uint8)


def run(tmp_path, models):
    """{title: (model, inputs, expected codes)} through libtenon."""
    cases = [driver.Case(name, model.SerializeToString(), inputs, [want]) for name, (model, inputs, want) in models.items()]
    outcomes = driver.run_all(cases, tmp_path)
    wrong = []
    for case in cases:
        outcome = outcomes[case.name]
        if not outcome.ok:
            wrong.append(f"{case.name}: {outcome.status}")
            continue
        want, got = case.outputs[0], outcome.outputs[0]
        assert got.dtype == want.dtype and got.shape == want.shape, case.name
        differs = np.flatnonzero(want.view(np.uint8) != got.view(np.uint8))
        if len(differs):
            at = differs[0] // want.itemsize
            wrong.append(f"{case.name}: {next(iter(case.inputs.values()))[at]} becomes {got[at]}, not {want[at]} ({len(differs)} differ)")
    assert not wrong, "\n".join(wrong)
    return len(cases)


def test_every_half_becomes_the_nearest_small_float(tmp_path):
    models = {}
    for target, saturate, mode in itertools.product(FLOATS, (0, 1), ("up", "down", "nearest")):
        if target != T.FLOAT8E8M0 and mode != "up":
            continue
        for source in (np.float16, np.float32, np.float64):
            x = ALL_HALVES.astype(source)
            # A cast to float32 or double makes every NaN quiet; signs of NaN are kept where the type has them.
            if target == T.FLOAT8E8M0:
                x = x * source(2.0 ** -110) if source == np.float64 else x
                want = e8m0(x, saturate, mode).view(ml_dtypes.float8_e8m0fnu)
            else:
                want = cast_by_reference(model_of(driver.type_number(x), target, saturate=saturate), x)
                if target in (T.FLOAT6E2M3, T.FLOAT6E3M2, T.FLOAT4E2M1):
                    want = np.where(np.isnan(x), np.array(-0.0, want.dtype), want)  # these have no NaN
            model = model_of(driver.type_number(x), target, saturate=saturate, round_mode=mode)
            name = f"{np.dtype(source)} to {T.DataType.Name(target)} saturate={saturate} {mode}"
            models[name] = (model, {"x": x}, want)
            if target in (T.FLOAT6E2M3, T.FLOAT6E3M2):
                continue  # no type of CastLike
            models[name + " like"] = (model_of(driver.type_number(x), target, like=True, saturate=saturate, round_mode=mode),
                                      {"x": x, "like": np.zeros(1, dtype_of(target))}, want)
    assert run(tmp_path, models) == 2 * 3 * (7 + 3 + 5 + 3)


def test_every_code_has_its_value(tmp_path):
    models = {}
    for source, target in itertools.product(FLOATS + INTEGERS, (T.FLOAT, T.FLOAT16, T.DOUBLE, T.BFLOAT16, T.BOOL)):
        bits = 8 if "FLOAT8" in T.DataType.Name(source) else 6 if "FLOAT6" in T.DataType.Name(source) else 2 if source in (T.UINT2, T.INT2) else 4
        # An odd number of elements: the last byte of a packed type is not full.
        x = np.resize(np.arange(1 << bits, dtype=np.uint8), (1 << bits) * 3 + 1)
        if source in INTEGERS:
            x = np.where(x >= 1 << (bits - 1), x.astype(np.int16) - (1 << bits), x).astype(np.int8) if source in (T.INT4, T.INT2) else x
            x = x.astype(dtype_of(source))
        else:
            x = x.view(dtype_of(source))
        with np.errstate(all="ignore"):
            want = x.astype(np.float32).astype(dtype_of(target))
        keep = ~np.isnan(x.astype(np.float32))  # NaN: the payload is open
        models[f"{T.DataType.Name(source)} to {T.DataType.Name(target)}"] = (model_of(source, target), {"x": x[keep]}, want[keep])
    assert run(tmp_path, models) == 12 * 5


def test_integers_keep_their_low_bits(tmp_path):
    models = {}
    x = np.array([0, 1, -1, 7, 8, -8, -9, 15, 16, 100, -100, 2 ** 62 + 5], np.int64)
    for target in INTEGERS:
        bits = 4 if target in (T.UINT4, T.INT4) else 2
        low = x & ((1 << bits) - 1)
        if target in (T.INT4, T.INT2):
            low = np.where(low >= 1 << (bits - 1), low - (1 << bits), low)
        models[f"int64 to {T.DataType.Name(target)}"] = (model_of(T.INT64, target), {"x": x}, low.astype(dtype_of(target)))
    assert run(tmp_path, models) == 4


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))
