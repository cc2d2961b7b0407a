/* Model packages: directories with components and variants, of which one is selected for an EP and becomes a session. */
#include "effects.h"
#include <sys/stat.h>
#include <unistd.h>

/* y = -x and y = |x| on float[2]. */
static const unsigned char negative[] = {
    0x08, 0x08, 0x3a, 0x32, 0x0a, 0x0b, 0x0a, 0x01, 0x78, 0x12, 0x01, 0x79, 0x22, 0x03, 0x4e, 0x65, 0x67, 0x12, 0x01,
    0x67, 0x5a, 0x0f, 0x0a, 0x01, 0x78, 0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x02, 0x62,
    0x0f, 0x0a, 0x01, 0x79, 0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x02, 0x42, 0x04, 0x0a,
    0x00, 0x10, 0x11,
};
static const unsigned char absolute[] = {
    0x08, 0x08, 0x3a, 0x32, 0x0a, 0x0b, 0x0a, 0x01, 0x78, 0x12, 0x01, 0x79, 0x22, 0x03, 0x41, 0x62, 0x73, 0x12, 0x01,
    0x67, 0x5a, 0x0f, 0x0a, 0x01, 0x78, 0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x02, 0x62,
    0x0f, 0x0a, 0x01, 0x79, 0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x02, 0x42, 0x04, 0x0a,
    0x00, 0x10, 0x11,
};

#define ASSET "1111111111111111111111111111111111111111111111111111111111111111"

static const OrtModelPackageApi* packages;
static OrtEnv* env;
static char root[64] = "/tmp/effects_package_XXXXXX";

/* The call's own text is its name; the folder's name, which differs from run to run, is left out of messages. */
static bool call(const char* what, OrtStatus* status) {
  const char* text;
  const char* found;
  if (status == NULL) {
    printf("%s: ok\n", what);
    return true;
  }
  text = api->GetErrorMessage(status);
  printf("%s: code %d: ", what, (int)api->GetErrorCode(status));
  while ((found = strstr(text, root)) != NULL) {
    printf("%.*sROOT", (int)(found - text), text);
    text = found + strlen(root);
  }
  printf("%.*s\n", (int)strcspn(text, "\n"), text);
  fflush(stdout);
  api->ReleaseStatus(status);
  return false;
}

static void print_path(const char* path) {
  size_t length = strlen(root);
  if (path == NULL)
    printf("  null\n");
  else if (strncmp(path, root, length) == 0)
    printf("  ROOT%s\n", path + length);
  else
    printf("  %s\n", path);
}

static char* path_of(const char* name) {
  static char path[256];
  snprintf(path, sizeof(path), "%s%s%s", root, *name != '\0' ? "/" : "", name);
  return path;
}
static void folder(const char* name) { mkdir(path_of(name), 0700); }
static void file(const char* name, const void* data, size_t size) {
  FILE* out = fopen(path_of(name), "wb");
  if (out == NULL || fwrite(data, 1, size, out) != size) exit(3);
  fclose(out);
}
static void text(const char* name, const char* content) { file(name, content, strlen(content)); }

static OrtModelPackageContext* open_package(const char* what) {
  OrtModelPackageContext* context = NULL;
  call(what, packages->CreateModelPackageContext(root, &context));
  return context;
}

static void try_manifest(const char* what, const char* manifest) {
  text("manifest.json", manifest);
  packages->ReleaseModelPackageContext(open_package(what));
}

static void print_names(const char* const* names, size_t count) {
  size_t i;
  printf("  %zu:", count);
  for (i = 0; i < count; ++i) printf(" %s", names[i]);
  printf("\n");
}

static void describe(const OrtModelPackageContext* context) {
  static const char* const components[] = {"main", "inside", "empty", "nothing"};
  const char* const* names = NULL;
  int64_t version = -1;
  size_t count = 99, i, v;
  if (call("GetSchemaVersion", packages->ModelPackage_GetSchemaVersion(context, &version)))
    printf("  %d\n", (int)version);
  if (call("GetComponentCount", packages->ModelPackage_GetComponentCount(context, &count))) printf("  %zu\n", count);
  if (call("GetComponentNames", packages->ModelPackage_GetComponentNames(context, &names, &count)))
    print_names(names, count);
  for (i = 0; i < 4; ++i) {
    printf("component %s\n", components[i]);
    if (call("GetVariantCount", packages->ModelPackage_GetVariantCount(context, components[i], &count)))
      printf("  %zu\n", count);
    if (!call("GetVariantNames", packages->ModelPackage_GetVariantNames(context, components[i], &names, &count)))
      continue;
    print_names(names, count);
    for (v = 0; v < count; ++v) {
      const char* ep = "unset";
      if (call("GetVariantEpName", packages->ModelPackage_GetVariantEpName(context, components[i], names[v], &ep)))
        printf("  %s %s\n", names[v], ep != NULL ? ep : "(null)");
    }
  }
  {
    const char* ep = NULL;
    call("GetVariantEpName of none", packages->ModelPackage_GetVariantEpName(context, "main", "none", &ep));
  }
}

