// LinearClassifier, LinearRegressor, SVMClassifier and SVMRegressor.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/ml/features.h"
#include "ep/cpu/ops/ml/scores.h"
#include "ep/cpu/ops/sequence/objects.h"
#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/gemm.h"
#include "ep/cpu/simd/lines.h"
#include "ops/attributes.h"

namespace tenon::cpu::ref {

namespace {

std::vector<float> floats_of(const Attributes& attributes, std::string_view name) {
  const std::span<const float> values = attributes.numbers(name);
  return {values.begin(), values.end()};
}

// Rows of features that are worked on together.
constexpr int64_t kBlockRows = 8 * kGemmRows;

// body(first, count, x) for blocks of rows of features, as float32. Inputs that are float32 already are not copied.
template <typename Body>
void each_block(KernelContext& context, const FeatureRows& x, DataType type, ReadFeatures read, int64_t work,
                const Body& body) {
  context.pool->parallel_for(x.rows, row_grain(work), [&](int64_t begin, int64_t end) {
    const bool copies = type != DataType::kFloat;
    std::vector<float> copied(copies ? std::min(kBlockRows, end - begin) * x.features : 0);
    for (int64_t first = begin; first < end; first += kBlockRows) {
      const int64_t count = std::min(kBlockRows, end - first);
      const float* rows = copied.data();
      if (copies) {
        read(context.inputs[0], first * x.features, count * x.features, copied.data());
      } else {
        rows = context.input<float>(0) + first * x.features;
      }
      body(first, count, rows);
    }
  });
}

// Rows times the transpose of a matrix [targets, features], plus one number a target, in float32.
class RowProducts {
 public:
  // Errors: there is no memory to pack the matrix in.
  static Result<RowProducts> create(std::vector<float> matrix, std::vector<float> added, int64_t features) {
    RowProducts made;
    made.features_ = features;
    made.targets_ = std::ssize(added);
    made.added_ = std::move(added);
    if (made.targets_ == 1) {
      made.matrix_ = std::move(matrix);
      return made;
    }
    made.packed_ = aligned_floats(std::max<int64_t>(1, gemm_packed_floats(features, made.targets_)));
    if (made.packed_ == nullptr) return resource_exhausted("There is no memory for {} coefficients.", matrix.size());
    gemm_table().pack(matrix.data(), 1, features, features, made.targets_, 0, gemm_panels(made.targets_),
                      made.packed_.get());
    return made;
  }
  int64_t targets() const { return targets_; }
  int64_t work() const { return features_ * targets_; }

  // y[count][targets], whose rows are `stride` apart; one target has no stride.
  void run(const float* rows, int64_t count, float* y, int64_t stride) const {
    if (features_ == 0) {
      for (int64_t i = 0; i < count; ++i) std::copy(added_.begin(), added_.end(), y + i * stride);
      return;
    }
    GemmTask task{.a = rows, .lda = features_, .c = y, .ldc = stride, .m = count, .n = targets_, .k = features_};
    if (targets_ == 1) {
      // The rows are the columns of a transposed matrix: dot products, instead of a panel with one column of sixteen.
      task.a = matrix_.data();
      task.plain_b = rows;
      task.row_stride = 1;
      task.column_stride = features_;
      task.m = 1;
      task.n = count;
      task.ldc = count;
      gemm_table().run(task);
      for (int64_t i = 0; i < count; ++i) y[i] += added_[0];
      return;
    }
    task.b = packed_.get();
    task.panel_stride = features_ * kGemmPanel;
    task.bias = added_.data();
    gemm_table().run(task);
  }

 private:
  RowProducts() = default;

