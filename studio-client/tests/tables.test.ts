import { expect, it } from "vitest";
import { numberAt, tableAt, textAt, vectorAt } from "../src/tables";

it("reads values of the expected type, and falls back for others", () => {
  const table = {
    size: 2,
    name: "bar",
    at: [1, 2, 3],
    odd: [1, "2", 3],
    four: [1, 2, 3, 4],
    inner: { shape: "plane" },
    none: null,
  };
  expect(numberAt(table, "size", 7)).toBe(2);
  expect(numberAt(table, "name", 7)).toBe(7);
  expect(textAt(table, "name")).toBe("bar");
  expect(textAt(table, "size", "usual")).toBe("usual");
  expect(vectorAt(table, "at", [0, 0, 0])).toEqual([1, 2, 3]);
  for (const key of ["odd", "four", "size", "missing"])
    expect(vectorAt(table, key, [0, 0, 0])).toEqual([0, 0, 0]);
  expect(tableAt(table, "inner")).toEqual({ shape: "plane" });
  for (const key of ["at", "none", "missing"]) expect(tableAt(table, key)).toEqual({});
});