static void resolve(const OrtModelPackageContext* context, const char* base, const char* input, int must_exist) {
  const char* path = NULL;
  char what[160];
  snprintf(what, sizeof(what), "ResolveStringRef %s from %s, %d", input, base != NULL ? "main" : "null", must_exist);
  if (call(what, packages->ModelPackage_ResolveStringRef(context, base, input, must_exist, &path))) print_path(path);
}

static void resolve_all(const OrtModelPackageContext* context) {
  char base[256];
  strcpy(base, path_of("main"));
  resolve(context, NULL, "main", 1);
  resolve(context, NULL, "main/plain/../plain", 1);
  resolve(context, NULL, "none", 1);
  resolve(context, NULL, "none", 0);
  resolve(context, NULL, "./none//x", 0);
  resolve(context, base, "plain/model.onnx", 1);
  resolve(context, base, "..", 1);
  resolve(context, NULL, "/etc", 1);
  resolve(context, NULL, "", 1);
  resolve(context, NULL, "escape", 1);
  resolve(context, NULL, "sha256:" ASSET, 1);
  resolve(context, NULL, "sha256:" ASSET "/words.txt", 1);
  resolve(context, NULL, "sha256:" ASSET "/none.txt", 1);
  resolve(context, NULL, "sha256:" ASSET "/none.txt", 0);
  resolve(context, NULL, "sha256:" ASSET "/../x", 0);
  resolve(context, NULL, "sha256:2222222222222222222222222222222222222222222222222222222222222222", 0);
  resolve(context, NULL, "sha256:zz", 0);
}

static void run_session(OrtSession* session) {
  static const char* const inputs[] = {"x"};
  static const char* const outputs[] = {"y"};
  const int64_t two[] = {2};
  float data[] = {-1, 2};
  OrtMemoryInfo* cpu = NULL;
  OrtValue* x = NULL;
  OrtValue* y = NULL;
  void* result = NULL;
  MUST(CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &cpu));
  MUST(CreateTensorWithDataAsOrtValue(cpu, data, sizeof(data), two, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &x));
  if (call("Run", api->Run(session, NULL, inputs, (const OrtValue* const*)&x, 1, outputs, 1, &y))) {
    MUST(GetTensorMutableData(y, &result));
    printf("  %g %g\n", (double)((float*)result)[0], (double)((float*)result)[1]);
  }
  api->ReleaseValue(x);
  api->ReleaseValue(y);
  api->ReleaseMemoryInfo(cpu);
}

static void select_component(const OrtModelPackageContext* context, const char* component,
                             const OrtModelPackageOptions* options) {
  OrtModelPackageComponentContext* selected = NULL;
  OrtSessionOptions* own = NULL;
  OrtSession* session = NULL;
  const char* name = NULL;
  const char* path = NULL;
  char what[64];
  snprintf(what, sizeof(what), "SelectComponent %s", component);
  if (!call(what, packages->SelectComponent(context, component, options, &selected))) return;
  if (call("GetSelectedVariantName", packages->ModelPackageComponent_GetSelectedVariantName(selected, &name)))
    printf("  %s\n", name);
  if (call("GetSelectedVariantFolderPath", packages->ModelPackageComponent_GetSelectedVariantFolderPath(selected, &path)))
    print_path(path);
  if (call("CreateSession", packages->CreateSession(env, selected, NULL, &session))) run_session(session);
  api->ReleaseSession(session);
  session = NULL;
  MUST(CreateSessionOptions(&own));
  if (call("CreateSession with options", packages->CreateSession(env, selected, own, &session))) run_session(session);
  api->ReleaseSession(session);
  api->ReleaseSessionOptions(own);
  packages->ReleaseModelPackageComponentContext(selected);
}

