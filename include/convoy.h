/* The C interface, for other languages: describe a convolution, ask who can run it, choose or tune, execute; on the
 * processor or on an NVIDIA GPU. Load a network, prepare it for input sizes, run it. (The C++ interface is another
 * header, <convoy/all.h>.)
 *
 * - Every function that can fail returns a convoy_status; convoy_error() is then the sentence that says why.
 * - Handles are immutable once made and may be used from any number of threads at once; destroy takes null. (Only
 *   convoy_session_run leaves something in its session: what convoy_session_output says.)
 * - Text that is returned belongs to the handle it was asked of and lives as long.
 * - Structs begin with `size`: set it to sizeof the struct (CONVOY_..._INIT does). Fields may be added at the end.
 * - The CUDA context that is current on the calling thread is current again when a function returns.
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
#pragma GCC visibility push(default) /* what libconvoy.so exports */

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

/* "CONVOY_NOT_FOUND"; "unknown" for a number that is none. Never null. */
const char* convoy_status_name(convoy_status status);
/* Why the last call on this thread that failed did. Never null. */
const char* convoy_error(void);

const char* convoy_version_text(void); /* of the library that runs: "0.1.0" */
int convoy_version_number(void);       /* as CONVOY_VERSION */

/* ---- log ---- */

typedef enum convoy_log_level {
  CONVOY_LOG_OFF = 0,
  CONVOY_LOG_ERROR = 1,
  CONVOY_LOG_WARNING = 2,
  CONVOY_LOG_INFO = 3,
  CONVOY_LOG_DEBUG = 4
} convoy_log_level;

/* Gets each event, as "event=select problem=.. candidate=cpu.direct" (convoy/log.h), on the thread that it happens on,
 * from several threads at once. What it makes Convoy log itself is dropped. `message` lives during the call. */
typedef void (*convoy_log_callback)(void* user, convoy_log_level level, const char* message);
/* Sends events up to `level` to `callback`, and none elsewhere; with null they go where CONVOY_LOG says again. When it
 * returns, the callback before is not called any more. */
convoy_status convoy_set_log(convoy_log_level level, convoy_log_callback callback, void* user);

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

/* ---- options ---- */

/* A caller's threads. Calls body(context, index) once for each index from 0 to count - 1, at the same time or one after
 * another, on any threads, and returns when all have returned. */
typedef void (*convoy_parallel_for)(void* user, int32_t count, void (*body)(void* context, int32_t index),
                                    void* context);

/* Called now and then with what is being done, on the calling thread; other than 0 ends the call soon, which keeps what
 * is known by then. */
typedef int32_t (*convoy_progress_callback)(void* user, double fraction, const char* what);

