"""The checked-in files equal the output of tools/generate_abi.py, and the generator's checks of its tables work."""
import importlib.util
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "tools" / "generate_abi.py"


def generator():
    spec = importlib.util.spec_from_file_location("generate_abi", GENERATOR)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_checked_in_files_equal_the_generators_output():
    done = subprocess.run([sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_older_versions_layout_is_a_prefix():
    """Cutting a table at a version gives the first members, each where it was, for every version from 1 on."""
    module = generator()
    for name, rows in module.Abi().tables.items():
        for version in range(1, module.API_VERSION):
            kept = [row for row in rows if int(row["since"]) <= version]
            assert kept == rows[:len(kept)], (name, version)
        offsets = [int(row["offset"]) for row in rows]
        assert offsets == sorted(set(offsets)), name


@pytest.mark.parametrize("change, complaint", [
    (("since", 5, "99"), "older"),
    (("slot", 3, "7"), "slots are not"),
])
def test_a_table_that_breaks_its_past_is_refused(monkeypatch, change, complaint):
    module = generator()
    read = module.rows_of

    def changed(name):
        rows = read(name)
        if name == "ort_abi":
            key, index, value = change
            rows[index][key] = value
        return rows

    monkeypatch.setattr(module, "rows_of", changed)
    with pytest.raises(AssertionError, match=complaint):
        module.Abi()


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
