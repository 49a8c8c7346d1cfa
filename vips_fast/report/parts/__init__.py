"""The families' parts of a report, each named by its record in `vips_fast.models.family`."""
