// MatMul and Gemm on a GPU, by cuBLASLt. Its matrices are stored by columns, ours by rows: of c = a . b it is asked for
// c' = b' . a', whose matrices are the same bytes. A bias along the columns of c is then one along rows, its
// epilogue's.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>

#include "device/cuda/cublaslt.h"
#include "device/cuda/device.h"
#include "ops/matmul/matmul.h"
#include "ops/on_device.h"

namespace convoy::ops {
namespace {

using cuda::CublasLtApi;
namespace lt = cuda::lt;

constexpr std::size_t kMostWorkspace = std::size_t{32} << 20;

Error failed(std::string_view call, int status) {
  return {ErrorCode::internal, fmt::format("cublasLt{}: status {}", call, status)};
}

// One a device, which any number of threads may use; never destroyed, as the driver may be gone by then.
Result<lt::Handle*> handle_of(const CublasLtApi& api, int ordinal) {
  static auto& mutex = *new std::mutex;
  static auto& handles = *new std::map<int, lt::Handle*>;
  CONVOY_TRY(const cuda::DeviceScope scope, cuda::DeviceScope::enter(ordinal));
  const std::lock_guard lock(mutex);
  lt::Handle*& handle = handles[ordinal];
  if (handle == nullptr) {
    if (const int status = api.Create(&handle); status != lt::kSuccess) return failed("Create", status);
  }
  return handle;
}

// A matrix as cuBLASLt is told, transposed.
struct Stored {
  std::int32_t operation = lt::kNotTransposed;
  std::int64_t rows = 0, columns = 0, leading = 0, batch_stride = 0;
};
Stored stored(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column, std::int64_t batch) {
  if (column == 1) return {lt::kNotTransposed, columns, rows, std::max(row, columns), batch};
  return {lt::kTransposed, rows, columns, std::max(column, rows), batch};
}

// The stride of all batches as one dim; nothing: they don't lie so.
std::optional<std::int64_t> one_stride(const Dims& batch, const Dims& strides) {
  std::int64_t count = 1, stride = 0;
  bool first = true;
  for (std::size_t d = batch.size(); d-- > 0;) {
    if (batch[d] == 1) continue;
    if (first) stride = strides[d];
    if (!first && strides[d] != stride * count) return std::nullopt;
    first = false;
    count *= batch[d];
  }
  return stride;
}

template <class T>
struct Owned {
  T* object = nullptr;
  int (*destroy)(T*) = nullptr;
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (object != nullptr) destroy(object);
  }
};

class ProductPlan final : public OpPlan {
 public:
  ProductPlan(const CublasLtApi& api, lt::Handle* handle, int type) : api_(api), handle_(handle), type_(type) {
    for (auto& layout : layouts_) layout.destroy = api.MatrixLayoutDestroy;
  }

  Result<void> make(const Product& product, const Stored& left, const Stored& right, const Stored& out) {
    alpha_ = static_cast<float>(product.bias.alpha);
    left_operation_ = left.operation, right_operation_ = right.operation;
    const bool adds = product.bias.beta != 0;
    adds_vector_ = adds && product.bias.row == 0;
    beta_ = adds && !adds_vector_ ? static_cast<float>(product.bias.beta) : 0;
    const auto batches = static_cast<std::int32_t>(product.shape.batches());
    const std::array stored{&left, &right, &out};
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const Stored& each = *stored[i];
      int status = api_.MatrixLayoutCreate(&layouts_[i].object, type_, static_cast<std::uint64_t>(each.rows),
                                           static_cast<std::uint64_t>(each.columns), each.leading);
      if (status == lt::kSuccess && batches > 1) {
        status = api_.MatrixLayoutSetAttribute(layouts_[i].object, lt::kBatchCount, &batches, sizeof batches);
      }
      if (status == lt::kSuccess && batches > 1) {
        status = api_.MatrixLayoutSetAttribute(layouts_[i].object, lt::kStridedBatchOffset, &each.batch_stride,
                                               sizeof each.batch_stride);
      }
      if (status != lt::kSuccess) return failed("MatrixLayoutCreate", status);
    }
    return choose();
  }

  Candidate candidate() const override { return {"cublaslt.matmul", {}}; }
  std::size_t workspace_bytes() const override { return chosen_.workspace_size; }

  Result<void> execute(std::span<const void* const> inputs, std::span<void* const> outputs,
                       const ExecContext& context) const override {
    Owned<lt::MatmulDesc> product;
    CONVOY_CHECK(describe(product, adds_vector_ ? inputs[2] : nullptr));
    const void* const c = beta_ != 0 ? inputs[2] : outputs[0];
    const int status = api_.Matmul(handle_, product.object, &alpha_, inputs[1], layouts_[0].object, inputs[0],
                                   layouts_[1].object, &beta_, c, layouts_[2].object, outputs[0], layouts_[2].object,
                                   &chosen_.algo, context.workspace, chosen_.workspace_size, context.stream());
    return status == lt::kSuccess ? Result<void>() : Result<void>(failed("Matmul", status));
  }

