"""The installed tree and the Debian package: all that belongs there is there, says the same version, and runs by itself.

TENON_SOURCE and TENON_BUILD are the repository and a build of it; TENON_CMAKE and TENON_CPACK the tools that made it.
"""
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

SOURCE, BUILD = (pathlib.Path(os.environ[name]) for name in ("TENON_SOURCE", "TENON_BUILD"))
VERSION = re.search(r"^project\(Tenon VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text(), re.M)[1]
# No variable of the caller's, so that nothing but the tree itself can be found.
BARE = {"PATH": "/usr/bin:/bin"}


def output(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def one(folder, pattern):
    found = sorted(folder.rglob(pattern))
    assert len(found) == 1, f"{pattern}: {found}"
    return found[0]


def plugins_of(tree):
    return sorted(tree.rglob("libtenon_ep_*.so"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """All components, in a folder that is not the one they were installed to."""
    folder = tmp_path_factory.mktemp("install")
    output(os.environ["TENON_CMAKE"], "--install", BUILD, "--prefix", folder / "first")
    return (folder / "first").rename(folder / "moved")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    if shutil.which("dpkg-shlibdeps") is None or shutil.which("file") is None:
        pytest.skip("dpkg-dev or file is not installed")
    folder = tmp_path_factory.mktemp("package")
    output(os.environ["TENON_CPACK"], "--config", BUILD / "CPackConfig.cmake", "-B", folder,
           "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", cwd=BUILD)
    (path,) = folder.glob("*.deb")
    return path


@pytest.fixture(scope="module")
def unpacked(package, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    output("dpkg-deb", "-x", package, folder)
    return folder / "usr"


@pytest.fixture(params=["installed", "unpacked"])
def tree(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    output(sys.executable, SOURCE / "tests/api/make_model.py", path)
    return path


def man_page(tree):
    page = one(tree / "share/man/man1", "tenon.1*")
    return gzip.decompress(page.read_bytes()).decode() if page.suffix == ".gz" else page.read_text()


def test_the_program_runs_a_model_from_its_own_folder(tree, model, tmp_path):
    out = tmp_path / "out"
    output(tree / "bin/tenon", "run", model, "--random", "--dim", "batch=2", "--output-dir", out, env=BARE, cwd=tmp_path)
    listed = json.loads((out / "outputs.json").read_text())
    assert [entry["shape"] for entry in listed] == [[2, 2, 8, 8]]


def test_plugins_load_and_run(tree, model, tmp_path):
    plugins = plugins_of(tree)
    built = {f"libtenon_ep_{name}.so" for name in ("sim", "cuda") if (BUILD / f"lib/libtenon_ep_{name}.so").exists()}
    assert {path.name for path in plugins} == built and "libtenon_ep_sim.so" in built
    output(tree / "bin/tenon", "run", model, "--random", "--dim", "batch=2", "--plugin",
           f"sim={one(tree, 'libtenon_ep_sim.so')}", "--ep", "TenonSimExecutionProvider", env=BARE, cwd=tmp_path)


def test_the_demo_looks_for_the_cuda_plugin_where_it_is_installed(tree, tmp_path):
    folder = one(tree, "libtenon_ep_sim.so").parent
    done = subprocess.run([tree / "bin/tenon", "demo", "--device", "cuda", "--in-process", "--model", "none.onnx"],
                          capture_output=True, text=True, env=BARE, cwd=tmp_path)
    assert done.returncode != 0
    if not (folder / "libtenon_ep_cuda.so").exists():
        assert os.path.relpath(folder, tree / "bin") in done.stderr


def pkg_config(tree, *words):
    return output("pkg-config", *words, "tenon", env={**BARE, "PKG_CONFIG_PATH": str(one(tree, "tenon.pc").parent)}).split()


def syntax(tree, source, *flags):
    """The compiler's words about a program with pkg-config's flags; empty when it has none."""
    compiler = os.environ.get("TENON_CXX_COMPILER", "c++")
    done = subprocess.run([compiler, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *pkg_config(tree, "--cflags"), *flags,
                           "-x", "c++", "-"], input=source, capture_output=True, text=True, timeout=300)
    assert (done.returncode == 0) == (done.stderr == ""), done.stderr
    return done.stderr


def test_pkg_config_leaves_the_standard_to_the_program(tree):
    assert [flag for flag in pkg_config(tree, "--cflags", "--libs") if "std" in flag] == []
    program = "".join(f"#include <tenon/{path.name}>\n" for path in sorted((tree / "include/tenon").glob("*.h")))
    newer = "static_assert(__cplusplus > 202002L);\n"
    assert syntax(tree, program, "-std=c++20") == ""
    assert syntax(tree, program + newer, "-std=c++23") == ""
    assert "static assertion failed" in syntax(tree, program + newer, "-std=c++20")


def test_an_older_standard_is_said_in_the_first_message(tree):
    first = re.search(r"error: (.*)", syntax(tree, "#include <tenon/session.h>\n", "-std=c++17"))[1]
    assert "compile with -std=c++20" in first


def test_libraries_and_programs_name_no_folder_of_the_build(tree):
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            assert str(SOURCE).encode() not in data and str(BUILD).encode() not in data, path


def test_licences_are_there(installed, unpacked):
    for name in ("LICENSE", "NOTICE"):
        assert one(installed, name).read_text() == (SOURCE / name).read_text()
    together = one(unpacked / "share/doc", "copyright").read_text()
    assert (SOURCE / "LICENSE").read_text() in together and (SOURCE / "NOTICE").read_text() in together


def test_the_notice_names_each_generated_file():
    notice = (SOURCE / "NOTICE").read_text()
    generated = [path.relative_to(SOURCE).as_posix() for folder in ("include", "src", "tests")
                 for path in (SOURCE / folder).rglob("*") if path.suffix in (".h", ".cc", ".inc") and
                 re.search(r"Generated by tools/generate", path.read_text()[:400])]
    assert len(generated) > 5
    assert [name for name in generated if name not in notice] == []


def test_the_manual_page_names_each_command(tree):
    help_text = output(tree / "bin/tenon", "--help", env=BARE)
    commands = re.findall(r"^  (\w+) ", help_text.split("Subcommands:")[1], re.M)
    assert {"run", "explain", "demo"} <= set(commands)
    page = man_page(tree)
    for command in commands:
        assert f".SS tenon {command}\n" in page
        for option in re.findall(r"^  (--[\w-]+)", output(tree / "bin/tenon", command, "--help", env=BARE), re.M):
            section = page.split(f".SS tenon {command}\n")[1].split("\n.SS ")[0]
            assert option.replace("-", "\\-") in section, (command, option)


def test_the_version_is_one_fact(tree, model, tmp_path):
    assert output(tree / "bin/tenon", "--version", env=BARE).strip() == VERSION
    assert f'"Tenon {VERSION}"' in man_page(tree)
    config = one(tree, "TenonConfigVersion.cmake").read_text()
    assert re.search(r'^set\(PACKAGE_VERSION "(.*)"\)', config, re.M)[1] == VERSION
    assert f"\nVersion: {VERSION}\n" in one(tree, "tenon.pc").read_text()
    names = {path.name for path in tree.rglob("libtenon.so*")}
    assert names == {"libtenon.so", f"libtenon.so.{VERSION.split('.')[0]}", f"libtenon.so.{VERSION}"}
    sim = one(tree, "libtenon_ep_sim.so")
    devices = json.loads(output(tree / "bin/tenon", "devices", "--json", "--plugin", f"sim={sim}", env=BARE))
    assert {device["ep_version"] for device in devices if device["library"] == "sim"} == {VERSION}


def test_the_changelog_begins_with_the_version():
    assert re.search(r"^## (\S+)", (SOURCE / "CHANGELOG.md").read_text(), re.M)[1] == VERSION


def test_no_source_repeats_the_version():
    repeats = [f"{path.relative_to(SOURCE)}:{number}" for folder in ("include", "src", "cli", "demo", "examples", "cmake")
               for path in sorted((SOURCE / folder).rglob("*")) if path.is_file() and path.suffix != ".inc"
               for number, line in enumerate(path.read_text().splitlines(), 1)
               if re.search(rf"(?<![\d.]){re.escape(VERSION)}(?![\d.])", line)]
    assert repeats == []


def test_the_package_says_what_it_needs(package):
    control = output("dpkg-deb", "-f", package)
    fields = dict(re.findall(r"^(\S+): (.*)", control, re.M))
    assert fields["Package"] == "tenon" and fields["Version"] == VERSION
    depends = re.findall(r"(?:^|, )([^ ,]+)", fields["Depends"])
    assert {"libc6", "libgcc-s1", "libstdc++6"} <= set(depends)
    assert [name for name in depends if name.endswith("-dev") or "cuda" in name or "nvidia" in name] == []


def test_the_packages_files_are_roots_and_below_usr(package):
    for line in output("dpkg-deb", "-c", package).splitlines():
        mode, owner, _, _, _, name = line.split(None, 5)
        assert owner == "root/root" and name.startswith("./"), line
        assert name == "./" or name.startswith("./usr/"), line
        assert mode[0] == "l" or mode in ("drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x"), line
        assert mode != "-rwxr-xr-x" or "/bin/" in name, line


def test_nothing_in_the_package_is_looked_for_elsewhere(unpacked):
    for path in unpacked.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.read_bytes()[:4] != b"\x7fELF":
            continue
        for folders in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", output("readelf", "-d", path)):
            assert all(folder.startswith("$ORIGIN") for folder in folders.split(":")), (path, folders)
