// What a CPU build of PyTorch lacks for tensors that say they are on "cuda": a guard of that device,
// and that it is the accelerator, without which autograd takes no gradient there. Work on a CPU is
// finished when a call returns, so nothing waits. The library must be preloaded, so that its answer
// takes the place of PyTorch's.
#include <ATen/DeviceAccelerator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

using namespace c10;

struct Guard : impl::DeviceGuardImplInterface {
  static constexpr DeviceType static_type = kCUDA;
  DeviceType type() const override { return kCUDA; }
  Device exchangeDevice(Device) const override { return getDevice(); }
  Device getDevice() const override { return Device(kCUDA, 0); }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const override { return Stream(Stream::DEFAULT, getDevice()); }
  Stream getDefaultStream(Device device) const override { return getStream(device); }
  Stream exchangeStream(Stream stream) const override { return stream; }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const Stream&, const DeviceIndex, const EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
};

struct Hooks : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasPrimaryContext(DeviceIndex) const override { return false; }
};

// A fused kernel takes scaled_dot_product_attention, as on a GPU, not a product and a softmax
int64_t choose_fused(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                     const std::optional<at::Tensor>&, double, bool, std::optional<double>, bool) {
  return static_cast<int64_t>(sdp::SDPBackend::efficient_attention);
}

namespace at {
std::optional<DeviceType> accelerator::getAccelerator(bool) { return kCUDA; }
C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", Hooks)
namespace detail {
C10_REGISTER_GUARD_IMPL(CUDA, Guard)
}
namespace native {
REGISTER_CUDA_DISPATCH(_fused_sdp_choice_stub, &choose_fused)
}
}  // namespace at
