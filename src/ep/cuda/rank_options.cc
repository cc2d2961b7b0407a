#include "ep/cuda/rank_options.h"

#include <charconv>
#include <optional>

#include "base/env.h"
#include "base/format.h"

namespace tenon::cuda {

namespace {

struct Launcher {
  const char* rank;
  const char* ranks;
};
// torchrun; Open MPI; MPICH and its kin; what ONNX Runtime reads without MPI.
constexpr Launcher kLaunchers[] = {{"RANK", "WORLD_SIZE"},
                                   {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"PMI_RANK", "PMI_SIZE"},
                                   {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}};

std::optional<int> number_in(const std::string& text) {
  int number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc() && end == text.data() + text.size() && number >= 0 ? std::optional(number)
                                                                                  : std::nullopt;
}

// The rank and the number of ranks by the first launcher that sets both.
void read_environment(RankOptions& options) {
  for (const Launcher& launcher : kLaunchers) {
    const std::string rank = launcher_value(launcher.rank), ranks = launcher_value(launcher.ranks);
    if (rank.empty() || ranks.empty()) continue;
    const std::optional<int> own = number_in(rank), all = number_in(ranks);
    options.given = true;
    if (!own || !all || *own >= *all) {
      options.wrong = invalid_argument(
          "The environment has {} = \"{}\" and {} = \"{}\"; a rank is a number below "
          "that of ranks.",
          launcher.rank, rank, launcher.ranks, ranks);
      return;
    }
    options.rank = *own;
    options.ranks = *all;
    return;
  }
}

// torchrun listens at MASTER_PORT itself, so the ranks meet at the port after it.
std::string place_in_environment() {
  const std::string host = launcher_value("MASTER_ADDR");
  const std::optional<int> port = number_in(launcher_value("MASTER_PORT"));
  if (!host.empty() && port) return format("{}:{}", host, *port + 1);
  // The names and numbers of ONNX Runtime.
  const std::string rank0 = launcher_value("RANK0_IP"), rank0_port = launcher_value("RANK0_PORT");
  return format("{}:{}", rank0.empty() ? "localhost" : rank0, rank0_port.empty() ? "18888" : rank0_port);
}

}  // namespace

Result<RankOptions> RankOptions::read(const plugin::OptionValues& values) {
  RankOptions options;
  read_environment(options);
  const bool launched = options.given;
  options.timeout_ms = values.integer("collective_timeout_ms");
  const bool rank_given = values.given("collective_rank"), ranks_given = values.given("collective_world_size");
  if (rank_given || ranks_given) {
    options.wrong = Status();
    TENON_INVALID_IF(!ranks_given && !launched,
                     "Option \"collective_rank\" is given without "
                     "\"collective_world_size\".");
    if (ranks_given) options.ranks = static_cast<int>(values.integer("collective_world_size"));
    TENON_INVALID_IF(!rank_given && !launched && options.ranks > 1,
                     "Option \"collective_world_size\" is {} without \"collective_rank\".", options.ranks);
    if (rank_given) options.rank = static_cast<int>(values.integer("collective_rank"));
    options.given = true;
    TENON_INVALID_IF(options.rank >= options.ranks,
                     "Option \"collective_rank\" is {}, and \"collective_world_size\" is {}: ranks count from 0.",
                     options.rank, options.ranks);
  }
  options.meeting_place = values.text("collective_rendezvous");
  if (options.ranks == 1 || !options.meeting_place.empty()) return options;
  TENON_INVALID_IF(!launched && launcher_value("MASTER_ADDR").empty() && launcher_value("RANK0_IP").empty(),
                   "Option \"collective_world_size\" is {} without \"collective_rendezvous\": the ranks have no place "
                   "to meet.",
                   options.ranks);
  options.meeting_place = place_in_environment();
  return options;
}

std::string RankOptions::who() const { return format("rank {} of {}", rank, ranks); }

}  // namespace tenon::cuda
