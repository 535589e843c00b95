"""A site's own time under Slurm, from what ``sacct`` prints: as it was, in a model of Slurm, and under Tenure."""
