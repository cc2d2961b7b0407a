// Misuse of the compile API that a program in C cannot show, and files that are compiled over themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "abi/compile_options.h"
#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "graph/model_writer.h"
#include "graph/reader.h"

namespace tenon::abi {
namespace {

namespace w = model_writer;
using testing::HasSubstr;

std::string message_of(OrtStatus* status) {
  if (status == nullptr) return "ok";
  std::string text = std::to_string(status->code) + " " + status->message;
  release_status(status);
  return text;
}

class Compile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / "tenon_compile";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    ASSERT_EQ(ort_api::CreateEnv(ORT_LOGGING_LEVEL_FATAL, "compile", &env_), nullptr);
    ASSERT_EQ(ort_api::CreateSessionOptions(&session_), nullptr);
    options_ = std::make_unique<OrtModelCompilationOptions>(*session_);
    options_->input = w::bytes(model_);
  }
  void TearDown() override {
    ort_api::ReleaseSessionOptions(session_);
    ort_api::ReleaseEnv(env_);
    std::filesystem::remove_all(folder_);
  }

  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::string run() { return message_of(compile_api::CompileModel(env_, options_.get())); }
  int files() const { return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_), {})); }
  // The model that was written, with its external data.
  Result<Model> written(const char* name) const { return read_model_file(path(name)); }

  const std::string model_ =
      w::model(w::graph({.nodes = {w::node({.op_type = "Add", .inputs = {"x", "w"}, .outputs = {"y"}})},
                         .inputs = {w::float_info("x")},
                         .outputs = {w::float_info("y")},
                         .initializers = {w::tensor("w", 1, {2}, [](auto& to) {
                           to.add_bytes(9, std::string("\0\0\0\0\0\0\x80\x3f", 8));
                         })}}));
  std::filesystem::path folder_;
  OrtEnv* env_ = nullptr;
  OrtSessionOptions* session_ = nullptr;
  std::unique_ptr<OrtModelCompilationOptions> options_;
};

TEST_F(Compile, ProgramsFunctionsMayThrow) {
  options_->output = CompileFunction{
      [](void*, const void*, size_t) -> OrtStatus* { throw std::runtime_error("the sink throws"); }, nullptr};
  EXPECT_EQ(run(), "6 the sink throws");
  options_->output = path("model.onnx");
  options_->initializers =
      InitializerFunction{[](void*, const char*, const OrtValue*, const OrtExternalInitializerInfo*,
                             OrtExternalInitializerInfo**) -> OrtStatus* { throw 3; },
                          nullptr};
  EXPECT_THAT(run(), HasSubstr("no std::exception"));
  EXPECT_EQ(files(), 0);
}

TEST_F(Compile, AnAllocatorWithoutMemoryLeavesTheResultsAlone) {
  OrtAllocator none{.version = ORT_API_VERSION,
                    .Alloc = [](OrtAllocator*, size_t) -> void* { return nullptr; },
                    .Free = [](OrtAllocator*, void*) {},
                    .Info = [](const OrtAllocator*) -> const OrtMemoryInfo* { return nullptr; }};
  void *data = &none, *weights = &none;
  size_t size = 7, weights_size = 8;
  options_->output = CompileBuffer{&none, &data, &size};
  EXPECT_THAT(run(), HasSubstr("gave no memory"));
  // The initializers' buffer is there by then, and goes back.
  options_->initializers = InitializerBuffer{"w.bin", 0, {default_allocator(), &weights, &weights_size}};
  EXPECT_THAT(run(), HasSubstr("gave no memory"));
  EXPECT_EQ(data, &none);
  EXPECT_EQ(weights, &none);
  EXPECT_EQ(size + weights_size, 15u);
}

