"""Runs a model on random numbers, with inputs and outputs in arrays of the program: run_model.py MODEL [DIM=N]...

Names of dimensions that no DIM=N fixes are 1. Prints each output, the time of a run, and the copies of the last one.
"""

import sys
import time

import numpy as np
import tenon


def random_inputs(session, dims):
    """An array for each input: whole numbers are 0 and 1, so that they are valid as indices, too."""
    generator = np.random.default_rng(0)
    inputs = {}
    for info in session.get_inputs():
        dtype = tenon.OrtValue.ortvalue_from_shape_and_type([1], NUMPY[info.type]).numpy().dtype
        shape = [dim if isinstance(dim, int) else dims.get(dim, 1) for dim in info.shape]
        numbers = generator.standard_normal(shape) if dtype.kind == "f" else generator.integers(0, 2, shape)
        inputs[info.name] = np.asarray(numbers).astype(dtype)
    return inputs


NUMPY = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(bool)": np.bool_,
    **{f"tensor({kind}{bits})": np.dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    dims = {name: int(value) for name, value in (argument.split("=") for argument in sys.argv[2:])}
    session = tenon.InferenceSession(sys.argv[1])
    inputs = random_inputs(session, dims)

    # The first run says which shapes the outputs have; later ones write into these arrays.
    outputs = dict(zip((info.name for info in session.get_outputs()), session.run(None, inputs)))
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for name, array in outputs.items():
        binding.bind_ortvalue_output(name, tenon.import_memory(array))

    times = []
    for _ in range(10):
        begin = time.perf_counter()
        session.run_with_iobinding(binding)
        times.append(time.perf_counter() - begin)
    for name, array in outputs.items():
        print(f"{name}: {array.dtype}{list(array.shape)}, the largest is {array.max()}")
    print(f"{sorted(times)[len(times) // 2] * 1e3:.2f} ms a run; {sum(copy.size_bytes for copy in session.last_copies)} bytes copied")


if __name__ == "__main__":
    main()
