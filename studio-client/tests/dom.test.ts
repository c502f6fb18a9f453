import { expect, it, vi } from "vitest";
import { choice, numberField, slider, vectorField } from "../src/dom";

function input(element: HTMLElement, selector = "input"): HTMLInputElement {
  const found = element.querySelector<HTMLInputElement>(selector);
  if (!found) throw new Error(`there is no ${selector}`);
  return found;
}

function type(field: HTMLInputElement, value: string): void {
  field.value = value;
  field.dispatchEvent(new Event("change"));
}

it("a choice gives one of its keys", () => {
  const change = vi.fn();
  const options = [
    ["x", "left"],
    ["", "none"],
  ] as const;
  const element = choice("Axis", "x", options, change);
  type(input(element, "select"), "");
  expect(change.mock.calls).toEqual([[""]]);
});

it("a number that is deleted comes back, and a relative one is used once", () => {
  const change = vi.fn();
  const element = numberField("Size", 0.1234567, change, "m", true);
  expect(input(element).value).toBe("0.123457");
  type(input(element), "");
  type(input(element), "2");
  expect(change.mock.calls).toEqual([[2]]);
  expect(input(element).value).toBe("0.123457");
});

it("a vector keeps all digits of what is not typed", () => {
  const change = vi.fn();
  const element = vectorField("At", [0.123456789, 2, 3], change);
  type(input(element, '[data-id="At y"]'), "5");
  expect(change.mock.calls).toEqual([[[0.123456789, 5, 3]]]);
});

it("a slider says when it is released", () => {
  const change = vi.fn();
  const element = slider("Value", 0.5, [0, 1, 0.01], change);
  input(element).value = "0.7";
  input(element).dispatchEvent(new Event("input"));
  input(element).dispatchEvent(new Event("change"));
  expect(change.mock.calls).toEqual([
    [0.7, false],
    [0.7, true],
  ]);
});
