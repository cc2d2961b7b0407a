/* Sessions by EP device, by policy and by delegate, and which EP took what. */
#include "drop_in.h"

static int delegate_calls;

static OrtStatus* choose_first(const OrtEpDevice** devices, size_t count, const OrtKeyValuePairs* metadata,
                               const OrtKeyValuePairs* runtime, const OrtEpDevice** selected, size_t room,
                               size_t* chosen, void* state) {
  (void)metadata, (void)runtime;
  if (state != (void*)&delegate_calls) abort();
  ++delegate_calls;
  if (count == 0 || room == 0) return ort->CreateStatus(ORT_FAIL, "the delegate has nothing to choose from");
  selected[0] = devices[0];
  *chosen = 1;
  return NULL;
}

static OrtStatus* refuse(const OrtEpDevice** devices, size_t count, const OrtKeyValuePairs* metadata,
                         const OrtKeyValuePairs* runtime, const OrtEpDevice** selected, size_t room, size_t* chosen,
                         void* state) {
  (void)devices, (void)count, (void)metadata, (void)runtime, (void)selected, (void)room, (void)chosen, (void)state;
  return ort->CreateStatus(ORT_FAIL, "the delegate refuses");
}

static void devices(void) {
  OrtSessionOptions* options = fresh();
  const OrtEpDevice* const* all = NULL;
  const OrtEpDevice* cpu_device = NULL;
  size_t count = 0, i;
  const char *keys[] = {"key"}, *values[] = {"value"};
  MUST(ort->GetEpDevices(env, &all, &count));
  for (i = 0; i < count; ++i)
    if (strcmp(ort->EpDevice_EpName(all[i]), "CPUExecutionProvider") == 0) cpu_device = all[i];
  check("no device", ort->SessionOptionsAppendExecutionProvider_V2(options, env, &cpu_device, 0, NULL, NULL, 0));
  check("the CPU device", ort->SessionOptionsAppendExecutionProvider_V2(options, env, &cpu_device, 1, keys, values, 1));
  run_on_ones("session on it", "matmul.onnx", options);
  ort->ReleaseSessionOptions(options);
  options = fresh();
  check("prefer the CPU",
        ort->SessionOptionsSetEpSelectionPolicy(options, OrtExecutionProviderDevicePolicy_PREFER_CPU));
  run_on_ones("session by policy", "matmul.onnx", options);
  ort->ReleaseSessionOptions(options);
  options = fresh();
  check("a delegate", ort->SessionOptionsSetEpSelectionPolicyDelegate(options, choose_first, &delegate_calls));
  run_on_ones("session by delegate", "matmul.onnx", options);
  printf("delegate called %d times\n", delegate_calls);
  check("another delegate", ort->SessionOptionsSetEpSelectionPolicyDelegate(options, refuse, NULL));
  run_on_ones("session that it refuses", "matmul.onnx", options);
  ort->ReleaseSessionOptions(options);
}

static void assignments(const char* name, const char* enabled) {
  OrtSessionOptions* options = NULL;
  OrtSession* session;
  const OrtEpAssignedSubgraph* const* parts = NULL;
  size_t count = 0, i, n;
  printf("== assignments of %s\n", name);
  MUST(ort->CreateSessionOptions(&options));
  MUST(ort->SetSessionGraphOptimizationLevel(options, ORT_DISABLE_ALL));
  if (enabled != NULL) MUST(ort->AddSessionConfigEntry(options, "session.record_ep_graph_assignment_info", enabled));
  session = open_session("session", name, options);
  if (check("assignments", ort->Session_GetEpGraphAssignmentInfo(session, &parts, &count))) {
    printf("  subgraphs: %d\n", (int)count);
    for (i = 0; i < count; ++i) {
      const char* ep = NULL;
      const OrtEpAssignedNode* const* nodes = NULL;
      size_t node_count = 0;
      MUST(ort->EpAssignedSubgraph_GetEpName(parts[i], &ep));
      MUST(ort->EpAssignedSubgraph_GetNodes(parts[i], &nodes, &node_count));
      printf("  %s: %d nodes\n", ep, (int)node_count);
      for (n = 0; n < node_count; ++n) {
        const char *text = NULL, *domain = NULL, *type = NULL;
        MUST(ort->EpAssignedNode_GetName(nodes[n], &text));
        MUST(ort->EpAssignedNode_GetDomain(nodes[n], &domain));
        MUST(ort->EpAssignedNode_GetOperatorType(nodes[n], &type));
        printf("    \"%s\" \"%s\" %s\n", text, domain, type);
      }
    }
  }
  ort->ReleaseSession(session);
  ort->ReleaseSessionOptions(options);
}

static void devices_of(const char* name) {
  OrtSession* session = must_open(name);
  const OrtEpDevice* eps[2] = {NULL, NULL};
  if (check("EP devices of inputs", ort->SessionGetEpDeviceForInputs(session, eps, 2))) {
    printf("  %s\n", eps[0] == NULL ? "none" : ort->EpDevice_EpName(eps[0]));
  }
  if (check("EP devices of outputs", ort->SessionGetEpDeviceForOutputs(session, eps, 1))) {
    printf("  %s\n", eps[0] == NULL ? "none" : ort->EpDevice_EpName(eps[0]));
  }
  ort->ReleaseSession(session);
}

int main(int argc, char** argv) {
  start(argc, argv);
  devices();
  devices_of("add.onnx");
  assignments("matmul.onnx", "1");
  assignments("matmul.onnx", NULL);
  return finish();
}
