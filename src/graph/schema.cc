#include "graph/schema.h"

#include <algorithm>
#include <array>
#include <climits>
#include <span>

#include "base/edit_distance.h"
#include "graph/graph.h"

namespace tenon {

namespace {

// A row as generated: its lists are places in the arrays above it.
struct Row {
  std::string_view domain, name;
  int since_version, min_inputs, max_inputs, min_outputs, max_outputs;
  bool deprecated, is_function;
  int first_input, inputs, first_output, outputs, first_attribute, attributes, first_constraint, constraints;
};

#include "graph/schema_table.inc"

// The library holds the table without pointers: one text with each string once, and rows of numbers. Pointers would
// take twice the space, and the loader would write to every page of them in each process.
struct Text {
  uint16_t at = 0, size = 0;
};
constexpr uint16_t kNull = 0xffff;  // Text::at of a view without data

// The distinct strings in order. Used by the compiler alone.
constexpr size_t kMostStrings =
    2 * (std::size(kParameters) + std::size(kAttributes) + std::size(kConstraints) + std::size(kRows));
struct Strings {
  std::array<std::string_view, kMostStrings> sorted{};
  std::array<size_t, kMostStrings> at{};
  size_t count = 0, text_size = 0;
};
constexpr Strings kStrings = [] {
  Strings made;
  const auto add = [&](std::string_view text) { made.sorted[made.count++] = text; };
  for (const SchemaParameter& row : kParameters) add(row.name), add(row.type);
  for (const SchemaAttribute& row : kAttributes) add(row.name), add(row.default_value);
  for (const SchemaConstraint& row : kConstraints) add(row.name), add(row.other_types);
  for (const Row& row : kRows) add(row.domain), add(row.name);
  std::sort(made.sorted.begin(), made.sorted.end());
  made.count = std::unique(made.sorted.begin(), made.sorted.end()) - made.sorted.begin();
  for (size_t i = 0; i < made.count; ++i) {
    made.at[i] = made.text_size;
    made.text_size += made.sorted[i].size();
  }
  return made;
}();
static_assert(kStrings.text_size < kNull);

constexpr auto kText = [] {
  std::array<char, kStrings.text_size> text{};
  for (size_t i = 0; i < kStrings.count; ++i)
    std::copy(kStrings.sorted[i].begin(), kStrings.sorted[i].end(), text.begin() + kStrings.at[i]);
  return text;
}();

consteval Text packed(std::string_view text) {
  if (text.data() == nullptr) return {kNull, 0};
  const auto end = kStrings.sorted.begin() + kStrings.count;
  const size_t index = std::lower_bound(kStrings.sorted.begin(), end, text) - kStrings.sorted.begin();
  return {static_cast<uint16_t>(kStrings.at[index]), static_cast<uint16_t>(text.size())};
}
std::string_view view(Text text) {
  return text.at == kNull ? std::string_view() : std::string_view(kText.data() + text.at, text.size);
}

// Each row with its strings as Text and its numbers in 16 bits.
struct PackedParameter {
  Text name, type;
  int8_t option;
};
struct PackedAttribute {
  Text name, default_value;
  int8_t kind;
  bool required;
};
struct PackedConstraint {
  uint64_t tensor_types;
  Text name, other_types;
  bool allows_other;
};
struct PackedRow {
  Text domain, name;
  int16_t since_version, min_inputs, max_inputs, min_outputs, max_outputs;  // -1: unbounded
  int16_t first_input, inputs, first_output, outputs, first_attribute, attributes, first_constraint, constraints;
  bool deprecated, is_function;
};

consteval int16_t small(int number) {
  if (number == kUnbounded) return -1;
  if (number < 0 || number > INT16_MAX) throw "a number of the table needs more than 16 bits";
  return static_cast<int16_t>(number);
}
consteval PackedParameter pack(const SchemaParameter& row) { return {packed(row.name), packed(row.type), row.option}; }
consteval PackedAttribute pack(const SchemaAttribute& row) {
  return {packed(row.name), packed(row.default_value), row.kind, row.required};
}
consteval PackedConstraint pack(const SchemaConstraint& row) {
  return {row.tensor_types, packed(row.name), packed(row.other_types), row.allows_other};
}
consteval PackedRow pack(const Row& row) {
  return {.domain = packed(row.domain),
          .name = packed(row.name),
          .since_version = small(row.since_version),
          .min_inputs = small(row.min_inputs),
          .max_inputs = small(row.max_inputs),
          .min_outputs = small(row.min_outputs),
          .max_outputs = small(row.max_outputs),
          .first_input = small(row.first_input),
          .inputs = small(row.inputs),
          .first_output = small(row.first_output),
          .outputs = small(row.outputs),
          .first_attribute = small(row.first_attribute),
          .attributes = small(row.attributes),
          .first_constraint = small(row.first_constraint),
          .constraints = small(row.constraints),
          .deprecated = row.deprecated,
          .is_function = row.is_function};
}
template <typename T, size_t kCount>
consteval auto pack_all(const T (&rows)[kCount]) {
  std::array<decltype(pack(rows[0])), kCount> all{};
  for (size_t i = 0; i < kCount; ++i) all[i] = pack(rows[i]);
  return all;
}
constexpr auto kPackedParameters = pack_all(kParameters);
constexpr auto kPackedAttributes = pack_all(kAttributes);
constexpr auto kPackedConstraints = pack_all(kConstraints);
constexpr auto kPackedRows = pack_all(kRows);

int limit(int16_t number) { return number < 0 ? kUnbounded : number; }
size_t place(int16_t number) { return static_cast<size_t>(number); }
Schema unpacked(const PackedRow& row) {
  return {.domain = view(row.domain),
          .name = view(row.name),
          .since_version = row.since_version,
          .min_inputs = row.min_inputs,
          .max_inputs = limit(row.max_inputs),
          .min_outputs = row.min_outputs,
          .max_outputs = limit(row.max_outputs),
          .deprecated = row.deprecated,
          .is_function = row.is_function,
          .inputs = {place(row.first_input), place(row.inputs)},
          .outputs = {place(row.first_output), place(row.outputs)},
          .attributes = {place(row.first_attribute), place(row.attributes)},
          .constraints = {place(row.first_constraint), place(row.constraints)}};
}

std::string_view plain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }
std::string_view shown(std::string_view domain) { return domain.empty() ? "ai.onnx" : domain; }

// The first row of each operator in a hash table (open addressing) that the compiler fills: passes and shape inference
// look operators up for each node several times, and a table made at the first look would cost the first session.
constexpr size_t hash(std::string_view name) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
  return hash;
}
constexpr bool same_operator(const PackedRow& a, const PackedRow& b) {
  return a.name.at == b.name.at && a.name.size == b.name.size && a.domain.size == b.domain.size;
}
constexpr size_t kSlots = 1024;  // of which two fifths are taken
constexpr uint16_t kNoRow = 0xffff;
constexpr auto kFirstRows = [] {
  std::array<uint16_t, kSlots> slots{};
  slots.fill(kNoRow);
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (i > 0 && same_operator(kPackedRows[i - 1], kPackedRows[i])) continue;
    size_t slot = hash(kRows[i].name) % kSlots;
    while (slots[slot] != kNoRow) slot = (slot + 1) % kSlots;
    slots[slot] = static_cast<uint16_t>(i);
  }
  return slots;
}();

