"""Batch scripts of Slurm as jobs of Tenure: what ``#SBATCH`` and ``#TENURE`` lines say, read as sbatch reads them.

Text in, fields of a request out; nothing here talks to a server. ``table`` says of every option of sbatch what becomes
of it, and the documentation is made from it.
"""
