/* Models that are no model of style, and that ONNX Runtime takes: they load and compute the same here. */
#include "drop_in.h"

static void print_inputs(OrtSession* session) {
  OrtTypeInfo* type = NULL;
  const OrtTensorTypeAndShapeInfo* info = NULL;
  if (session == NULL) return;
  MUST(ort->SessionGetInputTypeInfo(session, 0, &type));
  MUST(ort->CastTypeInfoToTensorInfo(type, &info));
  print_info("  input", info);
  ort->ReleaseTypeInfo(type);
  ort->ReleaseSession(session);
}

int main(int argc, char** argv) {
  static const char* const names[] = {"odd_initializer_twice",
                                      "odd_initializer_twice_reversed",
                                      "odd_initializer_of_input_twice",
                                      "odd_opset_twice",
                                      "odd_private_attribute",
                                      "odd_ir_1",
                                      "odd_ir_2",
                                      "odd_unsorted",
                                      "odd_unused_initializer",
                                      "odd_unused_input_types",
                                      "odd_output_rank",
                                      "odd_output_dimension",
                                      "odd_inner_shape",
                                      "odd_unused_import",
                                      "odd_one_symbol_two_sizes",
                                      "odd_empty_names",
                                      "odd_no_shapes",
                                      "odd_initializers_differ",
                                      "odd_dead_node",
                                      "odd_constant_and_initializer",
                                      "odd_constant_and_initializer_later",
                                      "odd_constant_twice",
                                      "odd_constant_and_input",
                                      "odd_constant_and_input_without_value",
                                      "odd_constant_is_output",
                                      "odd_constant_and_node",
                                      "odd_constants_differ",
                                      "odd_no_import_of_onnx",
                                      "odd_no_import_at_all"};
  size_t i;
  start(argc, argv);
  for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    char file[64];
    snprintf(file, sizeof(file), "%s.onnx", names[i]);
    run_on_ones(names[i], file, NULL);
  }
  /* ONNX Runtime's own format. */
  run_on_ones("ort format", "matmul.ort", NULL);
  run_on_ones("ort format with a body", "loop.ort", NULL);
  run_on_ones("ort format without shapes", "odd_no_shapes.ort", NULL);
  print_inputs(open_session("ort format with symbols", "denoted.ort", NULL));
  return finish();
}
