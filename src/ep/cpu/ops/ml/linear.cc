// LinearClassifier, LinearRegressor, SVMClassifier and SVMRegressor.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "ep/cpu/ops/conv/support.h"
#include "ep/cpu/ops/ml/features.h"
#include "ep/cpu/ops/ml/scores.h"
#include "ep/cpu/ops/sequence/objects.h"
#include "ep/cpu/simd/gemm.h"
#include "ops/attributes.h"

namespace tenon::cpu::ref {

namespace {

std::vector<float> floats_of(const Attributes& attributes, std::string_view name) {
  const std::span<const float> values = attributes.numbers(name);
  return {values.begin(), values.end()};
}

double dot(const float* a, const float* b, int64_t count) {
  double sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (int k = 0; k < 4; ++k) sums[k] += static_cast<double>(a[i + k]) * b[i + k];
  for (; i < count; ++i) sums[0] += static_cast<double>(a[i]) * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// body(row, x) for each row of features, as float32.
template <typename Body>
void each_row(KernelContext& context, const FeatureRows& x, ReadFeatures read, int64_t work, const Body& body) {
  context.pool->parallel_for(x.rows, row_grain(work), [&](int64_t begin, int64_t end) {
    std::vector<float> row(x.features);
    for (int64_t r = begin; r < end; ++r) {
      read(context.inputs[0], r * x.features, x.features, row.data());
      body(r, row.data());
    }
  });
}

// X times the coefficients plus the intercepts, in float32, a block of rows at a time.
class LinearScores {
 public:
  LinearScores(const std::vector<float>& coefficients, std::vector<float> intercepts, int64_t features)
      : features_(features), targets_(std::ssize(intercepts)), intercepts_(std::move(intercepts)) {
    packed_ = aligned_floats(std::max<int64_t>(1, gemm_packed_floats(features_, targets_)));
    if (packed_ != nullptr)
      gemm_table().pack(coefficients.data(), 1, features_, features_, targets_, 0, gemm_panels(targets_),
                        packed_.get());
  }
  bool has_memory() const { return packed_ != nullptr; }

  // body(row, scores) for each row of features; `scores` has room for `width` numbers, the targets' first.
  template <typename Body>
  void each_row(KernelContext& context, const FeatureRows& x, ReadFeatures read, int64_t width,
                const Body& body) const {
    width = std::max(width, targets_);
    context.pool->parallel_for(x.rows, row_grain(features_ * targets_), [&](int64_t begin, int64_t end) {
      constexpr int64_t kBlock = 8 * kGemmRows;
      std::vector<float> rows(std::min(kBlock, end - begin) * features_), scores(std::min(kBlock, end - begin) * width);
      for (int64_t first = begin; first < end; first += kBlock) {
        const int64_t count = std::min(kBlock, end - first);
        read(context.inputs[0], first * features_, count * features_, rows.data());
        std::fill(scores.begin(), scores.end(), 0.0f);
        if (features_ > 0) {
          gemm_table().run({.a = rows.data(),
                            .lda = features_,
                            .b = packed_.get(),
                            .panel_stride = features_ * kGemmPanel,
                            .c = scores.data(),
                            .ldc = width,
                            .m = count,
                            .n = targets_,
                            .k = features_,
                            .bias = intercepts_.data()});
        } else {
          for (int64_t i = 0; i < count; ++i)
            std::copy(intercepts_.begin(), intercepts_.end(), scores.begin() + i * width);
        }
        for (int64_t i = 0; i < count; ++i) body(first + i, std::span(scores).subspan(i * width, width));
      }
    });
  }

 private:
  int64_t features_, targets_;
  std::vector<float> intercepts_;
  std::shared_ptr<float> packed_;
};

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
  TENON_INVALID_IF(
      targets == 0 || std::ssize(coefficients) % targets != 0 || std::ssize(coefficients) / targets != x.features,
      "LinearClassifier has {} coefficients and {} intercepts for {} features.", coefficients.size(), targets,
      x.features);
  TENON_INVALID_IF(targets > 1 && targets > labels.size(), "LinearClassifier has {} intercepts for {} classes.",
                   targets, labels.size());
  TENON_TRY(require_output(node, 0, Shape{x.rows}));
  TENON_TRY(require_output(node, 1, Shape{x.rows, columns}));
  RefImpl impl;
  const LinearScores linear(coefficients, std::move(intercepts), x.features);
  if (!linear.has_memory()) return resource_exhausted("There is no memory for {} coefficients.", coefficients.size());
  impl.run = [x, read, columns, targets, transform, linear,
              writer = LabelWriter(labels)](KernelContext& context) -> Status {
    linear.each_row(context, x, read, columns, [&](int64_t r, std::span<float> scores) {
      if (targets == 1) {
        writer.write_second(context, r, scores[0] > 0);
      } else {
        writer.write(context, r, std::max_element(scores.begin(), scores.end()) - scores.begin());
      }
      if (targets == 1 && columns == 2) {
        expand_score(scores, SecondClass::kComplement, transform);
      } else if (targets > 1 || transform == PostTransform::kProbit) {
        transform_scores(scores, transform);
      }
      if (context.outputs[1] != nullptr)
        std::copy(scores.begin(), scores.begin() + columns, context.output<float>(1) + r * columns);
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
  TENON_INVALID_IF(
      targets < 1 || std::ssize(coefficients) % targets != 0 || std::ssize(coefficients) / targets != x.features,
      "LinearRegressor has {} coefficients for {} targets and {} features.", coefficients.size(), targets, x.features);
  TENON_INVALID_IF(!intercepts.empty() && std::ssize(intercepts) != targets,
                   "LinearRegressor has {} intercepts for {} targets.", intercepts.size(), targets);
  intercepts.resize(targets, 0);
  TENON_TRY(require_output(node, 0, Shape{x.rows, targets}));
  RefImpl impl;
  const LinearScores linear(coefficients, std::move(intercepts), x.features);
  if (!linear.has_memory()) return resource_exhausted("There is no memory for {} coefficients.", coefficients.size());
  impl.run = [x, read, targets, transform, linear](KernelContext& context) -> Status {
    linear.each_row(context, x, read, targets, [&](int64_t r, std::span<float> scores) {
      // One target is no distribution; what ONNX Runtime does to it is the inverse of the normal one's alone.
      if (targets > 1 || transform == PostTransform::kProbit) transform_scores(scores, transform);
      std::copy(scores.begin(), scores.end(), context.output<float>(0) + r * targets);
    });
    return {};
  };
  return impl;
}

// --- support vector machines ---

struct SvmKernel {
  enum class Kind : uint8_t { kLinear, kPoly, kRbf, kSigmoid };
  Kind kind = Kind::kLinear;
  double gamma = 0, offset = 0, degree = 0;

  double operator()(const float* a, const float* b, int64_t count) const {
    switch (kind) {
      case Kind::kLinear:
        return dot(a, b, count);
      case Kind::kPoly:
        return std::pow(gamma * dot(a, b, count) + offset, degree);
      case Kind::kSigmoid:
        return std::tanh(gamma * dot(a, b, count) + offset);
      case Kind::kRbf:
        break;
    }
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double difference = static_cast<double>(a[i]) - b[i];
      sum += difference * difference;
    }
    return std::exp(-gamma * sum);
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
  const int64_t supports = attributes.integer("n_supports");
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
  }
  TENON_TRY(require_output(node, 0, Shape{x.rows, 1}));
  RefImpl impl;
  impl.run = [x, read, kernel, supports, rho = rho[0], one_class = attributes.flag("one_class"),
              vectors = std::move(vectors), coefficients = std::move(coefficients)](KernelContext& context) -> Status {
    each_row(context, x, read, x.features * std::max<int64_t>(supports, 1), [&](int64_t r, const float* row) {
      double sum = rho;
      if (supports <= 0) sum += kernel(row, coefficients.data(), x.features);
      for (int64_t v = 0; v < supports; ++v) sum += coefficients[v] * kernel(row, &vectors[v * x.features], x.features);
      context.output<float>(0)[r] = static_cast<float>(one_class ? (sum > 0 ? 1.0 : -1.0) : sum);
    });
    return {};
  };
  return impl;
}

// A classifier with support vectors: each pair of classes votes.
struct SvmVotes {
  FeatureRows x;
  SvmKernel kernel;
  PostTransform transform = PostTransform::kNone;
  int64_t classes = 0, vectors = 0;
  std::vector<int64_t> first, count;  // of each class, among the vectors
  std::vector<float> support, coefficients, rho, prob_a, prob_b;

  int64_t pairs() const { return classes * (classes - 1) / 2; }

  // What each pair says, and the class that most pairs say.
  int64_t vote(const float* row, std::vector<float>& scores) const {
    std::vector<double> values(vectors);
    for (int64_t v = 0; v < vectors; ++v) values[v] = kernel(row, &support[v * x.features], x.features);
    std::vector<int64_t> votes(classes);
    scores.assign(pairs(), 0);
    int64_t pair = 0;
    for (int64_t i = 0; i < classes; ++i) {
      for (int64_t j = i + 1; j < classes; ++j, ++pair) {
        double sum = rho[pair];
        for (int64_t v = first[i]; v < first[i] + count[i]; ++v) sum += coefficients[(j - 1) * vectors + v] * values[v];
        for (int64_t v = first[j]; v < first[j] + count[j]; ++v) sum += coefficients[i * vectors + v] * values[v];
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

Result<SvmVotes> read_svm_votes(const Node& node, const ClassLabels& labels, const FeatureRows& x) {
  const Attributes attributes(node);
  SvmVotes votes{.x = x, .classes = labels.size()};
  TENON_TRY_ASSIGN(votes.kernel, read_svm_kernel(node));
  TENON_TRY_ASSIGN(votes.transform, read_post_transform(node));
  votes.support = floats_of(attributes, "support_vectors");
  votes.coefficients = floats_of(attributes, "coefficients");
  votes.rho = floats_of(attributes, "rho");
  votes.prob_a = floats_of(attributes, "prob_a");
  votes.prob_b = floats_of(attributes, "prob_b");
  const std::span<const int64_t> count = attributes.integers("vectors_per_class");
  votes.count.assign(count.begin(), count.end());
  TENON_INVALID_IF(std::ssize(count) != votes.classes || votes.classes < 2,
                   "SVMClassifier has {} vectors_per_class for {} classes.", count.size(), votes.classes);
  for (int64_t one : count) {
    TENON_INVALID_IF(one < 0 || one > std::ssize(votes.support), "SVMClassifier has a class of {} vectors.", one);
    votes.first.push_back(votes.vectors);
    votes.vectors += one;
  }
  TENON_INVALID_IF(votes.vectors == 0 || std::ssize(votes.support) != votes.vectors * x.features,
                   "SVMClassifier has {} numbers in {} support_vectors for {} features.", votes.support.size(),
                   votes.vectors, x.features);
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
  RefImpl impl;
  impl.run = [x, read, classes, transform, all_positive, rho = rho[0], writer = LabelWriter(labels),
              coefficients = std::move(coefficients)](KernelContext& context) -> Status {
    each_row(context, x, read, x.features * classes, [&](int64_t r, const float* row) {
      std::vector<float> scores(classes);
      for (int64_t c = 0; c < classes; ++c)
        scores[c] = static_cast<float>(dot(row, &coefficients[c * x.features], x.features) + rho);
      int64_t best = std::max_element(scores.begin(), scores.end()) - scores.begin();
      // With two classes the higher score says whether the second one wins.
      if (classes == 2 && (all_positive ? scores[best] >= 0.5f : scores[best] > 0)) best = 1;
      writer.write(context, r, best);
      transform_scores(scores, transform);
      if (context.outputs[1] != nullptr)
        std::copy(scores.begin(), scores.end(), context.output<float>(1) + r * classes);
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
  if (Attributes(*node.node).integers("vectors_per_class").empty()) return make_linear_svm(node, labels, x, read);
  TENON_TRY_ASSIGN(SvmVotes votes, read_svm_votes(*node.node, labels, x));
  RefImpl impl;
  impl.run = [x, read, columns, writer = LabelWriter(labels),
              votes = std::move(votes)](KernelContext& context) -> Status {
    each_row(context, x, read, x.features * votes.vectors, [&](int64_t r, const float* row) {
      std::vector<float> scores;
      writer.write(context, r, votes.vote(row, scores));
      scores = votes.finish(std::move(scores));
      if (context.outputs[1] != nullptr)
        std::copy(scores.begin(), scores.end(), context.output<float>(1) + r * columns);
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
