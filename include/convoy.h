/* The C interface, for other languages: describe a convolution, ask who can run it, choose or tune, execute.
 *
 * - Every function that can fail returns a convoy_status; convoy_error() is then the sentence that says why.
 * - Handles are immutable once made and may be used from any number of threads at once; destroy takes null.
 * - Text that is returned belongs to the handle it was asked of and lives as long.
 * - Structs begin with `size`: set it to sizeof the struct (CONVOY_..._INIT does). Fields may be added at the end.
 * - Shapes, strides, types, layouts and the problem string are those of convoy/convolution.h and convoy/tensor.h.
 */
#ifndef CONVOY_H
#define CONVOY_H

#include <stddef.h>
#include <stdint.h>

#include "convoy/version.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum convoy_status {
  CONVOY_OK = 0,
  CONVOY_INVALID_ARGUMENT = 1, /* the message names the field and the value */
  CONVOY_NOT_FOUND = 2,
  CONVOY_CORRUPT = 3,
  CONVOY_UNSUPPORTED = 4, /* well-formed, and nothing here can run it */
  CONVOY_OUT_OF_MEMORY = 5,
  CONVOY_WRONG_RESULT = 6,
  CONVOY_INTERNAL = 7,
  CONVOY_DEVICE_FAILED = 8 /* a GPU or its driver failed */
} convoy_status;

/* Why the last call on this thread that failed did. Never null. */
const char* convoy_error(void);

const char* convoy_version_text(void); /* of the library that runs: "0.1.0" */
int convoy_version_number(void);       /* as CONVOY_VERSION */

/* ---- describe ---- */

typedef struct convoy_problem convoy_problem;

/* From a problem string, "fprop:x=f32,1x64x28x28,nhwc:w=f32,96x64x3x3,nchw:pad=1x1:bias=1:act=relu". */
convoy_status convoy_problem_create(const char* text, convoy_problem** problem);
void convoy_problem_destroy(convoy_problem* problem);

const char* convoy_problem_text(const convoy_problem* problem); /* canonical; parsing it gives the same problem */
double convoy_problem_flops(const convoy_problem* problem);     /* a multiply-add is two */

typedef enum convoy_operand { CONVOY_X = 0, CONVOY_W = 1, CONVOY_Y = 2 } convoy_operand;

#define CONVOY_MAX_RANK 5
typedef struct convoy_tensor {
  size_t size;
  int32_t rank;
  int64_t dims[CONVOY_MAX_RANK];    /* N,C,(D),H,W; K,C/groups,... for w */
  int64_t strides[CONVOY_MAX_RANK]; /* in elements */
  int64_t channel_block;            /* 1, 8 or 16 */
  int64_t bytes;                    /* of memory it spans */
  const char* type;                 /* "f32" */
} convoy_tensor;
#define CONVOY_TENSOR_INIT \
  { sizeof(convoy_tensor), 0, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, 0, 0, 0 }

convoy_status convoy_problem_tensor(const convoy_problem* problem, convoy_operand operand, convoy_tensor* tensor);

/* ---- query ---- */

/* One call an engine, in the table's order. `reason` is null when it can run the problem; `candidate` (its default
 * knobs spelled out) and `predicted_seconds` are null and 0 when it can't. Text lives during the call. */
typedef void (*convoy_answer_callback)(void* user, const char* engine, const char* reason, const char* candidate,
                                       double predicted_seconds);
convoy_status convoy_query(const convoy_problem* problem, int threads, convoy_answer_callback callback, void* user);

/* ---- choose ---- */

typedef struct convoy_options {
  size_t size;
  int32_t threads;            /* 0: all the processor has */
  const char* engines;        /* globs over engine names, "cpu.*,!cpu.winograd"; null: all */
  const char* rules;          /* text of a rules file; null: none */
  int32_t fallback;           /* a rule's engine that can't run: 0 an error, 1 the next best */
  int32_t deterministic_only; /* 0 or 1 */
  int64_t workspace_limit;    /* bytes; -1: none */
  double budget_seconds;      /* convoy_tune only; 0: no limit */
  const char* database;       /* convoy_tune only: file of the tuning database; null: measure, remember nothing */
} convoy_options;
#define CONVOY_OPTIONS_INIT \
  { sizeof(convoy_options), 0, 0, 0, 0, 0, -1, 0.0, 0 }

typedef struct convoy_choice convoy_choice;

/* By rule or heuristic, measuring nothing; `options` may be null. */
convoy_status convoy_select(const convoy_problem* problem, const convoy_options* options, convoy_choice** choice);
/* By measurement: every allowed candidate timed, each compared with the oracle first. What the database holds is not
 * measured again, and what is measured is stored there. */
convoy_status convoy_tune(const convoy_problem* problem, const convoy_options* options, convoy_choice** choice);
void convoy_choice_destroy(convoy_choice* choice);

const char* convoy_choice_candidate(const convoy_choice* choice); /* "cpu.gemm{k_block=256}" */
const char* convoy_choice_reason(const convoy_choice* choice);    /* "heuristic", "measured", "rule '...'" */
/* Measured candidates, fastest first, failed ones last; 0 of them after convoy_select. */
size_t convoy_choice_measured(const convoy_choice* choice);
typedef struct convoy_measurement {
  size_t size;
  const char* candidate;
  const char* failure; /* null: it ran and was right */
  double median_seconds;
  double spread; /* interquartile range over the median */
  int64_t workspace_bytes;
  double max_error; /* in units of the tolerance */
} convoy_measurement;
#define CONVOY_MEASUREMENT_INIT \
  { sizeof(convoy_measurement), 0, 0, 0.0, 0.0, 0, 0.0 }
convoy_status convoy_choice_measurement(const convoy_choice* choice, size_t index, convoy_measurement* measurement);

/* ---- execute ---- */

typedef struct convoy_plan convoy_plan;

/* `candidate` as a choice names it. `constant_weights`, when not null, is read now and packed once; w is then ignored
 * at execution. `threads` 0: all the processor has. */
convoy_status convoy_plan_create(const convoy_problem* problem, const char* candidate, int threads,
                                 const void* constant_weights, convoy_plan** plan);
void convoy_plan_destroy(convoy_plan* plan);
size_t convoy_plan_workspace_bytes(const convoy_plan* plan);

typedef struct convoy_arguments {
  size_t size;
  const void* x; /* the operand that the pass computes is ignored: give it as `out` */
  const void* w;
  const void* y;
  void* out;
  const void* bias;
  const void* z;       /* residual, described like out */
  const float* slopes; /* prelu */
  const float* scales; /* requantization */
  void* workspace;     /* aligned to 64 bytes; null: allocated for the call */
  size_t workspace_bytes;
} convoy_arguments;
#define CONVOY_ARGUMENTS_INIT \
  { sizeof(convoy_arguments), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

convoy_status convoy_plan_execute(const convoy_plan* plan, const convoy_arguments* arguments);

#ifdef __cplusplus
}
#endif

#endif
