"""A GPU for machines without one: tensors that say they are on cuda:0, with their data on the CPU.

They refuse what a GPU refuses: an operation on two devices, a product of two types, numpy.
Counted are kernels, waits of the CPU, copies to the GPU, and results in float64. Attention weights
are not dropped, and random numbers are the CPU's. The library of fake_cuda.cpp must be preloaded.
"""

import math
import os
import sys
from collections import Counter
from resource import RUSAGE_SELF, getrusage
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map
from typing_extensions import Self

GPU, CPU = torch.device("cuda:0"), torch.device("cpu")
HIDDEN = tuple(os.path.dirname(file) + os.sep for file in (__file__, torch.__file__))
NO_KERNEL = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "set_"}
NO_KERNEL |= {"_unsafe_view", "_local_scalar_dense", "is_same_size", "resize_", "record_stream"}
MOST = (110, 64, 48, 36, 30)  # tensors in a launch, by the number of lists that an operation has
WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "equal"}
WAITS |= {"unique_consecutive", "bincount"}
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot"}
aten = torch.ops.aten

counts: dict[str, Counter[str]] = {kind: Counter() for kind in ("kernels", "waits")}
counts |= {kind: Counter() for kind in ("copies", "float64")}  # all but kernels by line


class OnGPU(torch.Tensor):
    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> Self:
        place = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        kind = {"dtype": held.dtype, "device": GPU}
        made = torch.Tensor._make_wrapper_subclass(cls, held.size(), **place, **kind)
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), named: Any = None):
        return compute(operation, args, named or {})

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __format__(self, form: str) -> str:
        return format(self.cpu(), form)


class Everywhere(TorchDispatchMode):
    """What is made on the GPU of nothing, or of tensors on the CPU, passes here."""

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), named: Any = None):
        return compute(operation, args, named or {})


def compute(operation: Any, args: tuple, named: dict[str, Any]) -> Any:
    """Do an operation of PyTorch, on the GPU if its tensors or its result are there."""
    name, device = operation.overloadpacket.__name__, named.get("device")
    tensors = [leaf for leaf in tree_leaves((args, named)) if isinstance(leaf, Tensor)]
    of_gpu = any(isinstance(tensor, OnGPU) for tensor in tensors)
    to_gpu = of_gpu if device is None else torch.device(device).type == "cuda"
    if not (of_gpu or to_gpu):
        return operation(*args, **named)
    refuse(name, args, tensors)
    count(operation, name, args, named, to_gpu)
    named = named | {key: value for key, value in ON_CPU.items() if named.get(key)}
    result = KERNELS.get(name, operation)(*tree_map(data_of, args), **tree_map(data_of, named))
    if to_gpu:
        result = tree_map(lambda leaf: OnGPU(leaf) if type(leaf) is Tensor else leaf, result)
        wide = [x for x in tree_leaves(result) if isinstance(x, OnGPU) and x.dtype == torch.float64]
        counts["float64"].update(line() for x in wide if x.dim())
    return return_and_correct_aliasing(operation, args, named, result) if of_gpu else result


def data_of(leaf: Any) -> Any:
    return leaf.held if isinstance(leaf, OnGPU) else leaf


def refuse(name: str, args: tuple, tensors: list[Tensor]) -> None:
    """Raise RuntimeError as CUDA does; numbers of the CPU go with tensors of the GPU."""
    if name in INDEXED and isinstance(args[0], OnGPU):  # indices may be anywhere
        tensors = [args[0], *args[2:3]]
    if "copy" not in name and len({each.device for each in tensors if each.dim()}) > 1:
        raise RuntimeError(f"{name}: Expected all tensors to be on the same device, got two")
    if name in PRODUCTS and len({each.dtype for each in tensors}) > 1:
        raise RuntimeError(f"{name}: expected m1 and m2 to have the same dtype")


