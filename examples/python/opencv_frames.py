"""Runs a model of pictures on the frames of a video: opencv_frames.py MODEL [VIDEO] [--frames N]

The model takes one float32 picture, [1, 3, height, width], with values from 0 to 1. Without VIDEO (a file, or the number of a
camera) frames are drawn. Each frame is scaled straight into the array that the session's input is bound to, and each run writes
the same output arrays: nothing is allocated for a frame, and the run copies nothing.
"""

import argparse
import time

import cv2
import numpy as np
import tenon


def drawn_frames(width=640, height=480):
    """Pictures of a moving disc, without end."""
    step = 0
    while True:
        frame = np.zeros((height, width, 3), np.uint8)
        cv2.circle(frame, (step * 7 % width, height // 2), 60, (40, 160, 220), -1)
        yield frame
        step += 1


def video_frames(source):
    capture = cv2.VideoCapture(int(source) if source.isdigit() else source)
    if not capture.isOpened():
        raise SystemExit(f"OpenCV cannot open {source}.")
    while True:
        there, frame = capture.read()
        if not there:
            return
        yield frame


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("video", nargs="?")
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--size", type=int, nargs=2, default=[320, 320], metavar=("HEIGHT", "WIDTH"),
                        help="of the picture, where the model leaves it open")
    arguments = parser.parse_args()
    session = tenon.InferenceSession(arguments.model)
    info = session.get_inputs()[0]
    height, width = [dim if isinstance(dim, int) else size for dim, size in zip(info.shape[2:], arguments.size)]

    picture = np.zeros((1, 3, height, width), np.float32)
    small = np.empty((height, width, 3), np.uint8)
    outputs = session.run(None, {info.name: picture})
    binding = session.io_binding()
    binding.bind_cpu_input(info.name, picture)
    for output, array in zip(session.get_outputs(), outputs):
        binding.bind_ortvalue_output(output.name, tenon.import_memory(array))

    frames = video_frames(arguments.video) if arguments.video else drawn_frames()
    count, copied, begin = 0, 0, time.perf_counter()
    for frame in frames:
        cv2.resize(frame, (width, height), dst=small)
        # From rows of BGR bytes to planes of RGB floats, in the bound array.
        np.multiply(small[:, :, ::-1].transpose(2, 0, 1), np.float32(1 / 255), out=picture[0])
        session.run_with_iobinding(binding)
        copied += sum(copy.size_bytes for copy in session.last_copies)
        count += 1
        if count == arguments.frames:
            break
    seconds = time.perf_counter() - begin
    print(f"{count} frames, {count / seconds:.1f} a second, {copied} bytes copied; the last one's largest value is {outputs[0].max():.4f}")


if __name__ == "__main__":
    main()
