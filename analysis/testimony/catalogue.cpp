#include "analysis/testimony/catalogue.h"

namespace rollcall::analysis {
namespace {

using enum trace::SayingKind;
using enum Role;
constexpr int64_t kAny = trace::kUntold;

// The first that fits decides: what is more special stands in front.
// clang-format off: scripts/generate_docs.py reads this table.
constexpr Message kMessages[] = {
    {warning, "Mismatched collective detected", kAny, cause, "NCCL 2.4 to 2.6",
     "ranks made different calls; NCCL saw it at the rank that it names",
     "compare the calls of that rank and of its neighbours in the ring"},
    {warning, "collective mismatch error", kAny, cause, "NCCL 2.8",
     "two ranks made one call with different sizes",
     "compare the sizes of the last call on all ranks (`rollcall run` records them)"},
    {warning, "Connection closed by remote peer", kAny, consequence, "NCCL 2.4",
     "another process ended or was killed",
     "look for the process that ended first, in the log of the host that is named"},
    {warning, "remote process exited", kAny, consequence, "NCCL 2.8",
     "another process ended, or the network broke", "look for the process that ended first"},
    {warning, "with status=5", kAny, consequence, "NCCL 2.8",
     "work was flushed after an earlier error of the same connection",
     "look for the first error on this host"},
    {warning, "with error 5", kAny, consequence, "NCCL 2.4",
     "work was flushed after an earlier error of the same connection",
     "look for the first error on this host"},
    {warning, "with status=12", kAny, cause, "NCCL 2.8",
     "the other side did not answer: the link is down, the switch drops packets, or the process "
     "there is gone",
     "check link and switch of both hosts (ibstat, perfquery, dmesg); NCCL_IB_TIMEOUT raises the "
     "patience"},
    {warning, "with error 12", kAny, cause, "NCCL 2.4",
     "the other side did not answer: the link is down, the switch drops packets, or the process "
     "there is gone",
     "check link and switch of both hosts (ibstat, perfquery, dmesg); NCCL_IB_TIMEOUT raises the "
     "patience"},
    {warning, "with status=4", kAny, cause, "NCCL 2.8",
     "memory was not registered as the network adapter needs it (GPUDirect RDMA)",
     "check nvidia-peermem, IOMMU and ACS; try NCCL_NET_GDR_LEVEL=LOC"},
    {warning, "with error 4", kAny, cause, "NCCL 2.4",
     "memory was not registered as the network adapter needs it (GPUDirect RDMA)",
     "check nvidia-peermem, IOMMU and ACS; try NCCL_NET_GDR_LEVEL=LOC"},
    {warning, "with status=10", kAny, cause, "NCCL 2.8", "the other side refused the access",
     "compare NCCL versions and the sizes of the last call on both hosts"},
    {warning, "with error 10", kAny, cause, "NCCL 2.4", "the other side refused the access",
     "compare NCCL versions and the sizes of the last call on both hosts"},
    {warning, "Got completion", kAny, cause, "NCCL 2.4", "the network adapter reported an error",
     "check link and switch of both hosts (ibstat, perfquery, dmesg)"},
    {warning, "ibv_modify_qp failed", kAny, cause, "NCCL 2.4",
     "two network adapters could not be connected",
     "compare NCCL_IB_GID_INDEX, NCCL_IB_HCA and the link layer of both hosts"},
    {warning, "socketStartConnect", kAny, cause, "NCCL 2.14",
     "a host could not be reached over TCP",
     "check NCCL_SOCKET_IFNAME, the firewall and routing between the hosts"},
    {warning, "Connect to ", kAny, cause, "NCCL 2.4", "a host could not be reached over TCP",
     "check NCCL_SOCKET_IFNAME, the firewall and routing between the hosts"},
    {warning, "Failed to execute operation", kAny, consequence, "NCCL 2.14",
     "a proxy thread could not do what another rank asked for",
     "look for the first error of the rank that is named"},
    {warning, "Cuda failure", kAny, cause, "NCCL 2.4", "a CUDA call inside NCCL failed",
     "look for the first CUDA error of this process; run again with CUDA_LAUNCH_BLOCKING=1"},
    {warning, "Duplicate GPU detected", kAny, cause, "NCCL 2.10",
     "two ranks were given the same GPU",
     "give each rank a GPU of its own: set the device from LOCAL_RANK"},
    {warning, "Error while creating shared memory segment", kAny, cause, "NCCL 2.4",
     "/dev/shm is too small, or full",
     "start the container with a larger --shm-size, or --ipc=host"},
    {warning, "No space left on device", kAny, cause, "NCCL 2.4", "/dev/shm is too small, or full",
     "start the container with a larger --shm-size, or --ipc=host"},
    {warning, "bootstrap", kAny, cause, "NCCL 2.4",
     "the ranks could not meet to make a communicator",
     "check NCCL_SOCKET_IFNAME, the firewall, and that all ranks started"},
    {warning, "Accept failed", kAny, cause, "NCCL 2.4",
     "a connection of another rank could not be accepted",
     "check the firewall, and the limit of open files"},
    {warning, "is not a valid", kAny, cause, "NCCL 2.4", "an argument of a call is wrong",
     "look at the call of this rank"},

    {result, "", 1, cause, "NCCL 2.4", "ncclUnhandledCudaError: a CUDA call failed",
     "look for the first CUDA error of this process"},
    {result, "", 2, cause, "NCCL 2.4", "ncclSystemError: a system call, or the network, failed",
     "look at the NCCL WARN in front of it (NCCL_DEBUG=WARN)"},
    {result, "", 3, cause, "NCCL 2.4", "ncclInternalError",
     "look at the NCCL WARN in front of it (NCCL_DEBUG=WARN)"},
    {result, "", 4, cause, "NCCL 2.4", "ncclInvalidArgument",
     "look at the NCCL WARN in front of it (NCCL_DEBUG=WARN)"},
    {result, "", 5, cause, "NCCL 2.4", "ncclInvalidUsage",
     "look at the NCCL WARN in front of it (NCCL_DEBUG=WARN)"},
    {result, "", 6, consequence, "NCCL 2.8",
     "ncclRemoteError: another process failed, or the network did",
     "look for the process that ended first"},

    {async_error, "remote process", kAny, consequence, "PyTorch 2.2",
     "another process ended, or the network broke", "look for the process that ended first"},
    {async_error, "remote error", kAny, consequence, "PyTorch 2.2",
     "another process ended, or the network broke", "look for the process that ended first"},
    {async_error, "unhandled cuda error", kAny, cause, "PyTorch 2.2",
     "a CUDA call inside NCCL failed", "look for the first CUDA error of this process"},
    {async_error, "unhandled system error", kAny, cause, "PyTorch 2.2",
     "a system call or the network failed inside NCCL",
     "look at the NCCL WARN in front of it (NCCL_DEBUG=WARN)"},

    {died, "", -6, consequence, "all",
     "abort(): most often PyTorch's watchdog after a time-out, else a failed assertion",
     "look at the last lines of this process"},
    {died, "", -15, consequence, "all", "SIGTERM: its launcher ended it, or the scheduler did",
     "look for the process that ended first"},
    {died, "", -9, cause, "all", "SIGKILL: most often the kernel, out of memory, or the scheduler",
     "look for \"Killed process\" in `dmesg` of that host, and at the memory limit of the job"},
    {died, "", 137, cause, "all", "SIGKILL: most often the kernel, out of memory, or the scheduler",
     "look for \"Killed process\" in `dmesg` of that host, and at the memory limit of the job"},
    {died, "", -11, cause, "all", "SIGSEGV: it used memory that is not its own",
     "run it with faulthandler (PYTHONFAULTHANDLER=1) to see where"},
    {died, "", -7, cause, "all", "SIGBUS: most often a full /dev/shm",
     "start the container with a larger --shm-size, or --ipc=host"},
    {died, "", 1, cause, "all", "it ended with an error of its own",
     "look at the traceback of this process"},

    {machine, "fallen off the bus", kAny, cause, "all", "the GPU no longer answers",
     "drain the host and reset or replace the GPU"},
    {machine, "", 79, cause, "all", "the GPU has fallen off the bus",
     "drain the host and reset or replace the GPU"},
    {machine, "", 48, cause, "all", "an error in GPU memory that could not be corrected",
     "reset the GPU; replace it where this comes back"},
    {machine, "", 63, context, "all", "a row of GPU memory was remapped",
     "reset the GPU at the next occasion"},
    {machine, "", 64, cause, "all", "a row of GPU memory could not be remapped", "replace the GPU"},
    {machine, "", 74, cause, "all", "an error of NVLink",
     "reset the GPU; check the links (nvidia-smi nvlink -e)"},
    {machine, "", 94, cause, "all",
     "a contained error in GPU memory: the process that met it was ended",
     "start that process again; reset the GPU where this comes back"},
    {machine, "", 95, cause, "all", "an uncontained error in GPU memory",
     "reset the GPU; replace it where this comes back"},
    {machine, "", 119, cause, "all", "the GPU's system processor (GSP) does not answer",
     "reset the GPU; a newer driver may help"},
    {machine, "", 31, cause, "all",
     "a kernel used memory that is not mapped: a fault of the program",
     "run with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer"},
    {machine, "", 13, cause, "all", "an exception in a kernel: most often a fault of the program",
     "run with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer"},
    {machine, "", 43, consequence, "all",
     "the GPU stopped a process's work: a fault of the program",
     "look for what this process did last"},
    {machine, "", 45, consequence, "all", "work was removed because its process ended",
     "look for why the process ended"},
};
// clang-format on

}  // namespace

const Message* message_of(const trace::Saying& saying) {
  for (const Message& message : kMessages) {
    if (message.kind != saying.kind) continue;
    const bool has_words = message.words.empty() ||
                           saying.text.find(message.words) != std::string::npos ||
                           saying.quote.find(message.words) != std::string::npos;
    if (has_words && (message.code == kAny || message.code == saying.code)) return &message;
  }
  return nullptr;
}

}  // namespace rollcall::analysis
