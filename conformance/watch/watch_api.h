// Between the conformance suite and the library that it puts between a host and the plugin under test. The host loads
// that library as if it were the plugin. It passes the host's calls on to the plugin's two functions, with copies of
// the host's tables in which the functions that make and release objects also keep a list of the objects.
//
// Threads: every function from any thread.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <cstddef>

extern "C" {

typedef OrtStatus*(ORT_API_CALL* TenonCreateEpFactoriesFn)(const char*, const OrtApiBase*, const OrtLogger*,
                                                           OrtEpFactory**, size_t, size_t*);
typedef OrtStatus*(ORT_API_CALL* TenonReleaseEpFactoryFn)(OrtEpFactory*);

typedef struct TenonWatchApi {
  // Before the host loads the library: the plugin's own functions.
  void (*set_plugin)(TenonCreateEpFactoriesFn create, TenonReleaseEpFactoryFn release);
  // The plugin's factories that the host has, up to `room`; returns how many.
  size_t (*factories)(OrtEpFactory** out, size_t room);
  // Calls visit for each kind of object, and function that made it, of which the plugin has not released `count`.
  void (*visit_live)(void (*visit)(void* user, const char* kind, const char* made_by, size_t count), void* user);
} TenonWatchApi;

// The function that the library exports, beside those of a plugin.
typedef const TenonWatchApi* (*TenonGetWatchApiFn)(void);
}