// The rows of one operator, oldest first.
std::span<const PackedRow> versions(std::string_view domain, std::string_view name) {
  for (size_t slot = hash(name) % kSlots; kFirstRows[slot] != kNoRow; slot = (slot + 1) % kSlots) {
    const auto first = kPackedRows.begin() + kFirstRows[slot];
    if (view(first->name) != name || view(first->domain) != plain(domain)) continue;
    return {first, std::find_if_not(first, kPackedRows.end(),
                                    [&](const PackedRow& row) { return same_operator(*first, row); })};
  }
  return {};
}

std::optional<SchemaParameter> parameter_at(const SchemaList<SchemaParameter>& parameters, size_t index) {
  if (index < parameters.size()) return parameters[index];
  if (parameters.empty()) return std::nullopt;
  const SchemaParameter last = parameters[parameters.size() - 1];
  return last.option >= 2 ? std::optional(last) : std::nullopt;
}

template <typename List>
auto find_named(const List& list, std::string_view name) -> std::optional<decltype(list[0])> {
  for (auto row : list)
    if (row.name == name) return row;
  return std::nullopt;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) text += (i > 0 ? ", " : "") + names[i];
  return text;
}

}  // namespace

template <>
SchemaParameter SchemaList<SchemaParameter>::read(size_t index) {
  const PackedParameter& row = kPackedParameters[index];
  return {view(row.name), view(row.type), row.option};
}
template <>
SchemaAttribute SchemaList<SchemaAttribute>::read(size_t index) {
  const PackedAttribute& row = kPackedAttributes[index];
  return {view(row.name), row.kind, row.required, view(row.default_value)};
}
template <>
SchemaConstraint SchemaList<SchemaConstraint>::read(size_t index) {
  const PackedConstraint& row = kPackedConstraints[index];
  return {view(row.name), row.tensor_types, row.allows_other, view(row.other_types)};
}

