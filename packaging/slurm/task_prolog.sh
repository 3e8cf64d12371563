#!/bin/sh
# Records the NCCL calls of every job step: a TaskProlog of Slurm's, which reads from its output
# what to set in the task's environment.
#
#   slurm.conf:  TaskProlog=/usr/lib/rollcall/task_prolog.sh
#
# or for one job: srun --task-prolog=/usr/lib/rollcall/task_prolog.sh ./job
#
# A job says `export ROLLCALL_ENABLE=0` to be left alone, and ROLLCALL_DIR to have its files
# elsewhere than in rollcall-runs, where it was submitted.
library=/usr/lib/rollcall/librollcall.so
[ -r "$library" ] || library=$(dirname "$0")/librollcall.so
[ -r "$library" ] || exit 0
case ${ROLLCALL_ENABLE:-1} in 0 | off | false | no) exit 0 ;; esac
[ -n "${SLURM_JOB_ID:-}" ] || exit 0

# Behind what is preloaded already. A rank that `rollcall run` starts has it from there.
case ":${LD_PRELOAD:-}:" in
  *librollcall.so*) exit 0 ;;
esac
echo "export LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$library"

step=$SLURM_JOB_ID.${SLURM_STEP_ID:-0}
# A job that was requeued keeps its number.
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || step=$step.restart-$SLURM_RESTART_COUNT
[ -n "${ROLLCALL_RUN_ID:-}" ] || echo "export ROLLCALL_RUN_ID=slurm-$step"
if [ -z "${ROLLCALL_DIR:-}" ]; then
  directory=${SLURM_SUBMIT_DIR:-$PWD}/rollcall-runs/$step
  mkdir -p "$directory" 2>/dev/null
  echo "export ROLLCALL_DIR=$directory"
fi
