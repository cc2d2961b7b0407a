/* Statuses: codes and messages go in and come out. */
#include "effects.h"

static void run(void) {
  int code;
  for (code = 0; code <= 15; ++code) {
    OrtStatus* status = api->CreateStatus((OrtErrorCode)code, "a message");
    printf("CreateStatus %d: %s", code, status == NULL ? "null" : "a status");
    if (status != NULL) printf(", code %d, \"%s\"", (int)api->GetErrorCode(status), api->GetErrorMessage(status));
    printf("\n");
    api->ReleaseStatus(status);
  }
  {
    OrtStatus* status = api->CreateStatus(ORT_FAIL, "");
    printf("empty message: \"%s\"\n", api->GetErrorMessage(status));
    api->ReleaseStatus(status);
  }
  {
    char text[3000];
    OrtStatus* status;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    status = api->CreateStatus(ORT_INVALID_GRAPH, text);
    printf("long message: %zu bytes, equal %d\n", strlen(api->GetErrorMessage(status)),
           strcmp(api->GetErrorMessage(status), text) == 0);
    api->ReleaseStatus(status);
  }
  api->ReleaseStatus(NULL);
  printf("released null\n");
}