def count(operation: Any, name: str, args: tuple, named: dict[str, Any], to_gpu: bool) -> None:
    """Count a copy between devices or a kernel, unless it is a view, and a wait for the result."""
    if name in ("copy_", "_to_copy"):
        if not to_gpu or (name == "copy_" and not isinstance(args[0], OnGPU)):
            counts["waits"][line()] += 1
            return
        if not isinstance(args[name == "copy_"], OnGPU):
            counts["copies"][line()] += 1
            return
    indices = args[1] if name in INDEXED else ()
    has_mask = any(index is not None and index.dtype == torch.bool for index in indices)
    if name in WAITS or has_mask or (name == "repeat_interleave" and not named.get("output_size")):
        counts["waits"][line()] += 1
    results = [result.alias_info for result in operation._schema.returns]
    is_view = any(alias and not alias.is_write for alias in results)
    if not is_view and name not in NO_KERNEL:
        lists = [
            arg for arg in args if isinstance(arg, list) and arg and isinstance(arg[0], Tensor)
        ]
        in_lists = name.startswith(("_foreach_", "_fused_", "_amp_foreach_"))
        launches = math.ceil(len(lists[0]) / MOST[len(lists) - 1]) if in_lists else 1
        counts["kernels"][name] += launches


def line() -> str:
    """Return the line outside torch that runs; of a gradient there is none."""
    frame = sys._getframe()
    while frame and frame.f_code.co_filename.startswith((*HIDDEN, "<")):
        frame = frame.f_back
    if not frame:
        return "backward"
    file = "/".join(frame.f_code.co_filename.split(os.sep)[-2:])
    return f"{file}:{frame.f_lineno} {frame.f_code.co_name}"


def attend(Q, K, V, bias, keeps, rate=0.0, causal=False, *, scale=None) -> tuple[Tensor, ...]:
    """Compute attention by the kernel for CPUs, in float32."""
    kernel, wide = aten._scaled_dot_product_flash_attention_for_cpu, [x.float() for x in (Q, K, V)]
    bias = None if bias is None else bias.float()
    out, normalizer = kernel(*wide, 0.0, causal, attn_mask=bias, scale=scale)
    return out.to(Q.dtype), normalizer, torch.zeros(()), torch.zeros(())


def attend_backward(
    of_out, Q, K, V, bias, out, normalizer, seed, offset, rate, needed, causal=False, *, scale=None
) -> tuple[Tensor, ...]:
    kernel = aten._scaled_dot_product_flash_attention_for_cpu_backward
    wide = [x.float() for x in (of_out, Q, K, V, out)]
    bias = None if bias is None else bias.float()
    gradients = kernel(*wide, normalizer, 0.0, causal, attn_mask=bias, scale=scale)
    return *(x.to(Q.dtype) for x in gradients), torch.zeros(())


ON_CPU = {"device": CPU, "pin_memory": False}
KERNELS = {  # what CPUs compute in another way: a softmax in float32 of float16, for one
    "_scaled_dot_product_efficient_attention": attend,
    "_scaled_dot_product_efficient_attention_backward": attend_backward,
}
SOFTMAX = (aten._softmax, aten._log_softmax, aten._softmax_backward_data)
for kernel, plain in get_decompositions([*SOFTMAX, aten._log_softmax_backward_data]).items():
    KERNELS[kernel.overloadpacket.__name__] = plain


def install() -> None:
    properties = SimpleNamespace(name="simulated", major=8, minor=0, total_memory=80 * 2**30)
    answers = dict.fromkeys(("_lazy_init", "set_device", "synchronize", "empty_cache"))
    answers |= dict.fromkeys(("manual_seed", "manual_seed_all", "reset_peak_memory_stats"))
    answers |= {"is_available": True, "is_bf16_supported": True, "device_count": 1}
    answers |= {"current_device": 0, "get_device_properties": properties}
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_, answer=answer, **__: answer)
    torch.cuda.max_memory_allocated = lambda *_: getrusage(RUSAGE_SELF).ru_maxrss * 1024
    torch.cuda.get_rng_state = lambda *_: torch.get_rng_state()
    torch.cuda.set_rng_state = lambda state, *_: torch.set_rng_state(state)
    torch.Tensor.pin_memory = lambda tensor, *_: tensor
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(…, device="cuda") is a copy
    torch.__future__.set_swap_module_params_on_conversion(True)  # shared parameters stay shared
    Everywhere().__enter__()
