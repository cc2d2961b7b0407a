"""Code in the documentation compiles: fenced ```cpp and ```c blocks of the pages, and the examples in the comments at the
top of public headers (lines that are indented by three blanks). A block that defines main or a function that returns a
Result is a whole file. Any other block is the body of a function: C_PROGRAM and GIVEN declare what it uses.
"""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILERS = {"c": os.environ.get("TENON_C_COMPILER", "cc"), "cpp": os.environ.get("TENON_CXX_COMPILER", "c++")}
FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", "-Wno-unused-but-set-variable",
         "-Wno-unused-parameter", "-Wno-unused-function", f"-I{ROOT / 'include'}"]
STANDARD = {"c": "-std=c99", "cpp": "-std=c++20"}
HEADERS = {
    "c": ["onnxruntime_c_api.h", "copy_ledger_api.h", "external_handles.h", "timeline_api.h"],
    "cpp": ["session.h", "importer.h", "thread_pool.h", "log.h", "dlpack.h", "kernel_stream.h", "plan_report.h",
            "model_summary.h", "node_values.h", "object.h", "machine_peaks.h", "try.h"],
}
# What fragments use: those in C, and those of a file in C++.
C_PROGRAM = """
static const OrtApi* ort; static OrtSession* session; static OrtSessionOptions* session_options;
static OrtRunOptions* run_options; static TenonCopyLedger* ledger; static const TenonCopyRecord* records;
static size_t count; static const char *input_names[1], *output_names[1]; static const OrtValue* inputs[1];
static OrtValue* outputs[1]; static const TenonTimelineApi* timelines; static TenonTimeline* timeline; static int32_t fd;
static OrtSyncStream* stream;
#include <stdio.h>
"""
CPP_RUN = """
std::shared_ptr<tenon::Session> session; tenon::Binding& binding = *static_cast<tenon::Binding*>(nullptr);
tenon::Tensor x, y; tenon::Fence ready, done; size_t size_bytes;
"""
GIVEN = {
    "README.md": "int fd; size_t bytes; tenon::Fence ready, done; int fail(const tenon::Status&);",
    "include/tenon/importer.h": CPP_RUN + "tenon::OwnedHandle fd, semaphore;",
    "include/tenon/kernel_stream.h": """
const OrtApi* api; uint32_t api_version; OrtKernelContext* context; using cudaStream_t = struct CUstream_st*;
void launch(cudaStream_t);
""",
    "docs/how-to/debugging.md": "#include <tenon/node_values.h>\n#include <tenon/session.h>\n#include <tenon/try.h>\n"
                                "#include <cstdio>",
    "include/tenon/node_values.h": CPP_RUN,
    "include/tenon/object.h": CPP_RUN,
    "include/tenon/plan_report.h": CPP_RUN,
    "include/tenon/session.h": CPP_RUN,
    "include/tenon/try.h": "#include <tenon/session.h>\n#include <tenon/try.h>",
}
RETURNS = {"README.md": "int", "include/tenon/kernel_stream.h": "OrtStatus*"}


class Snippet:
    def __init__(self, file, line, language, code):
        self.file, self.line, self.language, self.code = file, line, language, code

    def is_whole_file(self):
        return bool(re.search(r"^(int main\(|struct OrtStatus|namespace |tenon::Result<)", self.code, flags=re.M))

    def source(self):
        """The translation unit. Lines keep the numbers of the file that they come from."""
        if self.is_whole_file():
            return f'{GIVEN.get(self.file, "")}\n#line {self.line} "{self.file}"\n{self.code}\n'
        includes = "".join(f"#include <tenon/{header}>\n" for header in HEADERS[self.language])
        own = "\n".join(line if line.startswith("#include") else "" for line in self.code.splitlines())
        body = "\n".join("" if line.startswith("#include") else line for line in self.code.splitlines())
        given = C_PROGRAM if self.language == "c" else f"namespace {{\n{GIVEN.get(self.file, '')}\n}}"
        returns = RETURNS.get(self.file, "void")
        parameters = "void" if self.language == "c" else ""
        end = "\n" if returns == "void" else "\nreturn 0;\n"
        return (f'{own}\n{includes}\n{given}\n{returns} example({parameters});\n{returns} example({parameters}) {{\n'
                f'#line {self.line} "{self.file}"\n{body}{end}}}\n')

    def problems(self):
        """The compiler's complaints; empty when it has none."""
        done = subprocess.run([COMPILERS[self.language], STANDARD[self.language], *FLAGS, "-x",
                               {"c": "c", "cpp": "c++"}[self.language], "-"],
                              input=self.source(), text=True, capture_output=True, cwd=ROOT)
        return done.stderr if done.returncode != 0 or done.stderr else ""


