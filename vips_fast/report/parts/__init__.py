"""Parts of a report by family; `vips_fast.models.family` names each."""