static void refusals(void) {
  static const char* const manifests[][2] = {
      {"not json", "{"},
      {"no object", "[]"},
      {"no version", "{\"components\": {}}"},
      {"integer version", "{\"schema_version\": 1, \"components\": {}}"},
      {"version 1.7", "{\"schema_version\": \"1.7\", \"components\": {}}"},
      {"version 2.0", "{\"schema_version\": \"2.0\", \"components\": {}}"},
      {"version text", "{\"schema_version\": \"one\", \"components\": {}}"},
      {"version 1", "{\"schema_version\": \"1\", \"components\": {}}"},
      {"no components", "{\"schema_version\": \"1.0\"}"},
      {"components list", "{\"schema_version\": \"1.0\", \"components\": []}"},
      {"unknown field", "{\"schema_version\": \"1.0\", \"components\": {}, \"more\": 1}"},
      {"layout", "{\"schema_version\": \"1.0\", \"components\": {}, \"layout\": \"flat\"}"},
      {"layout number", "{\"schema_version\": \"1.0\", \"components\": {}, \"layout\": 1}"},
      {"name number", "{\"schema_version\": \"1.0\", \"components\": {}, \"package_name\": 1}"},
      {"component number", "{\"schema_version\": \"1.0\", \"components\": {\"a\": 1}}"},
      {"component file", "{\"schema_version\": \"1.0\", \"components\": {\"a\": \"none\"}}"},
      {"component outside", "{\"schema_version\": \"1.0\", \"components\": {\"a\": \"../x\"}}"},
      {"component absolute", "{\"schema_version\": \"1.0\", \"components\": {\"a\": \"/etc\"}}"},
      {"component without json", "{\"schema_version\": \"1.0\", \"components\": {\"a\": \"shared_assets\"}}"},
      {"no variants", "{\"schema_version\": \"1.0\", \"components\": {\"a\": {}}}"},
      {"variants list", "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": []}}}"},
      {"component field", "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {}, \"b\": 1}}}"},
      {"component name", "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {}, \"component_name\": 1}}}"},
      {"variant list", "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {\"v\": []}}}}"},
      {"variant field", "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {\"v\": {\"x\": 1}}}}}"},
      {"variant ep", "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {\"v\": {\"ep\": 1}}}}}"},
      {"variant folder",
       "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {\"v\": {\"variant_directory\": \"none\"}}}}}"},
      {"variant folder number",
       "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {\"v\": {\"variant_directory\": 1}}}}}"},
      {"executor list",
       "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {\"v\": {\"executor_info\": []}}}}}"},
      {"executor number",
       "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {\"v\": {\"executor_info\": {\"ort\": 1}}}}}}"},
      {"executor without folder",
       "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {\"v\": {\"executor_info\": {\"ort\": \"x\"}}}}}}"},
      {"ort file",
       "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {\"main\": {\"executor_info\": {\"ort\": \"x\"}}}}}}"},
      {"ort model number", "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {\"main\": {\"executor_info\": "
                           "{\"ort\": {\"model_file\": 1}}}}}}}"},
      {"ort model missing", "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {\"main\": "
                            "{\"executor_info\": {\"ort\": {\"model_file\": \"none.onnx\"}}}}}}}"},
      {"ort options list", "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {\"main\": "
                           "{\"executor_info\": {\"ort\": {\"session_options\": []}}}}}}}"},
      {"ort option number", "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {\"main\": "
                            "{\"executor_info\": {\"ort\": {\"session_options\": {\"a\": 1}}}}}}}}"},
      {"ort field", "{\"schema_version\": \"1.0\", \"components\": {\"a\": {\"variants\": {\"main\": {\"executor_info\": "
                    "{\"ort\": {\"more\": 1}}}}}}}"},
      {"assets list", "{\"schema_version\": \"1.0\", \"components\": {}, \"shared_assets\": []}"},
      {"asset name", "{\"schema_version\": \"1.0\", \"components\": {}, \"shared_assets\": {\"a\": \"b\"}}"},
      {"asset number", "{\"schema_version\": \"1.0\", \"components\": {}, \"shared_assets\": {\"sha256:" ASSET "\": 1}}"},
      {"asset outside",
       "{\"schema_version\": \"1.0\", \"components\": {}, \"shared_assets\": {\"sha256:" ASSET "\": \"../x\"}}"},
  };
  size_t i;
  OrtModelPackageContext* context = NULL;
  for (i = 0; i < sizeof(manifests) / sizeof(manifests[0]); ++i) try_manifest(manifests[i][0], manifests[i][1]);
  remove(path_of("manifest.json"));
  open_package("no manifest");
  call("no folder", packages->CreateModelPackageContext("/no/such/folder", &context));
  call("a file", packages->CreateModelPackageContext("/etc/hostname", &context));
}

