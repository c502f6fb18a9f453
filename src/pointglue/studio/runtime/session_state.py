"""The values of a session that commands change."""

from dataclasses import dataclass, field
from pathlib import Path

from ..document.document import Document
from ..protocol.replies import Note
from .playback import Playback
from .preview import Preview

__all__ = ["SessionState"]


@dataclass(eq=False)
class SessionState:
    """Everything that a command of a page can change.

    Each value is replaced and never changed in place, so that a shallow copy taken before a command
    restores the session if the command fails.
    """

    document: Document
    """The scene that is edited."""
    kept: Document
    """The document that the recovery folder has, or that needs no copy there."""
    frame: int = 1
    """Number of the frame that is shown of the document."""
    notes: list[Note] = field(default_factory=list)
    """Notes that no page has been told yet."""
    past: tuple[Document, ...] = ()
    """Documents that undo returns to, the latest last."""
    future: tuple[Document, ...] = ()
    """Documents that redo returns to, the next one last."""
    stroke: int = 0
    """Number of the stroke that the last edit belonged to, 0 for none."""
    paths: dict[int, Path] = field(default_factory=dict)
    """Scene files by the origin of their documents, since undo may return to another scene."""
    saved: dict[int, Document] = field(default_factory=dict)
    """Documents as their files have them, by origin."""
    preview: Preview | None = None
    """The simulation of the document, if one has begun."""
    run: Playback | None = None
    """The finished run that is played instead of the document, if one is open."""
    playing: bool = False
    """Whether frames follow each other by themselves."""
    due: float = 0.0
    """Time of the session's clock at which the next frame is shown [s]."""
    problem: str = ""
    """Why the simulation stopped by itself, until it goes on."""
    warned_unskinned: frozenset[tuple[int, str]] = frozenset()
    """Origins and names of objects whose mesh was reported not to follow their particles."""
