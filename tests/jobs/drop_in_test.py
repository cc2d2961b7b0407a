"""The job: a program that was built for ONNX Runtime runs on Tenon. docs/how-to/drop-in.md."""
import os
import pathlib
import re
import shutil

import pytest
import stock

PROGRAM = pathlib.Path(__file__).with_name("drop_in_program.c")


@pytest.fixture
def library(desk):
    """The drop-in library, alone in a folder: it needs nothing else of the tree."""
    (found,) = desk.tree.rglob("onnxruntime/libonnxruntime.so.1")
    folder = desk.folder / "package"
    folder.mkdir()
    shutil.copy(found, folder)
    assert (found.parent / "libonnxruntime.so").exists()
    return folder


def linked(desk, folder, name):
    """The program, linked with the library of that name and without a run path."""
    desk.output(os.environ["TENON_C_COMPILER"], "-O1", "-Wall", "-Wextra", "-Werror", PROGRAM,
                f"-I{desk.tree / 'include/tenon'}", f"-L{folder}", f"-l:{name}", "-o", desk.folder / "program")
    return desk.folder / "program"


def sum_of(said):
    return float(re.fullmatch(r"sum (\S+)\n", said)[1])


def test_a_program_built_for_stock_onnxruntime_gives_the_same_answer(desk, library, model, reference):
    stock_folder = reference.parent
    program = linked(desk, stock_folder, reference.name)
    (name,) = re.findall(r"NEEDED.*\[(libonnxruntime[^]]*)\]", desk.output("readelf", "-d", program))
    assert name == "libonnxruntime.so.1"
    links = desk.folder / "stock"
    links.mkdir()
    (links / name).symlink_to(reference)
    theirs = desk.output(program, model, LD_LIBRARY_PATH=str(links), ORT_DISABLE_TELEMETRY="1")
    done = desk.call(program, model, LD_LIBRARY_PATH=str(library))
    assert done.returncode == 0 and done.stderr == ""  # no line of the loader about versions either
    assert sum_of(done.stdout) == pytest.approx(sum_of(theirs), rel=1e-5)


def test_a_program_may_be_linked_with_the_drop_in_itself(desk, library, model):
    program = linked(desk, library, "libonnxruntime.so.1")
    assert desk.call(program, model).returncode != 0  # found nowhere: the test would not see the tree's library otherwise
    assert sum_of(desk.output(program, model, LD_LIBRARY_PATH=str(library))) > 0


def test_in_the_place_of_a_packages_file(desk, library, model):
    program = linked(desk, library, "libonnxruntime.so.1")
    package = desk.folder / "package/lib"
    package.mkdir()
    shutil.copy(library / "libonnxruntime.so.1", package / "libonnxruntime.so.1.28.0")
    (package / "libonnxruntime.so.1").symlink_to("libonnxruntime.so.1.28.0")
    assert sum_of(desk.output(program, model, LD_LIBRARY_PATH=str(package))) > 0


def test_errors_reach_the_program_with_their_codes(desk, library, model):
    program = linked(desk, library, "libonnxruntime.so.1")
    done = desk.call(program, "none.onnx", LD_LIBRARY_PATH=str(library))
    assert done.returncode == 1 and re.match(r"program: 3 .*none\.onnx", done.stderr)  # ORT_NO_SUCHFILE
    model.write_bytes(model.read_bytes()[:-20])
    done = desk.call(program, model, LD_LIBRARY_PATH=str(library))
    assert done.returncode == 1 and re.match(r"program: 7 .*small\.onnx", done.stderr)  # ORT_INVALID_PROTOBUF
