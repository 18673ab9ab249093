/* The C interface: describe, query, choose, execute, and what an error looks like. Plain C.
 *
 * On a GPU the same calls do: options.device = "cuda" for query, select, tune and plan; no constant weights; x, w and
 * out from cudaMalloc; arguments.stream = the cudaStream_t that execution only enqueues on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "convoy.h"

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, convoy_error());
  return 1;
}

static void show(void* user, const char* engine, const char* reason, const char* candidate, double predicted_seconds) {
  ++*(int*)user;
  if (reason) {
    printf("  %-16s can't: %s\n", engine, reason);
  } else {
    printf("  %-16s %s, %.1f us predicted\n", engine, candidate, predicted_seconds * 1e6);
  }
}

static float* aligned_floats(int64_t bytes) { return aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64); }

int main(void) {
  printf("convoy %s, headers %d, library %d\n", convoy_version_text(), CONVOY_VERSION, convoy_version_number());
  convoy_problem* problem;
  if (convoy_problem_create("fprop:x=f32,1x64x28x28,nhwc:w=f32,96x32x3x3:pad=1x1", &problem) == CONVOY_OK) return 1;
  printf("as expected: %s\n", convoy_error());

  if (convoy_problem_create("fprop:x=f32,1x64x28x28,nhwc:w=f32,96x64x3x3:pad=1x1", &problem)) return failed("describe");
  printf("%s\n", convoy_problem_text(problem));
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 2;
  int engines = 0;
  if (convoy_query(problem, &options, show, &engines)) return failed("query");

  options.engines = "cpu.*";
  convoy_choice* choice;
  if (convoy_select(problem, &options, &choice)) return failed("select");
  printf("chosen of %d engines: %s (%s)\n", engines, convoy_choice_candidate(choice), convoy_choice_reason(choice));

  convoy_tensor x = CONVOY_TENSOR_INIT, w = CONVOY_TENSOR_INIT, y = CONVOY_TENSOR_INIT;
  if (convoy_problem_tensor(problem, CONVOY_X, &x) || convoy_problem_tensor(problem, CONVOY_W, &w) ||
      convoy_problem_tensor(problem, CONVOY_Y, &y)) {
    return failed("tensor");
  }
  /* Tensors are aligned to 64 bytes unless the problem says otherwise (align=4, for memory that is less so). */
  float* data[3] = {aligned_floats(x.bytes), aligned_floats(w.bytes), aligned_floats(y.bytes)};
  if (!data[0] || !data[1] || !data[2]) return 1;
  for (int64_t i = 0; i < x.bytes / 4; ++i) data[0][i] = 1;
  for (int64_t i = 0; i < w.bytes / 4; ++i) data[1][i] = 2;

  convoy_plan* plan;
  if (convoy_plan_create(problem, convoy_choice_candidate(choice), &options, data[1], &plan)) return failed("plan");
  convoy_arguments arguments = CONVOY_ARGUMENTS_INIT;
  arguments.x = data[0];
  arguments.out = data[2];
  if (convoy_plan_execute(plan, &arguments)) return failed("execute");
  /* Ones times twos: 64 channels and the part of the 3x3 window that lies inside. */
  const float corner = data[2][0], inside = data[2][y.strides[2] + y.strides[3]];
  printf("corner %g, inside %g\n", corner, inside);

  convoy_plan_destroy(plan);
  convoy_choice_destroy(choice);

  convoy_options on_gpu = CONVOY_OPTIONS_INIT;
  on_gpu.device = "cuda"; /* the first; "cuda:1" is the second */
  if (convoy_select(problem, &on_gpu, &choice)) {
    printf("on a GPU: %s\n", convoy_error());
  } else {
    printf("on a GPU: %s (%s)\n", convoy_choice_candidate(choice), convoy_choice_reason(choice));
    convoy_choice_destroy(choice);
  }
  convoy_problem_destroy(problem);
  free(data[0]), free(data[1]), free(data[2]);
  return fabs(corner - 64 * 4 * 2) < 0.25 && fabs(inside - 64 * 9 * 2) < 0.25 ? 0 : 1; /* Winograd would round */
}
