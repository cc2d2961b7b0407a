// The model of a model editor session, in the place of the core's session until FinalizeModelEditorSession makes that.
//
// It answers what can be known without EPs: inputs, outputs, metadata and opsets; whatever runs or plans is an error.
// Threads: const.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/plan_report.h>
#include <tenon/session.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ep/host/graph_view.h"
#include "graph/reader.h"
#include "runtime/model_description.h"

namespace tenon::abi {

class EditedModel final : public Session {
 public:
  // Errors: those of shape inference.
  static Result<std::shared_ptr<EditedModel>> create(Model model, const SessionOptions& options);
  // With the nodes, initializers, opsets, and new inputs or outputs of `update`. This model stays as it is.
  Result<std::shared_ptr<EditedModel>> with(const OrtModel& update) const;

  const Model& model() const { return model_; }

  std::span<const ValueInfo> inputs() const override { return description_.inputs; }
  std::span<const ValueInfo> outputs() const override { return description_.outputs; }
  std::span<const ValueInfo> overridable_initializers() const override { return description_.overridable; }
  Tensor overridable_default(size_t index) const override;
  const ModelMetadata& metadata() const override { return description_.metadata; }
  const SessionOptions& options() const override { return options_; }
  std::span<const EpAssignment> assignments() const override { return {}; }
  // In plain host memory.
  std::span<const ValueSpace> input_spaces() const override { return input_spaces_; }
  std::span<const ValueSpace> output_spaces() const override { return output_spaces_; }
  Result<Tensor> allocate(DataType, const Shape&, const MemorySpace&) override { return not_finished(); }
  Result<Binding> make_binding() override { return not_finished(); }
  Status run(Binding&, const RunOptions&) override { return not_finished(); }
  Status synchronize() override { return not_finished(); }
  Result<PlanReport> plan_report(const std::map<std::string, Shape>&,
                                 const std::map<std::string, MemorySpace>&) override {
    return not_finished();
  }
  Result<ExplainedCopies> explain_copies(const std::map<std::string, Shape>&,
                                         const std::map<std::string, MemorySpace>&) override {
    return not_finished();
  }

 private:
  EditedModel(Model model, const SessionOptions& options) : model_(std::move(model)), options_(options) {}
  static Status not_finished();

  const Model model_;
  const SessionOptions options_;
  ModelDescription description_;
  std::vector<ValueSpace> input_spaces_, output_spaces_;
};

// The model of a session that is not finished, or null.
std::shared_ptr<EditedModel> edited_model(const std::shared_ptr<Session>& session);

}  // namespace tenon::abi
