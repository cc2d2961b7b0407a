"""The main job: boxes of `tenon demo` compared with the drawn text, and with ONNX Runtime."""
import json
import os
import re
import signal
import struct
import subprocess
import time
import zlib

import numpy as np
import pytest

TENON = os.environ["TENON_CLI"]
MODEL = os.path.join(os.environ.get("TENON_MODELS", ""), "ppocr_v6_det.onnx")
WIDTH, HEIGHT = 960, 736
MEAN = np.array([0.485, 0.456, 0.406])
DEVIATION = np.array([0.229, 0.224, 0.225])

pytestmark = pytest.mark.skipif(not os.path.exists(MODEL), reason="TENON_MODELS has no ppocr_v6_det.onnx")


def demo(*arguments, env=None, timeout=300):
    return subprocess.run([TENON, "demo", "--model", MODEL, *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **(env or {})}, timeout=timeout)


def demo_json(*arguments):
    done = demo("--json", *arguments)
    if "Vulkan" in done.stderr and done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frames")
    return folder, demo_json("--frames", 6, "--dump", folder, "--png", folder / "frame.png")


def overlap(a, b):
    width = max(0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0, min(a[3], b[3]) - max(a[1], b[1]))
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def find_boxes(scores, threshold=0.3, least=0.6, ratio=1.6):
    """The same rules as the demo's, written again: components by flood fill instead of runs."""
    inside = scores > threshold
    seen = np.zeros_like(inside)
    boxes = []
    for y, x in zip(*np.nonzero(inside)):
        if seen[y, x]:
            continue
        seen[y, x] = True
        todo, x0, y0, x1, y1 = [(y, x)], x, y, x, y
        while todo:
            v, u = todo.pop()
            x0, y0, x1, y1 = min(x0, u), min(y0, v), max(x1, u), max(y1, v)
            for b in range(max(0, v - 1), min(HEIGHT, v + 2)):
                for a in range(max(0, u - 1), min(WIDTH, u + 2)):
                    if inside[b, a] and not seen[b, a]:
                        seen[b, a] = True
                        todo.append((b, a))
        w, h = x1 + 1 - x0, y1 + 1 - y0
        if min(w, h) < 3 or scores[y0:y1 + 1, x0:x1 + 1].mean() < least:
            continue
        grow = w * h * ratio / (2 * (w + h))
        boxes.append((max(0, x0 - grow), max(0, y0 - grow), min(WIDTH, x1 + 1 + grow), min(HEIGHT, y1 + 1 + grow)))
    return sorted(boxes, key=lambda box: (box[1], box[0]))


def read_png(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, packed, size = 8, b"", None
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
            assert body[8:10] == b"\x08\x02"  # 8 bits, RGB
        packed += body if kind == b"IDAT" else b""
        at += length + 12
    width, height = size
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 3 * width)
    image = np.zeros((height + 1, 3 * width), np.int64)
    for y, row in enumerate(rows):
        line, above = row[1:].astype(np.int64), image[y]
        if row[0] == 1:
            line = np.cumsum(line.reshape(-1, 3), 0).reshape(-1)
        elif row[0] == 2:
            line = line + above
        elif row[0] >= 3:
            for i in range(line.size):
                left, up, corner = (line[i - 3] if i > 2 else 0), above[i], (above[i - 3] if i > 2 else 0)
                if row[0] == 3:
                    guess = (left + up) // 2
                else:
                    guess = min((left, up, corner), key=lambda c: abs(left + up - corner - c))
                line[i] = (line[i] + guess) % 256
        image[y + 1] = line % 256
    return image[1:].reshape(height, width, 3)


def test_reports_what_a_reader_needs_and_no_copy(dumped):
    _, report = dumped
    assert report["frames"] == 6
    assert report["bytes_copied"] == 0 and report["copies"] == []
    assert 0 < report["p50_ms"] <= report["p99_ms"]
    assert report["boxes"] >= 6 * 9
    assert report["model"] == MODEL
    assert report["memory"] in ("vulkan_opaque_fd", "mappable_fd")
    assert report["fence"] in ("vulkan_timeline", "shared_timeline")
    assert report["fps"] > 0
    for part in ("wait_ms", "infer_ms", "signal_ms", "postprocess_ms"):
        assert 0 <= report[part]["p50"] <= report[part]["p99"], part


