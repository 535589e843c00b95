"""Attempts as Slurm jobs: Tenure decides who runs where and when, a site's Slurm launches and cleans up."""
