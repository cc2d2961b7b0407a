// The commands that need the public API alone, for a test: they link Tenon::tenon and nothing else of Tenon.
#include <cstdio>
#include <exception>

#include "cli/command_line.h"
#include "cli/commands.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app("Commands of tenon that use its public API alone.", "tenon");
  app.require_subcommand(1);
  tenon::cli::Action action;
  tenon::cli::add_run(app, &action);
  tenon::cli::add_bench(app, &action);
  tenon::cli::add_explain(app, &action, nullptr);
  tenon::cli::check_values(app);
  CLI11_PARSE(app, argc, argv);
  const tenon::Status status = action();
  if (!status.ok()) std::fprintf(stderr, "tenon: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tenon: %s\n", error.what());
    return 1;
  }
}
