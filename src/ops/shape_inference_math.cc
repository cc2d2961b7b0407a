// Matrix products, reductions, recurrent layers and Einsum.
#include "ops/shape_inference_math.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/status.h"

namespace tenon::infer {
namespace {

Status infer_matmul_of(Context& c, size_t a, size_t b) {
  if (!c.ranked(a) || !c.ranked(b)) return {};
  TENON_TRY_ASSIGN(Dims dims, matmul_dims(c.dims(a), c.dims(b)));
  return c.set_dims(0, std::move(dims));
}

Status infer_matmul(Context& c) {
  c.set_type(0, c.type(0));
  return infer_matmul_of(c, 0, 1);
}

Status infer_matmul_integer(Context& c) {
  c.set_type(0, DataType::kInt32);
  return infer_matmul_of(c, 0, 1);
}

Status infer_qlinear_matmul(Context& c) {
  c.set_type(0, c.type(7));
  return infer_matmul_of(c, 0, 3);
}

Status infer_gemm(Context& c) {
  c.set_type(0, c.type(0));
  TENON_TRY(c.require_rank(0, 2, "A"));
  TENON_TRY(c.require_rank(1, 2, "B"));
  Dims out(2);
  const bool trans_a = c.node().int_or("transA", 0) != 0, trans_b = c.node().int_or("transB", 0) != 0;
  if (c.ranked(0)) out[0] = c.dims(0)[trans_a ? 1 : 0];
  if (c.ranked(1)) out[1] = c.dims(1)[trans_b ? 0 : 1];
  if (c.ranked(0) && c.ranked(1)) {
    const Dim &k_a = c.dims(0)[trans_a ? 0 : 1], &k_b = c.dims(1)[trans_b ? 1 : 0];
    TENON_INVALID_IF(k_a.known() && k_b.known() && k_a.value != k_b.value,
                     "A {} (transA {}) and B {} (transB {}) do not multiply: {} against {}.", text(c.dims(0)),
                     trans_a ? 1 : 0, text(c.dims(1)), trans_b ? 1 : 0, k_a.value, k_b.value);
  }
  if (c.ranked(2)) {
    TENON_TRY_ASSIGN(Dims both, broadcast(out, c.dims(2)));
    for (size_t i = 0; i < both.size(); ++i)
      TENON_INVALID_IF(both.size() != 2 || certainly_differ(both[i], out[i]),
                       "C {} does not broadcast to the product {}.", text(c.dims(2)), text(out));
  }
  return c.set_dims(0, std::move(out));
}

Status infer_reduce(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  const bool keep = c.node().int_or("keepdims", 1) != 0;
  std::optional<std::vector<int64_t>> axes;
  if (c.node().has("axes")) {
    std::span<const int64_t> attribute = c.node().ints("axes");
    axes.emplace(attribute.begin(), attribute.end());
  } else if (c.has(1)) {
    axes = c.values(1);
    if (!axes) {
      if (keep) return c.set_dims(0, Dims(c.dims(0).size()));
      if (c.ranked(1) && c.rank(1) == 1 && c.dims(1)[0].known() && c.dims(1)[0].value <= c.rank(0) &&
          c.dims(1)[0].value > 0)
        return c.set_dims(0, Dims(static_cast<size_t>(c.rank(0) - c.dims(1)[0].value)));
      return {};
    }
  }
  std::vector<bool> reduced(c.dims(0).size(), false);
  if (!axes || axes->empty()) {
    if (c.node().int_or("noop_with_empty_axes", 0) != 0) return c.copy(0);
    std::fill(reduced.begin(), reduced.end(), true);
  } else {
    for (int64_t axis : *axes) {
      TENON_TRY_ASSIGN(axis, c.axis(axis, c.rank(0)));
      TENON_INVALID_IF(reduced[static_cast<size_t>(axis)], "Axis {} is repeated.", axis);
      reduced[static_cast<size_t>(axis)] = true;
    }
  }
  Dims out;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i]) {
      out.push_back(c.dims(0)[i]);
    } else if (keep) {
      out.push_back(number(1));
    }
  }
  return c.set_dims(0, std::move(out));
}

