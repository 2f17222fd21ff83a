"""Looks that a browser asked for on a page it has left meanwhile.

A page that draws itself again and again (`st.fragment(run_every=...)`) and then leads to another one: a slow browser,
or a slow server, has the next look on its way already. Streamlit 1.67 runs it when the new page is drawn, finds that
the fragment is gone, and by then has told the browser that it is on the old page: the new one stays empty.
"""

from functools import wraps
from typing import Any

from streamlit.runtime.scriptrunner import ScriptRunner


def ignore_late_looks() -> None:
    """From now on a look at fragments that are all gone is no run. Does nothing where Streamlit has no such run."""
    run = getattr(ScriptRunner, "_run_script", None)
    if run is None or hasattr(run, "__wrapped__"):
        return

    @wraps(run)
    def run_script(self: Any, rerun_data: Any) -> None:  # noqa: ANN401  (Streamlit's own, not public)
        wanted = rerun_data.fragment_id_queue
        if wanted and rerun_data.is_auto_rerun and not any(map(self._fragment_storage.contains, wanted)):
            return
        run(self, rerun_data)

    ScriptRunner._run_script = run_script  # type: ignore[method-assign]
