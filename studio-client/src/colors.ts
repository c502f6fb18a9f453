/** Colours of numbers. */

const SCALE = ["#2b4f9e", "#3d8bbf", "#6fc2a6", "#e3d66b", "#e2843f", "#c2332f"].map(parse);
const GROUPS = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#edc948", "#76b7b2", "#ff9da7"].map(parse);
export const GREY: [number, number, number] = parse("#9aa3ad");

export function parse(code: string): [number, number, number] {
  return [1, 3, 5].map((k) => linear(parseInt(code.slice(k, k + 2), 16) / 255)) as [number, number, number];
}

function linear(c: number): number {
  return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
}

/** A share from 0 to 1, from blue to red. */
export function ramp(share: number): [number, number, number] {
  const t = Math.min(Math.max(Number.isFinite(share) ? share : 0, 0), 1) * (SCALE.length - 1);
  const k = Math.min(Math.floor(t), SCALE.length - 2), u = t - k;
  return [0, 1, 2].map((i) => SCALE[k][i] * (1 - u) + SCALE[k + 1][i] * u) as [number, number, number];
}

/** A colour for a number; grey for -1. */
export function ofGroup(number: number): [number, number, number] {
  return number < 0 ? GREY : GROUPS[number % GROUPS.length];
}
