#include "interposer/variant_pack.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace convoy::interposer {
namespace {

int memory[4];
const auto kPack = reinterpret_cast<cudnnBackendDescriptor_t>(&memory[0]);
const auto kOther = reinterpret_cast<cudnnBackendDescriptor_t>(&memory[1]);

void fill(cudnnBackendDescriptor_t raw, std::vector<std::int64_t> uids, std::vector<void*> pointers) {
  pack_created(raw);
  pack_set(raw, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, static_cast<std::int64_t>(uids.size()),
           uids.data());
  pack_set(raw, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(pointers.size()),
           pointers.data());
}

TEST(VariantPack, HasWhatItsThreadFilledIn) {
  fill(kPack, {'x', 'w'}, {&memory[2], &memory[3]});
  void* workspace = &memory[1];
  pack_set(kPack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  EXPECT_TRUE(is_pack(kPack));
  EXPECT_FALSE(is_pack(kOther));
  EXPECT_FALSE(is_pack(nullptr));
  const VariantPack* pack = pack_of(kPack);
  ASSERT_NE(pack, nullptr);
  EXPECT_EQ(pack->pointer_of('w'), &memory[3]);
  EXPECT_EQ(pack->pointer_of('y'), nullptr);
  EXPECT_EQ(pack->workspace, workspace);
  EXPECT_EQ(pack_of(kOther), nullptr);
  pack_set(kOther, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  EXPECT_NE(pack_of(kPack), nullptr) << "the other one is somebody else's";
  std::thread([] { EXPECT_EQ(pack_of(kPack), nullptr); }).join();
  pack_destroyed(kPack);
  EXPECT_FALSE(is_pack(kPack));
  EXPECT_EQ(pack_of(kPack), nullptr);
  pack_created(kPack);
  EXPECT_EQ(pack_of(kPack)->pointer_of('w'), nullptr) << "what the last one held is gone";
}

TEST(VariantPack, IsForgottenWhereAnotherThreadMayHaveItsAddress) {
  fill(kPack, {'x'}, {&memory[2]});
  std::thread([] {
    pack_destroyed(kPack);
    fill(kPack, {'x'}, {&memory[3]});
  }).join();
  EXPECT_FALSE(is_pack(kPack));
  EXPECT_EQ(pack_of(kPack), nullptr) << "the address is used again: what was filled in here is not in it";
}

TEST(VariantPack, IsNotUnderstoodWithMoreThanPointers) {
  fill(kPack, {'x'}, {&memory[2]});
  const std::int64_t uid = 'x';
  pack_set(kPack, CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, &uid);
  EXPECT_EQ(pack_of(kPack), nullptr);
  fill(kPack, std::vector<std::int64_t>(17, 1), {&memory[2]});
  EXPECT_EQ(pack_of(kPack), nullptr) << "more tensors than a convolution has";
}

}  // namespace
}  // namespace convoy::interposer
