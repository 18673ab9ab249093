/* A whole network in C: loaded, asked what it takes and gives, prepared, run, and what each step became. Plain C.
 *
 *   example_c_network [MODEL.onnx | zoo:NAME] [debug]     debug: the library's log, too */
#include <stdio.h>
#include <stdlib.h>

#include "convoy.h"

#define MAX_INPUTS 8

static int failed(const char* what, convoy_status status) {
  fprintf(stderr, "%s: %s: %s\n", what, convoy_status_name(status), convoy_error());
  return 1;
}

static void show_event(void* user, convoy_log_level level, const char* message) {
  (void)user;
  fprintf(stderr, "log %d: %s\n", level, message);
}

static void show_value(const char* what, const convoy_value* value) {
  printf("%s '%s', %s", what, value->name, value->type);
  for (int32_t i = 0; i < value->rank; ++i) {
    printf("%s%lld", i == 0 ? " " : "x", (long long)value->dims[i]); /* -1: any size */
  }
  printf("\n");
}

int main(int argc, char** argv) {
  convoy_status status;
  if (argc > 2 && (status = convoy_set_log(CONVOY_LOG_DEBUG, show_event, NULL))) return failed("log", status);

  convoy_network* network;
  if ((status = convoy_network_load("no-such-file.onnx", &network)) != CONVOY_NOT_FOUND) return 1;
  printf("as expected: %s: %s\n", convoy_status_name(status), convoy_error());
  status = convoy_network_load(argc > 1 ? argv[1] : "zoo:squeezenet1_1", &network);
  if (status) return failed("load", status);

  /* What goes in. A size that the model leaves free is 1 here, but for those that it proposes. */
  const size_t inputs = convoy_network_inputs(network);
  if (inputs > MAX_INPUTS) return 1;
  convoy_shape shapes[MAX_INPUTS];
  const void* data[MAX_INPUTS];
  for (size_t i = 0; i < inputs; ++i) {
    convoy_value value = CONVOY_VALUE_INIT;
    if ((status = convoy_network_input(network, i, &value))) return failed("input", status);
    show_value("input", &value);
    int64_t* dims = malloc((size_t)(value.rank > 0 ? value.rank : 1) * sizeof *dims);
    size_t elements = 1;
    for (int32_t d = 0; d < value.rank; ++d) {
      dims[d] = value.proposed_dims[d] > 0 ? value.proposed_dims[d] : 1;
      elements *= (size_t)dims[d];
    }
    shapes[i].rank = value.rank;
    shapes[i].dims = dims;
    data[i] = calloc(elements, 8); /* zeros, enough for every type; a picture's values otherwise */
  }

  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 2;
  options.database = convoy_default_database(); /* what `convoy tune` measured is used */
  options.rules = "node=*conv1* -> cpu.direct\n";
  options.fallback = 1; /* where cpu.direct can't, the next best, and a warning */
  convoy_session* session;
  if ((status = convoy_session_create(network, shapes, inputs, &options, &session))) return failed("prepare", status);
  if ((status = convoy_session_run(session, data, inputs))) return failed("run", status);

  convoy_session_info info = CONVOY_SESSION_INFO_INIT;
  if ((status = convoy_session_describe(session, &info))) return failed("describe", status);
  for (size_t i = 0; i < info.steps; ++i) {
    convoy_step step = CONVOY_STEP_INIT;
    if ((status = convoy_session_step(session, i, &step))) return failed("step", status);
    if (step.problem) printf("  %7.1f us  %-32s %s\n", step.seconds * 1e6, step.engine, step.nodes);
    if (step.warnings) printf("  %s: %s\n", step.nodes, step.warnings);
  }
  for (size_t i = 0; i < convoy_network_outputs(network); ++i) {
    convoy_value value = CONVOY_VALUE_INIT;
    convoy_output output = CONVOY_OUTPUT_INIT;
    if ((status = convoy_network_output(network, i, &value))) return failed("output", status);
    if ((status = convoy_session_output(session, i, &output))) return failed("output", status);
    show_value("output", &value);
    printf("  %lld bytes of %s\n", (long long)output.bytes, output.type);
  }
  printf("%zu steps in %.2f ms, %.1f MB of activations\n", info.steps, info.seconds * 1e3,
         (double)info.activation_bytes * 1e-6);

  convoy_session_destroy(session);
  convoy_network_destroy(network);
  for (size_t i = 0; i < inputs; ++i) {
    free((void*)shapes[i].dims);
    free((void*)data[i]);
  }
  return 0;
}