// LSTM, GRU and RNN: X [seq,batch,input] (layout 0) or [batch,seq,input] (layout 1).
Status infer_recurrent(Context& c) {
  for (size_t i = 0; i < 3; ++i) c.set_type(i, c.type(0));
  TENON_TRY(c.require_rank(0, 3, "X"));
  std::string_view direction = c.node().string_or("direction", "forward");
  const Dim directions = number(direction == "bidirectional" ? 2 : 1);
  Dim hidden;
  if (const Attribute* size = c.node().find("hidden_size")) {
    TENON_INVALID_IF(size->i < 1, "Attribute \"hidden_size\" ({}) has to be positive.", size->i);
    hidden = number(size->i);
  } else if (c.ranked(2) && c.rank(2) == 3) {
    hidden = c.dims(2)[2];
  }
  if (c.ranked(1)) TENON_TRY(c.require_rank(1, 3, "W"));
  if (c.ranked(2)) {
    TENON_TRY(c.require_rank(2, 3, "R"));
    const Dim& width = c.dims(2)[2];
    TENON_INVALID_IF(width.known() && hidden.known() && width.value != hidden.value,
                     "R {} does not fit the hidden size {}.", text(c.dims(2)), hidden.value);
  }
  const bool batch_first = c.node().int_or("layout", 0) != 0;
  Dim seq, batch;
  if (c.ranked(0)) {
    seq = c.dims(0)[batch_first ? 1 : 0];
    batch = c.dims(0)[batch_first ? 0 : 1];
    if (c.ranked(1)) {
      const Dim &from = c.dims(0)[2], &to = c.dims(1)[2];
      TENON_INVALID_IF(from.known() && to.known() && from.value != to.value, "X {} does not fit W {}.", text(c.dims(0)),
                       text(c.dims(1)));
    }
  }
  TENON_TRY(c.set_dims(0, batch_first ? Dims{batch, seq, directions, hidden} : Dims{seq, directions, batch, hidden}));
  for (size_t i = 1; i < 3; ++i)
    TENON_TRY(c.set_dims(i, batch_first ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden}));
  return {};
}

// Letters of one term; "..." becomes '.' repeated for each dimension that it stands for.
Result<std::string> expand_term(std::string_view term, int64_t rank) {
  std::string letters;
  int64_t named = 0;
  for (char letter : term)
    if (letter != '.' && letter != ' ') ++named;
  bool ellipsis = false;
  for (size_t i = 0; i < term.size(); ++i) {
    const char letter = term[i];
    if (letter == ' ') continue;
    if (letter != '.') {
      TENON_INVALID_IF(!(letter >= 'a' && letter <= 'z') && !(letter >= 'A' && letter <= 'Z'),
                       "The equation's term \"{}\" has something other than letters.", term);
      letters += letter;
      continue;
    }
    TENON_INVALID_IF(ellipsis || term.substr(i, 3) != "...", "The equation's term \"{}\" has a misplaced dot.", term);
    TENON_INVALID_IF(rank < named, "The equation's term \"{}\" does not fit rank {}.", term, rank);
    ellipsis = true;
    letters.append(static_cast<size_t>(rank - named), '.');
    i += 2;
  }
  TENON_INVALID_IF(static_cast<int64_t>(letters.size()) != rank, "The equation's term \"{}\" does not fit rank {}.",
                   term, rank);
  return letters;
}

