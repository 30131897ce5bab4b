"""Reports: tables, figures and one HTML page from the results of a study."""
