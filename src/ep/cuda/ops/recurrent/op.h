// LSTM, GRU and RNN after the product of all inputs with W: the part that goes from step to step.
#pragma once

#include <string>
#include <vector>

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/ops/recurrent/params.h"

namespace tenon::cuda {

struct RecurrentTensors {
  TensorId inputs = kNoTensor, r = kNoTensor;
  // Each may be absent.
  TensorId bias = kNoTensor, lengths = kNoTensor, initial_h = kNoTensor, initial_c = kNoTensor, peepholes = kNoTensor;
  TensorId y = kNoTensor, y_h = kNoTensor, y_c = kNoTensor;
};

class RecurrentOp final : public DeviceOp {
 public:
  // `params` without addresses and units.
  RecurrentOp(std::string label, DataType type, const RecurrentParams& params, const RecurrentTensors& tensors);
  std::string description(const Program& program) const override;
  ProblemFamily family() const override;
  size_t scratch_bytes(const Program&) const override;
  double work() const override {
    return static_cast<double>(params_.length) * params_.batch * params_.directions * params_.gates * params_.hidden *
           params_.hidden;
  }
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;
  std::string choice() const override { return choice_.text; }
  // How the steps may run where a block has that much shared memory, best guess first: in one kernel of a cluster of so
  // many blocks ("cluster 8"), or in a kernel each ("steps"), which always fits.
  std::vector<std::string> choice_texts(int compute_capability, size_t shared_bytes) const;
  // For tests. Errors: kUnsupported where that cannot be.
  Status use(const PrepareContext& context, const std::string& text);

 private:
  std::string text_of(int64_t length) const;
  struct Choice {
    std::string text, kernel;
    int32_t units = 0;
    unsigned blocks = 0, threads = 0;
    bool cluster = false;
    size_t shared_bytes = 0;
    CUfunction function = nullptr;
  };
  Choice cluster_choice(unsigned blocks) const;
  Choice step_choice() const;
  bool fits(const Choice& choice, size_t shared_bytes) const;
  std::vector<Choice> choices(int compute_capability, size_t shared_bytes) const;
  Status find_function(const PrepareContext& context, Choice& choice) const;
  Status queue_choice(const Choice& choice, const CudaDevice& device, CUstream stream,
                      const Addresses& addresses) const;

  const DataType type_;
  const RecurrentParams params_;
  const RecurrentTensors tensors_;
  Choice choice_;
};

}  // namespace tenon::cuda
