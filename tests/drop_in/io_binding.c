/* IoBinding: binding, running, reading back and clearing. */
#include "drop_in.h"

static void print_bound(const OrtIoBinding* binding) {
  char* names = NULL;
  size_t *lengths = NULL, count = 0, i;
  OrtValue** values = NULL;
  const char* at;
  if (check("names", ort->GetBoundOutputNames(binding, allocator, &names, &lengths, &count))) {
    printf("  %d:", (int)count);
    at = names;
    for (i = 0; i < count; ++i) {
      printf(" %.*s", (int)lengths[i], at);
      at += lengths[i];
    }
    printf("\n");
    if (names != NULL) MUST(ort->AllocatorFree(allocator, names));
    if (lengths != NULL) MUST(ort->AllocatorFree(allocator, lengths));
  }
  if (check("values", ort->GetBoundOutputValues(binding, allocator, &values, &count))) {
    printf("  %d\n", (int)count);
    for (i = 0; i < count; ++i) {
      int has = 0;
      MUST(ort->HasValue(values[i], &has));
      if (has) print_value("  value", values[i]);
      ort->ReleaseValue(values[i]);
    }
    if (values != NULL) MUST(ort->AllocatorFree(allocator, values));
  }
}

int main(int argc, char** argv) {
  OrtSession* session;
  OrtIoBinding* binding = NULL;
  float a[6] = {-1, 0, 2, 4, -5, 6}, positive[6] = {0}, small[2] = {0};
  const int64_t one[2] = {1, 3}, two[2] = {2, 3}, wrong[2] = {1, 2};
  OrtValue *x, *x2, *out, *bad, *ints;
  OrtRunOptions* options = NULL;
  start(argc, argv);
  session = must_open("two_outputs.onnx");
  x = floats(a, 3, one, 2);
  x2 = floats(a, 6, two, 2);
  out = floats(positive, 3, one, 2);
  bad = floats(small, 2, wrong, 2);
  ints = tensor(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, a, 12, one, 2);
  check("binding", ort->CreateIoBinding(session, &binding));
  print_bound(binding);
  check("run without anything", ort->RunWithBinding(session, NULL, binding));
  check("an input that is not there", ort->BindInput(binding, "q", x));
  check("an output that is not there", ort->BindOutput(binding, "q", out));
  check("an output that is not there, on a device", ort->BindOutputToDevice(binding, "q", cpu));
  ort->ClearBoundInputs(binding);
  ort->ClearBoundOutputs(binding);
  check("input", ort->BindInput(binding, "x", x));
  check("run without outputs", ort->RunWithBinding(session, NULL, binding));
  print_bound(binding);
  check("output given", ort->BindOutput(binding, "positive", out));
  check("output anywhere", ort->BindOutputToDevice(binding, "negative", cpu));
  print_bound(binding);
  check("inputs are there", ort->SynchronizeBoundInputs(binding));
  check("run", ort->RunWithBinding(session, NULL, binding));
  check("outputs are there", ort->SynchronizeBoundOutputs(binding));
  print_bound(binding);
  printf("written in place: %g %g %g\n", (double)positive[0], (double)positive[1], (double)positive[2]);
  a[2] = 20;
  check("run again", ort->RunWithBinding(session, NULL, binding));
  printf("written in place: %g %g %g\n", (double)positive[0], (double)positive[1], (double)positive[2]);
  check("a larger input", ort->BindInput(binding, "x", x2));
  ort->ClearBoundOutputs(binding);
  print_bound(binding);
  check("only one output", ort->BindOutputToDevice(binding, "negative", cpu));
  check("run", ort->RunWithBinding(session, NULL, binding));
  print_bound(binding);
  check("output bound twice", ort->BindOutputToDevice(binding, "negative", cpu));
  check("run", ort->RunWithBinding(session, NULL, binding));
  print_bound(binding);
  MUST(ort->BindInput(binding, "x", x));
  ort->ClearBoundOutputs(binding);
  check("output that is too small", ort->BindOutput(binding, "positive", bad));
  check("run", ort->RunWithBinding(session, NULL, binding));
  ort->ClearBoundOutputs(binding);
  check("output of another type", ort->BindOutput(binding, "positive", ints));
  check("run", ort->RunWithBinding(session, NULL, binding));
  ort->ClearBoundOutputs(binding);
  MUST(ort->BindOutput(binding, "positive", out));
  check("input of another type", ort->BindInput(binding, "x", ints));
  check("run", ort->RunWithBinding(session, NULL, binding));
  check("input of another shape", ort->BindInput(binding, "x", bad));
  check("run", ort->RunWithBinding(session, NULL, binding));
  MUST(ort->BindInput(binding, "x", x));
  MUST(ort->CreateRunOptions(&options));
  MUST(ort->RunOptionsSetTerminate(options));
  check("run that is terminated", ort->RunWithBinding(session, options, binding));
  ort->ReleaseRunOptions(options);
  ort->ReleaseValue(x); /* the binding holds its own */
  check("run after the value is released", ort->RunWithBinding(session, NULL, binding));
  print_bound(binding);
  ort->ClearBoundInputs(binding);
  check("run after the inputs are cleared", ort->RunWithBinding(session, NULL, binding));
  ort->ReleaseIoBinding(binding);
  ort->ReleaseValue(x2);
  ort->ReleaseValue(out);
  ort->ReleaseValue(bad);
  ort->ReleaseValue(ints);
  ort->ReleaseSession(session);
  return finish();
}
