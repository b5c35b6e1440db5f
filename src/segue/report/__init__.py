"""What happened: events, their log, and `explain`."""

from segue.report.events import Event, EventLog, Place

__all__ = ["Event", "EventLog", "Place"]
