/** Reading of tables of the scene file, whose values may be anything that a scene file can say. */

export type Table = Record<string, unknown>;
export type Vector = [number, number, number];

/** The table at a key, an empty one if there is none. */
export function tableAt(table: Table, key: string): Table {
  const value = table[key];
  return isTable(value) ? value : {};
}

/** The number at a key, or the fallback. */
export function numberAt(table: Table, key: string, fallback: number): number {
  const value = table[key];
  return typeof value === "number" ? value : fallback;
}

/** The text at a key, or the fallback. */
export function textAt(table: Table, key: string, fallback = ""): string {
  const value = table[key];
  return typeof value === "string" ? value : fallback;
}

/** The three numbers at a key, or the fallback. */
export function vectorAt(table: Table, key: string, fallback: Vector): Vector {
  const value: unknown = table[key];
  if (!isList(value) || value.length !== 3) return fallback;
  const [x, y, z] = value;
  return typeof x === "number" && typeof y === "number" && typeof z === "number" ? [x, y, z] : fallback;
}

function isTable(value: unknown): value is Table {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isList(value: unknown): value is unknown[] {
  return Array.isArray(value);
}
