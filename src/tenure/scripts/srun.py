"""``srun`` for a script that has one host to itself and no Slurm below: a function of bash.

It starts the tasks of the job on this host, each with SLURM_PROCID and SLURM_LOCALID and, with --gpus-per-task, with
its own GPUs; it ends with the highest exit code. Of srun's options --ntasks, --gpus-per-task, --output, --error and
--chdir have an effect; the others change nothing on one host, or are about what Slurm does beside starting tasks.
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


def function(warning: str = "") -> str:
    """The text of the function, as bash takes it from its environment.

    ``warning``: a signal, like SIGUSR2, that is for the tasks and not for the script, as ``--signal`` without B: means
    it. SIGTERM is passed on to the tasks in any case, and then has its effect on the script once they have ended.
    """
    forward = warning.removeprefix("SIG")
    own = "" if forward in ("", "TERM") else _TRAP.replace("@SIGNAL@", forward)
    text = _FUNCTION.replace("@WITH_VALUE@", _with_value()).replace("@TRAP@", own)
    return text.replace("@FORWARD@", "" if forward == "TERM" else forward)


_TRAP = """trap 'kill -@SIGNAL@ "${pids[@]}" 2>/dev/null' @SIGNAL@"""


_FUNCTION = r"""() {
  local tasks=${SLURM_NTASKS:-1} each=${SLURM_GPUS_PER_TASK:-} out= err= dir=. gpus i pid code=0 pids=() told= traps
  while [ $# -gt 0 ]; do
    case $1 in
      --) shift; break ;;
      -n | --ntasks) tasks=$2; shift 2 ;;
      -n[0-9]*) tasks=${1#-n}; shift ;;
      --ntasks=*) tasks=${1#*=}; shift ;;
      --gpus-per-task=*) each=${1#*=}; shift ;;
      --gpus-per-task) each=$2; shift 2 ;;
      --output=*) out=${1#*=}; shift ;;
      -o | --output) out=$2; shift 2 ;;
      --error=*) err=${1#*=}; shift ;;
      -e | --error) err=$2; shift 2 ;;
      --chdir=*) dir=${1#*=}; shift ;;
      -D | --chdir) dir=$2; shift 2 ;;
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
  __tenure_name() {
    local rest=$1 name= part width
    while [[ $rest == *%* ]]; do
      name+=${rest%%\%*}
      rest=${rest#*%}
      width=${rest%%[!0-9]*}
      rest=${rest#"$width"}
      case $rest in
        [AjJ]*) part=$SLURM_JOB_ID ;; N*) part=${SLURMD_NODENAME%%.*} ;; n*) part=0 ;; t*) part=$SLURM_PROCID ;;
        s*) part=0 ;; u*) part=$SLURM_JOB_USER ;; x*) part=$SLURM_JOB_NAME ;; %*) part=% ;; *) part=%${rest:0:1} ;;
      esac
      [[ ! $width || $part == *[!0-9]* ]] || printf -v part "%0$((10#$width))d" "$part"
      name+=$part
      rest=${rest:1}
    done
    printf %s "$name$rest"
  }
  traps=$(trap -p TERM @FORWARD@)
  trap 'told=1; kill -TERM "${pids[@]}" 2>/dev/null' TERM
  @TRAP@
  IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
  for ((i = 0; i < tasks; i++)); do
    (
      export SLURM_PROCID=$i SLURM_LOCALID=$i SLURM_NTASKS=$tasks SLURM_NPROCS=$tasks SLURM_STEP_NUM_TASKS=$tasks
      if [ "$each" ]; then
        IFS=,
        export CUDA_VISIBLE_DEVICES="${gpus[*]:i*each:each}"
        unset IFS
      fi
      cd "$dir" || exit
      if [ "$out" ]; then
        exec >>"$(__tenure_name "$out")" || exit
        [ "$err" ] || exec 2>&1
      fi
      if [ "$err" ]; then exec 2>>"$(__tenure_name "$err")" || exit; fi
      exec "$@"
    ) <&0 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid"
    i=$?
    while [ "$i" -gt 128 ] && kill -0 "$pid" 2>/dev/null; do
      wait "$pid"
      i=$?
    done
    [ "$i" -le "$code" ] || code=$i
  done
  trap - TERM @FORWARD@
  eval "$traps"
  [ ! "$told" ] || kill -TERM "$BASHPID"
  return "$code"
}"""
