// Containers of packed weights: sessions made with one share them, and keep them when it is released.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "abi/objects/prepacked.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "graph/model_writer.h"

namespace tenon::abi {
namespace {

namespace w = model_writer;

constexpr int64_t kDepth = 128, kColumns = 96;
constexpr size_t kPackedBytes = kDepth * kColumns * sizeof(float);

class Prepacked : public ::testing::Test {
 protected:
  Prepacked() {
    EXPECT_EQ(ort_api::CreateEnv(ORT_LOGGING_LEVEL_FATAL, "prepacked", &env_), nullptr);
    EXPECT_EQ(ort_api::CreatePrepackedWeightsContainer(&container_), nullptr);
    EXPECT_EQ(ort_api::CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &cpu_), nullptr);
    const std::vector<float> ones(kDepth * kColumns, 1.0f);
    const std::string bytes(reinterpret_cast<const char*>(ones.data()), kPackedBytes);
    model_ = w::model(
        w::graph({.nodes = {w::node({.op_type = "MatMul", .inputs = {"x", "w"}, .outputs = {"y"}})},
                  .inputs = {w::float_info("x", {int64_t{8}, kDepth})},
                  .outputs = {w::float_info("y", {int64_t{8}, kColumns})},
                  .initializers = {w::tensor("w", 1, {kDepth, kColumns}, [&](auto& to) { to.add_bytes(9, bytes); })}}));
  }
  ~Prepacked() override {
    for (OrtSession* session : sessions_) ort_api::ReleaseSession(session);
    ort_api::ReleaseMemoryInfo(cpu_);
    ort_api::ReleasePrepackedWeightsContainer(container_);
    ort_api::ReleaseEnv(env_);
  }

  // The first number of the product of 8 rows of ones, over a new session.
  float run_new_session(OrtPrepackedWeightsContainer* container) {
    OrtSession* session = nullptr;
    EXPECT_EQ(ort_api::CreateSessionFromArrayWithPrepackedWeightsContainer(env_, model_.data(), model_.size(), nullptr,
                                                                           container, &session),
              nullptr);
    sessions_.push_back(session);
    return run(session);
  }
  float run(OrtSession* session) {
    std::vector<float> data(8 * kDepth, 1.0f);
    const int64_t dims[] = {8, kDepth};
    OrtValue *x = nullptr, *y = nullptr;
    EXPECT_EQ(ort_api::CreateTensorWithDataAsOrtValue(cpu_, data.data(), data.size() * sizeof(float), dims, 2,
                                                      ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &x),
              nullptr);
    const char *in = "x", *out = "y";
    const OrtValue* input = x;
    EXPECT_EQ(ort_api::Run(session, nullptr, &in, &input, 1, &out, 1, &y), nullptr);
    void* result = nullptr;
    EXPECT_EQ(ort_api::GetTensorMutableData(y, &result), nullptr);
    const float first = *static_cast<float*>(result);
    ort_api::ReleaseValue(y);
    ort_api::ReleaseValue(x);
    return first;
  }

  OrtEnv* env_ = nullptr;
  OrtPrepackedWeightsContainer* container_ = nullptr;
  OrtMemoryInfo* cpu_ = nullptr;
  std::string model_;
  std::vector<OrtSession*> sessions_;
};

TEST_F(Prepacked, SessionsOfOneContainerHaveOneCopy) {
  EXPECT_EQ(container_->weights->size_bytes(), 0u);
  EXPECT_EQ(run_new_session(container_), kDepth);
  EXPECT_EQ(container_->weights->size_bytes(), kPackedBytes);
  EXPECT_EQ(run_new_session(container_), kDepth);
  EXPECT_EQ(container_->weights->size_bytes(), kPackedBytes);
  EXPECT_EQ(run_new_session(nullptr), kDepth);
}

TEST_F(Prepacked, ASessionOfAFileSharesToo) {
  const std::string path = ::testing::TempDir() + "/prepacked.onnx";
  std::ofstream(path, std::ios::binary) << model_;
  OrtSession* session = nullptr;
  ASSERT_EQ(ort_api::CreateSessionWithPrepackedWeightsContainer(env_, path.c_str(), nullptr, container_, &session),
            nullptr);
  sessions_.push_back(session);
  EXPECT_EQ(run(session), kDepth);
  EXPECT_EQ(container_->weights->size_bytes(), kPackedBytes);
  std::filesystem::remove(path);
}

TEST_F(Prepacked, ASessionOutlivesItsContainer) {
  EXPECT_EQ(run_new_session(container_), kDepth);
  ort_api::ReleasePrepackedWeightsContainer(container_);
  container_ = nullptr;
  EXPECT_EQ(run(sessions_.front()), kDepth);
}

TEST_F(Prepacked, AnEditorSessionTakesTheContainerWhenItIsFinished) {
  OrtSession* session = nullptr;
  ASSERT_EQ(model_editor_api::CreateModelEditorSessionFromArray(env_, model_.data(), model_.size(), nullptr, &session),
            nullptr);
  sessions_.push_back(session);
  ASSERT_EQ(model_editor_api::FinalizeModelEditorSession(session, nullptr, container_), nullptr);
  EXPECT_EQ(run(session), kDepth);
  EXPECT_EQ(container_->weights->size_bytes(), kPackedBytes);
}

}  // namespace
}  // namespace tenon::abi
