"""Small questions in SQL: topics as tables of DuckDB, read as Spark reads them, in this process."""
