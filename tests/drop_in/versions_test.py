"""libonnxruntime.so.1, the build in ONNX Runtime's place: programs that are linked with any release start on it in silence.

TENON_ONNXRUNTIME is that library, TENON_LIBRARY libtenon, TENON_RELEASES src/drop_in/releases.csv.
"""
import csv
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import stock

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = pathlib.Path(os.environ["TENON_ONNXRUNTIME"])
FUNCTIONS = {"OrtGetApiBase", "OrtSessionOptionsAppendExecutionProvider_CPU"}
STOCK = stock.libraries()


def output(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def link(folder, library):
    """The program, linked with `library`; it finds libonnxruntime.so.1 in the folder "lib" beside it."""
    program = folder / "program"
    subprocess.run(["cc", str(HERE / "linked.c"), "-I", str(HERE.parents[1] / "include"), str(library), "-o", str(program),
                    "-Wl,-rpath,$ORIGIN/lib", "-Wl,--allow-shlib-undefined"], check=True)
    (folder / "lib").mkdir()
    return program


def run_with(program, library):
    target = program.parent / "lib" / "libonnxruntime.so.1"
    target.unlink(missing_ok=True)
    shutil.copy(library, target)
    return subprocess.run([str(program)], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("version", sorted(STOCK))
def test_a_program_linked_with_a_stock_release_runs_in_silence(version, tmp_path):
    program = link(tmp_path, STOCK[version])
    assert f"VERS_{version}" in output("readelf", "-V", program)
    done = run_with(program, LIBRARY)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1.32.0 1\n", "")
    # Without version nodes the loader complains: the check above can fail.
    done = run_with(program, os.environ["TENON_LIBRARY"])
    assert done.stdout == "1.32.0 1\n" and "no version information available" in done.stderr


def test_a_program_linked_with_the_library_itself_runs_on_it_and_on_stock(tmp_path):
    program = link(tmp_path, LIBRARY)
    assert "VERS_1.32.0" in output("readelf", "-V", program)
    done = run_with(program, LIBRARY)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1.32.0 1\n", "")
    done = run_with(program, stock.library())
    assert done.returncode == 0 and re.fullmatch(r"1\.32\.\d+ 1\n", done.stdout), done.stderr


def test_soname_and_exports():
    """The two functions, under every node, and nothing else of anybody's."""
    assert "soname: [libonnxruntime.so.1]" in output("readelf", "-d", LIBRARY)
    shown = [line.split()[7] for line in output("readelf", "--dyn-syms", "--wide", LIBRARY).splitlines()
             if len(line.split()) > 7 and line.split()[4] == "GLOBAL" and line.split()[6] not in ("UND", "Ndx")]
    with open(os.environ["TENON_RELEASES"], newline="", encoding="utf-8") as file:
        releases = {f"1.{row['minor']}.{patch}" for row in csv.DictReader(file)
                    for patch in range(int(row["last_patch"]) + 1)}
    assert {"1.1.0", "1.21.0", "1.23.2", "1.28.2", "1.32.0"} <= releases
    wanted = {f"{name}@{'@' if version == '1.32.0' else ''}VERS_{version}" for name in FUNCTIONS for version in releases}
    assert {name for name in shown if not name.startswith("VERS_")} == wanted
    assert {name for name in shown if name.startswith("VERS_")} == {f"VERS_{version}" for version in releases}


def test_every_minor_release_up_to_the_api_version_has_nodes():
    with open(os.environ["TENON_RELEASES"], newline="", encoding="utf-8") as file:
        assert [int(row["minor"]) for row in csv.DictReader(file)] == list(range(1, stock.API_VERSION + 1))


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
