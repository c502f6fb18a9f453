"""Small scenes, quick to build and to step, which between them use every kind of object."""

PARTICLES = """\
title = "particles"
[frames]
count = 8
rate = 30
[world]
wind = { velocity = [1, 0, 0], gust = 0.5, stop = "frame 6" }
[objects.ground]
kind = "collider"
mesh = { shape = "plane" }
[objects.steps]
kind = "collider"
mesh = { shape = "stairs", steps = 3 }
transform = { translate = [0, -0.3, 0] }
[objects.ball]
kind = "collider"
mesh = { shape = "sphere", radius = "20 cm", detail = 1 }
transform = { translate = [1, 0.3, 0] }
keys = [{ time = 0 }, { time = "frame 6", translate = [0, 0.3, 0] }]
[objects.dented]
kind = "particles"
mesh = { shape = "box", size = [0.4, 0.3, 0.3], cells = [2, 2, 2] }
transform = { translate = [0, 0.5, 0], rotate = [0, 30, 20] }
material = { preset = "plastic", yield_speed = 0.5 }
spacing = "15 cm"
velocity = [0, -3, 0]
[objects.cloth]
kind = "particles"
mesh = { shape = "sheet", size = [1, 1], cells = [6, 6] }
transform = { translate = [1, 0.6, 0] }
material = { preset = "cloth" }
[objects.rope]
kind = "particles"
mesh = { shape = "rope", start = [2, 1, 0], end = [2, 1, 1], radius = 0.03, cells = 6 }
material = { preset = "rope" }
pin = { box = [[1.9, 0.9, -0.1], [2.1, 1.1, 0.05]] }
keys = [{ time = 0 }, { time = "0.2 s", translate = [0, 0, 0.3], rotate = [0, 0, 40] }]
[[force]]
kind = "push"
on = ["dented"]
force = [0, 1, 0]
"""

SOLIDS = """\
title = "solids"
[frames]
count = 8
rate = 24
[world]
wind = { velocity = [2, 0, 0], gust = 0.5 }
[objects.trunk]
kind = "flesh"
mesh = { shape = "branch", spine = [[0, 0, 0], [0, 0.5, 0], [0, 1, 0]], radius = "5 cm", cells = 6 }
material = { young = "1e6 Pa", poisson = 0.3, density = 500 }
pin = { box = [[-1, -0.1, -1], [1, 0.01, 1]] }
[objects.twig]
kind = "flesh"
mesh = { shape = "branch", spine = [[0.1, 0.5, 0], [0.4, 0.6, 0], [0.6, 0.8, 0]], radius = "2 cm", cells = 4 }
material = { young = "5e5 Pa", poisson = 0.3, density = 500 }
[objects.flag]
kind = "cloth"
mesh = { shape = "sheet", size = [0.5, 0.5], cells = [4, 4] }
transform = { translate = [1.5, 1, 0], rotate = [90, 0, 0] }
pin = { name = "mast" }
groups.mast = { box = [[1.2, 0, -1], [1.26, 3, 1]] }
keys = [{ time = 0 }, { time = 0.3, rotate = [0, 90, 0] }]
[objects.ball]
kind = "rigid"
mesh = { shape = "sphere", radius = 0.05, detail = 1 }
transform = { translate = [0.55, 0.6, 0] }
spin = [0, "30 deg/s", 0]
[objects.jelly]
kind = "jelly"
mesh = { shape = "sphere", radius = 0.1, detail = 1 }
transform = { translate = [-0.5, 0.1, 0] }
material = { young = "10 kPa", blend = 0.2, damping = "5 ms" }
cell = 0.1
pin = { ball = { center = [-0.5, 0, 0], radius = 0.1 } }
[[attach]]
kind = "glue"
from = "twig"
points = { nearest = 6 }
to = "trunk"
release = "frame 6"
[[attach]]
kind = "joint"
type = "ball"
from = "ball"
to = "twig"
at = [0.5, 0.7, 0]
[[attach]]
kind = "spring"
from = "jelly"
to = "trunk"
points = { indices = [0, 1] }
stiffness = "5 N/m"
attach = "frame 3"
[[force]]
kind = "drag"
on = ["flag", "ball"]
rate = "1 1/s"
"""

HANDLES = """\
title = "handles"
[frames]
start = 1001
count = 5
[objects.bar]
kind = "handles"
mesh = { shape = "box", size = [1, 0.2, 0.2], cells = [10, 2, 2] }
damping = 0.1
[objects.bar.handles]
left = { at = [-0.5, 0, 0], radius = 0.1 }
[objects.bar.handles.right]
at = [0.5, 0, 0]
keys = [{ time = "frame 1001" }, { time = "frame 1005", translate = [0, 0.4, 0] }]
"""

TOGETHER = """\
title = "all engines at once, and what goes with what"
[frames]
count = 5
rate = 24
[world.water]
level = -1
swell = [0.2, 0, 0]
period = 0.5
[contact]
distance = "5 mm"
[solver.implicit]
tolerance = "1 cm/s"
[objects.bar]
kind = "handles"
mesh = { shape = "box", size = [1, 0.2, 0.2], cells = [4, 1, 1] }
transform.translate = [0, 3, 0]
[objects.bar.handles]
left = { at = [-0.5, 3, 0] }
right = { at = [0.5, 3, 0], keys = [{ time = 0 }, { time = 0.1, translate = [0, 0.2, 0] }] }
[objects.rope]
kind = "particles"
mesh = { shape = "rope", start = [2, 1, 0], end = [2, 1, 1], radius = 0.03, cells = 6 }
material = { preset = "rope", floats = 0.9 }
grips.near = { points = { indices = [0] } }
[objects.rope.grips.far]
points = { any = [{ indices = [6] }, { ball = { center = [2, 1, 0.8], radius = 0.05 } }] }
keys = [{ time = 0 }, { time = "0.1 s", translate = [0, 0.1, 0], rotate = [0, 0, 40] }]
[objects.block]
kind = "flesh"
mesh = { shape = "sphere", radius = 0.2, detail = 1 }
material = { young = "50 kPa" }
transform.translate = [0, 0.21, 0]
cell = 0.2
touch = "mesh"
[objects.table]
kind = "collider"
mesh = { shape = "plane" }
[objects.cloth]
kind = "cloth"
mesh = { shape = "sheet", size = [0.4, 0.4], cells = [4, 4] }
transform = { translate = [-1, 1, 0] }
groups.end = { box = [[-2, 0, -1], [-1.19, 2, 1]] }
[objects.cloth.grips]
end = { points = { name = "end" }, keys = [{ time = 0 }, { time = 0.1, translate = [0, 0.05, 0] }] }
[objects.weight]
kind = "flesh"
mesh = { shape = "box", size = [0.05, 0.2, 0.05] }
material = { young = "1 MPa" }
transform.translate = [0, 0.6, 0]
[objects.tag]
kind = "follower"
on = "cloth"
mesh = { shape = "leaves", spine = [[-1.2, 1, 0], [-1, 1.05, 0], [-0.8, 1, 0]], radius = 0.02, count = 3 }
[objects.mark]
kind = "follower"
on = "bar"
mesh = { shape = "ring", radius = 0.2, girth = 0.01, sections = 6 }
transform = { translate = [0.3, 3, 0], rotate = [0, 0, 90] }
[[attach]]
kind = "glue"
from = "weight"
points = { all = true }
to = "block"
binding = "linear"
"""

ALL = {"particles": PARTICLES, "solids": SOLIDS, "handles": HANDLES, "together": TOGETHER}
