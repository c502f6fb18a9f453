"""Make the moving picture of the README from the pictures of a run: `make moving-picture` calls it."""

import argparse
import subprocess
from pathlib import Path

import imageio_ffmpeg

CROP = "750:330:30:120"  # pixels of 960 x 600: width, height, left and top of what is shown
WIDTH, FPS, COLORS = 480, 16, 128  # pixels, frames per second, entries of the palette: below 1 MB in all


def main() -> None:
    """Read PICTURES/frame_0001.png and so on, and write OUT.gif."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pictures", type=Path, metavar="PICTURES")
    parser.add_argument("out", type=Path, metavar="OUT.gif")
    arguments = parser.parse_args()
    filters = (
        f"crop={CROP},scale={WIDTH}:-1:flags=lanczos,split[a][b];"
        f"[a]palettegen=max_colors={COLORS}[p];[b][p]paletteuse=dither=bayer:bayer_scale=4"
    )
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", "-framerate", str(FPS)]
    command += ["-i", str(arguments.pictures / "frame_%04d.png"), "-vf", filters, str(arguments.out)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
