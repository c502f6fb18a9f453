import { describe, expect, it } from "vitest";
import { GREY, mixed, ofGroup, parse, ramp } from "../src/colors";

describe("colors", () => {
  it("are linear, as the renderer wants them", () => {
    expect(parse("#000000")).toEqual([0, 0, 0]);
    expect(parse("#ffffff")).toEqual([1, 1, 1]);
    const [r, g, b] = parse("#bc0a80");
    expect(r).toBeCloseTo(0.5029, 3);
    expect(g).toBeCloseTo(10 / 255 / 12.92, 6); // the straight part of the curve
    expect(b).toBeCloseTo(0.2159, 3);
  });

  it("go from blue to red, and stay at the ends", () => {
    expect(ramp(0)).toEqual(parse("#2b4f9e"));
    expect(ramp(1)).toEqual(parse("#c2332f"));
    expect(ramp(-3)).toEqual(ramp(0));
    expect(ramp(7)).toEqual(ramp(1));
    expect(ramp(NaN)).toEqual(ramp(0));
    expect(ramp(0.2)).toEqual(parse("#3d8bbf"));
    expect(ramp(0.1)).toEqual(mixed(ramp(0), ramp(0.2), 0.5));
  });

  it("of groups repeat, and what is in none is grey", () => {
    expect(ofGroup(-1)).toBe(GREY);
    expect(ofGroup(0)).not.toEqual(ofGroup(1));
    expect(ofGroup(8)).toEqual(ofGroup(0));
  });
});
