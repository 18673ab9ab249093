// What the provider uses of ONNX Runtime's C interface, in the form of version 1.23, which later versions keep: each
// function is at a fixed place in a table of pointers. scripts/check-ort-interface compares this with its headers.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct OrtStatus;
struct OrtLogger;
struct OrtValue;
struct OrtValueInfo;
struct OrtTypeInfo;
struct OrtTensorTypeAndShapeInfo;
struct OrtOpAttr;
struct OrtNode;
struct OrtGraph;
struct OrtKernelContext;
struct OrtNodeComputeContext;
struct OrtSessionOptions;
struct OrtKeyValuePairs;
struct OrtHardwareDevice;
struct OrtEpDevice;
struct OrtEpGraphSupportInfo;
struct OrtMemoryInfo;
struct OrtMemoryDevice;
struct OrtAllocator;
struct OrtSyncStream;
struct OrtSyncStreamImpl;
struct OrtDataTransferImpl;
struct OrtRunOptions;
struct OrtProfilingEvent;
struct OrtProfilingEventsContainer;
struct OrtKernelRegistry;
struct OrtKernelDefBuilder;
struct OrtKernelDef;
struct OrtKernelInfo;
struct OrtKernelImpl;
struct OrtEp;
struct OrtEpProfilerImpl;
struct OrtEpFactory;
struct OrtNodeComputeInfo;

struct OrtApiBase {
  const void* const* (*GetApi)(std::uint32_t version);  // null: a version that it does not have
  const char* (*GetVersionString)();
};

struct OrtNodeFusionOptions {
  std::uint32_t ort_version_supported;
  bool drop_constant_initializers;  // it keeps no copy of the weights for the node
};

struct OrtNodeComputeInfo {
  std::uint32_t ort_version_supported;
  OrtStatus* (*CreateState)(OrtNodeComputeInfo*, OrtNodeComputeContext*, void** state);
  OrtStatus* (*Compute)(OrtNodeComputeInfo*, void* state, OrtKernelContext*);
  void (*ReleaseState)(OrtNodeComputeInfo*, void* state);
};

struct OrtEp {
  std::uint32_t ort_version_supported;
  const char* (*GetName)(const OrtEp*);
  OrtStatus* (*GetCapability)(OrtEp*, const OrtGraph*, OrtEpGraphSupportInfo*);
  OrtStatus* (*Compile)(OrtEp*, const OrtGraph** graphs, const OrtNode** fused_nodes, std::size_t count,
                        OrtNodeComputeInfo** compute_infos, OrtNode** ep_context_nodes);
  void (*ReleaseNodeComputeInfos)(OrtEp*, OrtNodeComputeInfo** compute_infos, std::size_t count);
  // Optional, null here.
  OrtStatus* (*GetPreferredDataLayout)(OrtEp*, int*);
  OrtStatus* (*ShouldConvertDataLayoutForOp)(OrtEp*, const char*, const char*, int, int*);
  OrtStatus* (*SetDynamicOptions)(OrtEp*, const char* const*, const char* const*, std::size_t);
  OrtStatus* (*OnRunStart)(OrtEp*, const OrtRunOptions*);
  OrtStatus* (*OnRunEnd)(OrtEp*, const OrtRunOptions*, bool);
  OrtStatus* (*CreateAllocator)(OrtEp*, const OrtMemoryInfo*, OrtAllocator**);
  OrtStatus* (*CreateSyncStreamForDevice)(OrtEp*, const OrtMemoryDevice*, OrtSyncStreamImpl**);
  const char* (*GetCompiledModelCompatibilityInfo)(OrtEp*, const OrtGraph*);
  // Of version 1.24.
  OrtStatus* (*GetKernelRegistry)(OrtEp*, const OrtKernelRegistry**);
  OrtStatus* (*IsConcurrentRunSupported)(OrtEp*, bool*);
  // Of version 1.25.
  OrtStatus* (*Sync)(OrtEp*);
  OrtStatus* (*CreateProfiler)(OrtEp*, OrtEpProfilerImpl**);
};

