#!/bin/sh
# Takes the hosts that a verdict blames out of Slurm, and puts the job back into the queue: a
# command for
#
#   rollcall run --on-verdict /opt/slurm/drain.sh -- ./job
#
# of an operator, for Slurm lets nobody else drain a node. It acts on a certain verdict of class
# node alone, and says so of any other.
set -u
verdict=${ROLLCALL_VERDICT:-no verdict}
class=${ROLLCALL_VERDICT_CLASS:-unknown}
if [ "$class" != node ] || [ "${ROLLCALL_VERDICT_CERTAIN:-0}" != 1 ]; then
  echo "drain.sh: no host is drained: $verdict is of class $class, or not certain"
  exit 0
fi
# Slurm knows nodes by their first names. What has brackets would name many of them.
hosts=$(printf '%s' "${ROLLCALL_CULPRIT_HOSTS:-}" | sed 's/\.[^,]*//g')
case $hosts in
  '' | *[!A-Za-z0-9_,-]*)
    echo "drain.sh: no host is drained: '$hosts' is no list of hosts"
    exit 1
    ;;
esac
scontrol update "NodeName=$hosts" State=DRAIN "Reason=rollcall: $verdict, ${ROLLCALL_INCIDENT:-}" ||
  exit 1
echo "drain.sh: drained $hosts"
[ -n "${SLURM_JOB_ID:-}" ] || exit 0
scontrol requeue "$SLURM_JOB_ID"
