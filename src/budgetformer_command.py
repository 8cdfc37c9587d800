"""Entry point of the ``budgetformer`` command: lets ``budgetformer --help`` answer without torch or transformers."""


def main() -> None:
    """Run the command line."""
    from budgetformer.cli import main as run

    run()
