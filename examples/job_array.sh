#!/usr/bin/env bash
# A study as a job array of Slurm: 16 parts, each with a GPU of its own, then one folder of all.
#
#     array=$(sbatch --parsable examples/job_array.sh study.toml results)
#     sbatch --dependency=afterok:$array --wrap "tollbox merge results results-parts/*"
#
# A part that was ended (by the time limit, a node that died) goes on where it was if it is submitted
# again; one that is finished ends at once.
#SBATCH --job-name=tollbox
#SBATCH --array=1-16
#SBATCH --gres=gpu:1
#SBATCH --time=04:00:00
#SBATCH --requeue
set -euo pipefail
study=$1
out=$2-parts/$SLURM_ARRAY_TASK_ID
if [ -e "$out" ]; then
    tollbox resume "$out"
else
    mkdir -p "$2-parts"
    tollbox run "$study" --out "$out" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
fi
