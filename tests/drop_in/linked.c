/* A program that is linked with a libonnxruntime, not one that loads it: the loader looks its symbols' versions up. */
#include <stdio.h>
#include <tenon/onnxruntime_c_api.h>

int main(void) {
  const OrtApi* api = OrtGetApiBase()->GetApi(1);
  OrtSessionOptions* options = NULL;
  OrtStatus* status = api != NULL ? api->CreateSessionOptions(&options) : NULL;
  if (options == NULL) return 1;
  if (status == NULL) status = OrtSessionOptionsAppendExecutionProvider_CPU(options, 1);
  printf("%s %d\n", OrtGetApiBase()->GetVersionString(), status == NULL);
  api->ReleaseSessionOptions(options);
  return 0;
}
