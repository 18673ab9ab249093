// Runs of networks at home on a GPU whose tensors lie there, in run/home_test.cc's program: they are read and written
// in place, callers capture them, and streams have memory of their own.
#include <atomic>
#include <cstring>
#include <thread>

#include "network/testing/home.h"

namespace convoy::network {
namespace {

// A caller's graph of what it captures of a stream.
class CallersGraph {
 public:
  explicit CallersGraph(CUstream stream) : stream_(stream) {
    EXPECT_EQ(api_.StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  }
  CallersGraph(const CallersGraph&) = delete;
  CallersGraph& operator=(const CallersGraph&) = delete;
  ~CallersGraph() {
    if (executable_ != nullptr) api_.GraphExecDestroy(executable_);
  }
  void end() {
    CUgraph graph = nullptr;
    ASSERT_EQ(api_.StreamEndCapture(stream_, &graph), CUDA_SUCCESS);
    ASSERT_EQ(api_.GraphInstantiate(&executable_, graph, 0), CUDA_SUCCESS);
    api_.GraphDestroy(graph);
  }
  void launch() const { ASSERT_EQ(api_.GraphLaunch(executable_, stream_), CUDA_SUCCESS); }

 private:
  const cuda::DriverApi& api_ = **cuda::driver();
  CUstream stream_;
  CUgraphExec executable_ = nullptr;
};

class OnDevice : public Home {
 protected:
  void SetUp() override {
    const Graph graph = only_convolutions();
    expected_of(graph);
    prepare(graph);
    scope_ = *device_.enter();
    queue_ = *device_.make_queue(1);
  }

  struct Tensors {
    Buffer input, output;
  };
  Tensors tensors() {
    Tensors made{*device_.allocate(static_cast<std::size_t>(inputs_[0].desc.bytes()), "x"),
                 *device_.allocate(static_cast<std::size_t>(expected_[0].desc.bytes()), "y")};
    EXPECT_TRUE(queue_->copy_in(made.input.data(), inputs_[0].data.get(), made.input.bytes()).ok());
    EXPECT_TRUE(queue_->fill(made.output.data(), 0xff, made.output.bytes()).ok());
    return made;
  }
  Result<void> enqueue(const Tensors& given, void* stream) {
    const void* const inputs[] = {given.input.data()};
    void* const outputs[] = {given.output.data()};
    return session_->enqueue(inputs, outputs, stream);
  }
  Result<void> enqueue(const Tensors& given) { return enqueue(given, stream()); }
  // And the graphs that were captured meanwhile.
  void expect_right(const Tensors& given, int captured) { expect_right(given, captured, stream()); }
  void expect_right(const Tensors& given, int captured, void* stream) {
    const int before = captures();
    ASSERT_TRUE(queue_->fill(given.output.data(), 0xff, given.output.bytes()).ok());
    const auto done = enqueue(given, stream);
    ASSERT_TRUE(done.ok()) << done.error().message;
    ASSERT_TRUE(queue_->finish().ok());
    expect_there(given);
    EXPECT_EQ(captures() - before, captured);
  }
  void expect_there(const Tensors& given) {
    const auto actual = HostTensor::allocate(expected_[0].desc);
    ASSERT_TRUE(queue_->copy_out(actual->data.get(), given.output.data(), given.output.bytes()).ok());
    expect_close(*actual, expected_[0]);
  }
  CUstream stream() const { return static_cast<CUstream>(static_cast<CudaQueue&>(*queue_).stream()); }

  const Device& device_ = **find_device("cuda:0");
  std::shared_ptr<void> scope_;
  std::unique_ptr<Queue> queue_;
};

TEST_F(OnDevice, TensorsThatLieThereAreReadAndWrittenThere) {
  EXPECT_TRUE(session_->remarks().empty());
  const Tensors first = tensors(), second = tensors();
  expect_right(first, 0);
  expect_right(first, 1);
  expect_right(first, 0);
  expect_right(second, 0);
  expect_right(second, 1);
  expect_right(first, 0);
  // The processor's tensors go through memory of the session's own.
  expect_run(0, 0);
  expect_run(1, 1);
  EXPECT_EQ(std::memcmp(inputs_[0].data.get(), first.input.data(), first.input.bytes()), 0);
}

TEST_F(OnDevice, EnqueuingWaitsForNothing) {
  const Tensors given = tensors();
  const int before = waits();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(enqueue(given).ok());
  EXPECT_EQ(waits(), before);
}

TEST_F(OnDevice, ARunGoesIntoTheCallersCapture) {
  const Tensors given = tensors();
  CallersGraph first(stream());  // of a session that has not run before
  ASSERT_TRUE(enqueue(given).ok());
  first.end();
  const std::byte* const output = static_cast<const std::byte*>(given.output.data());
  EXPECT_EQ(output[0], std::byte{0xff}) << "nothing of it ran";
  CallersGraph second(stream());
  const auto refused = [&] {
    const void* const inputs[] = {given.input.data()};
    void* const outputs[] = {static_cast<std::byte*>(given.output.data()) + 4};
    return session_->enqueue(inputs, outputs, stream());
  }();
  EXPECT_FALSE(refused.ok());
  ASSERT_TRUE(enqueue(given).ok());
  second.end();
  // Each has its own memory: what the session does between them doesn't matter.
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(queue_->fill(given.output.data(), 0xff, given.output.bytes()).ok());
    expect_run(i, i);
    (i == 0 ? first : second).launch();
    expect_there(given);
  }
}

TEST_F(OnDevice, AFailureAtAnyCallIsAnErrorOfItsEnqueuing) {
  for (const bool captured : {false, true}) {
    const Tensors given = tensors();
    int failed = 0;
    for (int n = 1; failed == n - 1; ++n) {
      ASSERT_LT(n, 200);
      prepare(only_convolutions());
      for (int i = 0; i < (captured ? 1 : 0); ++i) ASSERT_TRUE(enqueue(given).ok());
      fail_at() = n;
      const auto done = enqueue(given);
      failed += done.ok() ? 0 : 1;
      EXPECT_TRUE(!done.ok() || fail_at() > 0) << "call " << n << " failed, and nobody said so";
      fail_at() = 0;
      for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(queue_->fill(given.output.data(), 0xff, given.output.bytes()).ok());
        const auto next = enqueue(given);
        ASSERT_TRUE(next.ok()) << "after call " << n << ": " << next.error().message;
        expect_there(given);
      }
    }
    EXPECT_GT(failed, 4);
  }
}

TEST_F(OnDevice, ManyThreadsRunOneSession) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  const std::vector<HostTensor> first = *session_->run(inputs_);
  const auto bytes = static_cast<std::size_t>(first[0].desc.bytes());
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const auto ran = session_->run(inputs_);
        wrong += !ran.ok() || std::memcmp((*ran)[0].data.get(), first[0].data.get(), bytes) != 0 ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(session_->runs_at_once(), 8);
}

