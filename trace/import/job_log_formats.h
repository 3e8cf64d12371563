// The table of what is read in a job's log, from which recognition, the parser and docs/IMPORTS.md
// derive. Patterns are those of log_pattern.h.
#pragma once

#include <string_view>

#include "trace/testimony.h"

namespace rollcall::trace {

struct LogFormat {
  SayingKind kind;
  std::string_view mark;  // a line without it is not looked at
  std::string_view pattern;
  std::string_view source;  // who writes it, in which versions
  std::string_view meaning;
};

// clang-format off: scripts/generate_docs.py reads this table.
inline constexpr LogFormat kLogFormats[] = {
    {SayingKind::gave_up, "caught collective operation timeout",
     "caught collective operation timeout: WorkNCCL({SeqNum=<seq>, }OpType=<op>{, NumelIn=<in>, "
     "NumelOut=<out>}, Timeout(ms)=<skip>) ran for <ran> milliseconds",
     "PyTorch 1.8 and later", "a rank waited for a call until its time was over"},
    {SayingKind::position, "detected by watchdog at work: ",
     "detected by watchdog at work: <seq>, last enqueued NCCL work: <enqueued>, last completed "
     "NCCL work: <completed>",
     "PyTorch 2.4 to 2.5", "how far that rank had come"},
    {SayingKind::position, "Timeout at NCCL work: ",
     "Timeout at NCCL work: <seq>, last enqueued NCCL work: <enqueued>, last completed NCCL work: "
     "<completed>",
     "PyTorch 2.3 to 2.5", "how far that rank had come"},
    {SayingKind::position, "failure detected by watchdog at work sequence id: ",
     "failure detected by watchdog at work sequence id: <seq> PG status: last enqueued work: "
     "<enqueued>, last completed work: <completed>",
     "PyTorch 2.6 and later", "how far that rank had come"},
    {SayingKind::other_position, "Received a dump signal due to a collective timeout from",
     "Received a dump signal due to a collective timeout from ...ast enqueued NCCL work: "
     "<enqueued>, last completed{ NCCL work}: <completed>",
     "PyTorch 2.5 and later", "how far a rank had come that did not give up"},
    {SayingKind::alive, "Observed flight recorder dump signal from another rank",
     "Observed flight recorder dump signal from another rank", "PyTorch 2.5 and later",
     "a rank is alive, and heard that another gave up"},
    {SayingKind::host_stuck, "Heartbeat monitor timed out!", "Heartbeat monitor timed out!",
     "PyTorch 2.2 to 2.5", "a host thread of the rank does not move"},
    {SayingKind::host_stuck, "watchdog got stuck for ", "watchdog got stuck for <code>",
     "PyTorch 2.2 and later", "a host thread of the rank does not move"},
    {SayingKind::async_error, "raised the following async exception: ",
     "Collective WorkNCCL(<skip>) raised the following async exception: <text>",
     "PyTorch 2.2 and later", "NCCL reported an error behind a call"},
    {SayingKind::blocking_wait, "timed out in blocking wait",
     "Work WorkNCCL({SeqNum=<seq>, }OpType=<op>{, NumelIn=<in>, NumelOut=<out>}...timed out in "
     "blocking wait",
     "PyTorch 2.4 and later", "a rank gave up in work.wait()"},
    {SayingKind::script_line, "Stack trace of the failed collective", "#<code> <op> from <text>",
     "PyTorch 2.6 and later, behind \"Stack trace of the failed collective:\"",
     "the lines of the script that made the call"},
    {SayingKind::mismatch, "Detected mismatch between collectives on ranks",
     "Detected mismatch between collectives on ranks. Rank <rank> is running {inconsistent "
     "}collective: CollectiveFingerPrint({SequenceNumber=<seq>{,}{ }}OpType=<op>{, "
     "TensorShape=[<text>], TensorDtypes=<op3>}{...but Rank <other> is running {inconsistent "
     "}collective: CollectiveFingerPrint({SequenceNumber=<seq2>{,}{ }}OpType=<op2>{, "
     "TensorShape=[<text2>], TensorDtypes=<op4>}}",
     "PyTorch 1.9 and later, TORCH_DISTRIBUTED_DEBUG=DETAIL", "two ranks made different calls"},
    {SayingKind::parameters_differ, "DDP expects same model across all ranks",
     "DDP expects same model across all ranks, but Rank <rank> has <in> params, while rank <other> "
     "has inconsistent <out> params",
     "PyTorch 1.10 and later", "two ranks have models of different sizes"},
    {SayingKind::missing_ranks, "Missing ranks:", "<rank>: [<text>]",
     "Horovod, behind \"Missing ranks:\"", "ranks that have not submitted a tensor"},
    {SayingKind::warning, "NCCL WARN", "NCCL WARN <text>", "NCCL 2.3 and later", "NCCL warns"},
    {SayingKind::result, ".cc:", "NCCL INFO <text>.cc:<in> -> <code>", "NCCL",
     "an error on its way up through NCCL"},
    {SayingKind::init_started, "Init START", "rank <rank> nranks <code>...Init START",
     "NCCL 2.18.3 and later", "the size of the job"},
    {SayingKind::init_completed, "Init COMPLETE", "rank <rank> nranks <code>...Init COMPLETE",
     "NCCL 2.4 and later", "the size of the job"},
    {SayingKind::init_started, "All distributed processes registered",
     "All distributed processes registered. Starting with <code> processes", "Lightning",
     "the size of the job"},
    {SayingKind::died,
     "failed (exitcode: ", "failed (exitcode: <code>) local_rank: <local> (pid: <pid>)",
     "torchrun of PyTorch 1.9 and later", "a process ended"},
    {SayingKind::died, "noticed that process rank ",
     "noticed that process rank <rank> with PID <pid> on node <text> exited on signal <signal>",
     "mpirun of Open MPI", "a process ended"},
    {SayingKind::died, " terminated with signal SIG", "rocess <rank> terminated with signal <op>",
     "torch.multiprocessing", "a process ended"},
    {SayingKind::restarted, "attempts left; will restart worker group",
     "Worker group <skip>. <in>/<out> attempts left; will restart worker group",
     "torchrun of PyTorch 1.9 and later", "the job is started again"},
    {SayingKind::restarted,
     "new nodes from group_rank=", "new nodes from group_rank=<skip>; will restart worker group",
     "torchrun of PyTorch 1.9 and later", "the job is started again with other hosts"},
    {SayingKind::restarted, "restart_count=", "restart_count=<code>",
     "torchrun of PyTorch 1.9 and later", "which attempt of the job begins"},
    {SayingKind::machine, "NVRM: Xid", "NVRM: Xid (PCI:<text>): <code>", "NVIDIA's driver",
     "a GPU reported an error"},
    {SayingKind::machine, "fallen off the bus", "fallen off the bus", "NVIDIA's driver",
     "a GPU is gone"},
    {SayingKind::machine, "Killed process ", "Killed process <pid>", "Linux",
     "the host had no memory left"},
    {SayingKind::machine, "oom-kill", "oom-kill", "Linux", "the host had no memory left"},
    {SayingKind::machine, "HW Exception by GPU", "HW Exception by GPU node-<in>...reason :<text>",
     "ROCm 6", "a GPU reported an error"},
};
// clang-format on

// NCCL WARN lines of healthy jobs: they say nothing.
inline constexpr std::string_view kHarmlessWarnings[] = {
    "lib wrapper not initialized",
    "nvmlDeviceGetCurrPcieLink",
    "NUMA auto balancing enabled",
    "Missing \"iommu=pt\"",
    "Failed to open libibverbs",
    "Could not find: libnccl",
    "Missing \"amd_iommu",
    "Could not get speed from /sys",
    // Not supported: NCCL asks whether it is.
    "Cuda failure 801",
};

}  // namespace rollcall::trace
