"""Every table and figure of arXiv 2604.22583 as runs that can be repeated; ``budgetformer reproduce`` is the way in."""
