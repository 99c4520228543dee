"""Validation of Jobs and CronJobs."""
