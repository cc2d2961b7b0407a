"""Every message here is read as a diff: messages.txt has commands that fail, and what the command line answers.

A line that begins with `$ ` is a command, in bash; the lines after it are its output, both streams as they come, and the
exit code in brackets. A new case is a new command: the test fails, and writes the text that it found to its working
directory. Read it, then move it here. $SIM and $BAD are the simulated EP's library and the one that breaks the ABI
(tests/plugins_host/bad_plugin.cc), which TENON_CLI's neighbours are.
"""
import difflib
import os
import pathlib
import re
import subprocess

import messages_models
import pytest

EXPECTED = pathlib.Path(__file__).with_name("messages.txt")
TENON, SIM, BAD = (pathlib.Path(os.environ[name]) for name in ("TENON_CLI", "TENON_SIM_PLUGIN", "TENON_BAD_LIBRARY"))


def refreshed(text, folder):
    """The text with every command's answer anew; headings and blank lines stay."""
    kept, lines = [], text.splitlines()
    while lines:
        line = lines.pop(0)
        if not line.startswith("$ "):
            kept.append(line)
            continue
        kept.append(answer(line[2:], folder))
        # The answer that was here before ends with its exit code; a new command has none yet.
        end = next((i for i, old in enumerate(lines) if old.startswith("$ ") or re.fullmatch(r"\[\d+\]", old)), len(lines))
        if end < len(lines) and not lines[end].startswith("$ "):
            del lines[:end + 1]
    return "\n".join(kept) + "\n"


def answer(command, folder):
    done = subprocess.run(["bash", "-c", command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                          env={"PATH": f"{TENON.parent}:/usr/bin:/bin", "SIM": str(SIM), "BAD": str(BAD), "LC_ALL": "C"})
    text = done.stdout.decode(errors="backslashreplace")
    for path, name in ((SIM, "$SIM"), (BAD, "$BAD"), (folder, "$PWD"), (SIM.parent, "$LIB")):
        text = text.replace(str(path), name)
    text = re.sub(r"BadEp_\d+_", "BadEp_N_", text)  # the host's number of the model
    text = re.sub(r"^\d+\.\d us, ", "N us, ", text, flags=re.M)  # the time of a run
    return f"$ {command}\n{text}[{done.returncode}]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("messages")
    messages_models.write(made)
    return made


def test_the_messages_are_those_that_were_read(folder):
    expected = EXPECTED.read_text()
    found = refreshed(expected, folder)
    if found == expected:
        return
    written = pathlib.Path("messages.txt").resolve()
    written.write_text(found)
    lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), "messages.txt", "found", lineterm="", n=1)
    pytest.fail("\n".join(lines) + f"\nThe text that was found is in {written}.")


def test_no_message_speaks_of_a_defect_of_tenon():
    expected = EXPECTED.read_text()
    assert len(re.findall(r"^tenon: ", expected, re.M)) >= 60
    assert not re.search(r"^\[(1|10|13\d)\]$", expected, re.M)  # crashes, defects
