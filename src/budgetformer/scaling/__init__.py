"""Batch scoring on Ray Data: the records of large files in parts, one model per worker, each record answered once."""
