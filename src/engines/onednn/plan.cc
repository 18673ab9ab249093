#include "engines/onednn/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <unordered_map>

#include "base/fork_mutex.h"
#include "convoy/host_tensor.h"
#include "core/epilogue.h"
#include "core/shared_bytes.h"
#include "core/stages.h"
#include "device/onednn_signals.h"
#include "engines/cpu/common/padding_guard.h"
#include "engines/onednn/request.h"

namespace convoy::onednn {
namespace {

using Memories = std::unordered_map<int, dnnl::memory>;

dnnl::memory::desc argument_desc(const dnnl::primitive_desc& description, int argument) {
  return description.query_md(dnnl::query::exec_arg_md, argument);
}

dnnl::reorder::primitive_desc describe_reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return {cpu_engine(), from, cpu_engine(), to, attributes};
}

// A copy from one format to another.
struct Reorder {
  dnnl::memory::desc from, to;
  dnnl::memory::desc scratchpad;
  dnnl::reorder primitive;

  Reorder(const dnnl::memory::desc& source, const dnnl::memory::desc& target) : from(source), to(target) {
    const auto description = describe_reorder(from, to);
    scratchpad = description.scratchpad_desc();
    primitive = dnnl::reorder(description);
  }

  void run(const dnnl::stream& stream, const void* source, void* target, void* scratch) const {
    Memories memories = {{DNNL_ARG_FROM, dnnl::memory(from, cpu_engine(), const_cast<void*>(source))},
                         {DNNL_ARG_TO, dnnl::memory(to, cpu_engine(), target)}};
    if (scratchpad.get_size() > 0) {
      memories.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratchpad, cpu_engine(), scratch));
    }
    primitive.execute(stream, memories);
  }
};

// A tensor that the primitive reads, and how it gets there from the caller's memory.
struct Input {
  int id;  // DNNL_ARG_...
  Source source;
  dnnl::memory::desc desc;         // as the primitive takes it
  std::optional<Reorder> reorder;  // where the caller's differs
  std::size_t offset = 0;          // of the reordered tensor in the workspace
};

struct Output {
  int id = 0;
  dnnl::memory::desc desc;
  std::optional<Reorder> before;  // of what out must hold: its prior contents, or z
  std::optional<Reorder> after;   // to the caller's memory
  std::size_t offset = 0;
};

// Products of 16 bits are made two channels (wgrad: pixels) at a time: beside an odd number lies a zero for whatever
// follows.
bool pads_pairs(const ConvProblem& problem) {
  const DataType type = problem.pass == Pass::dgrad ? problem.y.type : problem.x.type;
  if (problem.pass == Pass::wgrad) return type == DataType::bf16 || type == DataType::f16;
  const std::int64_t channels = problem.pass == Pass::dgrad ? problem.out_channels() : problem.in_channels();
  return (type == DataType::bf16 || type == DataType::f16) && channels / problem.groups % 2 != 0;
}

// oneDNN makes a NaN of the channels behind the last of a blocked out where it multiplies their zero weights by special
// values.
void clear_channel_padding(const TensorDesc& out, void* data, ThreadTeam& team) {
  const std::int64_t padding = out.padded_channels() - out.dims[1];
  if (out.channel_block <= 1 || padding == 0 || !is_floating(out.type)) return;
  const std::int64_t positions = out.elements() / std::max<std::int64_t>(out.dims[1], 1);
  const std::size_t size = size_of(out.type);
  parallel_ranges(team, positions, [&](std::int64_t begin, std::int64_t end, int) {
    Dims at(out.dims.size(), 0);
    at[1] = out.dims[1] - 1;
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t rest = i;
      for (int d = out.rank() - 1; d >= 0; --d) {
        if (d == 1) continue;
        at[d] = rest % out.dims[d];
        rest /= out.dims[d];
      }
      std::memset(static_cast<std::byte*>(data) + (out.offset(at.data()) + 1) * size, 0, padding * size);
    }
  });
}

