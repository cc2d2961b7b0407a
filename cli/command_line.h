// Checks that the command line parser does not make: mistyped names, options in the place of values, bad numbers.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tenon::cli {

// Every option of `app` and its commands refuses a value that begins with "--" (the next option, when a value was
// forgotten), and every number has to be written in decimal. Call when all commands are there.
void check_values(CLI::App& app);

// One sentence about a command line that does not parse, with what is close to a mistyped command or option.
std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error, int argc, const char* const* argv);

}  // namespace tenon::cli
