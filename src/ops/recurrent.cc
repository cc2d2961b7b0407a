#include "ops/recurrent.h"

#include <array>
#include <utility>

#include "base/status.h"
#include "ops/attributes.h"

namespace tenon {

namespace {

using infer::Dims;
using infer::InputDims;
using Cell = RecurrentDesc::Cell;

constexpr size_t kInputs = 8, kQuantizedInputs = 12;
// Four gates of two biases stay countable in 32 bits.
constexpr int64_t kMostHidden = INT32_MAX / 8;

template <typename T>
std::vector<T> copied(std::span<const T> values) {
  return {values.begin(), values.end()};
}

// Everything that no shape tells.
Result<RecurrentDesc> read_form(const Node& node) {
  RecurrentDesc desc;
  const Attributes attributes(node);
  desc.quantized = node.op_type == "DynamicQuantizeLSTM";
  desc.cell = desc.quantized || node.op_type == "LSTM" ? Cell::kLstm : node.op_type == "GRU" ? Cell::kGru : Cell::kRnn;
  const bool lstm = desc.cell == Cell::kLstm, gru = desc.cell == Cell::kGru;
  desc.gates = lstm ? 4 : gru ? 3 : 1;
  desc.functions = lstm ? 3 : gru ? 2 : 1;
  const std::string_view direction = attributes.text("direction");
  TENON_INVALID_IF(direction != "forward" && direction != "reverse" && direction != "bidirectional",
                   "{} has the direction \"{}\".", node.op_type, direction);
  desc.directions = direction == "bidirectional" ? 2 : 1;
  desc.reverse = direction == "reverse";
  desc.batch_first = !desc.quantized && attributes.flag("layout");
  if (gru) desc.linear_before_reset = attributes.flag("linear_before_reset");
  if (lstm) desc.couple_gates = attributes.flag("input_forget");
  if (const std::optional<float> clip = attributes.find_number("clip")) desc.clip = *clip;
  std::vector<std::string> names = copied(attributes.texts("activations"));
  const std::span<const float> alphas = attributes.numbers("activation_alpha"),
                               betas = attributes.numbers("activation_beta");
  if (names.empty())
    for (int64_t i = 0; i < desc.directions * desc.functions; ++i)
      names.emplace_back(desc.cell != Cell::kRnn && i % desc.functions == 0 ? "Sigmoid" : "Tanh");
  // The schema's default of an RNN is for two directions, and tools write it out for one: the first counts there.
  if (desc.cell == Cell::kRnn && names.size() == 2) names.resize(desc.directions);
  TENON_INVALID_IF(static_cast<int64_t>(names.size()) != desc.directions * desc.functions,
                   "{} has {} activations; {} directions need {} each.", node.op_type, names.size(), desc.directions,
                   desc.functions);
  size_t alpha = 0, beta = 0;
  for (const std::string& name : names) {
    const CellFunctionRow* row = find_cell_function(name);
    TENON_INVALID_IF(row == nullptr, "{} asks for the activation \"{}\", which does not exist.", node.op_type, name);
    UnaryDesc& function = desc.gate_functions.emplace_back(row->function);
    if (row->takes_alpha && alpha < alphas.size()) function.alpha = alphas[alpha++];
    if (row->takes_beta && beta < betas.size()) function.beta = betas[beta++];
  }
  return desc;
}

struct RecurrentDims {
  Dim length, batch, input, hidden;
  Dims state, y;
};

// Scales and zero points of the weights: one for each direction, or one for each column of a direction.
Status check_quantization(const Node& node, const InputDims& inputs, const Dim& directions, const Dim& width) {
  for (size_t i = kInputs; i < kQuantizedInputs; ++i) {
    const Dims* dims = inputs.find(i);
    if (dims == nullptr) continue;
    const Dims wanted = dims->size() == 2 ? Dims{directions, width} : Dims{directions};
    TENON_INVALID_IF(!infer::may_be_equal(*dims, wanted), "{} has input {} of shape {}; it needs {} or {}.",
                     node.op_type, i, infer::text(*dims), infer::text({directions}), infer::text({directions, width}));
  }
  return {};
}

Result<RecurrentDims> recurrent_dims(const Node& node, const RecurrentDesc& form, const InputDims& inputs) {
  const Dims *x = inputs.find(RecurrentDesc::kX), *w = inputs.find(RecurrentDesc::kW),
             *r = inputs.find(RecurrentDesc::kR);
  for (const Dims* dims : {x, w, r})
    TENON_INVALID_IF(dims != nullptr && dims->size() != 3, "{} has an input of shape {} that needs 3 dimensions.",
                     node.op_type, infer::text(*dims));
  RecurrentDims found;
  if (x != nullptr) {
    found.length = (*x)[form.batch_first ? 1 : 0];
    found.batch = (*x)[form.batch_first ? 0 : 1];
    found.input = (*x)[2];
  }
  if (const std::optional<int64_t> stated = Attributes(node).find_integer("hidden_size")) {
    found.hidden = infer::number(*stated);
    TENON_INVALID_IF(*stated < 1, "Attribute \"hidden_size\" ({}) has to be positive.", *stated);
  } else if (r != nullptr) {
    found.hidden = (*r)[2];
  }
  TENON_INVALID_IF(found.hidden.known() && (found.hidden.value < 1 || found.hidden.value > kMostHidden),
                   "{} has a hidden size of {}; 1 to {} are possible.", node.op_type, found.hidden.value, kMostHidden);
  const auto times = [&](int64_t factor) {
    return found.hidden.known() ? infer::number(factor * found.hidden.value) : Dim{};
  };
  const Dim directions = infer::number(form.directions), width = times(form.gates);
  if (form.batch_first) {
    found.state = {found.batch, directions, found.hidden};
    found.y = {found.batch, found.length, directions, found.hidden};
  } else {
    found.state = {directions, found.batch, found.hidden};
    found.y = {found.length, directions, found.batch, found.hidden};
  }
  std::array<Dims, kInputs> wanted = {Dims{},
                                      Dims{directions, width, found.input},
                                      Dims{directions, width, found.hidden},
                                      Dims{directions, times(2 * form.gates)},
                                      Dims{found.batch},
                                      found.state,
                                      found.state,
                                      Dims{directions, times(3)}};
  if (form.quantized) {
    std::swap(wanted[1][1], wanted[1][2]);
    std::swap(wanted[2][1], wanted[2][2]);
    TENON_TRY(check_quantization(node, inputs, directions, width));
  }
  const size_t count = form.cell == Cell::kLstm ? kInputs : RecurrentDesc::kInitialC;
  for (size_t i = 1; i < count; ++i) {
    const Dims* dims = inputs.find(i);
    if (dims == nullptr) continue;
    TENON_INVALID_IF(!infer::may_be_equal(*dims, wanted[i]), "{} has input {} of shape {}; it needs {}.", node.op_type,
                     i, infer::text(*dims), infer::text(wanted[i]));
  }
  return found;
}

}  // namespace

Shape RecurrentDesc::state() const {
  return batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
}

Shape RecurrentDesc::y() const {
  return batch_first ? Shape{batch, length, directions, hidden} : Shape{length, directions, batch, hidden};
}

Result<RecurrentDesc> read_recurrent(const Node& node, const InputShapes& shapes) {
  TENON_TRY(require_shapes(node, shapes, 3));
  TENON_TRY_ASSIGN(RecurrentDesc desc, read_form(node));
  TENON_TRY_ASSIGN(const RecurrentDims dims, recurrent_dims(node, desc, infer::input_dims(shapes)));
  desc.length = dims.length.value;
  desc.batch = dims.batch.value;
  desc.input = dims.input.value;
  desc.hidden = dims.hidden.value;
  return desc;
}

namespace infer {
namespace {

Status infer_recurrent(Context& c) {
  for (size_t i = 0; i < 3; ++i) c.set_type(i, c.type(0));
  TENON_TRY(c.require_rank(0, 3, "X"));
  TENON_TRY_ASSIGN(const RecurrentDesc form, read_form(c.node()));
  TENON_TRY_ASSIGN(RecurrentDims dims, recurrent_dims(c.node(), form, input_dims(c)));
  TENON_TRY(c.set_dims(0, std::move(dims.y)));
  for (size_t i = 1; i < 3; ++i) TENON_TRY(c.set_dims(i, dims.state));
  return {};
}

constexpr Row kRows[] = {{"GRU", &infer_recurrent}, {"LSTM", &infer_recurrent}, {"RNN", &infer_recurrent}};

}  // namespace

std::span<const Row> recurrent_rows() { return kRows; }

namespace {
constexpr Row kContribRows[] = {{"DynamicQuantizeLSTM", &infer_recurrent}};
}  // namespace

std::span<const Row> contrib_recurrent_rows() { return kContribRows; }

}  // namespace infer
}  // namespace tenon
