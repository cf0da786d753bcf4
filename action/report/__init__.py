"""Gaps, comment, step summary, report.json and junit.xml from the results of a run."""