// Of a device's memory.
struct OrtAllocator {
  std::uint32_t version;
  void* (*Alloc)(OrtAllocator*, std::size_t);  // null: there is none
  void (*Free)(OrtAllocator*, void*);
  const OrtMemoryInfo* (*Info)(const OrtAllocator*);
  // Optional, null here.
  void* (*Reserve)(OrtAllocator*, std::size_t);
  OrtStatus* (*GetStats)(const OrtAllocator*, OrtKeyValuePairs**);
  void* (*AllocOnStream)(OrtAllocator*, std::size_t, OrtSyncStream*);
};

struct OrtSyncNotificationImpl {
  std::uint32_t ort_version_supported;
  void (*Release)(OrtSyncNotificationImpl*);
  OrtStatus* (*Activate)(OrtSyncNotificationImpl*);
  OrtStatus* (*WaitOnDevice)(OrtSyncNotificationImpl*, OrtSyncStream* consumer);
  OrtStatus* (*WaitOnHost)(OrtSyncNotificationImpl*);
};

struct OrtSyncStreamImpl {
  std::uint32_t ort_version_supported;
  void (*Release)(OrtSyncStreamImpl*);
  void* (*GetHandle)(OrtSyncStreamImpl*);
  OrtStatus* (*CreateNotification)(OrtSyncStreamImpl*, OrtSyncNotificationImpl**);
  OrtStatus* (*Flush)(OrtSyncStreamImpl*);
  OrtStatus* (*OnSessionRunEnd)(OrtSyncStreamImpl*);
};

struct OrtDataTransferImpl {
  std::uint32_t ort_version_supported;
  void (*Release)(OrtDataTransferImpl*);
  bool (*CanCopy)(const OrtDataTransferImpl*, const OrtMemoryDevice* from, const OrtMemoryDevice* to);
  // `streams`: null, or one for each tensor, or null in its place.
  OrtStatus* (*CopyTensors)(OrtDataTransferImpl*, const OrtValue** from, OrtValue** to, OrtSyncStream** streams,
                            std::size_t count);
};

struct OrtKernelImpl {
  std::uint32_t ort_version_supported;
  std::uint32_t flags;  // ONNX Runtime's own, 0 at first
  OrtStatus* (*Compute)(OrtKernelImpl*, OrtKernelContext*);
  void (*Release)(OrtKernelImpl*);
  // Optional, null here.
  OrtStatus* (*PrePackWeight)(OrtKernelImpl*, const OrtValue*, int, OrtAllocator*, void*, bool*);
  OrtStatus* (*SetSharedPrePackedWeight)(OrtKernelImpl*, const void* const*, const std::size_t*, std::size_t, int);
};

struct OrtEpProfilerImpl {
  std::uint32_t ort_version_supported;
  void (*Release)(OrtEpProfilerImpl*);
  OrtStatus* (*StartProfiling)(OrtEpProfilerImpl*, std::int64_t nanoseconds_since_the_profile_began);
  // Optional, null here.
  OrtStatus* (*StartEvent)(OrtEpProfilerImpl*, std::uint64_t);
  OrtStatus* (*StopEvent)(OrtEpProfilerImpl*, std::uint64_t, const OrtProfilingEvent*);
  OrtStatus* (*EndProfiling)(OrtEpProfilerImpl*, OrtProfilingEventsContainer*);
};

