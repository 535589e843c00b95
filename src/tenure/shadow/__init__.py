"""Tenure in the shadow of a site's own Slurm: watch its queue, decide without acting, and say what would have been."""
