/* Shared by the files of the smallest plugin: the host's function tables, and how a failed call is passed on. */
#ifndef SMALLEST_PLUGIN_H_
#define SMALLEST_PLUGIN_H_

#include <tenon/onnxruntime_c_api.h>

/* The version of the C ABI that this plugin is written for. Every struct that it hands to the host declares it, so the
 * host reads no later member; the plugin calls no function of the host that a later version added. */
#define PLUGIN_API_VERSION 24u

typedef struct Host {
  const OrtApi* api;
  const OrtEpApi* ep_api;
} Host;

/* Leaves the function with the failure of a call to the host. */
#define TRY(call)                  \
  do {                             \
    OrtStatus* bad_ = (call);      \
    if (bad_ != NULL) return bad_; \
  } while (0)

/* importer.c. The host releases the importer through its own member. */
OrtStatus* create_importer(const Host* host, const OrtEpDevice* device, OrtExternalResourceImporterImpl** out);

#endif
