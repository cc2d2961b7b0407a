/* Shared by the parts of the probe: a plugin EP that writes down all that the host tells it (see probe_ep.c). */
#ifndef TENON_TESTS_ABI_PROBE_H_
#define TENON_TESTS_ABI_PROBE_H_

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/onnxruntime_c_api.h>

extern const OrtApi* api;
extern const OrtEpApi* ep_api;
extern FILE* out;

/* Prints the outcome of a call and releases its status. True when it succeeded. */
bool show(const char* what, OrtStatus* status);
/* As show, but prints failures only. */
bool quiet(const char* what, OrtStatus* status);
#define CALL(call) show(#call, api->call)
#define QUIET(call) quiet(#call, api->call)

void dump_graph(const OrtGraph* graph, const char* title);
void dump_misuse(const OrtGraph* graph);
/* Calls that end the reference's process, and give a status in Tenon. */
void dump_refusals(const OrtGraph* graph);
void dump_node(const OrtNode* node, int depth);
void dump_value_info(const OrtValueInfo* info, int depth);
void dump_value(const OrtValue* value);
void dump_type_info(const OrtTypeInfo* info);
void dump_kernel_info(const OrtKernelInfo* info);
void dump_kernel_context(OrtKernelContext* context);

#endif