TEST_F(OnDevice, StreamsHaveMemoryOfTheirOwnWhereThereIsRoom) {
  auto& not_reached = of_driver<bool>("fake_not_reached");
  const Tensors given = tensors();
  const auto other = *device_.make_queue(1);
  const auto on = [&](Queue& queue) {
    const void* const inputs[] = {given.input.data()};
    void* const outputs[] = {given.output.data()};
    const auto done = session_->enqueue(inputs, outputs, static_cast<CudaQueue&>(queue).stream());
    EXPECT_TRUE(done.ok()) << done.error().message;
  };
  on(*queue_);
  on(*other);
  EXPECT_EQ(session_->runs_at_once(), 1) << "the first is done";
  const std::size_t bytes = session_->device_bytes();
  not_reached = true;
  on(*other);
  EXPECT_EQ(session_->runs_at_once(), 1) << "the same stream";
  fail_at() = 1;
  on(*queue_);
  EXPECT_EQ(session_->runs_at_once(), 1) << "no memory for another: it begins when the other is done";
  on(*other);
  EXPECT_EQ(session_->runs_at_once(), 2);
  EXPECT_GT(session_->device_bytes(), bytes);
  const int before = captures();
  on(*other);
  on(*queue_);
  EXPECT_EQ(session_->runs_at_once(), 2);
  EXPECT_EQ(captures() - before, 1) << "each has graphs of its own";
  not_reached = false;
  const auto actual = HostTensor::allocate(expected_[0].desc);
  ASSERT_TRUE(queue_->copy_out(actual->data.get(), given.output.data(), given.output.bytes()).ok());
  expect_close(*actual, expected_[0]);
}

TEST_F(OnDevice, OnTheDefaultStreamGraphsAreLaunchedThatItCannotCapture) {
  const Tensors given = tensors();
  expect_right(given, 0, nullptr);
  expect_right(given, 1, nullptr);
  expect_right(given, 0, nullptr);
}

TEST_F(OnDevice, OfManyTensorsTheGraphsUsedLastAreKept) {
  std::vector<Tensors> many;
  for (int i = 0; i < 8; ++i) many.push_back(tensors());
  for (const Tensors& each : many) expect_right(each, 0);
  for (const Tensors& each : many) expect_right(each, 1);
  expect_right(many[0], 0);
  const Tensors another = tensors();
  auto& not_reached = of_driver<bool>("fake_not_reached");
  not_reached = true;
  const int before = waits();
  ASSERT_TRUE(enqueue(another).ok());  // in place of many[1]
  EXPECT_EQ(waits() - before, 1) << "many[1]'s graph may be under way";
  not_reached = false;
  expect_there(another);
  expect_right(many[0], 0);
  expect_right(many[1], 0);
  expect_right(many[1], 1);
}

TEST_F(OnDevice, PointersThatAreNotTheDevicesAreRefused) {
  Tensors given = tensors();
  const Tensors right = given;
  given.input = Buffer(std::shared_ptr<void>(inputs_[0].data), given.input.bytes());
  auto refused = enqueue(given);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("input 'x'"), std::string::npos) << refused.error().message;
  given = right;
  given.output =
      Buffer(std::shared_ptr<void>(given.output.share(), static_cast<std::byte*>(given.output.data()) + 4), 1);
  refused = enqueue(given);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("no multiple of 256"), std::string::npos) << refused.error().message;
  prepare(with_pool());
  refused = enqueue(right);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("step 4 (n2) is on the processor"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace convoy::network
