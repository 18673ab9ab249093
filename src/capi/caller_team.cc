#include "capi/caller_team.h"

namespace convoy::capi {
namespace {

using Body = FunctionRef<void(int thread)>;

class CallerTeam final : public ThreadTeam {
 public:
  CallerTeam(convoy_parallel_for parallel_for, void* user, int threads)
      : parallel_for_(parallel_for), user_(user), threads_(threads) {}

  int size() const override { return threads_; }

  void run(Body body) override {
    if (threads_ == 1) {
      body(0);
      return;
    }
    parallel_for_(
        user_, threads_, [](void* context, std::int32_t index) { (*static_cast<const Body*>(context))(index); }, &body);
  }

 private:
  convoy_parallel_for parallel_for_;
  void* user_;
  int threads_;
};

}  // namespace

std::shared_ptr<ThreadTeam> caller_team(const convoy_options& options, int threads) {
  if (options.parallel_for == nullptr) return nullptr;
  return std::make_shared<CallerTeam>(options.parallel_for, options.parallel_user, threads);
}

}  // namespace convoy::capi
