// tenon explain: prints the plan for given shapes, its memory, and its copies with their reasons.
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "cli/break_even.h"
#include "cli/commands.h"
#include "cli/explain_html.h"
#include "cli/model_arguments.h"
#include "cli/output.h"
#include "cli/placements.h"

namespace tenon::cli {
namespace {

struct ExplainArguments : ModelArguments {
  std::string html;
  PlacementArguments placement;
  BreakEvenArguments break_even;
};

Status explain(const ExplainArguments& arguments) {
  TENON_TRY_ASSIGN(const SessionOptions options, arguments.session_options());
  TENON_TRY_ASSIGN(const auto session, Session::load(arguments.model, options));
  std::map<std::string, Shape> shapes;
  for (const ValueInfo& info : session->inputs()) {
    TENON_TRY_ASSIGN(const Shape shape, fixed_shape(info, options.dims));
    shapes.emplace(info.name, shape);
  }
  TENON_TRY_ASSIGN(const auto places, arguments.placement.read(*session));
  TENON_TRY_ASSIGN(const std::string plan, session->explain(shapes, places));
  if (!arguments.html.empty()) TENON_TRY(write_text(arguments.html, explain_html(arguments.model, plan)));
  std::optional<BreakEvenReport> costs;
  if (arguments.break_even.wanted) {
    TENON_TRY_ASSIGN(costs, break_even_report(arguments.break_even, *session, plan));
  }
  if (!arguments.json) {
    print("{}{}", plan, plan.ends_with('\n') ? "" : "\n");
    if (costs) print("\n{}", costs->text());
    return {};
  }
  auto inputs = nlohmann::ordered_json::object();
  for (const auto& [name, shape] : shapes) inputs[name] = shape.dims();
  auto lines = nlohmann::ordered_json::array();
  std::istringstream text(plan);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  auto assignments = nlohmann::ordered_json::array();
  for (const EpAssignment& assignment : session->assignments()) {
    auto nodes = nlohmann::ordered_json::array();
    for (const auto& node : assignment.nodes) {
      nodes.push_back({{"name", node.name}, {"domain", node.domain}, {"op_type", node.op_type}});
    }
    assignments.push_back({{"ep_name", assignment.ep_name}, {"nodes", nodes}});
  }
  nlohmann::ordered_json object = {
      {"model", arguments.model}, {"inputs", inputs}, {"assignments", assignments}, {"plan", lines}};
  TENON_TRY_ASSIGN(const ExplainedCopies copies, session->explain_copies(shapes, places));
  object["bytes_copied"] = copies.ledger.bytes_copied();
  object["copies"] = copies_json(copies.ledger);
  object["copies_known_in_a_run"] = copies.open;
  if (costs) object["break_even"] = costs->json();
  print_json(object);
  return {};
}

}  // namespace

void add_explain(CLI::App& app, Action* action) {
  CLI::App* command = app.add_subcommand("explain", "Prints the plan for a model: steps, memory, copies and why");
  const auto arguments = std::make_shared<ExplainArguments>();
  arguments->add_model(*command);
  arguments->add_dims(*command);
  arguments->add_threads(*command);
  arguments->add_strict(*command);
  arguments->add_plugins(*command);
  arguments->add_eps(*command);
  arguments->placement.add_places(*command);
  arguments->break_even.add(*command);
  command->add_option("--html", arguments->html, "Draw the plan, its memory and its copies on one page into this file");
  command->callback([arguments, action] { *action = [arguments] { return explain(*arguments); }; });
}

}  // namespace tenon::cli
