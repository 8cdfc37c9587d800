"""Text in: files, columns, labels, splits, the data sets by name, and token ids.

``files`` rows of csv, tsv, jsonl, parquet · ``columns`` which is which · ``records`` text, pair and label of a row ·
``loading`` a data set on disk · ``labels`` classes and gold labels · ``splits`` validation part and repeats ·
``registry`` the sets of the paper · ``bbc_news`` the demo's articles · ``vocabulary`` trains a tokenizer ·
``encoding`` texts to token ids · ``encoded_dataset`` the same for a whole data set.
"""