 private:
  // It has the bias's address in it, so each execution makes its own.
  Result<void> describe(Owned<lt::MatmulDesc>& product, const void* bias) const {
    product.destroy = api_.MatmulDescDestroy;
    int status = api_.MatmulDescCreate(&product.object, lt::kCompute32F, lt::kReal32F);
    const auto set = [&](int attribute, const auto& value) {
      if (status == lt::kSuccess) {
        status = api_.MatmulDescSetAttribute(product.object, attribute, &value, sizeof value);
      }
    };
    set(lt::kTransA, left_operation_);
    set(lt::kTransB, right_operation_);
    if (adds_vector_) {
      set(lt::kEpilogue, lt::kEpilogueBias);
      set(lt::kBiasPointer, bias);
    }
    return status == lt::kSuccess ? Result<void>() : Result<void>(failed("MatmulDescCreate", status));
  }

  Result<void> choose() {
    Owned<lt::MatmulDesc> product;
    CONVOY_CHECK(describe(product, nullptr));
    Owned<lt::MatmulPreference> preference;
    preference.destroy = api_.MatmulPreferenceDestroy;
    int status = api_.MatmulPreferenceCreate(&preference.object);
    const auto set = [&](int attribute, const auto& value) {
      if (status == lt::kSuccess) {
        status = api_.MatmulPreferenceSetAttribute(preference.object, attribute, &value, sizeof value);
      }
    };
    set(lt::kMaxWorkspaceBytes, static_cast<std::uint64_t>(kMostWorkspace));
    constexpr std::uint32_t kAlignment = 16;  // that activations have in any case
    for (int matrix = 0; matrix < 4; ++matrix) set(lt::kMinAlignmentABytes + matrix, kAlignment);
    int found = 0;
    if (status == lt::kSuccess) {
      status =
          api_.MatmulAlgoGetHeuristic(handle_, product.object, layouts_[0].object, layouts_[1].object,
                                      layouts_[2].object, layouts_[2].object, preference.object, 1, &chosen_, &found);
    }
    if (status == lt::kSuccess && found == 1) return {};
    return Error{ErrorCode::unsupported, fmt::format("cuBLASLt has no algorithm for it (status {})", status)};
  }

  const CublasLtApi& api_;
  lt::Handle* handle_;
  int type_;
  float alpha_ = 1, beta_ = 0;
  bool adds_vector_ = false;
  std::int32_t left_operation_ = lt::kNotTransposed, right_operation_ = lt::kNotTransposed;
  std::array<Owned<lt::MatrixLayout>, 3> layouts_;  // b', a', c'
  lt::MatmulHeuristicResult chosen_{};
};

Error refused(const NodeDesc& node, std::string_view what) {
  return {ErrorCode::unsupported, fmt::format("no product on cuda for {}: {}", node.op, what)};
}

}  // namespace

Result<std::unique_ptr<OpPlan>> product_on_device(const NodeDesc& node, std::span<const Input> inputs,
                                                  std::span<const TensorDesc> outputs, const PlanRequest& request) {
  CONVOY_TRY(Product product, product_of(node, inputs));
  MatMulShape& shape = product.shape;
  ProductBias& bias = product.bias;
  const DataType type = outputs[0].type;
  const int real = type == DataType::f32    ? lt::kReal32F
                   : type == DataType::f16  ? lt::kReal16F
                   : type == DataType::bf16 ? lt::kReal16BF
                                            : -1;
  if (real < 0) return refused(node, fmt::format("its type is {}", name_of(type)));
  if (shape.batches() == 0 || shape.m == 0 || shape.n == 0 || shape.k == 0) return refused(node, "it is empty");
  if (shape.batches() > std::numeric_limits<std::int32_t>::max()) return refused(node, "it has 2^31 batches or more");
  if (bias.beta != 0 && shape.n == 1) bias.column = 1;
  if (bias.beta != 0 && (bias.column == 0 || (bias.row == 0 && bias.beta != 1))) {
    return refused(node, "C is broadcast along rows, or is a scaled row");
  }
  const auto row_major = [](const Input& input) { return !input.present || input.desc.is_packed(Layout::nchw); };
  if (!std::ranges::all_of(inputs, row_major) || !outputs[0].is_packed(Layout::nchw)) {
    return refused(node, "an input or the output is not row-major");
  }
  const auto a_batch = one_stride(shape.batch, shape.a_batch), b_batch = one_stride(shape.batch, shape.b_batch);
  if (!a_batch || !b_batch) return refused(node, "its batches don't follow each other");
  CONVOY_TRY(const CublasLtApi* api, cuda::cublaslt());
  if (api->Create == nullptr || api->Matmul == nullptr || api->MatmulAlgoGetHeuristic == nullptr ||
      api->MatmulDescCreate == nullptr || api->MatrixLayoutCreate == nullptr ||
      api->MatmulPreferenceCreate == nullptr) {
    return refused(node, "this cuBLASLt lacks what is called");
  }
  CONVOY_TRY(const cuda::DeviceScope scope, cuda::DeviceScope::enter(request.cuda->ordinal));
  CONVOY_TRY(lt::Handle* const handle, handle_of(*api, request.cuda->ordinal));
  auto plan = std::make_unique<ProductPlan>(*api, handle, real);
  CONVOY_CHECK(plan->make(product, stored(shape.k, shape.n, shape.b_row, shape.b_column, *b_batch),
                          stored(shape.m, shape.k, shape.a_row, shape.a_column, *a_batch),
                          stored(shape.m, shape.n, shape.n, 1, shape.m * shape.n)));
  return std::unique_ptr<OpPlan>(std::move(plan));
}

}  // namespace convoy::ops
