"""Data: from a source (a local file, a registered file) to RECORDS, one row a record, nothing lost on the way.

``files.py`` finds the file that a manifest's ``file_id`` means; ``local.py`` reads a file; ``jsonl.py`` and
``csvfile.py`` know one format each; ``columns.py`` takes the columns out of the records while they are parsed.
``frames_in.py`` makes a table (``tables.py``) of data in memory and of Parquet; ``jsoncolumns.py`` and ``pyvalues.py``
know what its values are as JSON.
"""