def of_page(file, text):
    """The fenced blocks of a page. A block that is marked ```text or by nothing is no code."""
    return [Snippet(file, text[:match.start(2)].count("\n") + 1, match[1], match[2])
            for match in re.finditer(r"^```(cpp|c)\n(.*?)^```", text, flags=re.S | re.M)]


def of_header(file, text):
    """The example in the comment at the top of a header."""
    language = "c" if text.startswith("/*") else "cpp"
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"(?://| \*)(?:   (.*)|)$", line)
        if match is None and not line.startswith(("//", "/*", " *")):
            break  # the end of the comment
        if match is None or match[1] is None:
            continue
        if found and found[-1].line + found[-1].code.count("\n") == number:
            found[-1].code += match[1] + "\n"
        else:
            found.append(Snippet(file, number, language, match[1] + "\n"))
    return found


def unmarked_code(text):
    """Lines of indented blocks that look like C or C++: they belong into a fenced block."""
    outside = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.S | re.M)
    return [line for line in outside.splitlines()
            if re.match(r"    \S.*[;{](\s*(//.*|/\*.*\*/))?$", line) and re.search(r"::|->|#include|[(]", line)]


def pages():
    folders = [ROOT, ROOT / "docs", *(path for path in (ROOT / "docs").iterdir() if path.is_dir()), ROOT / "tests",
               ROOT / "examples"]
    return sorted(page for folder in folders for page in folder.glob("*.md"))


def name(path):
    return str(path.relative_to(ROOT))


SNIPPETS = [snippet for page in pages() for snippet in of_page(name(page), page.read_text())]
SNIPPETS += [snippet for header in sorted((ROOT / "include" / "tenon").glob("*.h"))
             for snippet in of_header(name(header), header.read_text())]


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: f"{snippet.file}:{snippet.line}")
def test_code_compiles(snippet):
    assert snippet.problems() == ""


def test_headers_and_pages_have_examples():
    files = {snippet.file for snippet in SNIPPETS}
    assert {"README.md", "include/tenon/session.h", "include/tenon/importer.h", "include/tenon/kernel_stream.h",
            "include/tenon/copy_ledger_api.h", "include/tenon/timeline_api.h"} <= files


@pytest.mark.parametrize("page", pages(), ids=name)
def test_code_is_fenced(page):
    assert unmarked_code(page.read_text()) == []


def test_broken_code_is_found_with_its_line():
    page = "text\n\n```cpp\ntenon::SessionOptions options;\noptions.no_such_field = 1;\n```\n"
    [snippet] = of_page("page.md", page)
    assert "page.md:5" in snippet.problems() and "no_such_field" in snippet.problems()
    # A status that is dropped is a mistake in an example too.
    [snippet] = of_header("some.h", '// About.\n//\n//   tenon::unregister_ep_library("x");\n//\n// More.\n')
    assert "some.h:3" in snippet.problems()
    assert unmarked_code("    tenon::Tensor x;\n    copies->CreateLedger(&ledger);\n    ./dev test\n") == \
        ["    tenon::Tensor x;", "    copies->CreateLedger(&ledger);"]
