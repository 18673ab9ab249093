#include <fmt/format.h>

#include "convoy/plan_cache.h"
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "device/device.h"

namespace convoy {
namespace {

// Plain pointers have no destructor, so this one can be read when the thread's objects are already gone: a static
// destructor that convolves gets a new context, which the ending process takes with it.
thread_local ExecutionContext* own_context = nullptr;

struct Deleter {
  ~Deleter() {
    delete own_context;
    own_context = nullptr;
  }
  void arm() {}
};
thread_local Deleter deleter;

}  // namespace

class ExecutionContext::State {
 public:
  std::unique_ptr<ThreadTeam> team;
  Scratch workspace;
};

ExecutionContext::ExecutionContext() : state_(std::make_unique<State>()) {}
ExecutionContext::~ExecutionContext() = default;

ExecutionContext& ExecutionContext::of_this_thread() {
  if (own_context == nullptr) {
    own_context = new ExecutionContext;
    deleter.arm();
  }
  return *own_context;
}

Result<void> ExecutionContext::execute(const ConvPlan& plan, int threads, const ConvArgs& args) {
  if (threads < 1) return Error{ErrorCode::invalid_argument, fmt::format("threads={} is not from 1", threads)};
  if (state_->team == nullptr || state_->team->size() != threads) state_->team = make_cpu_team(threads);
  const std::size_t bytes = plan.workspace_bytes();
  CONVOY_TRY(void* const workspace, state_->workspace.reserve(bytes));
  return plan.execute(args, {*state_->team, workspace, bytes});
}

Result<void> ExecutionContext::enqueue(const ConvPlan& plan, int ordinal, const ConvArgs& args, void* stream) {
  CudaQueue queue(stream);
  const std::size_t bytes = plan.workspace_bytes();
  const auto cuda_stream = static_cast<CUstream>(stream);
  CONVOY_CHECK(cuda::make_current(ordinal));
  if (bytes == 0) return plan.execute(args, {queue});
  CONVOY_TRY(const cuda::WorkspacePool* pool, cuda::workspace_pool(ordinal));
  CONVOY_TRY(const cuda::StreamMemory workspace,
             pool->allocate(bytes, cuda_stream, "the workspace of " + print(plan.candidate())));
  return plan.execute(args, {queue, workspace.data(), bytes});
}

std::size_t ExecutionContext::workspace_bytes() const { return state_->workspace.capacity(); }
void ExecutionContext::release_workspace() { state_->workspace = Scratch(); }

}  // namespace convoy