typedef struct convoy_options {
  size_t size;
  int32_t threads;            /* of the processor; 0: all it has */
  const char* engines;        /* globs over engine names, "cpu.*,!cpu.winograd"; null: all */
  const char* rules;          /* text of a rules file; null: none */
  int32_t fallback;           /* a rule's engine that can't run: 0 an error, 1 the next best */
  int32_t deterministic_only; /* 0 or 1 */
  int64_t workspace_limit;    /* bytes; -1: none */
  double budget_seconds; /* convoy_tune, convoy_network_tune: end within so long, 0: no limit. convoy_session_create:
                          * measures for so long, 0: measures nothing */
  const char* database;  /* file of the tuning database, which knows what was measured, and keeps what convoy_tune
                          * and convoy_session_create measure; null: none. The command's: convoy_default_database() */
  const char* device;    /* "cuda", "cuda:N": a GPU, counted as the driver does; "cpu" or null: the processor */
  int32_t target_sms;    /* on a GPU: how many multiprocessors a convolution may use; 0: all */
  const char* math;      /* of networks only: precision that convolutions may give up, "strict" (none),
                          * "tf32", "reduced"; null: "strict". (A convolution's problem string has its own.) */
  /* Of networks only: */
  /* "tuned": by the plan that `convoy tune MODEL` kept beside `database`, else "greedy"; "global", "local" or
   * "uniform:nhwc" (docs/plans.md). null: "tuned", which is "greedy" with a budget, engines, rules, fallback,
   * deterministic_only or workspace_limit: a kept plan was made without those. */
  const char* how;
  const char* plan;      /* text of a plan file, obeyed in place of choosing; null: none */
  int32_t lenient_plan;  /* what does not fit it: 0 an error that names the line, 1 chosen again */
  const char* precision; /* "bf16" or "f16": what nodes of f32 run in instead, wherever an engine can; "tf32": as
                            math="tf32"; null: "f32" */
  /* What the memory of activations and weights is to be; with how = "global" only. */
  int64_t activation_limit; /* bytes; -1: none. CONVOY_UNSUPPORTED where no plan keeps to it; convoy_error() says how
                             * many the least needs */
  const char* objective;    /* "time" or null, or "memory": as few bytes of activations as possible, and then the least
                             * time; "energy", or weights: "time=1,memory=0.5" (docs/plans.md) */
  /* Of plans, too: what they run on, in `threads` parts; null: OpenMP's threads. It is called from the thread that
   * executes, so from several at once where several execute, until the last plan and session are destroyed. An engine
   * or operator that is measured alone has OpenMP's, and so has oneDNN in any case: engines = "!onednn.*" keeps
   * convolutions from it. */
  convoy_parallel_for parallel_for;
  void* parallel_user; /* its first argument */
  /* As activation_limit: of weights, packed for their engines, and other constants. */
  int64_t weight_limit;
  /* How a batch is run: "whole"; "4": in parts of four images, one after another; "1/thread": side by side, each on one
   * thread. CONVOY_UNSUPPORTED where the network does not compute each image alone. null: as the plan that is obeyed
   * says, else what is predicted to take least. */
  const char* batch_parts;
  /* Of convoy_tune; convoy_network_tune has its own. Null: nobody is told, and nothing ends it early. */
  convoy_progress_callback progress;
  void* progress_user; /* its first argument */
  /* Of networks on a GPU: */
  int32_t no_graph;    /* 1: each step is enqueued at each run; 0: steps in a row are captured once, as a CUDA graph */
  int32_t synchronous; /* 1: each step is waited for, so that an error names the step that it is of */
  /* Bytes there of weights, activations, workspaces and graphs, of all runs at once; -1: none. CONVOY_UNSUPPORTED where
   * a single run takes more; convoy_error() says of which batch one would fit. */
  int64_t device_memory_limit;
} convoy_options;
#define CONVOY_OPTIONS_INIT \
  { sizeof(convoy_options), 0, 0, 0, 0, 0, -1, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, -1, 0, 0, 0, 0, 0, -1 }

/* Where the command keeps its tuning database: CONVOY_DB, else convoy/tuning.db in XDG_DATA_HOME, else in
 * ~/.local/share. The text belongs to the calling thread and lives until its next call. Null where there is no such
 * place; convoy_error() says why. */
const char* convoy_default_database(void);

/* Gets text of `bytes` bytes, which lives during the call; a zero follows it. */
typedef void (*convoy_text_callback)(void* user, const char* text, size_t bytes);
/* All that a tuning database holds, as lines of JSON that a person can read (docs/tuning.md). */
convoy_status convoy_database_export(const char* path, convoy_text_callback callback, void* user);
/* Adds such lines, all or none, to a database, which is made where it is missing. Of two measurements of the same the
 * better attested stays. `taken`, which may be null, is how many came in. */
convoy_status convoy_database_import(const char* path, const char* text, size_t bytes, int64_t* taken);

/* ---- query ---- */

/* One call an engine of the device, in the table's order. Of `options`, which may be null, only those that say where
 * are read: device, target_sms, threads. `reason` is null when it can run the problem; `candidate` (its default
 * knobs spelled out) and `predicted_seconds` are null and 0 when it can't. Text lives during the call. */
typedef void (*convoy_answer_callback)(void* user, const char* engine, const char* reason, const char* candidate,
                                       double predicted_seconds);
convoy_status convoy_query(const convoy_problem* problem, const convoy_options* options,
                           convoy_answer_callback callback, void* user);

/* ---- choose ---- */

typedef struct convoy_choice convoy_choice;

/* By rule or heuristic, measuring nothing; `options` may be null. With a database, the fastest that is known there
 * where what the heuristic would choose was measured. */
convoy_status convoy_select(const convoy_problem* problem, const convoy_options* options, convoy_choice** choice);
/* By measurement: every allowed candidate timed, each compared with the oracle first. What the database holds is not
 * measured again, and what is measured is stored there. Where options->progress ends it, the choice is the best of what
 * was measured by then, and its warnings say so. */
