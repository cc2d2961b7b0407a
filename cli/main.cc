#include <tenon/environment.h>
#include <tenon/session.h>

#include <cstdio>
#include <exception>
#include <new>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "programs/output.h"

namespace tenon::cli {
namespace {

// The table of docs/reference/options.md, which a test compares.
constexpr const char* kFooter =
    "Exit codes: 0 success, 1 a value differs (tenon compare), 2 invalid argument, model or data, 3 unsupported,\n"
    "4 not found or not accessible, 5 out of range, 6 resources exhausted, 7 an EP or a device failed,\n"
    "8 device lost, 9 cancelled, 10 a defect of tenon, 11 out of time.";

// As diff does: 1 is an answer, and no failure.
constexpr int kDiffers = 1;

// 1 is tenon compare's; the other numbers are the codes' own.
int exit_code(const Status& status) { return status.ok() ? 0 : static_cast<int>(status.code()) + 1; }

// Prints the failure. Without words: somebody else has told it already.
int ended(const Status& status) {
  if (!status.message().empty()) std::fprintf(stderr, "tenon: %s\n", status.message().c_str());
  return exit_code(status);
}

int run(int argc, char** argv) {
  CLI::App app("Runs ONNX models on memory that is already there.", "tenon");
  app.set_version_flag("--version", std::string(version()));
  app.require_subcommand(1);
  app.footer(kFooter);
  Action action;
  add_run(app, &action);
  add_bench(app, &action);
  add_explain(app, &action, programs::break_even_part());
  bool differs = false;
  add_compare(app, &action, &differs);
  add_inspect(app, &action);
  add_devices(app, &action);
  add_env(app, &action);
  programs::add_conformance(app, &action);
  programs::add_demo(app, &action);
  check_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app.exit(error);
      return ended(programs::end_output());
    }
    return ended(Status(StatusCode::kInvalidArgument, parse_error_text(app, error, argc, argv)));
  }
  // `tenon env` shows a bad variable; no other command works with one.
  Status status = app.got_subcommand("env") ? Status() : check_environment();
  if (status.ok()) status = action();
  if (status.ok()) status = programs::end_output();
  return status.ok() && differs ? kDiffers : ended(status);
}

}  // namespace
}  // namespace tenon::cli

int main(int argc, char** argv) {
  // Libraries of the command line and of JSON throw; what they throw ends here.
  try {
    return tenon::cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("tenon: Memory is exhausted.\n", stderr);
    return tenon::cli::exit_code(tenon::Status(tenon::StatusCode::kResourceExhausted, ""));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tenon: %s\n", error.what());
    return tenon::cli::exit_code(tenon::Status(tenon::StatusCode::kInternal, ""));
  }
}
