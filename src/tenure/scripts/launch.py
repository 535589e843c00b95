"""The command that runs a script which travels with its job, on any executor.

``/bin/sh`` runs ``START``, which says what sbatch would say (``SLURM_*``, the files of ``--output``), puts the script
into a file that has no name any more, and becomes its interpreter: signals and the exit code are the script's own.
Below a real Slurm it leaves ``SLURM_*`` and ``srun`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tenure.scripts import values
from tenure.scripts.lines import Script
from tenure.scripts.shape import Shape

SCRIPT, SRUN = "TENURE_SCRIPT", "TENURE_SRUN"
_SHELL = "/bin/sh"
_FILE = "/dev/fd/9"
_END = "--"

START = r"""slurm=$SLURM_JOB_ID out= err= in= mode= each=
while [ "$1" != -- ]; do
  case $1 in
    out=*) out=${1#*=} ;; err=*) err=${1#*=} ;; in=*) in=${1#*=} ;; mode=*) mode=${1#*=} ;; each=*) each=${1#*=} ;;
    *) [ "$slurm" ] || export "$1" ;;
  esac
  shift
done
shift
named() {
  rest=$1 name=
  while :; do
    case $rest in *%*) ;; *) break ;; esac
    name=$name${rest%%\%*} rest=${rest#*%} width=
    while :; do
      case $rest in [0-9]*) width=$width${rest%"${rest#?}"} rest=${rest#?} ;; *) break ;; esac
    done
    case $rest in
      A*) part=${TENURE_ARRAY_ID:-$TENURE_JOB_ID} ;; a*) part=${TENURE_ARRAY_INDEX:-4294967294} ;;
      [jJ]*) part=$TENURE_JOB_ID ;; b*) part=$((${TENURE_ARRAY_INDEX:-4} % 10)) ;; [nt]*) part=$PET_NODE_RANK ;;
      N*) part=${TENURE_HOST%%.*} ;; s*) part=batch ;; u*) part=$TENURE_USER ;; x*) part=$TENURE_JOB_NAME ;;
      *) part=% ;;
    esac
    rest=${rest#?}
    case $part in '' | *[!0-9]*) ;; *) part=$(printf "%0${width:-1}d" "$part") ;; esac
    name=$name$part
  done
  name=$name$rest
}
emptied() {
  named "$1"
  [ "$mode" = append ] || [ "$PET_NODE_RANK" != 0 ] && return
  [ "$mode" = truncate ] || [ "$TENURE_RESTART_COUNT" = 0 ] && : >"$name"
}
if [ ! "$slurm" ]; then
  export SLURM_JOB_ID="$TENURE_JOB_ID" SLURM_JOBID="$TENURE_JOB_ID" SLURM_JOB_NAME="$TENURE_JOB_NAME"
  export SLURM_JOB_USER="$TENURE_USER" SLURM_JOB_ACCOUNT="$TENURE_BUDGET" SLURM_JOB_PARTITION="$TENURE_CLUSTER"
  export SLURM_CLUSTER_NAME="$TENURE_CLUSTER" SLURMD_NODENAME="$TENURE_HOST" SLURM_NODEID="$PET_NODE_RANK"
  export SLURM_JOB_NUM_NODES="$PET_NNODES" SLURM_NNODES="$PET_NNODES" SLURM_TASK_PID=$$
  [ "$TENURE_RESTART_COUNT" = 0 ] || export SLURM_RESTART_COUNT="$TENURE_RESTART_COUNT"
  [ "$PET_NNODES" != 1 ] || export SLURM_JOB_NODELIST="$TENURE_HOST" SLURM_NODELIST="$TENURE_HOST"
  [ ! "$each" ] || export SLURM_PROCID="$PET_NODE_RANK" SLURM_LOCALID=0
  if [ "$CUDA_VISIBLE_DEVICES" ]; then
    commas=$(printf %s "$CUDA_VISIBLE_DEVICES" | tr -cd ,)
    export SLURM_JOB_GPUS="$CUDA_VISIBLE_DEVICES" SLURM_GPUS_ON_NODE=$((${#commas} + 1))
  fi
fi
if [ "$TENURE_ARRAY_ID" ]; then
  export SLURM_ARRAY_JOB_ID="$TENURE_ARRAY_ID" SLURM_ARRAY_TASK_ID="$TENURE_ARRAY_INDEX"
  export SLURM_ARRAY_TASK_COUNT="$TENURE_ARRAY_COUNT" SLURM_ARRAY_TASK_MIN="$TENURE_ARRAY_MIN"
  export SLURM_ARRAY_TASK_MAX="$TENURE_ARRAY_MAX" SLURM_ARRAY_TASK_STEP="$TENURE_ARRAY_STEP"
fi
file=$(mktemp "${TMPDIR:-/tmp}/tenure.XXXXXX") && printf %s "$TENURE_SCRIPT" >"$file" && exec 9<"$file" || exit 126
rm -f "$file"
unset TENURE_SCRIPT
[ "$slurm" ] || srun=$TENURE_SRUN
unset TENURE_SRUN
if [ "$in" ]; then named "$in"; exec <"$name"; fi
if [ "$out" ]; then
  emptied "$out"
  echo "tenure: output goes to $name (--output)"
  exec >>"$name"
  [ "$err" ] || exec 2>&1
fi
if [ "$err" ]; then
  emptied "$err"
  exec 2>>"$name"
fi
[ ! "$srun" ] || exec /usr/bin/env "BASH_FUNC_srun%%=$srun" "$@"
exec "$@"
"""

_CALLS = r"(?:^|[;&|(`{{]|\b(?:then|do|else|time|exec)\s)\s*(?:[A-Za-z_]\w*=\S*\s+)*(?:exec\s+)?({})(?=\s|$)"


def calls(script: Script, *programs: str) -> tuple[str, int] | None:
    """The first of ``programs`` that the script starts by its name, and the line. It looks, it does not run."""
    pattern = re.compile(_CALLS.format("|".join(programs)))
    for number, line in enumerate(script.text.split("\n"), start=1):
        if not line.lstrip().startswith("#") and (found := pattern.search(line)):
            return found[1], number
    return None


def command(script: Script, arguments: Sequence[str], said: Mapping[str, str]) -> list[str]:
    """``said``: variables that START exports, and its own words out, err, in, mode and each."""
    words = [f"{name}={value}" for name, value in said.items()]
    return [_SHELL, "-c", START, script.name, *words, _END, *script.interpreter, _FILE, *arguments]


def shown(command: Sequence[str]) -> list[str] | None:
    """The script and its arguments, when ``command`` was made here; to show in place of all that."""
    if len(command) < 6 or command[0] != _SHELL or "TENURE_SCRIPT" not in command[2] or _FILE not in command:
        return None
    return [command[3], *command[command.index(_FILE) + 1 :]]


def variables(shape: Shape, given: Mapping[str, str | None], directory: str, host: str) -> dict[str, str]:
    """``SLURM_*`` that are known at submission. ``given``: options of sbatch that hold, with their values."""
    found = {"SLURM_SUBMIT_DIR": directory, "SLURM_SUBMIT_HOST": host}
    if "ntasks" in given or "ntasks-per-node" in given:
        found |= {"SLURM_NTASKS": str(shape.tasks), "SLURM_NPROCS": str(shape.tasks)}
    if shape.tasks == shape.nodes * shape.tasks_per_node:
        times = f"(x{shape.nodes})" if shape.nodes > 1 else ""
        found["SLURM_TASKS_PER_NODE"] = f"{shape.tasks_per_node}{times}"
    if shape.cpus is not None:
        found["SLURM_CPUS_ON_NODE"] = str(shape.cpus)
        found["SLURM_JOB_CPUS_PER_NODE"] = f"{shape.cpus}(x{shape.nodes})" if shape.nodes > 1 else str(shape.cpus)
    for option in ("ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "gpus", "gpus-per-node", "gpus-per-task"):
        if value := given.get(option):
            found[f"SLURM_{option.upper().replace('-', '_')}"] = value
    for option, variable in (("mem", "NODE"), ("mem-per-cpu", "CPU"), ("mem-per-gpu", "GPU")):
        if (text := given.get(option)) and shape.memory:
            found[f"SLURM_MEM_PER_{variable}"] = str(values.parse_memory(text))
    return found
