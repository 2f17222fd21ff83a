"""The root of every error that is one plain sentence for a person: what, where, how to mend."""


class GoodputError(Exception):
    """Shown as its one sentence, never with a traceback."""


class StorageError(GoodputError):
    """The data folder cannot be written (full, read-only, network share) or a sweep cannot be read. Exit code 1."""
