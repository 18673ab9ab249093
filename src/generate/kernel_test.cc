// Kernels of computations that no operator is: offsets beyond 32 bits, loads that stand in for others, tables, guarded
// stores, what is refused.
#include "generate/kernel.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "generate/testing/walk.h"

namespace convoy::generate {
namespace {

Computation copy_of(const TensorDesc& x, const TensorDesc& y) {
  Computation made{.type = DataType::f32, .kept = y.dims, .folded = {}, .loads = {}, .folds = {}, .stores = {}};
  made.loads.push_back({0, Subscript::broadcast(x, y.rank())});
  made.stores.push_back({0, Subscript::broadcast(y, y.rank()), itself()});
  return made;
}

std::vector<float> run(const Computation& computation, std::vector<const void*> inputs, std::size_t outputs) {
  const auto kernel = write_kernel(computation, "kernel");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  const auto walk = Walk::compile({&*kernel, 1});
  EXPECT_TRUE(walk.ok()) << walk.error().message;
  std::vector<float> y(outputs, -1);
  std::vector<void*> pointers;
  for (const int i : kernel->inputs) pointers.push_back(const_cast<void*>(inputs[static_cast<std::size_t>(i)]));
  pointers.push_back(y.data());
  const auto ran = walk->run(*kernel, pointers);
  EXPECT_TRUE(ran.ok()) << ran.error().message;
  return y;
}

// Of the memory in between no page is touched.
TEST(Kernels, CountOffsetsBeyond32Bits) {
  const std::int64_t far = (std::int64_t{1} << 32) + 8;
  TensorDesc x = TensorDesc::packed(DataType::u8, {2, 8});
  x.strides = {far, 1};
  void* const memory = mmap(nullptr, static_cast<std::size_t>(far) + 64, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const bytes = static_cast<unsigned char*>(memory);
  for (int i = 0; i < 8; ++i) {
    bytes[i] = static_cast<unsigned char>(i);
    bytes[far + i] = static_cast<unsigned char>(100 + i);
  }
  const std::vector<float> y = run(copy_of(x, TensorDesc::packed(DataType::f32, {2, 8})), {memory}, 16);
  EXPECT_EQ(y, (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 100, 101, 102, 103, 104, 105, 106, 107}));
  munmap(memory, static_cast<std::size_t>(far) + 64);
}

TEST(Kernels, CountInRangeWith32Bits) {
  const TensorDesc x = TensorDesc::packed(DataType::f32, {2, 8});
  const auto kernel = write_kernel(copy_of(x, x), "kernel");
  ASSERT_TRUE(kernel.ok());
  EXPECT_NE(kernel->text.find("typedef int I;"), std::string::npos);
  EXPECT_EQ(kernel->schedule, "map{vector=4}");
  EXPECT_EQ(kernel->grid, 1U);
}

// Each less the sum of all: of many sums by two threads that have three vectors each, not all of them whole, joined in
// a warp, and of few by a block.
TEST(Kernels, ReadOnceWhatAFoldAndAStoreNeed) {
  const auto check = [](std::int64_t kept, std::int64_t folded, const char* schedule) {
    const TensorDesc x = TensorDesc::packed(DataType::f32, {kept, folded});
    Computation less{.type = DataType::f32, .kept = {kept}, .folded = {folded}, .loads = {}, .folds = {}, .stores = {}};
    less.loads.push_back({0, Subscript::broadcast(x, 2)});
    less.folds.push_back({of(Function::add), 0, itself(), {}});
    less.stores.push_back({0, Subscript::broadcast(x, 2), of(Function::sub)});
    std::vector<float> values(static_cast<std::size_t>(kept * folded)), expected(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 11);
    for (std::int64_t i = 0; i < kept; ++i) {
      const auto row = values.begin() + i * folded;
      const float sum = std::accumulate(row, row + folded, 0.0F);
      std::transform(row, row + folded, expected.begin() + i * folded, [&](float value) { return value - sum; });
    }
    EXPECT_EQ(run(less, {values.data()}, values.size()), expected);
    const auto kernel = write_kernel(less, "kernel");
    ASSERT_TRUE(kernel.ok());
    EXPECT_EQ(kernel->schedule, schedule);
    const std::size_t first = kernel->text.find("load<4>");
    EXPECT_NE(first, std::string::npos);
    EXPECT_EQ(kernel->text.find("load<4>", first + 1), std::string::npos) << kernel->text;
  };
  check(70000, 20, "rows{block=256,rows=2,vector=4}");
  check(3, 2600, "rows{block=256,rows=256,vector=4}");
}

// A transpose, maps that broadcast, a window and rows: of all batches, one image's, too, the texts are the same.
TEST(Kernels, ServeBatchesOfAllSizes) {
  const auto texts = [](std::int64_t batch) {
    const TensorDesc x = TensorDesc::packed(DataType::f16, {batch, 40, 24, 32});
    const TensorDesc y = x.with_layout(Layout::nhwc), channel = TensorDesc::packed(DataType::f16, {40, 1, 1});
    Computation scaled = copy_of(y, y);
    scaled.loads.push_back({1, Subscript::broadcast(channel, 4)});
    scaled.stores[0].value = of(Function::mul);
    Computation gated = scaled;
    gated.loads[1].place = Subscript::broadcast(TensorDesc::packed(DataType::f16, {batch, 40, 1, 1}), 4);
    Computation window = copy_of(y, y), rows = copy_of(y, TensorDesc::packed(DataType::f16, {batch, 40, 1, 1}));
    window.folded = {3};
    window.loads[0].place.coordinates[3].parts.push_back({4, 1});
    rows.folded = {24, 32};
    for (const int d : {2, 3}) rows.loads[0].place.coordinates[static_cast<std::size_t>(d)] = Coordinate::of(d + 2);
    for (Computation* const fold : {&window, &rows}) {
      fold->folds = {{of(Function::add), 0, itself(), {}}};
      fold->stores[0].value = itself(1);
    }
    const TensorDesc scores = TensorDesc::packed(DataType::f16, {batch, 1000});
    Computation whole = copy_of(scores, TensorDesc::packed(DataType::f16, {batch, 1}));
    whole.folded = {1000};
    whole.loads[0].place.coordinates[1] = Coordinate::of(2);
    whole.folds = {{of(Function::add), 0, itself(), {}}};
    whole.stores[0].value = itself(1);
    // Tensors of more dims than there are positions, and of fewer.
    const TensorDesc pixel = TensorDesc::packed(DataType::f16, {batch, 40, 1, 1});
    const TensorDesc flat = TensorDesc::packed(DataType::f16, {batch, 40});
    Computation pooled = copy_of(flat, flat), flattened = copy_of(flat, flat), spread = copy_of(pixel, pixel);
    pooled.folded = {24, 32};
    pooled.loads[0].place = {y, {Coordinate::of(0), Coordinate::of(1), Coordinate::of(2), Coordinate::of(3)}};
    pooled.stores[0].place = {pixel, {Coordinate::of(0), Coordinate::of(1), Coordinate::at(0), Coordinate::at(0)}};
    pooled.folds = {{of(Function::add), 0, itself(), {}}};
    pooled.stores[0].value = itself(1);
    flattened.loads[0].place = pooled.stores[0].place;
    spread.loads[0].place = {flat, {Coordinate::of(0), Coordinate::of(1)}};
    for (Computation* const each : {&pooled, &flattened, &spread}) {
      if (batch > 1) continue;  // dims of one position have no coordinate
      for (Subscript* const place : {&each->loads[0].place, &each->stores[0].place})
        place->coordinates[0] = Coordinate::at(0);
    }
    std::vector<std::string> found;
    for (const Computation& each : {copy_of(x, y), scaled, window, rows, gated, whole, pooled, flattened, spread}) {
      const auto kernel = write_kernel(each, "kernel");
      EXPECT_TRUE(kernel.ok()) << kernel.error().message;
      found.insert(found.end(), {kernel->schedule, kernel->text});
    }
    return found;
  };
  const std::vector<std::string> of_three = texts(3);
  EXPECT_EQ(of_three, texts(7));
  EXPECT_EQ(of_three, texts(1));
  EXPECT_EQ(of_three[0], "transpose{tile=64}");
  EXPECT_EQ(of_three[2], "map{vector=8}");
  EXPECT_TRUE(of_three[4].starts_with("window")) << of_three[4];
  EXPECT_TRUE(of_three[6].starts_with("rows")) << of_three[6];
}

// y[i] = a[i] for i < 3, b[table[i]] where the table has a place, else 7.
TEST(Kernels, TakeWhatStandsBehindALoadThatIsOutside) {
  const TensorDesc a = TensorDesc::packed(DataType::f32, {3}), b = TensorDesc::packed(DataType::f32, {4});
  Computation made = copy_of(a, TensorDesc::packed(DataType::f32, {6}));
  made.loads = {{0, {a, {Coordinate::of(0)}}, 0, 1}, {1, {b, {Coordinate{{{0, 1}}, 0, {0, 0, 0, 3, -1, 1}}}}, 7}};
  const std::vector<float> first{1, 2, 3}, second{10, 20, 30, 40};
  EXPECT_EQ(run(made, {first.data(), second.data()}, 6), (std::vector<float>{1, 2, 3, 40, 7, 20}));
}

TEST(Kernels, StoreNothingOutside) {
  const TensorDesc x = TensorDesc::packed(DataType::f32, {6}), y = TensorDesc::packed(DataType::f32, {2});
  Computation made = copy_of(x, x);
  made.stores[0].place = {y, {Coordinate::of(0, 1, -3)}};
  std::vector<float> values(6);
  std::iota(values.begin(), values.end(), 0.0F);
  EXPECT_EQ(run(made, {values.data()}, 3), (std::vector<float>{3, 4, -1}));
}

// sum over r of x[i + r] * weight[r], with weights in the text.
TEST(Kernels, HaveNumbersOfNoTensor) {
  const TensorDesc x = TensorDesc::packed(DataType::f32, {5}), y = TensorDesc::packed(DataType::f32, {4});
  Computation made = copy_of(x, y);
  made.folded = {2};
  made.loads = {{0, {x, {Coordinate{{{0, 1}, {1, 1}}, 0, {}}}}},
                {-1, {TensorDesc::packed(DataType::f32, {2}), {Coordinate::of(1)}}, 0, -1, {0.25, 0.5}}};
  made.folds = {{of(Function::add), 1, of(Function::mul), {}}};
  made.stores[0].value = itself(2);
  const std::vector<float> values{4, 8, 12, 16, 20};
  EXPECT_EQ(run(made, {values.data()}, 4), (std::vector<float>{6, 9, 12, 15}));
}

// -0 as a constant of an expression, outside of a load, among numbers.
TEST(Kernels, KeepTheSignOfZero) {
  const TensorDesc x = TensorDesc::packed(DataType::f32, {1}), y = TensorDesc::packed(DataType::f32, {2});
  Computation made = copy_of(y, y);
  made.loads = {{0, {x, {Coordinate::of(0)}}, -0.0},
                {-1, {TensorDesc::packed(DataType::f32, {2}), {Coordinate::of(0)}}, 0, -1, {-0.0, -0.0}}};
  const float one = 1;
  const auto signs = [&](Expression value) {
    made.stores[0].value = std::move(value);
    const std::vector<float> values = run(made, {&one}, 2);
    return std::pair(std::signbit(values[0]), std::signbit(values[1]));
  };
  EXPECT_EQ(signs(itself(0)), std::pair(false, true));
  EXPECT_EQ(signs(itself(1)), std::pair(true, true));
  EXPECT_EQ(signs(written([](auto in) { return elements::copysign(in(0), -0.0); })), std::pair(true, true));
}

TEST(Kernels, RefuseWhatTheyDontTake) {
  const TensorDesc plain = TensorDesc::packed(DataType::f32, {1, 16, 4, 4});
  const auto refusal = [&](const TensorDesc& x) {
    const auto kernel = write_kernel(copy_of(x, plain), "kernel");
    EXPECT_FALSE(kernel.ok());
    return kernel.ok() ? std::string() : kernel.error().message;
  };
  EXPECT_NE(refusal(plain.with_layout(Layout::nchw8c)).find("channels in blocks"), std::string::npos);
  TensorDesc narrow = plain;
  narrow.type = DataType::f8_e4m3;
  EXPECT_NE(refusal(narrow).find("type f8_e4m3"), std::string::npos);
  Computation made = copy_of(plain, plain);
  made.loads[0].place.coordinates[0].table.resize(1 << 20, 0);
  const auto kernel = write_kernel(made, "kernel");
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.error().message.find("1048576 entries"), std::string::npos);
  TensorDesc large = TensorDesc::packed(DataType::u8, {std::int64_t{1} << 31});
  made = copy_of(large, TensorDesc::packed(DataType::u8, {1}));
  made.loads[0].place.coordinates[0].table = {0};
  EXPECT_EQ(write_kernel(made, "kernel").error().message,
            "a dim of 2147483648: the tables of generated kernels have 32 bits");
}

}  // namespace
}  // namespace convoy::generate
