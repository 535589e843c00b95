"""What orders and who may evict whom: Tenure's own policy and, for comparison, those that labs run today."""
