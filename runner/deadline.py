"""`[run] stop_by`: the moment by which a sweep shall be over."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, time, timedelta

Now = Callable[[], datetime]  # with its time zone


def local_now() -> datetime:
    """By the machine's clock, in the time zone of TZ."""
    return datetime.now().astimezone()


@dataclass(frozen=True)
class Deadline:
    """`wanted` is what the person wrote, `moment` the point in time that it means for this run."""

    wanted: str
    moment: datetime
    now: Now

    def left_s(self) -> float:
        """Seconds until then; negative afterwards."""
        return (self.moment - self.now()).total_seconds()


def deadline_of(stop_by: str | None, now: Now) -> Deadline | None:
    """A time of day means the next one after now, a date without zone is local. `now` is asked again by `left_s`."""
    if stop_by is None:
        return None
    return Deadline(stop_by, _moment(stop_by, now()), now)


def _moment(stop_by: str, now: datetime) -> datetime:
    """A naive time of the machine's zone is given its offset of that day, so that a change of the clocks is no hour."""
    if "T" in stop_by or " " in stop_by:
        return datetime.fromisoformat(stop_by).astimezone()
    at, today = time.fromisoformat(stop_by), now.astimezone().date()
    moment = datetime.combine(today, at).astimezone()
    return moment if moment > now else datetime.combine(today + timedelta(days=1), at).astimezone()