def test_boxes_are_where_the_text_was_drawn(dumped):
    _, report = dumped
    lines = matched = 0
    for frame in report["per_frame"]:
        assert len(frame["expected"]) >= 9
        lines += len(frame["expected"])
        matched += sum(any(overlap(line, box) >= 0.5 for box in frame["found"]) for line in frame["expected"])
    assert matched >= 0.9 * lines
    assert report["lines_expected"] == lines and report["lines_matched"] == matched


def test_frames_differ(dumped):
    _, report = dumped
    places = [tuple(map(tuple, frame["expected"])) for frame in report["per_frame"]]
    assert len(set(places)) == len(places)


def test_maps_and_boxes_are_those_of_onnx_runtime_on_the_same_bytes(dumped):
    ort = pytest.importorskip("onnxruntime")
    folder, report = dumped
    session = ort.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    for frame in report["per_frame"]:
        pixels = np.load(folder / f"{frame['frame']}.input.npy")
        ours = np.load(folder / f"{frame['frame']}.map.npy")
        assert pixels.shape == (1, 3, HEIGHT, WIDTH) and ours.shape == (1, 1, HEIGHT, WIDTH)
        theirs = session.run(None, {name: pixels})[0]
        assert np.abs(ours - theirs).max() <= 1e-3 * np.abs(theirs).max()
        expected = find_boxes(theirs[0, 0])
        assert len(expected) == len(frame["found"])
        for box in expected:
            assert max(overlap(box, found) for found in frame["found"]) >= 0.95


def test_the_picture_shows_the_last_frame_with_its_boxes(dumped):
    folder, report = dumped
    image = read_png(folder / "frame.png")
    assert image.shape == (HEIGHT, WIDTH, 3)
    pixels = np.load(folder / "6.input.npy")[0].transpose(1, 2, 0)
    plain = np.clip(np.rint((pixels * DEVIATION + MEAN) * 255), 0, 255)[:, :, ::-1]
    outline = np.zeros((HEIGHT, WIDTH), bool)
    for x0, y0, x1, y1 in report["per_frame"][-1]["found"]:
        x0, y0, x1, y1 = (int(np.floor(v + 0.5)) for v in (x0, y0, x1, y1))
        outline[y0:y1, x0:x1] = True
        outline[y0 + 2:y1 - 2, x0 + 2:x1 - 2] = False
    assert (image[outline] == (220, 40, 30)).all()
    assert np.abs(image[~outline] - plain[~outline]).max() <= 1


def test_one_process_finds_the_same(dumped):
    _, report = dumped
    inside = demo_json("--frames", 6, "--in-process")
    assert inside["fence"] == "callback_timeline" and inside["bytes_copied"] == 0
    for ours, theirs in zip(inside["per_frame"], report["per_frame"]):
        np.testing.assert_allclose(ours["found"], theirs["found"])


@pytest.mark.parametrize("buffers", [2, 3])
def test_overlapping_frames_stay_apart(dumped, buffers):
    _, report = dumped
    several = demo_json("--frames", 6, "--buffers", buffers)
    assert several["bytes_copied"] == 0
    for ours, theirs in zip(several["per_frame"], report["per_frame"]):
        np.testing.assert_allclose(ours["found"], theirs["found"])


def test_a_late_producer_delays_the_result():
    for attempt in range(5):  # on a busy machine a frame's own time varies by more than the delay
        prompt = demo_json("--frames", 8)
        late = demo_json("--frames", 8, "--delay-ms", 50)
        assert all(frame["wait_ms"] >= 50 for frame in late["per_frame"])
        assert late["p50_ms"] >= 50 and late["match_rate"] >= 0.9
        grown = [min(frame[part] for frame in late["per_frame"][1:]) - min(frame[part] for frame in prompt["per_frame"][1:])
                 for part in ("wait_ms", "run_wait_ms")]
        if all(ms >= 40 for ms in grown):
            return
    pytest.fail(f"With 50 ms of delay the shortest waits grow by {grown} ms.")


