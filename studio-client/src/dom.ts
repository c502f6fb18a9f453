/** Small helpers to make elements of the page. */

import type { Vector } from "./tables";

type Child = Node | string | null | undefined | false;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | boolean | EventListener> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child): child is Node | string => Boolean(child)));
  return element;
}

export function button(
  label: string,
  onClick: () => void,
  options: { id?: string; title?: string; primary?: boolean; active?: boolean; disabled?: boolean } = {},
): HTMLButtonElement {
  return h(
    "button",
    {
      type: "button",
      class: [options.primary && "primary", options.active && "active"].filter(Boolean).join(" "),
      "data-id": options.id ?? label,
      title: options.title ?? "",
      disabled: options.disabled ?? false,
      "aria-pressed": String(options.active ?? false),
      click: onClick,
    },
    label,
  );
}

export function row(...children: Child[]): HTMLDivElement {
  return h("div", { class: "row" }, ...children);
}

export function section(title: string, ...children: Child[]): HTMLElement {
  return h("section", {}, h("h3", {}, title), ...children);
}

/** A number by a slider, with its value next to it; `done` is told once it is let go of. */
export function slider(
  label: string,
  value: number,
  range: [number, number, number],
  change: (value: number, done: boolean) => void,
  shown: (value: number) => string = (v) => String(+v.toPrecision(3)),
): HTMLLabelElement {
  const number = h("output", {}, shown(value));
  const input = h("input", {
    type: "range",
    min: String(range[0]),
    max: String(range[1]),
    step: String(range[2]),
    "data-id": label,
  });
  input.value = String(value);
  const tell = (done: boolean) => {
    number.textContent = shown(+input.value);
    change(+input.value, done);
  };
  input.addEventListener("input", () => tell(false));
  input.addEventListener("change", () => tell(true));
  return h("label", { class: "slider" }, h("span", {}, label), number, input);
}

/** A number as a field has room for. */
const digits = (value: number) => String(+Number(value).toPrecision(6));

/** A number to type. `relative`: it says by how much, and is done with once it is said. */
export function numberField(
  label: string,
  value: number,
  change: (value: number) => void,
  unit = "",
  relative = false,
): HTMLLabelElement {
  const input = h("input", { type: "number", step: "any", "data-id": label });
  const before = (input.value = digits(value));
  input.addEventListener("change", () => {
    if (input.value !== "") change(+input.value);
    if (input.value === "" || relative) input.value = before;
  });
  return h("label", { class: "field" }, h("span", {}, label), input, unit && h("small", {}, unit));
}

/** Three numbers in a row; `relative` as above. */
export function vectorField(
  label: string,
  value: Vector,
  change: (value: Vector) => void,
  relative = false,
): HTMLElement {
  const exact: Vector = [...value]; // what is not typed stays as it is, with all its digits
  const inputs = value.map((part, k) => {
    const input = h("input", {
      type: "number",
      step: "any",
      "data-id": `${label} ${"xyz"[k]}`,
      title: "xyz"[k],
    });
    const before = (input.value = digits(part));
    input.addEventListener("change", () => {
      if (input.value === "") return void (input.value = before);
      exact[k] = +input.value;
      change([...exact]);
      if (relative) [exact[k], input.value] = [value[k], before];
    });
    return input;
  });
  return h("div", { class: "vector" }, h("span", {}, label), ...inputs);
}

/** One of several options, each a key and the text that is shown; a value that is none of them shows none. */
export function choice<Key extends string>(
  label: string,
  value: string,
  options: readonly (readonly [Key, string])[],
  change: (value: Key) => void,
): HTMLLabelElement {
  const input = h(
    "select",
    { "data-id": label },
    ...options.map(([key, text]) => h("option", { value: key }, text)),
  );
  input.value = value;
  input.addEventListener("change", () => {
    const chosen = options.find(([key]) => key === input.value);
    if (chosen) change(chosen[0]);
  });
  return h("label", { class: "field" }, h("span", {}, label), input);
}

export function check(label: string, value: boolean, change: (value: boolean) => void): HTMLLabelElement {
  const input = h("input", { type: "checkbox", "data-id": label });
  input.checked = value;
  input.addEventListener("change", () => change(input.checked));
  return h("label", { class: "check" }, input, h("span", {}, label));
}
