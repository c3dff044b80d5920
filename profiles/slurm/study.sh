#!/usr/bin/env bash
# Run a study inside one Slurm allocation: all its cells are measured on the same nodes.
#   sbatch --nodes=4 profiles/slurm/study.sh config/FILE.yaml [what Snakemake takes]
# The study says `cluster: {kind: slurm}`. Two minutes before the time limit the running cell is
# finished and no other is begun; submit the job again to continue.
#SBATCH --job-name=nodewise
#SBATCH --exclusive
#SBATCH --signal=B:INT@120
set -euo pipefail
exec .venv/bin/snakemake --cores all "${@:2}" --configfile "$1"
