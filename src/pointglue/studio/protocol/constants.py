"""Constants that the server and the page share; `protocol.typescript` writes them into the page's source."""

from typing import Any

from pydantic import BaseModel

from ...scene.schema.attach_tables import GlueAttach
from ...scene.schema.materials import ClothMaterial, FleshMaterial, JellyMaterial, RigidMaterial
from ...scene.schema.scene import HandlesObject
from .commands import SHAPES

__all__ = ["BINDABLE", "FAIR_GAP", "GROUND", "POOR_GAP", "page_constants"]

GROUND = "ground"  # the name of the plane that Play has below everything
# The kinds of objects that can be bound to each other: those of the implicit solver.
BINDABLE = ("flesh", "cloth", "jelly", "rigid", "animated")
FAIR_GAP = 0.2  # least gap of a fit that is well determined; below, it is sensitive to noise
POOR_GAP = 0.02  # least gap of a fit that is determined at all; below, its points are all but on a line


def page_constants() -> dict[str, Any]:
    """Return the constants of the page by name, as values that JSON can have.

    The defaults are those of scene files, which the page shows where a table leaves a key out.
    """
    materials: dict[str, type[BaseModel]] = {
        "flesh": FleshMaterial,
        "cloth": ClothMaterial,
        "jelly": JellyMaterial,
        "rigid": RigidMaterial,
    }
    handles = HandlesObject.model_fields
    return {
        "GROUND": GROUND,
        "BINDABLE": list(BINDABLE),
        "FAIR_GAP": FAIR_GAP,
        "POOR_GAP": POOR_GAP,
        "SHAPES": list(SHAPES),
        "DEFAULTS": {
            "falloff": handles["falloff"].default,
            "stretch": handles["stretch"].default,
            "distance": handles["distance"].default,
            "parents": GlueAttach.model_fields["parents"].default,
            "clothStretch": ClothMaterial.model_fields["stretch"].default,
            "density": {kind: table.model_fields["density"].default for kind, table in materials.items()},
        },
    }
