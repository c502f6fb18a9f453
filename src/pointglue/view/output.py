"""Pictures and movies as files that appear when they are complete."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..checks import check_real
from ..errors import InputError, MissingDependencyError
from ..files import atomic_write

Image = NDArray[np.uint8]
"""Pixels (height, width, 3), red, green and blue."""


class HasImage(Protocol):
    """Something that can be drawn, such as a `Picture`."""

    def image(self) -> Image:
        """Return the pixels (height, width, 3)."""


@contextmanager
def _checked_file(path: str | os.PathLike[str], suffix: str) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` if all goes well; raise at once if it cannot."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path must be a file name, got {type(path).__name__}")
    target = Path(path)
    if target.suffix.lower() != suffix:
        raise InputError(f"path must end in {suffix}, got {str(target)!r}")
    if not target.parent.is_dir():
        raise InputError(f"path: there is no directory {str(target.parent)!r}")
    if target.is_dir():
        raise InputError(f"path is a directory: {str(target)!r}")
    with atomic_write(target) as draft:
        try:
            draft.touch()  # now, not after an hour of drawing
        except OSError as error:
            raise InputError(f"path: cannot write to {str(target.parent)!r}: {error.strerror}") from error
        yield draft


def save_png(image: Image | Callable[[], Image], path: str | os.PathLike[str]) -> None:
    """Write an image (h, w, 3) as PNG, or the one that a function returns once the path has been checked."""
    with _checked_file(path, ".png") as draft:
        try:
            import imageio.v3 as imageio
        except ImportError as error:
            raise MissingDependencyError("PNG files need imageio: pip install 'pointglue[view]'") from error
        imageio.imwrite(draft, image() if callable(image) else image)


def save_movie(
    frames: Iterable[HasImage | Image], path: str | os.PathLike[str], *, fps: float = 24.0
) -> None:
    """Write frames to an .mp4 file (H.264, which plays everywhere).

    The file appears when it is complete: an interrupted run leaves an earlier file as it was.

    Parameters
    ----------
    frames : iterable of Picture or (h, w, 3) of uint8
        Frames of one size; of a generator, one is in memory at a time. An odd width or height loses its last
        pixel, since the format requires even ones.
    path : str or path
        The file to write; its folder must exist.
    fps : float
        Frames per second.

    Raises
    ------
    InputError
        If an argument is not what it should be, or the file cannot be written.
    MissingDependencyError
        If ffmpeg is missing.
    OSError
        If ffmpeg fails; the message is its own.
    """
    rate = check_real("fps", fps, above=0)
    if not isinstance(frames, Iterable):
        raise InputError(f"frames must be an iterable of pictures or images, got {type(frames).__name__}")
    with _checked_file(path, ".mp4") as draft, tempfile.TemporaryFile() as log:
        try:
            from imageio_ffmpeg import get_ffmpeg_exe

            program = get_ffmpeg_exe()
        except (ImportError, RuntimeError) as error:
            raise MissingDependencyError("movies need ffmpeg: pip install 'pointglue[movie]'") from error
        images = (_pixels(frame, index) for index, frame in enumerate(frames))
        first = next(images, None)
        if first is None:
            raise InputError("frames is empty: a movie needs at least one")
        height, width = first.shape[:2]
        command = [program, "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
        command += ["-s", f"{width}x{height}", "-r", str(rate), "-i", "-", "-c:v", "libx264", "-crf", "15"]
        command += ["-vf", "scale=out_color_matrix=bt709:out_range=tv", "-colorspace", "bt709"]
        command += ["-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv"]
        command += ["-pix_fmt", "yuv420p", "-movflags", "+faststart", str(draft)]
        ffmpeg = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log)
        assert ffmpeg.stdin is not None
        try:
            for index, image in enumerate(chain([first], images)):
                if image.shape != first.shape:
                    raise InputError(
                        f"frames must have one size: frame 0 is {width}x{height}, "
                        f"frame {index} is {image.shape[1]}x{image.shape[0]}"
                    )
                ffmpeg.stdin.write(image.tobytes())
        except BrokenPipeError:
            pass  # ffmpeg gave up; its exit code and log say why
        except BaseException:
            ffmpeg.kill()
            raise
        finally:
            with suppress(OSError):
                ffmpeg.stdin.close()
            code = ffmpeg.wait()
        if code != 0:
            log.seek(0)
            raise OSError(f"ffmpeg could not write {path}: {log.read().decode(errors='replace').strip()}")


def _pixels(frame: HasImage | Image, index: int) -> Image:
    """Return a frame as an image with even sides."""
    image = frame if isinstance(frame, np.ndarray) or not hasattr(frame, "image") else frame.image()
    if not isinstance(image, np.ndarray):
        raise InputError(f"frames[{index}] must be a picture or an image, got {type(frame).__name__}")
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or min(image.shape[:2]) < 2:
        raise InputError(f"frames[{index}] must be (h, w, 3) of uint8, got {image.shape} of {image.dtype}")
    return image[: image.shape[0] // 2 * 2, : image.shape[1] // 2 * 2]