convoy_status convoy_tune(const convoy_problem* problem, const convoy_options* options, convoy_choice** choice);
void convoy_choice_destroy(convoy_choice* choice);

const char* convoy_choice_candidate(const convoy_choice* choice); /* "cpu.gemm{k_block=256}" */
/* "heuristic", "stored", "network hint", "measured", "rule '...'" */
const char* convoy_choice_reason(const convoy_choice* choice);
/* A line each: a rule that fell back, a budget that ended early; null: none. */
const char* convoy_choice_warnings(const convoy_choice* choice);
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

/* ---- explain ---- */

/* What convoy_select would choose, and why it and not another. */
typedef struct convoy_explanation convoy_explanation;
convoy_status convoy_explain(const convoy_problem* problem, const convoy_options* options,
                             convoy_explanation** explanation);
void convoy_explanation_destroy(convoy_explanation* explanation);

/* An engine's part in it, in the table's order. */
typedef struct convoy_verdict {
  size_t size;
  const char* engine;
  const char* refusal;      /* why it can't run the problem; null: it can */
  const char* refusal_kind; /* what that is about, "layout"; null: it can */
  const char* excluded;     /* it can: why it must not be chosen, a filter or that it is an oracle; null: it may */
  const char* candidate;    /* it can: its default knobs spelled out */
  const char* no_plan;      /* it can: why a plan of that could not be made; null: it could */
  const char* notes;        /* "WINOGRAD, TF32"; "" */
  double predicted_seconds; /* of the candidate; 0: it can't */
  double measured_seconds;  /* of the fastest of it that is known; 0: none is */
  int64_t workspace_bytes;  /* of the candidate's plan */
} convoy_verdict;
#define CONVOY_VERDICT_INIT \
  { sizeof(convoy_verdict), 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0 }
size_t convoy_explanation_engines(const convoy_explanation* explanation); /* how many there are */
convoy_status convoy_explanation_verdict(const convoy_explanation* explanation, size_t index, convoy_verdict* verdict);

/* What is chosen. Where text is null there is nothing to say. */
typedef struct convoy_outcome {
  size_t size;
  const char* candidate;         /* null: nothing can run it */
  const char* reason;            /* "heuristic"; where there is no candidate: why */
  const char* decided_by;        /* "the heuristic, among 4 candidates" */
  const char* plan;              /* how it is carried out */
  const char* runner_up;         /* the next best candidate */
  const char* why_not_runner_up; /* "predicted to take 1.31 times as long (1.2 ms against 0.9 ms)" */
  const char* passed_over;       /* a line each: what promises to be faster, and what kept it out */
  const char* warnings;          /* a line each */
} convoy_outcome;
#define CONVOY_OUTCOME_INIT \
  { sizeof(convoy_outcome), 0, 0, 0, 0, 0, 0, 0, 0 }
convoy_status convoy_explanation_outcome(const convoy_explanation* explanation, convoy_outcome* outcome);

/* ---- execute ---- */

typedef struct convoy_plan convoy_plan;

/* `candidate` as a choice names it; `options` as for convoy_query. `constant_weights`, when not null, is read now and
 * packed once; w is then ignored at execution. On a GPU it must be null: weights come with each execution there. */
convoy_status convoy_plan_create(const convoy_problem* problem, const char* candidate, const convoy_options* options,
                                 const void* constant_weights, convoy_plan** plan);
/* On a GPU the plan must live until what it enqueued is done. */
void convoy_plan_destroy(convoy_plan* plan);
size_t convoy_plan_workspace_bytes(const convoy_plan* plan);

/* With a plan for a GPU every pointer is to its memory (or managed memory).
 *
 * Alignment: x, w, y, out and z are multiples of what the problem says of their tensors:
 * "x=f32,1x64x28x28,nhwc,align=16" is for memory as malloc gives it, align=4 for any float; where it says nothing, 64
 * bytes. What is less aligned is an error that names it. On the processor all but a few of oneDNN's engines run with
 * any such alignment, on a GPU those that load 16 bytes at once are refused. bias, slopes, scales, zero points, and
 * constant_weights before, are aligned to their elements. */
