"""Where the `goodput` command begins: Ctrl-C while its parts are still being loaded ends it as quietly as later."""


def main() -> int:
    """The exit code of `app.cli.main`; 130 when interrupted."""
    try:
        from app.cli import main as command

        return command()
    except KeyboardInterrupt:
        return 130
