// tenon compare: runs a model, compares its nodes' values with a reference, and finds the pass that makes one differ.
#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/bisect.h"
#include "cli/commands.h"
#include "cli/comparison.h"
#include "cli/kept_values.h"
#include "cli/model_arguments.h"
#include "cli/model_values.h"
#include "cli/other_library.h"
#include "cli/status.h"
#include "programs/output.h"

namespace tenon::cli {
namespace {

const CLI::Validator kLimit(
    [](const std::string& text) {
      double value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      const bool good = error == std::errc() && end == text.data() + text.size() && value >= 0;
      return good ? std::string() : format("\"{}\" is no number from 0 on", text);
    },
    "");

using Inputs = std::vector<std::pair<std::string, Tensor>>;

constexpr const char* kBaseline = "baseline";

struct CompareArguments : ModelArguments {
  std::string against;
  std::optional<double> rtol, atol;
  bool bisect = false;
};

// The values that a run is compared with, and the inputs of the run that made them.
struct Reference {
  std::optional<TemporaryFolder> own;  // while the values are not the user's
  KeptValues values;
  Inputs inputs;
};

class Keeper final : public ValueObserver {
 public:
  Keeper(const ModelValues& model, KeptWriter& writer) : model_(model), writer_(writer) {}
  bool wants(std::string_view body, std::string_view name) override {
    return model_.maker(ValueName(body, name)) != nullptr;
  }
  Status value(const NodeValue& value) override { return writer_.add(value); }

