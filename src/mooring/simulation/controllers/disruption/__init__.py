"""The disruption controller: the status of disruption budgets."""
