// tenon explain: prints or draws the plan for given shapes, its memory, and its copies with their reasons; with times.
#include <tenon/plan_report.h>

#include <map>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/model_arguments.h"
#include "cli/placements.h"
#include "cli/plan_page.h"
#include "cli/profile.h"
#include "cli/status.h"
#include "programs/output.h"

namespace tenon::cli {
namespace {

struct ExplainArguments : ModelArguments {
  std::string html;
  std::string profile;
  int runs = 0;
  PlacementArguments placement;
  std::shared_ptr<ExplainPart> part;  // may be null
};

// Runs the model `runs` times after a first one, where the report's tensors are.
Result<std::vector<NodeTime>> measure(const ExplainArguments& arguments, Session& session,
                                      const std::map<std::string, MemorySpace>& spaces) {
  TENON_TRY_ASSIGN(const auto inputs, arguments.read_inputs(session, /*fill=*/true));
  TENON_TRY_ASSIGN(Binding binding, session.make_binding());
  TENON_TRY(bind_in_spaces(session, spaces, inputs, binding));
  TENON_TRY(session.run(binding));
  std::vector<NodeTime> times;
  for (int i = 0; i < arguments.runs; ++i) TENON_TRY(session.run(binding, {.node_times = &times}));
  return times;
}

Result<nlohmann::ordered_json> json_of(const ExplainArguments& arguments, const Session& session,
                                       const std::map<std::string, Shape>& shapes, const PlanReport& plan) {
  auto inputs = nlohmann::ordered_json::object();
  for (const auto& [name, shape] : shapes) inputs[name] = shape.dims();
  auto assignments = nlohmann::ordered_json::array();
  for (const EpAssignment& assignment : session.assignments()) {
    auto nodes = nlohmann::ordered_json::array();
    for (const auto& node : assignment.nodes) {
      nodes.push_back({{"name", node.name}, {"domain", node.domain}, {"op_type", node.op_type}});
    }
    assignments.push_back({{"ep_name", assignment.ep_name}, {"nodes", nodes}});
  }
  auto report = nlohmann::ordered_json::parse(plan.to_json(), nullptr, /*allow_exceptions=*/false);
  if (report.is_discarded()) return Status(StatusCode::kInternal, "The plan's report is no JSON.");
  nlohmann::ordered_json object = {{"model", arguments.model}, {"inputs", inputs}, {"assignments", assignments}};
  // Next to each other, as in the objects of the other commands.
  for (const char* key : {"bytes_copied", "copies", "copies_known_in_a_run"}) object[key] = report[key];
  object["plan"] = std::move(report);
  return object;
}

Status explain(const ExplainArguments& arguments) {
  TENON_TRY_ASSIGN(const SessionOptions options, arguments.session_options());
  TENON_TRY_ASSIGN(const auto session, Session::load(arguments.model, options));
  std::map<std::string, Shape> shapes;
  TENON_TRY_ASSIGN(const auto given, arguments.given_inputs(*session));
  for (const auto& [name, tensor] : given) shapes.emplace(name, tensor.shape());
  for (const ValueInfo& info : session->inputs()) {
    if (shapes.contains(info.name)) continue;
    TENON_TRY_ASSIGN(const Shape shape, fixed_shape(info, options.dims, /*takes_input=*/true));
    shapes.emplace(info.name, shape);
  }
  TENON_TRY_ASSIGN(const auto spaces, arguments.placement.read(*session));
  TENON_TRY_ASSIGN(PlanReport plan, session->plan_report(shapes, spaces));
  std::vector<NodeTime> times;
  if (!arguments.profile.empty()) {
    TENON_TRY_ASSIGN(times, read_profile(arguments.profile));
    if (plan.add_times(times) == 0)
      return invalid_argument("The profile \"{}\" has no node of this plan: it is another model's.", arguments.profile);
  } else if (arguments.runs > 0) {
    TENON_TRY_ASSIGN(times, measure(arguments, *session, spaces));
    plan.add_times(times);
  }
  if (!arguments.html.empty()) TENON_TRY(write_text(arguments.html, plan_page(arguments.model, plan)));
  std::optional<ExplainPart::Section> section;
  if (arguments.part != nullptr && arguments.part->wanted()) {
    TENON_TRY_ASSIGN(section, arguments.part->explain(*session, plan));
  }
  if (!arguments.json) {
    print("{}", plan.to_text());
    if (section) print("\n{}", section->text);
    return {};
  }
  TENON_TRY_ASSIGN(nlohmann::ordered_json object, json_of(arguments, *session, shapes, plan));
  if (section) object[section->key] = section->json;
  print_json(object);
  return {};
}

}  // namespace

void add_explain(CLI::App& app, Action* action, std::shared_ptr<ExplainPart> part) {
  CLI::App* command = app.add_subcommand("explain", "Prints the plan for a model: steps, memory, copies and why");
  const auto arguments = std::make_shared<ExplainArguments>();
  arguments->part = std::move(part);
  arguments->add_model(*command);
  arguments->add_inputs(*command);
  arguments->add_dims(*command);
  arguments->add_threads(*command);
  arguments->add_strict(*command);
  arguments->add_without(*command);
  arguments->add_plugins(*command);
  arguments->add_eps(*command);
  arguments->placement.add_spaces(*command);
  if (arguments->part != nullptr) arguments->part->add_options(*command);
  command->add_option(
      "--html", arguments->html,
      "Draw the plan as a graph by memory space, its copies, its arenas and a table of its steps on one "
      "page into this file");
  CLI::Option* profile = command->add_option(
      "--profile", arguments->profile,
      "Shows the times of this profile, as ONNX Runtime or Tenon's C ABI writes it, with the steps");
  command->add_option("--runs", arguments->runs, "Runs the model N times on random values and shows the median times")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000))
      ->excludes(profile);
  command->callback([arguments, action] { *action = [arguments] { return explain(*arguments); }; });
}

}  // namespace tenon::cli
