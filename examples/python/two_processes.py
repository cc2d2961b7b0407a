"""A process makes frames, another runs a model on them, and no byte of a frame is copied: two_processes.py MODEL [FRAMES]

The model has one input and one output of float32, whose open dimensions are 1. Both processes map one memfd: the frame lies at
its beginning, the result behind it. A timeline in shared memory orders their work: for frame i the producer signals 2i + 1 when the
frame is written, and the run signals 2i + 2 when the result is.
"""

import os
import subprocess
import sys

import numpy as np
import tenon


def view(fd, shape, offset_bytes=0):
    return tenon.import_memory(fd, shape, np.float32, offset_bytes=offset_bytes, name="frame")


def produce(memory_fd, timeline_fd, frames, frame_shape, result_shape, result_offset):
    """The other process: draws frames and looks at the results."""
    frame = view(memory_fd, frame_shape).numpy()
    result = view(memory_fd, result_shape, result_offset).numpy()
    timeline = tenon.Timeline.open(timeline_fd, "frames")
    for i in range(frames):
        frame[:] = i
        timeline.signal(2 * i + 1)
        timeline.wait(2 * i + 2, timeout=60)
        print(f"frame {i}: the result's largest value is {result.max():.4f}", flush=True)


def main():
    if sys.argv[1:2] == ["--produce"]:
        numbers, shapes = [int(text) for text in sys.argv[2:6]], [[int(n) for n in text.split(",")] for text in sys.argv[6:]]
        memory_fd, timeline_fd, frames, offset = numbers
        produce(memory_fd, timeline_fd, frames, *shapes, offset)
        return
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    session = tenon.InferenceSession(sys.argv[1])
    frames = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    source, target = session.get_inputs()[0], session.get_outputs()[0]
    shape = [dim if isinstance(dim, int) else 1 for dim in source.shape]
    result_shape = list(session.run(None, {source.name: np.zeros(shape, np.float32)})[0].shape)

    # A page for the frame, and the pages behind it for the result.
    frame_bytes, result_bytes = (int(np.prod(dims)) * 4 for dims in (shape, result_shape))
    offset = -(-frame_bytes // 4096) * 4096
    memory_fd = os.memfd_create("frames")
    os.ftruncate(memory_fd, offset + result_bytes)
    timeline = tenon.Timeline("frames")
    binding = session.io_binding()
    binding.bind_ortvalue_input(source.name, view(memory_fd, shape))
    binding.bind_ortvalue_output(target.name, view(memory_fd, result_shape, offset))

    arguments = [memory_fd, timeline.fd, frames, offset, *(",".join(map(str, dims)) for dims in (shape, result_shape))]
    producer = subprocess.Popen([sys.executable, __file__, "--produce", *map(str, arguments)],
                                pass_fds=[memory_fd, timeline.fd])
    copied = 0
    for i in range(frames):
        session.run_with_iobinding(binding, waits=[timeline.fence(2 * i + 1)], signals=[timeline.fence(2 * i + 2)])
        copied += sum(copy.size_bytes for copy in session.last_copies)
    if producer.wait() != 0:
        raise SystemExit("The producer failed.")
    print(f"{frames} frames, {copied} bytes copied")


if __name__ == "__main__":
    main()
