#include "abi/objects/env.h"

#include <gmock/gmock.h>

#include <thread>

#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "base/log.h"

namespace tenon::abi {
namespace {

using Lines = std::vector<std::string>;

void ORT_API_CALL keep_line(void* lines, OrtLoggingLevel severity, const char* category, const char* id, const char*,
                            const char* message) {
  static_cast<Lines*>(lines)->push_back(std::to_string(severity) + " " + category + " " + id + ": " + message);
}

TEST(OrtEnv, IsOneAProcessAndGoesWithTheLastRelease) {
  OrtEnv* first = nullptr;
  OrtEnv* second = nullptr;
  ASSERT_EQ(ort_api::CreateEnv(ORT_LOGGING_LEVEL_ERROR, "first", &first), nullptr);
  ASSERT_EQ(ort_api::CreateEnv(ORT_LOGGING_LEVEL_VERBOSE, "second", &second), nullptr);
  EXPECT_EQ(first, second);
  EXPECT_EQ(current_env()->logger->id, "first");
  ort_api::ReleaseEnv(first);
  EXPECT_NE(current_env(), nullptr);
  ort_api::ReleaseEnv(second);
  EXPECT_EQ(current_env(), nullptr);
  // Once too often, and never made by us: nothing happens.
  ort_api::ReleaseEnv(second);
}

TEST(OrtEnv, WhatHoldsItKeepsItPastTheLastRelease) {
  OrtEnv* env = nullptr;
  ASSERT_EQ(ort_api::CreateEnv(ORT_LOGGING_LEVEL_ERROR, "held", &env), nullptr);
  const std::shared_ptr<OrtEnv> held = current_env();
  ort_api::ReleaseEnv(env);
  EXPECT_EQ(held->logger->id, "held");
}

TEST(OrtEnv, TenonsOwnLinesGoToThePrograms) {
  Lines lines;
  OrtEnv* env = nullptr;
  ASSERT_EQ(ort_api::CreateEnvWithCustomLogger(&keep_line, &lines, ORT_LOGGING_LEVEL_WARNING, "mine", &env), nullptr);
  log_warning("pool", "Only {} start.", 3);
  ASSERT_EQ(ort_api::UpdateEnvWithCustomLogLevel(env, ORT_LOGGING_LEVEL_ERROR), nullptr);
  log_warning("pool", "Below the level.");
  log_error("pool", "Above it.");
  ort_api::ReleaseEnv(env);
  EXPECT_THAT(lines, testing::ElementsAre("2 pool mine: Only 3 start.", "3 pool mine: Above it."));
}

TEST(OrtLogger, LinesBelowItsSeverityAreDropped) {
  Lines lines;
  OrtLogger logger;
  logger.id = "plugin";
  logger.severity = ORT_LOGGING_LEVEL_ERROR;
  logger.function = &keep_line;
  logger.function_parameter = &lines;
  const auto log = [&](OrtLoggingLevel level, const char* message) {
    return ort_api::Logger_LogMessage(&logger, level, message, "folder/file.cc", 12, "function");
  };
  EXPECT_EQ(log(ORT_LOGGING_LEVEL_WARNING, "dropped"), nullptr);
  EXPECT_EQ(log(ORT_LOGGING_LEVEL_FATAL, "kept"), nullptr);
  EXPECT_THAT(lines, testing::ElementsAre("4 onnxruntime plugin: kept"));
  OrtLoggingLevel level{};
  EXPECT_EQ(ort_api::Logger_GetLoggingSeverityLevel(&logger, &level), nullptr);
  EXPECT_EQ(level, ORT_LOGGING_LEVEL_ERROR);
}

TEST(OrtEnv, GlobalThreadPoolsAreMadeAsAsked) {
  OrtThreadingOptions* options = nullptr;
  ASSERT_EQ(ort_api::CreateThreadingOptions(&options), nullptr);
  ASSERT_EQ(ort_api::SetGlobalIntraOpNumThreads(options, 2), nullptr);
  OrtEnv* env = nullptr;
  ASSERT_EQ(ort_api::CreateEnvWithGlobalThreadPools(ORT_LOGGING_LEVEL_ERROR, "pools", options, &env), nullptr);
  EXPECT_TRUE(env->has_global_pool);
  EXPECT_EQ(env->pool->threads(), 2);
  ort_api::ReleaseEnv(env);
  ort_api::ReleaseThreadingOptions(options);
}

TEST(OrtEnv, ManyThreadsShareOne) {
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < 200; ++round) {
        OrtEnv* env = nullptr;
        ASSERT_EQ(ort_api::CreateEnv(ORT_LOGGING_LEVEL_ERROR, "many", &env), nullptr);
        ASSERT_EQ(env->logger->id, "many");
        ort_api::ReleaseEnv(env);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(current_env(), nullptr);
}

TEST(OrtAllocator, ABorrowedOnePassesCallsOnAndIsReleased) {
  auto owner = std::make_shared<int>(1);
  OrtAllocator* borrowed = borrow_allocator(default_allocator(), owner);
  void* block = borrowed->Alloc(borrowed, 10);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
  borrowed->Free(borrowed, block);
  EXPECT_EQ(borrowed->Info(borrowed), default_allocator()->Info(default_allocator()));
  EXPECT_EQ(owner.use_count(), 2);
  ort_api::ReleaseAllocator(borrowed);
  EXPECT_EQ(owner.use_count(), 1);
  // Not ours to delete.
  ort_api::ReleaseAllocator(default_allocator());
  EXPECT_NE(default_allocator()->Alloc, nullptr);
}

TEST(OrtAllocator, SizesThatOverflowGiveNoMemory) {
  void* block = reinterpret_cast<void*>(1);
  OrtStatus* status = ort_api::AllocatorAlloc(default_allocator(), SIZE_MAX, &block);
  EXPECT_EQ(ort_api::GetErrorCode(status), ORT_RUNTIME_EXCEPTION);
  EXPECT_EQ(block, nullptr);
  ort_api::ReleaseStatus(status);
}

// A plugin's allocator of an older version has no GetStats, whatever lies behind its struct.
TEST(OrtAllocator, MembersAboveItsVersionAreNotRead) {
  struct Old {
    uint32_t version = 22;
    void* (*alloc)(OrtAllocator*, size_t) = [](OrtAllocator*, size_t) -> void* { return nullptr; };
    void (*free)(OrtAllocator*, void*) = [](OrtAllocator*, void*) {};
    const OrtMemoryInfo* (*info)(const OrtAllocator*) = [](const OrtAllocator*) -> const OrtMemoryInfo* {
      return nullptr;
    };
    void* garbage[4] = {this, this, this, this};
  } old;
  OrtKeyValuePairs* stats = nullptr;
  OrtStatus* status = ort_api::AllocatorGetStats(reinterpret_cast<OrtAllocator*>(&old), &stats);
  EXPECT_EQ(ort_api::GetErrorCode(status), ORT_NOT_IMPLEMENTED);
  ort_api::ReleaseStatus(status);
}

}  // namespace
}  // namespace tenon::abi
