"""The simulator: workloads and policies over the very core that the live engine runs."""
