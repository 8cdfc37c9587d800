"""A model folder as an HTTP service: batches across requests, a bounded queue, a model owned by one thread."""
