"""``srun`` for a script that has one host to itself and no Slurm below: a function of bash.

It starts the tasks of the job on this host, each with SLURM_PROCID and SLURM_LOCALID and, with --gpus-per-task, with
its own GPUs; it ends with the highest exit code. Options of srun other than the number of tasks change nothing here.
"""

from __future__ import annotations

from tenure.scripts import table
from tenure.scripts.table import Takes

_ONLY_SRUN = ("mpi", "cpu-bind", "accel-bind", "het-group", "relative", "jobid", "task-prolog", "task-epilog")
"""Options of srun with a value that sbatch does not have."""


def _with_value() -> str:
    """A pattern of options whose value is the next word."""
    longs = [f"--{name}" for name, option in table.BY_NAME.items() if option.takes is Takes.VALUE]
    shorts = [f"-{letter}" for letter, option in table.BY_SHORT.items() if option.takes is Takes.VALUE]
    return " | ".join([*longs, *(f"--{name}" for name in _ONLY_SRUN), *shorts, "-r", "-T"])


def function() -> str:
    """The text of the function, as bash takes it from its environment."""
    return _FUNCTION.replace("@WITH_VALUE@", _with_value())


_FUNCTION = r"""() {
  local tasks=${SLURM_NTASKS:-1} each=${SLURM_GPUS_PER_TASK:-} gpus i pid code=0 pids=()
  while [ $# -gt 0 ]; do
    case $1 in
      --) shift; break ;;
      -n | --ntasks) tasks=$2; shift 2 ;;
      -n[0-9]*) tasks=${1#-n}; shift ;;
      --ntasks=*) tasks=${1#*=}; shift ;;
      --gpus-per-task=*) each=${1#*=}; shift ;;
      --gpus-per-task) each=$2; shift 2 ;;
      @WITH_VALUE@) shift 2 ;;
      -*) shift ;;
      *) break ;;
    esac
  done
  case $tasks in '' | *[!0-9]*) echo "srun: $tasks is no number of tasks" >&2; return 2 ;; esac
  if [ "$tasks" -gt "${SLURM_NTASKS:-1}" ]; then
    echo "srun: $tasks tasks are more than the job has: write #SBATCH --ntasks=$tasks" >&2
    return 2
  fi
  each=${each##*:}
  IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
  for ((i = 0; i < tasks; i++)); do
    (
      export SLURM_PROCID=$i SLURM_LOCALID=$i SLURM_NTASKS=$tasks SLURM_NPROCS=$tasks SLURM_STEP_NUM_TASKS=$tasks
      if [ "$each" ]; then
        IFS=,
        export CUDA_VISIBLE_DEVICES="${gpus[*]:i*each:each}"
        unset IFS
      fi
      exec "$@"
    ) <&0 &
    pids+=($!)
  done
  trap 'kill -TERM "${pids[@]}" 2>/dev/null' TERM
  for pid in "${pids[@]}"; do
    wait "$pid"
    i=$?
    while [ "$i" -gt 128 ] && kill -0 "$pid" 2>/dev/null; do
      wait "$pid"
      i=$?
    done
    [ "$i" -le "$code" ] || code=$i
  done
  trap - TERM
  return "$code"
}"""