static void run(void) {
  OrtSessionOptions* session_options = NULL;
  OrtModelPackageOptions* options = NULL;
  OrtModelPackageContext* context;
  char command[96];
  packages = api->GetModelPackageApi();
  if (mkdtemp(root) == NULL) exit(3);
  folder("main");
  folder("main/plain");
  folder("main/other");
  folder("main/npu");
  folder("inline");
  folder("shared_assets");
  folder("shared_assets/sha256-" ASSET);
  text("shared_assets/sha256-" ASSET "/words.txt", "words");
  file("shared_assets/sha256-" ASSET "/model.onnx", absolute, sizeof(absolute));
  file("main/plain/model.onnx", negative, sizeof(negative));
  file("main/other/model.onnx", absolute, sizeof(absolute));
  if (symlink("/etc", path_of("escape")) != 0) exit(3);
  text("main/plain/ort_info.json",
       "{\"model_file\": \"model.onnx\", \"session_options\": {\"session.disable_prepacking\": \"1\"}}");
  text("main/component.json",
       "{\"component_name\": \"main\", \"variants\": {"
       "\"other\": {\"ep\": \"SomeOtherExecutionProvider\", \"executor_info\": {\"ort\": {\"model_file\": \"model.onnx\"}}},"
       "\"npu\": {\"ep\": \"CPUExecutionProvider\", \"device\": \"npu\"},"
       "\"plain\": {\"ep\": \"CPUExecutionProvider\", \"device\": \"cpu\", \"compatibility_string\": \"any\","
       " \"executor_info\": {\"ort\": \"ort_info.json\"}, \"additional_metadata\": {\"a\": [1, 2.5e3, null, true]}},"
       "\"second\": {\"variant_directory\": \"plain\", \"ep\": \"CPUExecutionProvider\"}}}");
  text("manifest.json",
       "{\"schema_version\": \"1.0\", \"package_name\": \"test \\u00e9\", \"components\": {\"main\": \"main\", "
       "\"inside\": {\"variants\": {\"asset\": {\"variant_directory\": \"inline\", \"ep\": \"CPUExecutionProvider\", "
       "\"executor_info\": {\"ort\": {\"model_file\": \"sha256:" ASSET "/model.onnx\"}, \"mine\": {}}}, "
       "\"bare\": {}}}, \"empty\": {\"variants\": {}}, \"broken\": {\"variants\": "
       "{\"v\": {\"ep\": \"CPUExecutionProvider\"}}}, \"missing\": {\"variants\": {\"main\": {\"ep\": "
       "\"CPUExecutionProvider\", \"executor_info\": {\"ort\": {\"model_file\": \"none.onnx\"}}}}}}, \"additional_metadata\": 5}");
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "model package", &env));
  MUST(CreateSessionOptions(&session_options));
  call("CreateModelPackageOptionsFromSessionOptions",
       packages->CreateModelPackageOptionsFromSessionOptions(env, session_options, &options));
  api->ReleaseSessionOptions(session_options);
  context = open_package("CreateModelPackageContext");
  if (context != NULL) {
    describe(context);
    resolve_all(context);
    select_component(context, "main", options);
    select_component(context, "inside", options);
    select_component(context, "empty", options);
    select_component(context, "none", options);
    select_component(context, "broken", options);
    select_component(context, "missing", options);
  }
  packages->ReleaseModelPackageContext(context);
  text("manifest.json", "{\"schema_version\": \"1.3\", \"layout\": \"installed\", \"components\": {}}");
  context = open_package("installed");
  resolve(context, NULL, "main/plain/../other", 1);
  resolve(context, NULL, "/etc/hostname", 1);
  resolve(context, NULL, "escape/hostname", 1);
  resolve(context, NULL, "sha256:" ASSET "/../x", 0);
  packages->ReleaseModelPackageContext(context);
  packages->ReleaseModelPackageOptions(options);
  refusals();
  packages->ReleaseModelPackageContext(NULL);
  packages->ReleaseModelPackageOptions(NULL);
  packages->ReleaseModelPackageComponentContext(NULL);
  api->ReleaseEnv(env);
  snprintf(command, sizeof(command), "rm -r %s", root);
  if (system(command) != 0) exit(3);
}
