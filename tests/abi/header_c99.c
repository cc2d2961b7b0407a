/* The C header is C99, and a program that includes it the way ONNX Runtime's is included links with libtenon. */
#include <onnxruntime_c_api.h>
#include <stdio.h>
#include <string.h>
#include <tenon/onnxruntime_c_api.h>

int main(void) {
  const OrtApiBase* base = OrtGetApiBase();
  uint32_t version;
  const OrtApi* newest = base->GetApi(ORT_API_VERSION);
  if (newest == NULL || newest->CreateStatus == NULL || newest->GetModelPackageApi == NULL) return 1;
  for (version = 1; version <= ORT_API_VERSION; ++version) {
    if (base->GetApi(version) != newest) return 2;
  }
  if (base->GetApi(0) != NULL || base->GetApi(ORT_API_VERSION + 1) != NULL) return 3;
  if (strcmp(base->GetVersionString(), "1.32.0") != 0) return 4;
  if (strstr(newest->GetBuildInfoString(), "Tenon") == NULL) return 5;
  printf("%s: %s\n", base->GetVersionString(), newest->GetBuildInfoString());
  return 0;
}