 private:
  const ModelValues& model_;
  KeptWriter& writer_;
};

Status run_observed(Session& session, const Inputs& inputs, ValueObserver& observer) {
  TENON_TRY_ASSIGN(Binding binding, session.make_binding());
  for (const auto& [name, tensor] : inputs) TENON_TRY(binding.bind_input(name, tensor));
  for (size_t i = 0; i < session.outputs().size(); ++i) TENON_TRY(binding.bind_output_auto(i, MemorySpace()));
  return session.run(binding, {.values = &observer});
}

// The CPU EP's reference kernels, without any pass.
Status keep_baseline(const CompareArguments& arguments, const SessionOptions& options, const ModelValues& model,
                     const Inputs& inputs, KeptWriter& writer) {
  SessionOptions plain = options;
  plain.eps.clear();
  plain.disabled_passes = {"all"};
  plain.reference_kernels = true;
  plain.winograd = false;
  plain.disallow_copies = false;
  TENON_TRY_ASSIGN(const auto session, Session::load(arguments.model, plain));
  Keeper keeper(model, writer);
  return run_observed(*session, inputs, keeper);
}

Status keep_of_library(const CompareArguments& arguments, const Session& session, const ModelValues& model,
                       const Inputs& inputs, KeptWriter& writer) {
  std::vector<std::string> names, outputs;
  for (const ModelNode& node : model.nodes()) {
    for (const std::string& output : node.outputs)
      if (node.in_file && !output.empty()) names.push_back(output);
  }
  for (const ValueInfo& info : session.outputs()) outputs.push_back(info.name);
  return run_in_library(arguments.against, arguments.model, outputs, inputs, names, writer);
}

// Inputs that are given have to be those of the folder; without any the folder's are taken.
Status take_inputs(const CompareArguments& arguments, const Session& session, Reference& reference) {
  const Inputs kept = reference.inputs;
  const bool given = !arguments.inputs.empty() || arguments.random;
  if (!given && !kept.empty()) return {};
  TENON_TRY_ASSIGN(reference.inputs, arguments.read_inputs(session, arguments.random));
  for (const auto& [name, tensor] : kept) {
    for (const auto& [other, now] : reference.inputs) {
      if (other != name) continue;
      const bool equal = now.type() == tensor.type() && now.shape() == tensor.shape() &&
                         std::memcmp(now.data(), tensor.data(), now.size_bytes()) == 0;
      if (!equal)
        return invalid_argument(
            "The input \"{}\" is not the one that \"{}\" was made with; without --input and "
            "--random its own inputs are taken.",
            name, arguments.against);
    }
  }
  return {};
}

Result<Reference> make_reference(const CompareArguments& arguments, const SessionOptions& options,
                                 const Session& session, const ModelValues& model) {
  Reference reference;
  const bool baseline = arguments.against == kBaseline;
  std::error_code error;
  if (!baseline && std::filesystem::is_directory(arguments.against, error)) {
    TENON_TRY_ASSIGN(reference.values, KeptValues::read(arguments.against));
    TENON_TRY_ASSIGN(reference.inputs, reference.values.load_inputs());
    TENON_TRY(take_inputs(arguments, session, reference));
    return reference;
  }
  if (!baseline && !std::filesystem::is_regular_file(arguments.against, error))
    return not_found(
        "--against \"{}\" is neither \"{}\", nor a folder that tenon run --keep has written, nor a library.",
        arguments.against, kBaseline);
  TENON_TRY(take_inputs(arguments, session, reference));
  TENON_TRY_ASSIGN(TemporaryFolder folder, TemporaryFolder::make());
  KeptWriter writer(folder.path());
  Status kept = baseline ? keep_baseline(arguments, options, model, reference.inputs, writer)
                         : keep_of_library(arguments, session, model, reference.inputs, writer);
  if (!kept.ok())
    return std::move(kept).with_context(format("while the reference of --against \"{}\" is made", arguments.against));
  TENON_TRY(writer.finish(arguments.model, {}));
  TENON_TRY_ASSIGN(reference.values, KeptValues::read(folder.path()));
  reference.own.emplace(std::move(folder));
  return reference;
}

Status compare_run(Session& session, const Inputs& inputs, Comparison& comparison) {
  TENON_TRY(run_observed(session, inputs, comparison));
  comparison.finish();
  return {};
}

const char* kind_name(Culprit::Kind kind) {
  switch (kind) {
    case Culprit::Kind::kPasses:
      return "passes";
    case Culprit::Kind::kEp:
      return "ep";
    case Culprit::Kind::kWinograd:
      return "winograd";
    case Culprit::Kind::kKernels:
      return "kernels";
    case Culprit::Kind::kTogether:
      return "together";
    case Culprit::Kind::kNone:
      break;
  }
  return "none";
}

using Absent = std::vector<std::pair<ValueName, std::string>>;

void print_result(const Comparison& comparison, const Absent& absent, const ModelValues& model,
                  const std::optional<Culprit>& culprit) {
  const size_t all = comparison.values().size(), differing = comparison.differing();
  const ComparedValue* const first = comparison.first();
  if (first == nullptr) {
    print("All values agree ({} compared).\n", all);
  } else {
    const ValueName name(first->value.body, first->value.name);
    const ModelNode* const maker = model.maker(name);
    print("The first value that differs is {}, of {}.\n", label(name, first->value.occurrence),
          maker != nullptr ? label(*maker) : label(first->value));
    print("{}", difference_text(*first));
    print("  It is computed by {}, kernel {}.\n", label(first->value), first->value.kernel);
    if (first->value.model_nodes.size() > 1) {
      std::string parts;
      for (const std::string& part : first->value.model_nodes)
        parts += format("{}\"{}\"", parts.empty() ? "" : ", ", part);
      print("  That computes the model's nodes {}.\n", parts);
    }
    print("{} of {} values differ.\n", differing, all);
  }
  if (!absent.empty()) {
    constexpr size_t kMostShown = 5;
    print("Values of the reference that are not computed here: {} (--json lists all)\n", absent.size());
    for (size_t i = 0; i < absent.size() && i < kMostShown; ++i)
      print("  {}: {}\n", label(absent[i].first, 0), absent[i].second);
  }
  if (culprit) {
    print("{}\n", culprit_text(*culprit));
    const std::string options = culprit_options(*culprit);
    if (!options.empty()) print("To go on until it is mended: {}\n", options);
  } else if (first != nullptr) {
    print("Next: the same command with --bisect names the pass, the EP or the kernels that make the difference.\n");
  }
}

void print_result_json(const CompareArguments& arguments, const Comparison& comparison, const Absent& absent,
                       const ModelValues& model, const std::optional<Culprit>& culprit) {
  nlohmann::ordered_json object = {{"model", arguments.model},
                                   {"against", arguments.against},
                                   {"same", comparison.same()},
                                   {"compared", comparison.values().size()},
                                   {"first", nullptr},
                                   {"differing", nlohmann::ordered_json::array()},
                                   {"not_computed", nlohmann::ordered_json::array()},
                                   {"culprit", nullptr}};
  for (const ComparedValue& value : comparison.values()) {
    if (!value.differs()) continue;
    auto entry = difference_json(value);
    const ModelNode* const maker = model.maker(ValueName(value.value.body, value.value.name));
    if (maker != nullptr) entry["node"] = {{"name", maker->name}, {"op_type", maker->op_type}};
    if (object["first"].is_null()) object["first"] = entry;
    object["differing"].push_back(std::move(entry));
  }
  for (const auto& [name, why] : absent)
    object["not_computed"].push_back({{"value", name.second}, {"body", name.first}, {"why", why}});
  if (culprit)
    object["culprit"] = {{"kind", kind_name(culprit->kind)}, {"names", culprit->names}, {"runs", culprit->runs}};
  print_json(object);
}

Status compare(const CompareArguments& arguments, bool* differs) {
  TENON_TRY_ASSIGN(const SessionOptions options, arguments.session_options());
  TENON_TRY_ASSIGN(const ModelValues model, ModelValues::read(arguments.model));
  TENON_TRY_ASSIGN(const auto session, Session::load(arguments.model, options));
  TENON_TRY_ASSIGN(const Reference reference, make_reference(arguments, options, *session, model));
  const Limits limits{.relative = arguments.rtol, .absolute = arguments.atol};
  Comparison comparison(model, reference.values, limits);
  TENON_TRY(compare_run(*session, reference.inputs, comparison));
  if (comparison.values().empty())
    return invalid_argument("No value of \"{}\" is in the reference: it is another model's.", arguments.model);
  std::optional<Culprit> culprit;
  if (arguments.bisect && !comparison.same()) {
    const auto is_same = [&](const SessionOptions& changed) -> Result<bool> {
      TENON_TRY_ASSIGN(const auto other, Session::load(arguments.model, changed));
      Comparison again(model, reference.values, limits);
      TENON_TRY(compare_run(*other, reference.inputs, again));
      return again.same();
    };
    TENON_TRY_ASSIGN(culprit, bisect(options, is_same));
  }
  *differs = !comparison.same();
  if (arguments.json) {
    print_result_json(arguments, comparison, comparison.absent(), model, culprit);
  } else {
    print_result(comparison, comparison.absent(), model, culprit);
  }
  return {};
}

}  // namespace

void add_compare(CLI::App& app, Action* action, bool* differs) {
  CLI::App* command = app.add_subcommand(
      "compare",
      "Runs a model and names the first node whose value differs from a reference; exit code 1: one differs");
  const auto arguments = std::make_shared<CompareArguments>();
  arguments->add_for_runs(*command);
  arguments->add_kernels(*command);
  CLI::Option* random =
      command->add_flag("--random", arguments->random, "Fill inputs that are not given with random values");
  command->get_option("--seed")->needs(random);
  command
      ->add_option(
          "--against", arguments->against,
          "The reference: baseline (Tenon's reference kernels without any pass), a folder that tenon run --keep "
          "has written, or another libonnxruntime (a path)")
      ->type_name("WHAT")
      ->default_str(kBaseline);
  arguments->against = kBaseline;
  command
      ->add_option("--rtol", arguments->rtol,
                   "Allowed relative error; without it 1e-4 for float32, 1e-9 for float64, 1e-2 for float16, 4e-2 for "
                   "bfloat16, 0 for integers")
      ->check(kLimit);
  command
      ->add_option("--atol", arguments->atol,
                   "Allowed absolute error, added to the relative one; without it the relative error times the largest "
                   "magnitude of the value")
      ->check(kLimit);
  command->add_flag("--bisect", arguments->bisect,
                    "Find the fewest passes, the EP or the kernels without which all values agree");
  command->callback(
      [arguments, action, differs] { *action = [arguments, differs] { return compare(*arguments, differs); }; });
}

}  // namespace tenon::cli