struct OrtEpFactory {
  std::uint32_t ort_version_supported;
  const char* (*GetName)(const OrtEpFactory*);
  const char* (*GetVendor)(const OrtEpFactory*);
  OrtStatus* (*GetSupportedDevices)(OrtEpFactory*, const OrtHardwareDevice* const* devices, std::size_t device_count,
                                    OrtEpDevice** ep_devices, std::size_t most, std::size_t* count);
  OrtStatus* (*CreateEp)(OrtEpFactory*, const OrtHardwareDevice* const* devices,
                         const OrtKeyValuePairs* const* metadata, std::size_t device_count,
                         const OrtSessionOptions* options, const OrtLogger* logger, OrtEp** ep);
  void (*ReleaseEp)(OrtEpFactory*, OrtEp*);
  std::uint32_t (*GetVendorId)(const OrtEpFactory*);
  const char* (*GetVersion)(const OrtEpFactory*);
  OrtStatus* (*ValidateCompiledModelCompatibilityInfo)(OrtEpFactory*, const OrtHardwareDevice* const*, std::size_t,
                                                       const char*, int*);
  OrtStatus* (*CreateAllocator)(OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*, OrtAllocator**);
  void (*ReleaseAllocator)(OrtEpFactory*, OrtAllocator*);
  OrtStatus* (*CreateDataTransfer)(OrtEpFactory*, OrtDataTransferImpl**);
  bool (*IsStreamAware)(const OrtEpFactory*);
  OrtStatus* (*CreateSyncStreamForDevice)(OrtEpFactory*, const OrtMemoryDevice*, const OrtKeyValuePairs*,
                                          OrtSyncStreamImpl**);
};

}  // extern "C"

