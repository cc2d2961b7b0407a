"""Runs a model on torch tensors, in and out without a copy: torch_tensors.py MODEL

The model has inputs of float32, whose unnamed and open dimensions are 1. DLPack carries the tensors: the run reads the memory of
the input tensors and writes that of the output tensors, which torch then goes on with.
"""

import sys

import tenon
import torch


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    session = tenon.InferenceSession(sys.argv[1])
    tensors = {
        info.name: torch.randn([dim if isinstance(dim, int) else 1 for dim in info.shape]) for info in session.get_inputs()
    }

    # From torch: an OrtValue over the tensor's memory.
    values = {name: tenon.OrtValue.from_dlpack(tensor) for name, tensor in tensors.items()}
    assert all(values[name].data_ptr() == tensor.data_ptr() for name, tensor in tensors.items())

    # To torch: a tensor over the memory that the run wrote.
    results = [torch.from_dlpack(value) for value in session.run_with_ort_values(None, values)]
    first = results[0].clone()

    # Or into tensors that are there already: bound once, written by each run.
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    targets = [torch.empty_like(result) for result in results]
    for info, target in zip(session.get_outputs(), targets):
        binding.bind_ortvalue_output(info.name, tenon.OrtValue.from_dlpack(target))
    session.run_with_iobinding(binding)
    assert torch.equal(targets[0], first)

    # The binding sees what torch writes.
    for tensor in tensors.values():
        tensor.mul_(0.5)
    session.run_with_iobinding(binding)
    changed = not torch.equal(targets[0], first)
    copied = sum(copy.size_bytes for copy in session.last_copies)
    print(f"{list(targets[0].shape)}, changed with its input: {changed}, {copied} bytes copied")


if __name__ == "__main__":
    main()