class ConvolutionPlan final : public ConvPlan, public HasStages {
 public:
  ConvolutionPlan(const ConvProblem& problem, Candidate candidate, const SurveyedImplementation& offer,
                  const PlanRequest& request, int threads, const Request& asked,
                  const dnnl::primitive_desc& description)
      : problem_(problem),
        candidate_(std::move(candidate)),
        row_(offer.row),
        form_(offer.form),
        threads_(threads),
        fewer_threads_(threads != request.threads),
        constant_weights_(request.constant_weights != nullptr),
        implementation_(description.impl_info_str()),
        scratchpad_(description.scratchpad_desc()),
        scratch_bytes_(scratchpad_.get_size()),
        guard_(problem, {.beside_data = pads_pairs(problem), .hides_nan = loses_special_values(problem)}) {
    const Pass pass = problem.pass;
    add_tensor(description, pass == Pass::dgrad ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, Source::x,
               as_given(problem, problem.x), pass == Pass::dgrad);
    add_tensor(description, pass == Pass::wgrad ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, Source::w,
               weights_as_given(problem), pass == Pass::wgrad, constant_weights_);
    add_tensor(description, pass == Pass::fprop ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, Source::y,
               as_given(problem, problem.y), pass == Pass::fprop);
    for (const Extra& extra : asked.extras()) {
      dnnl::memory::desc wanted = extra.desc;
      if (extra.source == Source::z) wanted = argument_desc(description, extra.id);
      add_input(extra.id, extra.source, extra.desc, wanted, false);
    }
    primitive_ = dnnl::primitive(description);
    place();
  }

  Candidate candidate() const override { return candidate_; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::size_t retained_bytes() const override { return (packed_ ? packed_bytes_ : 0) + guard_.retained_bytes(); }

  std::vector<std::string> notes() const override {
    std::vector<std::string> notes = {implementation_};
    const std::string spatial = std::string("dhw").substr(3 - problem_.spatial_dims());
    const std::string activation = "nc" + spatial;
    const std::string weights = (problem_.groups > 1 ? "goi" : "oi") + spatial;
    const auto change = [&](const char* name, const Reorder& reorder, const std::string& letters) {
      notes.push_back(fmt::format("reorders {}: {} -> {}", name, format_of(reorder.from, letters.c_str()),
                                  format_of(reorder.to, letters.c_str())));
    };
    for (const Input& input : inputs_) {
      if (!input.reorder) continue;
      if (input.source == Source::w) {
        notes.push_back(fmt::format("w packed {} as {}", packed_ ? "at plan time" : "at each execution",
                                    format_of(input.desc, weights.c_str())));
      } else {
        change(input.source == Source::x ? "x" : input.source == Source::y ? "y" : "z", *input.reorder, activation);
      }
    }
    const bool wgrad = problem_.pass == Pass::wgrad;
    if (output_.before) change("what out holds", *output_.before, activation);
    if (output_.after) {
      const char* name = problem_.pass == Pass::fprop ? "y" : wgrad ? "w" : "x";
      change(name, *output_.after, wgrad ? weights : activation);
    }
    if (fewer_threads_) notes.push_back("runs on one thread: not offered for more");
    if (const auto loss = precision_note(problem_)) notes.emplace_back(*loss);
    return notes;
  }

  std::vector<std::string> stages() const override {
    std::vector<std::string> stages;
    for (const Input& input : inputs_) {
      if (!input.reorder) continue;
      if (input.source == Source::w) {
        if (!constant_weights_) stages.emplace_back("pack weights");
      } else {
        stages.emplace_back(input.source == Source::x   ? "reorder x"
                            : input.source == Source::y ? "reorder y"
                                                        : "reorder z");
      }
    }
    if (output_.before) stages.emplace_back("reorder what out holds");
    stages.push_back("convolution" + epilogue_text(problem_));
    if (output_.after) stages.emplace_back("reorder out");
    return stages;
  }

  // Packs constant weights; they live during the call only. Throws dnnl::error.
  Result<void> keep(const void* weights) {
    const auto input =
        std::find_if(inputs_.begin(), inputs_.end(), [](const Input& i) { return i.source == Source::w; });
    if (weights == nullptr || input == inputs_.end()) return {};
    guard_.keep(weights);
    packed_bytes_ = input->desc.get_size();
    std::shared_ptr<std::byte> packed = allocate_aligned(packed_bytes_);
    const auto scratch = allocate_aligned(scratch_bytes_);
    if (!packed || (scratch_bytes_ > 0 && !scratch)) {
      return Error{ErrorCode::out_of_memory, fmt::format("{} bytes for packed weights can't be had", packed_bytes_)};
    }
    dnnl::stream stream(cpu_engine());
    std::memset(packed.get(), 0, packed_bytes_);  // where a format has gaps, they are the same
    input->reorder->run(stream, weights, packed.get(), scratch.get());
    stream.wait();
    packed_ = shared_bytes(std::move(packed), packed_bytes_);
    return {};
  }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    if (ended()) {
      return Error{ErrorCode::unsupported, candidate_.engine +
                                               ": the process is exiting and oneDNN's own objects are "
                                               "destroyed; plans made from now on are of other engines"};
    }
    CONVOY_CHECK(guard_.run(args, context.team(), [&] { return run(args, context); }));
    clear_channel_padding(problem_.out(), args.out, context.team());
    return {};
  }