namespace convoy::ort {

inline constexpr std::uint32_t kInterfaceVersion = 23;  // the oldest that has execution providers as libraries
inline constexpr std::uint32_t kKernelVersion = 24;     // the oldest that takes kernels of theirs
inline constexpr std::uint32_t kProfilingVersion = 25;  // the oldest that takes events of theirs

enum StatusCode : int { kFail = 1, kInvalidArgument = 2, kNotImplemented = 9, kEpFail = 11 };
enum LogLevel : int { kVerbose, kInfo, kWarning, kError };
enum HardwareType : int { kProcessor, kGpu };
enum MemoryDeviceType : int { kHostMemory, kGpuMemory };
enum MemoryType : int { kHostInput = -2, kHostOutput = -1, kDeviceMemory = 0 };  // of a kernel's, and of an allocator's
enum AttributeType : int { kInt = 1, kInts, kFloat, kFloats, kString, kStrings, kGraph, kTensor };

// Place in OrtApi, result, name, parameters.
#define CONVOY_ORT_API(X)                                                                                           \
  X(0, OrtStatus*, CreateStatus, (int code, const char* message))                                                   \
  X(2, const char*, GetErrorMessage, (const OrtStatus*))                                                            \
  X(51, OrtStatus*, GetTensorMutableData, (OrtValue*, void**))                                                      \
  X(55, OrtStatus*, CastTypeInfoToTensorInfo, (const OrtTypeInfo*, const OrtTensorTypeAndShapeInfo**))              \
  X(60, OrtStatus*, GetTensorElementType, (const OrtTensorTypeAndShapeInfo*, int*))                                 \
  X(61, OrtStatus*, GetDimensionsCount, (const OrtTensorTypeAndShapeInfo*, std::size_t*))                           \
  X(62, OrtStatus*, GetDimensions, (const OrtTensorTypeAndShapeInfo*, std::int64_t*, std::size_t))                  \
  X(63, OrtStatus*, GetSymbolicDimensions, (const OrtTensorTypeAndShapeInfo*, const char**, std::size_t))           \
  X(65, OrtStatus*, GetTensorTypeAndShape, (const OrtValue*, OrtTensorTypeAndShapeInfo**))                          \
  X(90, OrtStatus*, KernelContext_GetInput, (const OrtKernelContext*, std::size_t, const OrtValue**))               \
  X(91, OrtStatus*, KernelContext_GetOutput,                                                                        \
    (OrtKernelContext*, std::size_t, const std::int64_t*, std::size_t, OrtValue**))                                 \
  X(93, void, ReleaseStatus, (OrtStatus*))                                                                          \
  X(94, void, ReleaseMemoryInfo, (OrtMemoryInfo*))                                                                  \
  X(96, void, ReleaseValue, (OrtValue*))                                                                            \
  X(99, void, ReleaseTensorTypeAndShapeInfo, (OrtTensorTypeAndShapeInfo*))                                          \
  X(193, OrtStatus*, KernelContext_GetGPUComputeStream, (const OrtKernelContext*, void** stream))                   \
  X(211, OrtStatus*, CreateOpAttr, (const char* name, const void* data, int size, int type, OrtOpAttr**))           \
  X(212, void, ReleaseOpAttr, (OrtOpAttr*))                                                                         \
  X(247, OrtStatus*, Logger_LogMessage,                                                                             \
    (const OrtLogger*, int, const char* message, const char* file, int line, const char* function))                 \
  X(272, OrtStatus*, ReadOpAttr, (const OrtOpAttr*, int type, void*, std::size_t, std::size_t*))                    \
  X(274, OrtStatus*, KernelContext_ParallelFor,                                                                     \
    (const OrtKernelContext*, void (*)(void*, std::size_t), std::size_t total, std::size_t batches, void* user))    \
  X(287, void, ReleaseGraph, (OrtGraph*))                                                                           \
  X(289, OrtStatus*, GetValueInfoName, (const OrtValueInfo*, const char**))                                         \
  X(290, OrtStatus*, GetValueInfoTypeInfo, (const OrtValueInfo*, const OrtTypeInfo**))                              \
  X(291, const void* const*, GetModelEditorApi, ())                                                                 \
  X(295, void, CreateKeyValuePairs, (OrtKeyValuePairs**))                                                           \
  X(296, void, AddKeyValuePair, (OrtKeyValuePairs*, const char*, const char*))                                      \
  X(297, const char*, GetKeyValue, (const OrtKeyValuePairs*, const char*))                                          \
  X(298, void, GetKeyValuePairs, (const OrtKeyValuePairs*, const char* const**, const char* const**, std::size_t*)) \
  X(300, void, ReleaseKeyValuePairs, (OrtKeyValuePairs*))                                                           \
  X(307, int, HardwareDevice_Type, (const OrtHardwareDevice*))                                                      \
  X(308, std::uint32_t, HardwareDevice_VendorId, (const OrtHardwareDevice*))                                        \
  X(311, const OrtKeyValuePairs*, HardwareDevice_Metadata, (const OrtHardwareDevice*))                              \
  X(317, const void* const*, GetEpApi, ())                                                                          \
  X(318, OrtStatus*, GetTensorSizeInBytes, (const OrtValue*, std::size_t*))                                         \
  X(320, OrtStatus*, CreateMemoryInfo_V2,                                                                           \
    (const char* name, int device, std::uint32_t vendor, std::int32_t index, int type, std::size_t alignment,       \
     int allocator, OrtMemoryInfo**))                                                                               \
  X(326, OrtStatus*, ValueInfo_GetInitializerValue, (const OrtValueInfo*, const OrtValue**))                        \
  X(331, OrtStatus*, ValueInfo_IsConstantInitializer, (const OrtValueInfo*, bool*))                                 \
  X(334, OrtStatus*, Graph_GetModelPath, (const OrtGraph*, const char**))                                           \
  X(337, OrtStatus*, Graph_GetOperatorSets, (const OrtGraph*, const char**, std::int64_t*, std::size_t))            \
  X(336, OrtStatus*, Graph_GetNumOperatorSets, (const OrtGraph*, std::size_t*))                                     \
  X(338, OrtStatus*, Graph_GetNumInputs, (const OrtGraph*, std::size_t*))                                           \
  X(339, OrtStatus*, Graph_GetInputs, (const OrtGraph*, const OrtValueInfo**, std::size_t))                         \
  X(340, OrtStatus*, Graph_GetNumOutputs, (const OrtGraph*, std::size_t*))                                          \
  X(341, OrtStatus*, Graph_GetOutputs, (const OrtGraph*, const OrtValueInfo**, std::size_t))                        \
  X(344, OrtStatus*, Graph_GetNumNodes, (const OrtGraph*, std::size_t*))                                            \
  X(345, OrtStatus*, Graph_GetNodes, (const OrtGraph*, const OrtNode**, std::size_t))                               \
  X(346, OrtStatus*, Graph_GetParentNode, (const OrtGraph*, const OrtNode**))                                       \
  X(347, OrtStatus*, Graph_GetGraphView, (const OrtGraph*, const OrtNode**, std::size_t, OrtGraph**))               \
  X(348, OrtStatus*, Node_GetId, (const OrtNode*, std::size_t*))                                                    \
  X(349, OrtStatus*, Node_GetName, (const OrtNode*, const char**))                                                  \
  X(350, OrtStatus*, Node_GetOperatorType, (const OrtNode*, const char**))                                          \
  X(351, OrtStatus*, Node_GetDomain, (const OrtNode*, const char**))                                                \
  X(353, OrtStatus*, Node_GetNumInputs, (const OrtNode*, std::size_t*))                                             \
  X(354, OrtStatus*, Node_GetInputs, (const OrtNode*, const OrtValueInfo**, std::size_t))                           \
  X(355, OrtStatus*, Node_GetNumOutputs, (const OrtNode*, std::size_t*))                                            \
  X(356, OrtStatus*, Node_GetOutputs, (const OrtNode*, const OrtValueInfo**, std::size_t))                          \
  X(359, OrtStatus*, Node_GetNumAttributes, (const OrtNode*, std::size_t*))                                         \
  X(360, OrtStatus*, Node_GetAttributes, (const OrtNode*, const OrtOpAttr**, std::size_t))                          \
  X(361, OrtStatus*, Node_GetAttributeByName, (const OrtNode*, const char*, const OrtOpAttr**))                     \
  X(362, OrtStatus*, OpAttr_GetTensorAttributeAsOrtValue, (const OrtOpAttr*, OrtValue**))                           \
  X(363, OrtStatus*, OpAttr_GetType, (const OrtOpAttr*, int*))                                                      \
  X(364, OrtStatus*, OpAttr_GetName, (const OrtOpAttr*, const char**))                                              \
  X(365, OrtStatus*, Node_GetNumSubgraphs, (const OrtNode*, std::size_t*))                                          \
  X(378, OrtStatus*, GetTensorData, (const OrtValue*, const void**))                                                \
  X(379, OrtStatus*, GetSessionOptionsConfigEntries, (const OrtSessionOptions*, OrtKeyValuePairs**))                \
  X(384, void*, SyncStream_GetHandle, (OrtSyncStream*))

// The same of OrtEpApi.
#define CONVOY_ORT_EP_API(X)                                                                                    \
  X(0, OrtStatus*, CreateEpDevice,                                                                              \
    (OrtEpFactory*, const OrtHardwareDevice*, const OrtKeyValuePairs*, const OrtKeyValuePairs*, OrtEpDevice**)) \
  X(2, OrtStatus*, EpGraphSupportInfo_AddNodesToFuse,                                                           \
    (OrtEpGraphSupportInfo*, const OrtNode* const*, std::size_t, const OrtNodeFusionOptions*))                  \
  X(5, OrtStatus*, EpDevice_AddAllocatorInfo, (OrtEpDevice*, const OrtMemoryInfo*))                             \
  X(6, const OrtMemoryDevice*, MemoryInfo_GetMemoryDevice, (const OrtMemoryInfo*))                              \
  X(7, const OrtMemoryDevice*, Value_GetMemoryDevice, (const OrtValue*))                                        \
  X(9, int, MemoryDevice_GetDeviceType, (const OrtMemoryDevice*))                                               \
  X(11, std::uint32_t, MemoryDevice_GetVendorId, (const OrtMemoryDevice*))                                      \
  X(12, std::uint32_t, MemoryDevice_GetDeviceId, (const OrtMemoryDevice*))

// The same, from kKernelVersion on.
#define CONVOY_ORT_KERNEL_API(X)                                                                                  \
  X(18, OrtStatus*, CreateKernelRegistry, (OrtKernelRegistry**))                                                  \
  X(19, void, ReleaseKernelRegistry, (OrtKernelRegistry*))                                                        \
  X(20, OrtStatus*, KernelRegistry_AddKernel,                                                                     \
    (OrtKernelRegistry*, const OrtKernelDef*, OrtStatus* (*)(void* state, const OrtKernelInfo*, OrtKernelImpl**), \
     void* state))                                                                                                \
  X(21, OrtStatus*, CreateKernelDefBuilder, (OrtKernelDefBuilder**))                                              \
  X(22, void, ReleaseKernelDefBuilder, (OrtKernelDefBuilder*))                                                    \
  X(23, OrtStatus*, KernelDefBuilder_SetOperatorType, (OrtKernelDefBuilder*, const char*))                        \
  X(24, OrtStatus*, KernelDefBuilder_SetDomain, (OrtKernelDefBuilder*, const char*))                              \
  X(25, OrtStatus*, KernelDefBuilder_SetSinceVersion, (OrtKernelDefBuilder*, int, int))                           \
  X(26, OrtStatus*, KernelDefBuilder_SetExecutionProvider, (OrtKernelDefBuilder*, const char*))                   \
  X(27, OrtStatus*, KernelDefBuilder_SetInputMemType, (OrtKernelDefBuilder*, std::size_t, int))                   \
  X(28, OrtStatus*, KernelDefBuilder_SetOutputMemType, (OrtKernelDefBuilder*, std::size_t, int))                  \
  X(32, OrtStatus*, KernelDefBuilder_Build, (OrtKernelDefBuilder*, OrtKernelDef**))                               \
  X(33, void, ReleaseKernelDef, (OrtKernelDef*))

// The same, from kProfilingVersion on.
#define CONVOY_ORT_PROFILING_API(X)                                                                                \
  X(65, OrtStatus*, CreateProfilingEvent,                                                                          \
    (int category, std::int32_t process, std::int32_t thread, const char* name, std::int64_t microseconds,         \
     std::int64_t duration, const char* const* keys, const char* const* values, std::size_t, OrtProfilingEvent**)) \
  X(66, void, ReleaseProfilingEvent, (OrtProfilingEvent*))                                                         \
  X(72, OrtStatus*, ProfilingEventsContainer_AddEvents,                                                            \
    (OrtProfilingEventsContainer*, const OrtProfilingEvent* const*, std::size_t))

// The same of OrtModelEditorApi, which is null in builds that can't change models.
#define CONVOY_ORT_MODEL_EDITOR_API(X)                                                                          \
  X(6, OrtStatus*, CreateNode,                                                                                  \
    (const char* op, const char* domain, const char* name, const char* const* inputs, std::size_t input_count,  \
     const char* const* outputs, std::size_t output_count, OrtOpAttr** attributes, std::size_t attribute_count, \
     OrtNode**))

#define CONVOY_ORT_MEMBER(place, result, name, parameters) result(*name) parameters = nullptr;
#define CONVOY_ORT_LOAD(place, result, name, parameters) \
  name = reinterpret_cast<result(*) parameters>(const_cast<void*>(table[place]));

struct EpApi {
  CONVOY_ORT_EP_API(CONVOY_ORT_MEMBER)
  explicit EpApi(const void* const* table) { CONVOY_ORT_EP_API(CONVOY_ORT_LOAD) }
};

struct Api {
  CONVOY_ORT_API(CONVOY_ORT_MEMBER)
  explicit Api(const void* const* table) { CONVOY_ORT_API(CONVOY_ORT_LOAD) }
};

struct KernelApi {
  CONVOY_ORT_KERNEL_API(CONVOY_ORT_MEMBER)
  explicit KernelApi(const void* const* table) { CONVOY_ORT_KERNEL_API(CONVOY_ORT_LOAD) }
};

struct ProfilingApi {
  CONVOY_ORT_PROFILING_API(CONVOY_ORT_MEMBER)
  explicit ProfilingApi(const void* const* table) {
    if (table != nullptr) {
      CONVOY_ORT_PROFILING_API(CONVOY_ORT_LOAD)
    }
  }
};

struct ModelEditorApi {
  CONVOY_ORT_MODEL_EDITOR_API(CONVOY_ORT_MEMBER)
  explicit ModelEditorApi(const void* const* table) { CONVOY_ORT_MODEL_EDITOR_API(CONVOY_ORT_LOAD) }
};

#undef CONVOY_ORT_MEMBER
#undef CONVOY_ORT_LOAD

}  // namespace convoy::ort
