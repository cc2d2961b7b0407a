// Parses --space, the memory spaces of bound tensors, and prints the copies of a run.
#pragma once

#include <tenon/session.h>

#include <CLI/CLI.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tenon::cli {

struct PlacementArguments {
  std::vector<std::string> spaces;  // NAME=SPACE

  void add_spaces(CLI::App& command);

  // PLACE is a device as `tenon devices` lists it (gpu, gpu:0, its whole text, its name, or its EP's), with
  // ":host_accessible" for that memory, and "@N" for a tensor that begins N bytes after a multiple of 64. Devices of
  // the session's EPs come first. Errors: kNotFound with the spaces that there are; a name or a number that is none.
  Result<std::map<std::string, MemorySpace>> read(const Session& session) const;
};

// Binds the inputs and outputs that `spaces` names to memory there, the other outputs to host memory. An output with an
// alignment needs a shape that the model fixes.
Status bind_in_spaces(Session& session, const std::map<std::string, MemorySpace>& spaces,
                      const std::vector<std::pair<std::string, Tensor>>& inputs, Binding& binding);
// In host memory: the tensor itself, or a copy of it.
Result<Tensor> on_host(const Tensor& tensor);

// {"what", "bytes", "from", "to", "reason", "once"}, one object a copy.
nlohmann::ordered_json copies_json(const CopyLedger& ledger);

}  // namespace tenon::cli
