// Signals that come while oneDNN's matrix product runs: their handlers run on a stack.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <cstdint>

#include "convoy/host_tensor.h"
#include "device/onednn.h"
#include "engines/onednn/onednn.h"

namespace convoy::onednn {
namespace {

thread_local std::uintptr_t stack_begin = 0, stack_end = 0;
std::atomic<int> on_a_stack = 0, elsewhere = 0;

void learn_stack() {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  void* begin = nullptr;
  std::size_t bytes = 0;
  pthread_attr_getstack(&attributes, &begin, &bytes);
  pthread_attr_destroy(&attributes);
  stack_begin = reinterpret_cast<std::uintptr_t>(begin);
  stack_end = stack_begin + bytes;
}

void handle(int) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (stack_end == 0) return;  // a thread that the test knows nothing of
  ++(stack_begin <= here && here < stack_end ? on_a_stack : elsewhere);
}

class OneDnnSignals : public ::testing::TestWithParam<int> {};

TEST_P(OneDnnSignals, NeverComeWhereTheStackPointerIsNone) {
  const int threads = GetParam();
  const Engine* gemm = nullptr;
  for (const Engine* engine : engines()) {
    if (engine->info().name == "onednn.gemm") gemm = engine;
  }
  ASSERT_NE(gemm, nullptr);
  // 2304 inputs of an output: above 2048 it takes a buffer from the heap.
  const ConvProblem problem = *parse_problem("fprop:x=f32,2x256x28x28:w=f32,64x256x3x3:pad=1x1");
  const PlanRequest request{threads};
  const auto plan = gemm->plan(problem, {}, request);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const HostTensor x = *HostTensor::allocate(problem.x), w = *HostTensor::allocate(problem.w);
  HostTensor y = *HostTensor::allocate(problem.y);
  const auto team = make_cpu_team(threads);
  const auto workspace = allocate_aligned((*plan)->workspace_bytes());
  const ConvArgs args{.x = x.data.get(), .w = w.data.get(), .out = y.data.get()};
#pragma omp parallel num_threads(threads)
  learn_stack();

  on_a_stack = elsewhere = 0;
  struct sigaction handling = {}, before = {};
  handling.sa_handler = handle;
  ASSERT_EQ(sigaction(SIGALRM, &handling, &before), 0);
  const itimerval often{{0, 100}, {0, 100}}, never{};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  for (int run = 0; run < 60; ++run) {
    EXPECT_TRUE((*plan)->execute(args, {*team, workspace.get(), (*plan)->workspace_bytes()}).ok());
  }
  std::atomic<int> blocked = 0;
#pragma omp parallel num_threads(threads)
  {
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, nullptr, &now);
    blocked += sigismember(&now, SIGALRM);
  }
  ASSERT_EQ(blocked, 0) << "threads that take no signals afterwards";
  while (on_a_stack == 0 && elsewhere == 0) {  // that signals do come
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_EQ(elsewhere, 0) << "of " << on_a_stack + elsewhere;
}

INSTANTIATE_TEST_SUITE_P(Threads, OneDnnSignals, ::testing::Values(1, 2));

}  // namespace
}  // namespace convoy::onednn