@pytest.mark.parametrize("mode", [[], ["--in-process"]])
def test_leaving_out_the_wait_fails(mode):
    done = demo("--frames", 6, "--delay-ms", 50, "--skip-wait", *mode)
    assert done.returncode == 7
    assert "the model did not read the frames" in done.stderr


def gone(pid):
    return not os.path.exists(f"/proc/{pid}")


def test_a_producer_that_dies_between_frames_is_an_error_and_leaves_nothing():
    start = time.monotonic()
    done = demo("--frames", 50, "--kill-producer-at", 4)
    assert time.monotonic() - start < 60
    assert done.returncode == 8
    said = re.search(r"process \((\d+)\) was killed by signal 9", done.stderr)
    assert said and "frame 4" in done.stderr, done.stderr
    assert gone(int(said[1]))
    assert done.stderr.count("\n") == 1


def shared_mappings(pid):
    """Inode -> mapped bytes of the memfds that a process maps shared."""
    found = {}
    for line in open(f"/proc/{pid}/maps"):
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and "memfd" in fields[5] or len(fields) == 6 and "(deleted)" in fields[5]:
            begin, end = (int(part, 16) for part in fields[0].split("-"))
            if fields[1].endswith("s"):
                found[fields[4]] = max(found.get(fields[4], 0), end - begin)
    return found


def children_of(pid):
    return [int(child) for child in open(f"/proc/{pid}/task/{pid}/children").read().split()]


@pytest.fixture
def running():
    """A demo that goes on until the test ends, and its Vulkan side's process."""
    process = subprocess.Popen([TENON, "demo", "--model", MODEL, "--frames", "100000"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            children = children_of(process.pid) if process.poll() is None else []
            if children and len(shared_mappings(process.pid)) >= 2:
                break
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        yield process, children[0]
    finally:
        process.kill()
        process.wait()


# S6.2: the frame and the map are the same pages in both processes.
def test_both_processes_map_the_same_pages(running):
    process, child = running
    ours, theirs = shared_mappings(process.pid), shared_mappings(child)
    both = sorted(ours[inode] for inode in ours.keys() & theirs.keys())
    assert any(WIDTH * HEIGHT * 12 <= size < WIDTH * HEIGHT * 12 + 65536 for size in both), both
    assert any(WIDTH * HEIGHT * 4 <= size < WIDTH * HEIGHT * 4 + 65536 for size in both), both


def test_killing_the_tenon_side_ends_the_vulkan_side(running):
    process, child = running
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 10
    while not gone(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    # Where nobody reaps orphans, a dead process stays in the table as a zombie.
    assert gone(child) or open(f"/proc/{child}/stat").read().rsplit(")", 1)[1].split()[0] == "Z"


def test_killing_the_vulkan_side_ends_the_demo(running):
    process, child = running
    os.kill(child, signal.SIGKILL)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 8
    assert "killed by signal 9" in errors


def test_without_a_vulkan_device_it_says_so():
    nowhere = {"VK_DRIVER_FILES": "/nonexistent/driver.json", "VK_ICD_FILENAMES": "/nonexistent/driver.json"}
    for mode in ([], ["--in-process"]):
        done = demo("--frames", 2, *mode, env=nowhere)
        assert done.returncode == 3, done.stderr
        assert "Vulkan" in done.stderr and done.stderr.count("\n") == 1


def test_an_unknown_device_is_refused_with_the_known_names():
    done = demo("--frames", 2, "--vulkan-device", "no such device")
    assert done.returncode == 3
    assert 'named "no such device"' in done.stderr


def test_a_missing_model_is_named():
    done = subprocess.run([TENON, "demo", "--model", "/nonexistent/model.onnx", "--frames", "2"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 4
    assert "/nonexistent/model.onnx" in done.stderr


def test_a_picture_that_cannot_be_written_is_an_error():
    done = demo("--frames", 2, "--png", "/nonexistent/folder/frame.png")
    assert done.returncode == 4
    assert "/nonexistent/folder/frame.png" in done.stderr
