"""Jobs that people submit to Slurm themselves: seen, turned into jobs of Tenure, and kept in step with them."""

from tenure.adoption.adopter import running

__all__ = ["running"]
