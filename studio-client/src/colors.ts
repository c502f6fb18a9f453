/** Colours of numbers, as linear red, green and blue from 0 to 1. */

export type Rgb = [number, number, number];

const SCALE = ["#2b4f9e", "#3d8bbf", "#6fc2a6", "#e3d66b", "#e2843f", "#c2332f"].map(parse);
const GROUPS = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#edc948", "#76b7b2", "#ff9da7"].map(
  parse,
);
export const GREY: Rgb = parse("#9aa3ad");

/** The colour of a code such as #2b4f9e. */
export function parse(code: string): Rgb {
  const channel = (k: number) => linear(parseInt(code.slice(k, k + 2), 16) / 255);
  return [channel(1), channel(3), channel(5)];
}

function linear(c: number): number {
  return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
}

/** A share from 0 to 1, from blue to red. */
export function ramp(share: number): Rgb {
  const t = Math.min(Math.max(Number.isFinite(share) ? share : 0, 0), 1) * (SCALE.length - 1);
  const k = Math.min(Math.floor(t), SCALE.length - 2),
    u = t - k;
  return mixed(SCALE[k], SCALE[k + 1], u);
}

/** The colour at a share from 0 to 1 of the way from one to another. */
export function mixed(from: Rgb, to: Rgb, share: number): Rgb {
  const between = (i: 0 | 1 | 2) => from[i] * (1 - share) + to[i] * share;
  return [between(0), between(1), between(2)];
}

/** A colour for a number; grey for -1. */
export function ofGroup(number: number): Rgb {
  return number < 0 ? GREY : GROUPS[number % GROUPS.length];
}