// Notes of the tools that made the model, and attributes for others.
TEST_F(Compile, NodesKeepTheirNotesAndLists) {
  const std::string list = w::tensors_attribute("__list", {w::raw_tensor<float>("t", 1, {1}, {3})});
  const std::string model = w::model(w::graph({.nodes = {w::node({.op_type = "Neg",
                                                                  .inputs = {"x"},
                                                                  .outputs = {"y"},
                                                                  .attributes = {list},
                                                                  .doc_string = "the doc",
                                                                  .metadata = {{"the key", "the value"}}})},
                                               .inputs = {w::float_info("x")},
                                               .outputs = {w::float_info("y")}}));
  options_->input = w::bytes(model);
  options_->output = path("model.onnx");
  ASSERT_EQ(run(), "ok");
  std::ifstream file(path("model.onnx"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  for (const std::string& kept : {list, std::string("the doc"), std::string("the key"), std::string("the value")})
    EXPECT_THAT(bytes, HasSubstr(kept));
}

TEST_F(Compile, APlaceOfAnotherSizeIsAnError) {
  options_->output = path("model.onnx");
  options_->initializers = InitializerFunction{
      [](void*, const char*, const OrtValue*, const OrtExternalInitializerInfo*, OrtExternalInitializerInfo** out) {
        return ort_api::CreateExternalInitializerInfo("w.bin", 0, 7, out);
      },
      nullptr};
  EXPECT_THAT(run(), HasSubstr("has the offset 0 and 7 bytes; the initializer has 8 bytes"));
  EXPECT_EQ(files(), 0);
}

// The reader maps both files; they are replaced, not written.
TEST_F(Compile, AModelMayBeCompiledOverItself) {
  options_->output = path("model.onnx");
  options_->initializers = InitializerFile{"weights.bin", 0};
  ASSERT_EQ(run(), "ok");
  options_->input = path("model.onnx");
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_EQ(run(), "ok");
    EXPECT_EQ(files(), 2);
    const Result<Model> model = written("model.onnx");
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    const ConstantRef weight = model->graph.value(model->graph.nodes[NodeId(0)].inputs[1]).constant;
    ASSERT_EQ(weight->size_bytes, 8u);
    EXPECT_EQ(weight->as<float>()[1], 1.0f);
    EXPECT_NE(model->notes.find_external(weight), nullptr);
  }
}

TEST_F(Compile, InitializersStayInTheModelsFolder) {
  options_->output = path("model.onnx");
  options_->initializers = InitializerFile{"../weights.bin", 0};
  EXPECT_THAT(run(), HasSubstr("\"../weights.bin\" is no path within"));
  options_->initializers = InitializerFile{"weights.bin", 0};
  std::filesystem::create_directory(folder_ / "weights.bin");
  EXPECT_THAT(run(), HasSubstr("weights.bin"));
  EXPECT_EQ(files(), 1);
}

TEST_F(Compile, AnOldModelIsOfAVersionThatHasPlainInitializers) {
  const std::string old = w::model(
      w::graph({.nodes = {w::node({.op_type = "Add", .inputs = {"x", "w"}, .outputs = {"y"}})},
                .inputs = {w::float_info("x"), w::float_info("w")},
                .outputs = {w::float_info("y")},
                .initializers = {w::tensor("w", 1, {2}, [](auto& to) { to.add_bytes(9, std::string(8, '\0')); })}}),
      {.ir_version = 3});
  options_->input = w::bytes(old);
  options_->output = path("model.onnx");
  ASSERT_EQ(run(), "ok");
  const Result<Model> model = written("model.onnx");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->info.ir_version, 4);
  EXPECT_EQ(model->notes.overridable.size(), 1u);
}

// The same for the file of SetOptimizedModelFilePath.
TEST_F(Compile, ASessionMayWriteItsModelOverItself) {
  std::ofstream(path("model.onnx"), std::ios::binary) << model_;
  ASSERT_EQ(ort_api::SetOptimizedModelFilePath(session_, path("model.onnx").c_str()), nullptr);
  OrtSession* session = nullptr;
  ASSERT_EQ(message_of(ort_api::CreateSession(env_, path("model.onnx").c_str(), session_, &session)), "ok");
  ort_api::ReleaseSession(session);
  EXPECT_TRUE(written("model.onnx").ok());
}

// A model that was made or changed is saved as it is then.
TEST_F(Compile, AnEditorSessionSavesItsModel) {
  ASSERT_EQ(ort_api::SetOptimizedModelFilePath(session_, path("saved.onnx").c_str()), nullptr);
  OrtSession* session = nullptr;
  ASSERT_EQ(message_of(model_editor_api::CreateModelEditorSessionFromArray(env_, model_.data(), model_.size(), session_,
                                                                           &session)),
            "ok");
  EXPECT_EQ(files(), 0);
  ASSERT_EQ(message_of(model_editor_api::FinalizeModelEditorSession(session, nullptr, nullptr)), "ok");
  ort_api::ReleaseSession(session);
  const Result<Model> model = written("saved.onnx");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->graph.nodes.size(), 1u);
}

// Tenon writes no models in ORT format, and the file's name or an entry asks for it.
TEST_F(Compile, ASessionSavesNoModelInOrtFormat) {
  ASSERT_EQ(ort_api::SetOptimizedModelFilePath(session_, path("saved.ort").c_str()), nullptr);
  OrtSession* session = nullptr;
  EXPECT_THAT(message_of(ort_api::CreateSessionFromArray(env_, model_.data(), model_.size(), session_, &session)),
              HasSubstr("ORT format and writes none"));
  EXPECT_EQ(session, nullptr);
  ASSERT_EQ(message_of(model_editor_api::CreateModelEditorSessionFromArray(env_, model_.data(), model_.size(), session_,
                                                                           &session)),
            "ok");
  EXPECT_THAT(message_of(model_editor_api::FinalizeModelEditorSession(session, nullptr, nullptr)),
              HasSubstr("ORT format and writes none"));
  ort_api::ReleaseSession(session);
  EXPECT_EQ(files(), 0);
}

}  // namespace
}  // namespace tenon::abi