  int64_t features_ = 0, targets_ = 0;
  std::vector<float> added_;
  std::vector<float> matrix_;  // of one target
  std::shared_ptr<float> packed_;
};

// The place of the largest of each of `rows` rows, the first of equal ones.
void largest_places(const float* scores, int64_t rows, int64_t n, int64_t* places) {
  for (int64_t r = 0; r < rows; ++r, scores += n) {
    float most = scores[0];
    int64_t at = 0;
    for (int64_t i = 1; i < n; ++i) {
      const bool more = scores[i] > most;
      most = more ? scores[i] : most;
      at = more ? i : at;
    }
    places[r] = at;
  }
}

// The classes that a classifier writes: the model's, or "0" and "1" where it has not two of them.
class LabelWriter {
 public:
  explicit LabelWriter(const ClassLabels& labels)
      : strings_(make_string_constant(Shape{std::ssize(labels.strings)}, labels.strings)),
        integers_(labels.integers),
        ones_(make_string_constant(Shape{2}, {"0", "1"})),
        are_strings_(labels.are_strings()) {}

  void write(KernelContext& context, int64_t row, int64_t place) const {
    if (context.outputs[0] == nullptr) return;
    if (are_strings_) {
      context.output<TextAddress>(0)[row] = &strings_->strings[place];
    } else {
      context.output<int64_t>(0)[row] = integers_[place];
    }
  }
  // One of two.
  void write_second(KernelContext& context, int64_t row, bool second) const {
    const size_t classes = are_strings_ ? strings_->strings.size() : integers_.size();
    if (classes == 2) return write(context, row, second ? 1 : 0);
    if (context.outputs[0] == nullptr) return;
    if (are_strings_) {
      context.output<TextAddress>(0)[row] = &ones_->strings[second ? 1 : 0];
    } else {
      context.output<int64_t>(0)[row] = second ? 1 : 0;
    }
  }

