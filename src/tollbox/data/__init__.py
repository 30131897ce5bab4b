"""What users give: pictures, tables, functions by name; and where output goes."""
