"""Updates as pages read them."""

import json
import struct

import numpy as np

from pointglue.studio.protocol.replies import Clock
from pointglue.studio.protocol.wire import pack


def test_arrays_of_an_update_begin_at_multiples_of_four_bytes():
    places = np.array([[0.0, 0, 0], [1, 2, 3], [4, 5, 6]], np.float32)  # in 16 bits each, of 18 bytes in all
    arrays = {("a", "vertices"): places, ("a", "faces"): np.array([[7, 8, 9]], np.uint32)}
    clock = Clock(frame=1, status="still", milliseconds=0.0, grabbed=False)
    content = pack(1, clock, None, arrays, quantise=True)
    (length,) = struct.unpack("<I", content[:4])
    vertices, faces = json.loads(content[4 : 4 + length])["arrays"]
    begin = 4 + length
    assert begin % 4 == vertices["offset"] % 4 == faces["offset"] % 4 == 0
    assert np.frombuffer(content, "<u4", 3, begin + faces["offset"]).tolist() == [7, 8, 9]
    sent = np.frombuffer(content, "<u2", 9, begin + vertices["offset"]).reshape(3, 3)
    np.testing.assert_allclose(sent * vertices["step"] + vertices["low"], places, atol=6 / 65535)