typedef struct convoy_arguments {
  size_t size;
  const void* x; /* the operand that the pass computes is ignored: give it as `out` */
  const void* w;
  const void* y;
  void* out;
  const void* bias; /* one value per output channel: f32 (f64, s32), with bias=out of out's type, with bias=f32 f32 */
  const void* z;    /* residual, described like out */
  const float* slopes; /* prelu */
  const float* scales; /* requantization */
  void* workspace;     /* aligned to 64 bytes, on a GPU to 256; null: taken for the call, on a GPU from a pool of
                        * Convoy's, to which it goes back in the stream's order */
  size_t workspace_bytes;
  void* stream; /* on a GPU: the CUstream (cudaStream_t) to enqueue on, null the default stream; else null */
  const int32_t* x_zero_point;  /* where the problem has it given: one number */
  const int32_t* w_zero_points; /* the same: one for each filter */
  const void* gate;             /* where the problem has gate=1: N x C values of x's type, aligned as x */
} convoy_arguments;
#define CONVOY_ARGUMENTS_INIT \
  { sizeof(convoy_arguments), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* On the processor it returns when `out` is written, on a GPU when that is enqueued: what fails there later is told by
 * whoever waits for the stream. */
convoy_status convoy_plan_execute(const convoy_plan* plan, const convoy_arguments* arguments);

/* ---- networks ---- */

/* Whether networks, and any part of one, may have this operator of ONNX's (domain "") or of another domain
 * ("com.microsoft"): 0 or 1. It is 0 for those on lists of tensors: a network has them, a part may hold half of a list.
 */
int convoy_knows_operator(const char* domain, const char* op);

/* Loads what the first network on `device` (as in convoy_options) would wait for: NVIDIA's libraries, the device's
 * context. It takes some tenths of a second, so call it on a thread of its own while the model is read. What fails is
 * said by who needs it. Error: there is no such device. */
convoy_status convoy_load_device(const char* device);

typedef struct convoy_network convoy_network;

/* An ONNX file, whose external data is looked up in its folder only, or "zoo:NAME", a network that needs no file. */
convoy_status convoy_network_load(const char* path, convoy_network** network);
/* The `bytes` bytes of an ONNX file, which are not needed afterwards. `external_data_folder` may be null: it has none.
 */
convoy_status convoy_network_parse(const void* onnx, size_t bytes, const char* external_data_folder,
                                   convoy_network** network);
/* An initializer's values in the caller's memory. */
typedef struct convoy_initializer {
  const char* name;
  const void* data; /* row-major, packed, of the type and sizes that the model says */
  int64_t bytes;
} convoy_initializer;

/* The same, with the values of some of its initializers, which the model then need not have. They are read in place,
 * but for small ones, those that are not aligned to 64 bytes, booleans, and types of less than a byte: the memory must
 * live, unchanged, as long as the network does. Sessions own what they use of it. */
convoy_status convoy_network_parse_with(const void* onnx, size_t bytes, const char* external_data_folder,
                                        const convoy_initializer* initializers, size_t initializer_count,
                                        convoy_network** network);
/* Its sessions live on. */
void convoy_network_destroy(convoy_network* network);

/* An input or output as the model declares it. */
typedef struct convoy_value {
  size_t size;
  const char* name;
  const char* type;             /* "f32" */
  int32_t rank;                 /* -1: the model doesn't say */
  const int64_t* dims;          /* rank of them; -1: free */
  const char* const* dim_names; /* rank of them: a free size's name, "batch", or "" */
  const int64_t* proposed_dims; /* inputs: dims, with sizes for the free ones where the model proposes some */
} convoy_value;
#define CONVOY_VALUE_INIT \
  { sizeof(convoy_value), 0, 0, 0, 0, 0, 0 }

size_t convoy_network_inputs(const convoy_network* network); /* how many there are */
size_t convoy_network_outputs(const convoy_network* network);
convoy_status convoy_network_input(const convoy_network* network, size_t index, convoy_value* value);
convoy_status convoy_network_output(const convoy_network* network, size_t index, convoy_value* value);

/* What a model's file says of itself, as ONNX's ModelProto has it; "" and 0 where it says nothing. It lives as long as
 * the network. */
typedef struct convoy_model_info {
  size_t size;
  const char* producer_name;
  const char* producer_version;
  const char* domain;
  const char* description;
  const char* graph_name;
  const char* graph_description;
  int64_t version;
  size_t metadata; /* how many keys and values there are */
  const char* const* metadata_keys;
  const char* const* metadata_values;
} convoy_model_info;
#define CONVOY_MODEL_INFO_INIT \
  { sizeof(convoy_model_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
convoy_status convoy_network_info(const convoy_network* network, convoy_model_info* info);

/* Sizes of an input. */
typedef struct convoy_shape {
  int32_t rank;
  const int64_t* dims;
} convoy_shape;

/* A network made ready for input sizes: engines chosen, weights packed, memory planned. Any number of threads may run
 * it at once, with convoy_session_execute. So many runs go on side by side as the processor has threads for (those it
 * has by convoy_options.threads), the others wait: for throughput threads = 1 and as many callers as processors. Each
 * run has memory of its own, which is made when runs need it, and kept. Sessions of one network share weights that they
 * pack alike. */
typedef struct convoy_session convoy_session;

/* `shapes` has one of each input, in their order; null: what the inputs propose. Of `options`, which may be null, all
 * but target_sms are read. With a GPU as `device` weights and activations lie there (docs/gpu-networks.md). */
convoy_status convoy_session_create(const convoy_network* network, const convoy_shape* shapes, size_t shape_count,
                                    const convoy_options* options, convoy_session** session);
void convoy_session_destroy(convoy_session* session);

/* What convoy_session_create would decide for these sizes, as a plan file's text (docs/plans.md). */
convoy_status convoy_network_plan(const convoy_network* network, const convoy_shape* shapes, size_t shape_count,
                                  const convoy_options* options, convoy_text_callback callback, void* user);

/* The same with as much of the network in options->precision, "bf16", "f16" or "tf32", as leaves its outputs within
 * `max_error`: of each floating output the L2 norm of the difference to the one in f32, over the L2 norm of the latter,
 * as it was measured on `inputs` (as for convoy_session_execute). Layouts are those of how = "global". Nodes are run in
 * the narrow type one by one, for options->budget_seconds (0: no limit): what that does not reach stays f32. */
convoy_status convoy_network_plan_within(const convoy_network* network, const convoy_shape* shapes, size_t shape_count,
                                         const void* const* inputs, size_t input_count, double max_error,
                                         const convoy_options* options, convoy_text_callback callback, void* user);

/* Measures what makes the network fast for these sizes, as `convoy tune MODEL` does, and keeps it: times of
 * convolutions in options->database, and the fastest plan beside it. convoy_session_create with the same database,
 * threads, math and precision obeys that. `inputs` as for convoy_session_run: it is run on them. Ends within
 * options->budget_seconds; 0: no limit. With `again` other than 0 what is known is measured anew. `progress` may be
 * null. Of `options` neither `how` nor `plan` nor limits on memory are taken; with engines, rules, fallback,
 * deterministic_only or workspace_limit convolutions are tuned and no plan is kept. */
convoy_status convoy_network_tune(const convoy_network* network, const convoy_shape* shapes, size_t shape_count,
                                  const void* const* inputs, size_t input_count, const convoy_options* options,
                                  int32_t again, convoy_progress_callback progress, void* user);

/* What a run made. */
typedef struct convoy_results convoy_results;

/* Runs it. `inputs` has a pointer to each input's values: row-major, packed, of the type and sizes prepared for. They
 * are read in place where they are aligned to 64 bytes, else copied first. The results may outlive the session. */
convoy_status convoy_session_execute(const convoy_session* session, const void* const* inputs, size_t input_count,
                                     convoy_results** results);
void convoy_results_destroy(convoy_results* results);

/* Memory of the caller's for an output. */
typedef struct convoy_buffer {
  void* data; /* null: the output gets memory of Convoy's */
  int64_t bytes;
} convoy_buffer;

/* The same run, its outputs in the caller's memory: `buffers` has one for each, of as many bytes as it takes or more.
 * Steps write there in place where `data` is aligned to 64 bytes, else it is filled by one copy, as it is with an
 * output whose sizes are known only when it has run (convoy_session_output_value). It overlaps with no other buffer and
 * no input. The results say what each output is; they have pointers to the caller's memory, which they do not own.
 * `results` may be null where every output has a buffer. */
convoy_status convoy_session_execute_into(const convoy_session* session, const void* const* inputs, size_t input_count,
                                          const convoy_buffer* buffers, size_t buffer_count, convoy_results** results);
/* An output as the session makes it, packed, with its sizes. Where they are known only when it has run its rank is -1,
 * whatever the model declares. */
convoy_status convoy_session_output_value(const convoy_session* session, size_t index, convoy_value* value);

/* The same run of a session whose device is a GPU, on tensors that lie there: enqueued on `stream` (a CUstream or
 * cudaStream_t of that GPU; null: the default stream) and not waited for. A pointer for each input and output: packed,
 * row-major, aligned to 256 bytes; outputs overlap with nothing. Runs on several streams go on side by side where there
 * is memory for it. For each of the last 8 sets of pointers there is a CUDA graph. Where the caller captures `stream`,
 * the run goes into his graph, with memory of its own that the session keeps: such a graph is launched while the
 * session lives, and not twice at once. CONVOY_UNSUPPORTED where a step runs on the processor. */
convoy_status convoy_session_enqueue(const convoy_session* session, const void* const* inputs, size_t input_count,
                                     void* const* outputs, size_t output_count, void* stream);

/* The same for who runs it on one thread at a time: the results stay in the session until its next run. */
convoy_status convoy_session_run(convoy_session* session, const void* const* inputs, size_t input_count);

typedef struct convoy_output {
  size_t size;
  const char* type; /* "f32" */
  int32_t rank;
  const int64_t* dims;
  const void* data; /* row-major, packed */
  int64_t bytes;
} convoy_output;
#define CONVOY_OUTPUT_INIT \
  { sizeof(convoy_output), 0, 0, 0, 0, 0 }
/* An output. What it points to lives as long as the results. */
convoy_status convoy_results_output(const convoy_results* results, size_t index, convoy_output* output);
/* One of the last convoy_session_run. */
convoy_status convoy_session_output(const convoy_session* session, size_t index, convoy_output* output);

/* What it takes. */
typedef struct convoy_session_info {
  size_t size;
  size_t steps;
  double seconds;           /* of the run that ended last; 0 before */
  int64_t activation_bytes; /* of one run */
  int64_t weight_bytes;
  int64_t workspace_bytes; /* of one run */
  const char* warnings;    /* a line each: rules that matched no convolution, or decided nothing; what was decided
                            * otherwise than a plan says; null: none */
  const char* batch_parts; /* as convoy_options has it: "whole" ... With parts the steps are those of one */
  /* The most runs that have gone on side by side, at least 1: activations and workspace are there so many times. */
  int32_t runs_at_once;
  const char* device; /* where it runs: "cpu", "cuda:0" */
  /* On a GPU, of the run that ended last, without copies of inputs and outputs; 0: before, and on the processor. */
  double device_seconds;
  int64_t device_bytes; /* on a GPU: held there now; else 0 */
} convoy_session_info;
#define CONVOY_SESSION_INFO_INIT \
  { sizeof(convoy_session_info), 0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0 }
convoy_status convoy_session_describe(const convoy_session* session, convoy_session_info* info);

/* One step, in the order of execution. */
typedef struct convoy_step {
  size_t size;
  const char* kind;         /* "conv", "op", "convert" (a change of layout) */
  const char* nodes;        /* the ONNX nodes it computes, "conv1+bn1+relu1" */
  const char* engine;       /* a convolution's candidate, "cpu.gemm{k_block=256}"; else who does it, "ops.gather" */
  const char* problem;      /* a convolution's problem string; else null */
  const char* reason;       /* why a convolution runs on it: "heuristic", "stored", "rule '...'"; else null */
  const char* warnings;     /* of the choice, a line each: a rule that fell back; null: none */
  const char* output_shape; /* "1x64x56x56 nhwc" */
  double seconds;           /* of the run that ended last, the mean of its parts; 0 before */
  int32_t threads;          /* that it runs on: the session's, or 1 where it is tiny */
  const char* device;       /* "cpu", "cuda:0"; a copy's is the one that it is not of the processor */
} convoy_step;
#define CONVOY_STEP_INIT \
  { sizeof(convoy_step), 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0 }
convoy_status convoy_session_step(const convoy_session* session, size_t index, convoy_step* step);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