 private:
  Result<void> run(const ConvArgs& args, const ExecContext& context) const {
    const OmpThreads threads(threads_);
    auto* workspace = static_cast<std::byte*>(context.workspace);
    try {
      dnnl::stream stream(cpu_engine());
      Memories memories;
      for (const Input& input : inputs_) {
        const void* data = pointer(args, input.source);
        if (input.source == Source::w && packed_) {
          data = packed_.get();
        } else if (input.reorder) {
          void* reordered = workspace + input.offset;
          input.reorder->run(stream, data, reordered, workspace);
          data = reordered;
        }
        memories.emplace(input.id, dnnl::memory(input.desc, cpu_engine(), const_cast<void*>(data)));
      }
      void* out = output_.after ? workspace + output_.offset : args.out;
      if (output_.before) {
        const void* holds = form_.residual_by_sum ? args.z : args.out;
        if (holds != out) output_.before->run(stream, holds, out, workspace);
      }
      memories.emplace(output_.id, dnnl::memory(output_.desc, cpu_engine(), out));
      if (scratchpad_.get_size() > 0) {
        memories.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratchpad_, cpu_engine(), workspace));
      }
      {
        const WithoutSignals quiet(moves_the_stack(implementation_) ? threads_ : 0);
        primitive_.execute(stream, memories);
      }
      if (output_.after) output_.after->run(stream, out, args.out, workspace);
      stream.wait();
    } catch (const dnnl::error& error) {
      return Error{ErrorCode::internal, fmt::format("{}: {}", candidate_.engine, error.message)};
    }
    if (!executed_.exchange(true, std::memory_order_relaxed)) used(kind_of_use(problem_, row_) + 1);
    return {};
  }

  void add_tensor(const dnnl::primitive_desc& description, int id, Source source, const dnnl::memory::desc& given,
                  bool is_output, bool constant = false) {
    const dnnl::memory::desc wanted = argument_desc(description, id);
    if (!is_output) return add_input(id, source, given, wanted, constant);
    output_.id = id;
    output_.desc = wanted;
    if (wanted != given) output_.after.emplace(wanted, given);
    if (form_.residual_by_sum || (problem_.beta != 0 && wanted != given)) output_.before.emplace(given, wanted);
  }

  // Constant tensors are always copied: the caller's are gone after planning.
  void add_input(int id, Source source, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted,
                 bool constant) {
    Input input{id, source, wanted, {}, 0};
    if (constant || wanted != given) input.reorder.emplace(given, wanted);
    inputs_.push_back(std::move(input));
  }

  // The scratchpad, which the primitive and the reorders use one after the other, then every reordered tensor.
  void place() {
    const auto use = [&](const std::optional<Reorder>& reorder) {
      if (reorder) scratch_bytes_ = std::max(scratch_bytes_, reorder->scratchpad.get_size());
    };
    for (const Input& input : inputs_) use(input.reorder);
    use(output_.before);
    use(output_.after);
    std::size_t end = 0;
    const auto take = [&](std::size_t bytes) {
      const std::size_t at = end;
      end += (bytes + 63) / 64 * 64;
      return at;
    };
    take(scratch_bytes_);
    for (Input& input : inputs_) {
      const bool packed = input.source == Source::w && constant_weights_;
      if (input.reorder && !packed) input.offset = take(input.desc.get_size());
    }
    if (output_.after) output_.offset = take(output_.desc.get_size());
    workspace_bytes_ = end;
  }

  const void* pointer(const ConvArgs& args, Source source) const {
    switch (source) {
      case Source::x:
        return args.x;
      case Source::w:
        return args.w;
      case Source::y:
        return args.y;
      case Source::bias:
        return args.bias;
      case Source::z:
        return args.z;
      case Source::slopes:
        return args.slopes;
      case Source::scales:
        return args.scales;
      case Source::x_zero_point:
        return &problem_.x_zero_point;
      case Source::y_zero_point:
        return &problem_.y_zero_point;
    }
    return nullptr;
  }

  ConvProblem problem_;
  Candidate candidate_;
  std::size_t row_;
  Form form_;
  int threads_;
  bool fewer_threads_;  // than asked for
  bool constant_weights_;
  std::string implementation_;
  dnnl::memory::desc scratchpad_;
  dnnl::primitive primitive_;
  std::vector<Input> inputs_;
  Output output_;
  std::shared_ptr<const std::byte> packed_;
  std::size_t packed_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
  std::size_t workspace_bytes_ = 0;
  cpu::PaddingGuard guard_;
  mutable std::atomic<bool> executed_ = false;
};

