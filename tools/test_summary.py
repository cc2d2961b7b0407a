"""Adds up the JUnit files that a test run left, and prints one closing line: `N passed, N failed, N skipped`.

Each folder holds ctest.junit (one case for each ctest entry) and *.xml from GoogleTest and pytest, which count finer.
A ctest entry that failed without a failed case of its own (a crash, a time-out) still counts as a failure.
"""
import pathlib
import sys
import xml.etree.ElementTree as ET


def cases(path):
    for case in ET.parse(path).getroot().iter("testcase"):
        failed = case.find("failure") is not None or case.find("error") is not None
        skipped = case.find("skipped") is not None or case.get("result") == "skipped" or case.get("status") == "disabled"
        yield case.get("name"), "failed" if failed else "skipped" if skipped else "passed"


def summarise(folder):
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for path in sorted(folder.glob("*.xml")):
        try:
            for _, outcome in cases(path):
                count[outcome] += 1
        except ET.ParseError:
            print(f"{path.name}: not readable (the test died while writing it)")
            count["failed"] += 1
    entries = list(cases(folder / "ctest.junit"))
    broken = [name for name, outcome in entries if outcome == "failed"]
    count["failed"] = max(count["failed"], len(broken))
    if not entries:
        print(f"{folder.name}: ctest ran nothing")
        count["failed"] += 1
    for name in broken:
        print(f"{folder.name}: {name} failed")
    return count


def main():
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for argument in sys.argv[1:]:
        folder = pathlib.Path(argument)
        if not (folder / "ctest.junit").exists():
            print(f"{folder}: no results")
            total["failed"] += 1
            continue
        for outcome, number in summarise(folder).items():
            total[outcome] += number
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