std::optional<SchemaConstraint> Schema::find_constraint(std::string_view type) const {
  return find_named(constraints, type);
}
std::optional<SchemaAttribute> Schema::find_attribute(std::string_view attribute) const {
  return find_named(attributes, attribute);
}
std::optional<SchemaParameter> Schema::input(size_t index) const { return parameter_at(inputs, index); }
std::optional<SchemaParameter> Schema::output(size_t index) const { return parameter_at(outputs, index); }

std::optional<Schema> find_schema(std::string_view domain, std::string_view name, int opset) {
  const PackedRow* found = nullptr;
  for (const PackedRow& row : versions(domain, name))
    if (row.since_version <= opset) found = &row;
  return found == nullptr ? std::nullopt : std::optional(unpacked(*found));
}

int newest_opset(std::string_view domain) {
  if (plain(domain).empty()) return kNewestOnnxOpset;
  if (domain == "ai.onnx.ml") return kNewestMlOpset;
  return domain == kContribDomain || domain == "com.microsoft.nchwc" || domain == "ai.onnx.preview" ? 1 : 0;
}

int newest_readable_opset(std::string_view domain) { return domain == kContribDomain ? INT_MAX : newest_opset(domain); }

std::vector<std::string> close_operator_names(std::string_view domain, std::string_view name) {
  constexpr size_t kLongestName = 128;  // distances cost the product of the lengths, and the name is the model's
  constexpr size_t kMostNames = 3;
  if (name.size() > kLongestName) return {};
  std::vector<std::pair<size_t, std::string_view>> close;
  const size_t farthest = std::min(std::max<size_t>(2, name.size() / 3), std::max<size_t>(name.size(), 1) - 1);
  for (const PackedRow& row : kPackedRows) {
    const std::string_view known = view(row.name);
    if (view(row.domain) != plain(domain) || (!close.empty() && close.back().second == known)) continue;
    const size_t distance = edit_distance(name, known);
    if (distance <= farthest) close.emplace_back(distance, known);
  }
  std::sort(close.begin(), close.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(close.size(), kMostNames); ++i) names.emplace_back(close[i].second);
  return names;
}

Status unknown_operator(const Graph& graph, const Node& node) {
  const int opset = graph.opset(node.domain);
  const std::string asked = format("Node {} asks for operator {} of domain \"{}\" at opset {}", node.label(graph),
                                   node.op_type, shown(node.domain), opset);
  if (newest_opset(node.domain) == 0) {
    return unsupported(
        "{}, but Tenon knows no operator of that domain; it knows ai.onnx up to opset {}. An EP library may bring it "
        "(--plugin NAME=LIBRARY, register_ep_library).",
        asked, kNewestOnnxOpset);
  }
  if (const auto rows = versions(node.domain, node.op_type); !rows.empty())
    return unsupported("{}, which does not exist up to opset {}; it exists from opset {} on.", asked, opset,
                       rows.front().since_version);
  const std::vector<std::string> names = close_operator_names(node.domain, node.op_type);
  return unsupported("{}, which does not exist up to opset {}{}{}.", asked, newest_opset(node.domain),
                     names.empty() ? "" : "; close names are ", joined(names));
}

}  // namespace tenon