// The implementation as it is made for so many threads; empty where it is not offered.
dnnl::primitive_desc find_implementation(const Request& asked, std::size_t row, int threads) {
  const OmpThreads omp_threads(threads);
  dnnl::primitive_desc description = asked.first();
  while (description && row_of_implementation(description.impl_info_str()) != row) {
    if (!description.next_impl()) return {};
  }
  return description;
}

}  // namespace

Result<std::unique_ptr<ConvPlan>> make_convolution_plan(const ConvProblem& problem, const SurveyedImplementation& offer,
                                                        const PlanRequest& request) {
  const Implementation& row = implementations()[offer.row];
  const Candidate candidate{row.name(), {KnobValue{"layout", offer.form.any_layout ? "preferred" : "given"}}};
  const NoFork no_fork;
  try {
    const Request asked(problem, offer.form);
    int threads = request.threads;
    dnnl::primitive_desc description = find_implementation(asked, offer.row, threads);
    if (!description) description = find_implementation(asked, offer.row, threads = 1);
    if (!description) return Error{ErrorCode::internal, candidate.engine + " is no longer offered"};
    const OmpThreads omp_threads(threads);
    auto plan = std::make_unique<ConvolutionPlan>(problem, candidate, offer, request, threads, asked, description);
    used(kind_of_use(problem, offer.row));
    CONVOY_CHECK(plan->keep(request.constant_weights));
    return std::unique_ptr<ConvPlan>(std::move(plan));
  } catch (const dnnl::error& error) {
    return Error{error.status == dnnl_out_of_memory ? ErrorCode::out_of_memory : ErrorCode::internal,
                 fmt::format("{}: {}", candidate.engine, error.message)};
  }
}

}  // namespace convoy::onednn
