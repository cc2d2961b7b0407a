"""The functions of the C ABI that answer 'not implemented' equal a list, and each function takes nulls.

    python tests/abi/slots_test.py --shrink    takes what is implemented by now out of not_implemented.txt
"""
import csv
import os
import pathlib
import re
import runpy
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
LIST = HERE / "not_implemented.txt"
USED = HERE.parents[1] / "tools" / "abi" / "used.csv"
PROGRAM = os.environ.get("TENON_NULL_ARGUMENTS", "")
FOUND = os.environ.get("TENON_FOUND_SLOTS", "")
NAMESPACES = runpy.run_path(str(HERE.parents[1] / "tools" / "generate_abi.py"))["SERVED"]


def all_slots():
    return re.findall(r"TENON_SLOT\((\w+), (\w+)\)", (HERE / "all_slots.inc").read_text())


def not_implemented():
    found = set(pathlib.Path(FOUND).read_text().split())
    return [f"{table}.{name}" for table, name in all_slots() if f"TENON_SLOT_{NAMESPACES[table]}_{name}" not in found]


def listed():
    return [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def answers():
    done = subprocess.run([PROGRAM], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert len(rows) == len(all_slots())
    return rows


def test_no_function_minds_nulls(answers):
    """Misuse that crashes the reference gives a status here."""
    died = {name: answer for name, answer in answers.items() if answer.startswith(("signal", "exit"))}
    assert died == {}


def called_by_programs():
    with open(USED, newline="", encoding="utf-8") as file:
        return {f"{row['table']}.{row['name']}" for row in csv.DictReader(file)
                if row["table"] in NAMESPACES and int(row["programs_calling"]) > 0}


def test_the_list_of_missing_functions_only_shrinks(answers):
    missing = not_implemented()
    called = called_by_programs()
    print(f"{len(missing)} of {len(all_slots())} functions answer 'not implemented', "
          f"{len(called & set(missing))} of the {len(called)} that real programs call")
    assert sorted(set(missing) - set(listed())) == [], "these have gone missing"
    assert sorted(set(listed()) - set(missing)) == [], "implemented: take them out (slots_test.py --shrink)"


def test_what_is_missing_says_so(answers):
    """A stub names itself, and nothing else claims to be one."""
    says = {name for name, answer in answers.items() if answer == f"code 9: not implemented: {name.split('.')[1]}"}
    silent = {name for name in not_implemented() if answers[name] == "returned"}
    assert says | silent == set(not_implemented())


if __name__ == "__main__":
    if "--shrink" in sys.argv:
        head = [line for line in LIST.read_text().splitlines() if line.startswith("#")]
        LIST.write_text("\n".join(head + [name for name in listed() if name in set(not_implemented())]) + "\n")
        raise SystemExit(0)
    raise SystemExit(pytest.main([__file__, "-q"]))
