// Which rank of a sharded model a session is, and where its ranks meet: by options, else by what a launcher (torchrun,
// mpirun) has set in the environment.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "ep/sdk/plugin_options.h"

namespace tenon::cuda {

struct RankOptions {
  int rank = 0, ranks = 1;
  bool given = false;         // false: nothing says how many ranks there are
  std::string meeting_place;  // "host:port" where rank 0 listens, or the path of a socket that it makes
  int64_t timeout_ms = 0;     // of a wait for other ranks; 0: none
  Status wrong = {};          // what is wrong with the environment; it counts where the model has collectives

  // Errors: options that contradict each other, with their values.
  static Result<RankOptions> read(const plugin::OptionValues& values);
  // "rank 0 of 2".
  std::string who() const;
};

}  // namespace tenon::cuda