Status infer_einsum(Context& c) {
  c.set_type(0, c.type(0));
  std::string_view equation = c.node().string_or("equation", "");
  size_t arrow = equation.find("->");
  std::string_view left = equation.substr(0, arrow);
  std::map<char, Dim> sizes;
  std::map<char, int> counts;
  Dims ellipsis;
  size_t input = 0;
  while (true) {
    size_t comma = left.find(',');
    if (!c.has(input)) return invalid_argument("The equation \"{}\" has more terms than there are inputs.", equation);
    if (!c.ranked(input)) return {};
    TENON_TRY_ASSIGN(std::string letters, expand_term(left.substr(0, comma), c.rank(input)));
    Dims dots;
    for (size_t i = 0; i < letters.size(); ++i) {
      const Dim& dim = c.dims(input)[i];
      if (letters[i] == '.') {
        dots.push_back(dim);
        continue;
      }
      ++counts[letters[i]];
      auto [slot, fresh] = sizes.emplace(letters[i], dim);
      if (fresh || slot->second.value == 1 || !slot->second.known()) {
        if (!fresh && dim.value != 1) slot->second = dim.known() || slot->second.value == 1 ? dim : slot->second;
        continue;
      }
      TENON_INVALID_IF(dim.known() && dim.value != 1 && dim.value != slot->second.value,
                       "Label '{}' of the equation \"{}\" has sizes {} and {}.", letters[i], equation,
                       slot->second.value, dim.value);
    }
    TENON_TRY_ASSIGN(ellipsis, broadcast(ellipsis, dots));
    ++input;
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  Dims out;
  if (arrow == std::string_view::npos) {
    out = ellipsis;
    for (const auto& [letter, count] : counts)
      if (count == 1) out.push_back(sizes[letter]);
  } else {
    std::string_view right = equation.substr(arrow + 2);
    for (size_t i = 0; i < right.size(); ++i) {
      if (right[i] == ' ') continue;
      if (right.substr(i, 3) == "...") {
        out.insert(out.end(), ellipsis.begin(), ellipsis.end());
        i += 2;
        continue;
      }
      auto slot = sizes.find(right[i]);
      TENON_INVALID_IF(slot == sizes.end(), "Label '{}' of the equation \"{}\" is in no input.", right[i], equation);
      out.push_back(slot->second);
    }
  }
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {
    {"Einsum", &infer_einsum},
    {"GRU", &infer_recurrent},
    {"Gemm", &infer_gemm},
    {"LSTM", &infer_recurrent},
    {"MatMul", &infer_matmul},
    {"MatMulInteger", &infer_matmul_integer},
    {"QLinearMatMul", &infer_qlinear_matmul},
    {"RNN", &infer_recurrent},
    {"ReduceL1", &infer_reduce},
    {"ReduceL2", &infer_reduce},
    {"ReduceLogSum", &infer_reduce},
    {"ReduceLogSumExp", &infer_reduce},
    {"ReduceMax", &infer_reduce},
    {"ReduceMean", &infer_reduce},
    {"ReduceMin", &infer_reduce},
    {"ReduceProd", &infer_reduce},
    {"ReduceSum", &infer_reduce},
    {"ReduceSumSquare", &infer_reduce},
};

}  // namespace

Result<Dims> matmul_dims(const Dims& a, const Dims& b) {
  TENON_INVALID_IF(a.empty() || b.empty(), "A {} and B {} do not multiply: a scalar is no matrix.", text(a), text(b));
  const Dim& k_a = a.back();
  const Dim& k_b = b.size() == 1 ? b[0] : b[b.size() - 2];
  TENON_INVALID_IF(k_a.known() && k_b.known() && k_a.value != k_b.value,
                   "A {} and B {} do not multiply: {} against {}.", text(a), text(b), k_a.value, k_b.value);
  Dims batch_a(a.begin(), a.size() >= 2 ? a.end() - 2 : a.begin());
  Dims batch_b(b.begin(), b.size() >= 2 ? b.end() - 2 : b.begin());
  TENON_TRY_ASSIGN(Dims out, broadcast(batch_a, batch_b));
  if (a.size() >= 2) out.push_back(a[a.size() - 2]);
  if (b.size() >= 2) out.push_back(b.back());
  return out;
}

std::span<const Row> math_rows() { return kRows; }

}  // namespace tenon::infer