 private:
  ConstantRef strings_;
  std::vector<int64_t> integers_;
  ConstantRef ones_;
  bool are_strings_;
};

// --- linear models ---

Result<RefImpl> make_linear_classifier(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Attributes attributes(*node.node);
  TENON_TRY_ASSIGN(const ClassLabels labels, read_class_labels(*node.node));
  TENON_TRY_ASSIGN(const PostTransform transform, read_post_transform(*node.node));
  TENON_TRY_ASSIGN(const FeatureRows x, feature_rows(*node.node, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const ReadFeatures read, feature_reader(node, 0));
  TENON_TRY_ASSIGN(const int64_t columns, score_columns(*node.node));
  std::vector<float> coefficients = floats_of(attributes, "coefficients");
  std::vector<float> intercepts = floats_of(attributes, "intercepts");
  const auto targets = std::ssize(intercepts);
  // ONNX Runtime takes the first ones of a longer list: an example of its own (logreg_iris.onnx) has such a list.
  TENON_INVALID_IF(
      targets == 0 || std::ssize(coefficients) % targets != 0 || std::ssize(coefficients) / targets < x.features,
      "LinearClassifier has {} coefficients and {} intercepts for {} features.", coefficients.size(), targets,
      x.features);
  coefficients.resize(targets * x.features);
  TENON_INVALID_IF(targets > 1 && targets > labels.size(), "LinearClassifier has {} intercepts for {} classes.",
                   targets, labels.size());
  TENON_TRY(require_output(node, 0, Shape{x.rows}));
  TENON_TRY(require_output(node, 1, Shape{x.rows, columns}));
  TENON_TRY_ASSIGN(RowProducts linear, RowProducts::create(std::move(coefficients), std::move(intercepts), x.features));
  RefImpl impl;
  impl.run = [x, type = node.inputs[0].type, read, columns, targets, transform, linear = std::move(linear),
              writer = LabelWriter(labels)](KernelContext& context) -> Status {
    each_block(context, x, type, read, linear.work(), [&](int64_t first, int64_t count, const float* rows) {
      // Scores of classes are made where they belong; one score becomes those of two classes there.
      const bool in_place = targets == columns && context.outputs[1] != nullptr;
      std::vector<float> elsewhere(in_place ? 0 : count * targets);
      float* const scores = in_place ? context.output<float>(1) + first * columns : elsewhere.data();
      linear.run(rows, count, scores, targets);
      if (targets > 1) {
        std::array<int64_t, kBlockRows> places;
        largest_places(scores, count, targets, places.data());
        for (int64_t r = 0; r < count; ++r) writer.write(context, first + r, places[r]);
        if (in_place) transform_rows(scores, count, columns, transform);
        return;
      }
      for (int64_t r = 0; r < count; ++r) {
        writer.write_second(context, first + r, scores[r] > 0);
        if (context.outputs[1] == nullptr) continue;
        float* const to = context.output<float>(1) + (first + r) * columns;
        to[0] = scores[r];
        if (columns == 2) {
          expand_score({to, 2}, SecondClass::kComplement, transform);
        } else if (transform == PostTransform::kProbit) {
          transform_scores({to, 1}, transform);
        }
      }
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_linear_regressor(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Attributes attributes(*node.node);
  TENON_TRY_ASSIGN(const PostTransform transform, read_post_transform(*node.node));
  TENON_TRY_ASSIGN(const FeatureRows x, feature_rows(*node.node, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const ReadFeatures read, feature_reader(node, 0));
  TENON_TRY_ASSIGN(const int64_t targets, score_columns(*node.node));
  std::vector<float> coefficients = floats_of(attributes, "coefficients");
  std::vector<float> intercepts = floats_of(attributes, "intercepts");
  TENON_INVALID_IF(targets < 1 || std::ssize(coefficients) / targets < x.features,
                   "LinearRegressor has {} coefficients for {} targets and {} features.", coefficients.size(), targets,
                   x.features);
  coefficients.resize(targets * x.features);  // as above
  TENON_INVALID_IF(!intercepts.empty() && std::ssize(intercepts) != targets,
                   "LinearRegressor has {} intercepts for {} targets.", intercepts.size(), targets);
  intercepts.resize(targets, 0);
  TENON_TRY(require_output(node, 0, Shape{x.rows, targets}));
  TENON_TRY_ASSIGN(RowProducts linear, RowProducts::create(std::move(coefficients), std::move(intercepts), x.features));
  RefImpl impl;
  impl.run = [x, type = node.inputs[0].type, read, targets, transform,
              linear = std::move(linear)](KernelContext& context) -> Status {
    each_block(context, x, type, read, linear.work(), [&](int64_t first, int64_t count, const float* rows) {
      float* const scores = context.output<float>(0) + first * targets;
      linear.run(rows, count, scores, targets);
      // One target is no distribution; what ONNX Runtime does to it is the inverse of the normal one's alone.
      if (targets > 1 || transform == PostTransform::kProbit) transform_rows(scores, count, targets, transform);
    });
    return {};
  };
  return impl;
}

// --- support vector machines ---

struct SvmKernel {
  enum class Kind : uint8_t { kLinear, kPoly, kRbf, kSigmoid };
  Kind kind = Kind::kLinear;
  float gamma = 0, offset = 0, degree = 0;

  // In place, over dot products (squared distances for kRbf) of features.
  void apply(float* values, int64_t n) const {
    const auto apply_unary = [&](Unary function) {
      eltwise_table().unary[static_cast<int>(function)](values, values, n, 0, 0);
    };
    const auto apply_binary = [&](Binary function, float operand) {
      eltwise_table().binary[static_cast<int>(function)](values, 1, &operand, 0, values, n);
    };
    if (kind == Kind::kLinear) return;
    apply_binary(Binary::kMul, kind == Kind::kRbf ? -gamma : gamma);
    if (kind == Kind::kRbf) return apply_unary(Unary::kExp);
    apply_binary(Binary::kAdd, offset);
    if (kind == Kind::kSigmoid) return apply_unary(Unary::kTanh);
    if (degree == 2) return apply_unary(Unary::kSquare);
    if (degree == 3) return apply_unary(Unary::kCube);
    for (int64_t i = 0; i < n; ++i) values[i] = std::pow(values[i], degree);
  }
};

Result<SvmKernel> read_svm_kernel(const Node& node) {
  constexpr std::array<std::string_view, 4> kNames = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  const Attributes attributes(node);
  const std::string_view name = attributes.text("kernel_type");
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  TENON_INVALID_IF(found == kNames.end(), "{} has the unknown kernel_type \"{}\".", node.op_type, name);
  const std::span<const float> parameters = attributes.numbers("kernel_params");
  TENON_INVALID_IF(!parameters.empty() && parameters.size() != 3,
                   "{} has {} kernel_params, not gamma, coef0 and degree.", node.op_type, parameters.size());
  SvmKernel kernel{.kind = static_cast<SvmKernel::Kind>(found - kNames.begin())};
  if (!parameters.empty()) {
    kernel.gamma = parameters[0];
    kernel.offset = parameters[1];
    kernel.degree = parameters[2];
  }
  return kernel;
}

// A kernel's values between rows of features and support vectors.
class SupportVectors {
 public:
  // `vectors`: [count, features].
  static Result<SupportVectors> create(const SvmKernel& kernel, std::vector<float> vectors, int64_t count,
                                       int64_t features) {
    SupportVectors made;
    made.kernel_ = kernel;
    made.features_ = features;
    made.count_ = count;
    if (kernel.kind == SvmKernel::Kind::kRbf) {
      made.columns_.resize(vectors.size());
      for (int64_t v = 0; v < count; ++v)
        for (int64_t f = 0; f < features; ++f) made.columns_[f * count + v] = vectors[v * features + f];
      return made;
    }
    TENON_TRY_ASSIGN(made.products_, RowProducts::create(std::move(vectors), std::vector<float>(count), features));
    return made;
  }
  int64_t count() const { return count_; }
  int64_t work() const { return (features_ + 8) * count_; }

  // y[rows][count()].
  void values(const float* x, int64_t rows, float* y) const {
    if (products_) {
      products_->run(x, rows, y, count_);
    } else {
      // Not from products: the difference of large numbers would lose what is left of small distances.
      for (int64_t r = 0; r < rows; ++r)
        line_table().square_distances(x + r * features_, columns_.data(), count_, features_, count_, y + r * count_);
    }
    kernel_.apply(y, rows * count_);
  }

 private:
  SupportVectors() = default;

  SvmKernel kernel_;
  int64_t features_ = 0, count_ = 0;
  std::vector<float> columns_;           // [features, count]
  std::optional<RowProducts> products_;  // for kernels of dot products
};

Result<RefImpl> make_svm_regressor(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Attributes attributes(*node.node);
  TENON_TRY_ASSIGN(const FeatureRows x, feature_rows(*node.node, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const ReadFeatures read, feature_reader(node, 0));
  TENON_TRY_ASSIGN(SvmKernel kernel, read_svm_kernel(*node.node));
  TENON_TRY(read_post_transform(*node.node).status());
  std::vector<float> vectors = floats_of(attributes, "support_vectors");
  std::vector<float> coefficients = floats_of(attributes, "coefficients");
  const std::span<const float> rho = attributes.numbers("rho");
  int64_t supports = attributes.integer("n_supports");
  TENON_INVALID_IF(rho.empty(), "SVMRegressor has no rho.");
  if (supports > 0) {
    TENON_INVALID_IF(std::ssize(coefficients) < supports || std::ssize(vectors) / supports != x.features ||
                         std::ssize(vectors) % supports != 0,
                     "SVMRegressor has {} numbers in {} support_vectors and {} coefficients for {} features.",
                     vectors.size(), supports, coefficients.size(), x.features);
  } else {
    // A linear model: the coefficients are the one vector.
    TENON_INVALID_IF(std::ssize(coefficients) != x.features, "SVMRegressor has {} coefficients for {} features.",
                     coefficients.size(), x.features);
    kernel = {};
    supports = 1;
    vectors = std::exchange(coefficients, {1.0f});
  }
  TENON_TRY(require_output(node, 0, Shape{x.rows, 1}));
  if (kernel.kind == SvmKernel::Kind::kLinear && supports > 1) {
    // The sum of products with vectors is the product with the sum of vectors.
    std::vector<double> sums(x.features);
    for (int64_t v = 0; v < supports; ++v)
      for (int64_t f = 0; f < x.features; ++f) sums[f] += double{coefficients[v]} * vectors[v * x.features + f];
    vectors.assign(sums.begin(), sums.end());
    coefficients = {1.0f};
    supports = 1;
  }
  coefficients.resize(supports);
  TENON_TRY_ASSIGN(SupportVectors made, SupportVectors::create(kernel, std::move(vectors), supports, x.features));
  TENON_TRY_ASSIGN(RowProducts total, RowProducts::create(std::move(coefficients), {rho[0]}, supports));
  RefImpl impl;
  impl.run = [x, type = node.inputs[0].type, read, one_class = attributes.flag("one_class"), vectors = std::move(made),
              total = std::move(total)](KernelContext& context) -> Status {
    each_block(context, x, type, read, vectors.work(), [&](int64_t first, int64_t count, const float* rows) {
      const auto values = std::make_unique_for_overwrite<float[]>(count * vectors.count());
      vectors.values(rows, count, values.get());
      float* const sums = context.output<float>(0) + first;
      total.run(values.get(), count, sums, 1);
      for (int64_t r = 0; one_class && r < count; ++r) sums[r] = sums[r] > 0 ? 1.0f : -1.0f;
    });
    return {};
  };
  return impl;
}

// A classifier with support vectors: each pair of classes votes.
struct SvmVotes {
  PostTransform transform = PostTransform::kNone;
  int64_t classes = 0, vectors = 0;
  std::vector<int64_t> first, count;  // of each class, among the vectors
  std::vector<float> coefficients, rho, prob_a, prob_b;

  int64_t pairs() const { return classes * (classes - 1) / 2; }

  // The sum over the vectors of a class, with the coefficients of a row.
  double sum_of(int64_t row, int64_t of, const float* values) const {
    return line_table().dot(coefficients.data() + row * vectors + first[of], values + first[of], count[of]);
  }

  // Scores of the pairs by the values of the vectors, and the class that wins most of them.
  int64_t vote(const float* values, std::vector<float>& scores) const {
    std::vector<int64_t> votes(classes);
    scores.assign(pairs(), 0);
    int64_t pair = 0;
    for (int64_t i = 0; i < classes; ++i) {
      for (int64_t j = i + 1; j < classes; ++j, ++pair) {
        const double sum = rho[pair] + sum_of(j - 1, i, values) + sum_of(i, j, values);
        scores[pair] = static_cast<float>(sum);
        ++votes[sum > 0 ? i : j];
      }
    }
    return std::max_element(votes.begin(), votes.end()) - votes.begin();
  }

  // The probability of each class from that of each pair: the fixed point of Wu, Lin and Weng (2004), as libsvm finds
  // it.
  std::vector<float> probabilities(const std::vector<float>& scores) const {
    const int64_t n = classes;
    std::vector<double> wins(n * n), matrix(n * n), p(n, 1.0 / static_cast<double>(n)), product(n);
    for (int64_t i = 0, pair = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j, ++pair) {
        const double one = 1 - logistic(scores[pair] * prob_a[pair] + prob_b[pair]);
        wins[i * n + j] = std::clamp(one, 1e-7, 1 - 1e-7);
        wins[j * n + i] = 1 - wins[i * n + j];
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        if (i == j) continue;
        matrix[i * n + i] += wins[j * n + i] * wins[j * n + i];
        matrix[i * n + j] = -wins[j * n + i] * wins[i * n + j];
      }
    }
    for (int round = 0; round < 100; ++round) {
      double total = 0, error = 0;
      for (int64_t i = 0; i < n; ++i) {
        product[i] = 0;
        for (int64_t j = 0; j < n; ++j) product[i] += matrix[i * n + j] * p[j];
        total += p[i] * product[i];
      }
      for (int64_t i = 0; i < n; ++i) error = std::max(error, std::fabs(product[i] - total));
      if (error < 0.005 / static_cast<double>(n)) break;
      for (int64_t i = 0; i < n; ++i) {
        const double change = (total - product[i]) / matrix[i * n + i];
        p[i] += change;
        total = (total + change * (change * matrix[i * n + i] + 2 * product[i])) / (1 + change) / (1 + change);
        for (int64_t j = 0; j < n; ++j) {
          product[j] = (product[j] + change * matrix[i * n + j]) / (1 + change);
          p[j] /= 1 + change;
        }
      }
    }
    return {p.begin(), p.end()};
  }

  // Scores as they are written.
  std::vector<float> finish(std::vector<float> scores) const {
    if (!prob_a.empty()) {
      std::vector<float> p = probabilities(scores);
      transform_scores(p, transform);
      return p;
    }
    if (classes > 2) {
      transform_scores(scores, transform);
      return scores;
    }
    scores.resize(2);
    expand_score(scores, transform == PostTransform::kNone ? SecondClass::kOpposite : SecondClass::kComplement,
                 transform);
    return scores;
  }
};

// `support`: the numbers of support_vectors.
Result<SvmVotes> read_svm_votes(const Node& node, const ClassLabels& labels, const FeatureRows& x, int64_t support) {
  const Attributes attributes(node);
  SvmVotes votes{.classes = labels.size()};
  TENON_TRY_ASSIGN(votes.transform, read_post_transform(node));
  votes.coefficients = floats_of(attributes, "coefficients");
  votes.rho = floats_of(attributes, "rho");
  votes.prob_a = floats_of(attributes, "prob_a");
  votes.prob_b = floats_of(attributes, "prob_b");
  const std::span<const int64_t> count = attributes.integers("vectors_per_class");
  votes.count.assign(count.begin(), count.end());
  TENON_INVALID_IF(std::ssize(count) != votes.classes || votes.classes < 2,
                   "SVMClassifier has {} vectors_per_class for {} classes.", count.size(), votes.classes);
  for (int64_t one : count) {
    TENON_INVALID_IF(one < 0 || one > support, "SVMClassifier has a class of {} vectors.", one);
    votes.first.push_back(votes.vectors);
    votes.vectors += one;
  }
  TENON_INVALID_IF(votes.vectors == 0 || support != votes.vectors * x.features,
                   "SVMClassifier has {} numbers in {} support_vectors for {} features.", support, votes.vectors,
                   x.features);
  TENON_INVALID_IF(
      std::ssize(votes.coefficients) < (votes.classes - 1) * votes.vectors || std::ssize(votes.rho) < votes.pairs(),
      "SVMClassifier has {} coefficients and {} rho for {} classes with {} vectors.", votes.coefficients.size(),
      votes.rho.size(), votes.classes, votes.vectors);
  TENON_INVALID_IF(
      votes.prob_a.size() != votes.prob_b.size() || (!votes.prob_a.empty() && std::ssize(votes.prob_a) < votes.pairs()),
      "SVMClassifier has {} prob_a and {} prob_b for {} pairs of classes.", votes.prob_a.size(), votes.prob_b.size(),
      votes.pairs());
  return votes;
}

Result<RefImpl> make_linear_svm(RefNode& node, const ClassLabels& labels, const FeatureRows& x, ReadFeatures read) {
  const Attributes attributes(*node.node);
  TENON_TRY_ASSIGN(const PostTransform transform, read_post_transform(*node.node));
  std::vector<float> coefficients = floats_of(attributes, "coefficients");
  const std::span<const float> rho = attributes.numbers("rho");
  const int64_t classes = labels.size();
  TENON_INVALID_IF(std::ssize(coefficients) != classes * x.features || rho.empty(),
                   "SVMClassifier has {} coefficients and {} rho for {} classes and {} features.", coefficients.size(),
                   rho.size(), classes, x.features);
  const bool all_positive = std::all_of(coefficients.begin(), coefficients.end(), [](float c) { return c >= 0; });
  TENON_TRY_ASSIGN(RowProducts linear,
                   RowProducts::create(std::move(coefficients), std::vector<float>(classes, rho[0]), x.features));
  RefImpl impl;
  impl.run = [x, type = node.inputs[0].type, read, classes, transform, all_positive, linear = std::move(linear),
              writer = LabelWriter(labels)](KernelContext& context) -> Status {
    each_block(context, x, type, read, linear.work(), [&](int64_t first, int64_t count, const float* rows) {
      std::vector<float> elsewhere(context.outputs[1] == nullptr ? count * classes : 0);
      float* const scores = elsewhere.empty() ? context.output<float>(1) + first * classes : elsewhere.data();
      linear.run(rows, count, scores, classes);
      std::array<int64_t, kBlockRows> places;
      largest_places(scores, count, classes, places.data());
      for (int64_t r = 0; r < count; ++r) {
        // With two classes the higher score says whether the second one wins.
        const float best = scores[r * classes + places[r]];
        if (classes == 2 && (all_positive ? best >= 0.5f : best > 0)) places[r] = 1;
        writer.write(context, first + r, places[r]);
      }
      transform_rows(scores, count, classes, transform);
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_svm_classifier(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(const ClassLabels labels, read_class_labels(*node.node));
  TENON_TRY_ASSIGN(const FeatureRows x, feature_rows(*node.node, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const ReadFeatures read, feature_reader(node, 0));
  TENON_TRY_ASSIGN(const int64_t columns, score_columns(*node.node));
  TENON_TRY(require_output(node, 0, Shape{x.rows}));
  TENON_TRY(require_output(node, 1, Shape{x.rows, columns}));
  const Attributes attributes(*node.node);
  if (attributes.integers("vectors_per_class").empty()) return make_linear_svm(node, labels, x, read);
  TENON_TRY_ASSIGN(const SvmKernel kernel, read_svm_kernel(*node.node));
  std::vector<float> support = floats_of(attributes, "support_vectors");
  TENON_TRY_ASSIGN(SvmVotes votes, read_svm_votes(*node.node, labels, x, std::ssize(support)));
  TENON_TRY_ASSIGN(SupportVectors vectors,
                   SupportVectors::create(kernel, std::move(support), votes.vectors, x.features));
  RefImpl impl;
  impl.run = [x, type = node.inputs[0].type, read, columns, writer = LabelWriter(labels), vectors = std::move(vectors),
              votes = std::move(votes)](KernelContext& context) -> Status {
    each_block(context, x, type, read, vectors.work(), [&](int64_t first, int64_t count, const float* rows) {
      std::vector<float> scores;
      const auto values = std::make_unique_for_overwrite<float[]>(count * vectors.count());
      vectors.values(rows, count, values.get());
      for (int64_t r = 0; r < count; ++r) {
        writer.write(context, first + r, votes.vote(&values[r * vectors.count()], scores));
        scores = votes.finish(std::move(scores));
        if (context.outputs[1] != nullptr)
          std::copy(scores.begin(), scores.end(), context.output<float>(1) + (first + r) * columns);
      }
    });
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFeatureSet, &make_linear_classifier>("LinearClassifier", 1, kAnyVersion, kMlDomain),
    ref_row<kFeatureSet, &make_linear_regressor>("LinearRegressor", 1, kAnyVersion, kMlDomain),
    ref_row<kFeatureSet, &make_svm_classifier>("SVMClassifier", 1, kAnyVersion, kMlDomain),
    ref_row<kFeatureSet, &make_svm_regressor>("SVMRegressor", 1, kAnyVersion, kMlDomain),
};

}  // namespace

std::span<const KernelEntry> ref_linear_model_rows() { return kRows; }

}  // namespace tenon::cpu::ref
