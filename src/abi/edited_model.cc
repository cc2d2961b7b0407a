#include "abi/edited_model.h"

#include <utility>

#include "abi/model_editor.h"
#include "ops/shape_inference.h"

namespace tenon::abi {

Result<std::shared_ptr<EditedModel>> EditedModel::create(Model model, const SessionOptions& options) {
  std::shared_ptr<EditedModel> made(new EditedModel(std::move(model), options));
  Model described = made->model_;
  const std::vector<Value> declared = declared_outputs(described.graph);
  TENON_TRY(infer_shapes(described.graph));
  made->description_ = describe_model(described, declared);
  made->input_spaces_.resize(made->description_.inputs.size());
  made->output_spaces_.resize(made->description_.outputs.size());
  return made;
}

Result<std::shared_ptr<EditedModel>> EditedModel::with(const OrtModel& update) const {
  TENON_TRY_ASSIGN(Model changed, with_update(model_, update));
  return create(std::move(changed), options_);
}

Tensor EditedModel::overridable_default(size_t index) const {
  return index < description_.overridable_defaults.size() ? description_.overridable_defaults[index] : Tensor();
}

Status EditedModel::not_finished() { return internal_error("Session not initialized."); }

std::shared_ptr<EditedModel> edited_model(const std::shared_ptr<Session>& session) {
  return std::dynamic_pointer_cast<EditedModel>(session);
}

}  // namespace tenon::abi
