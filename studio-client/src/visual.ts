/** One object in the picture: its mesh, particles, edges, handles and points. */

import * as THREE from "three";
import { MeshBVH } from "three-mesh-bvh";
import { GREY, mixed, ofGroup, parse, ramp, type Rgb } from "./colors";
import type { ObjectState } from "./messages";
import type { Block, Store } from "./store";

export type ColorBy = "plain" | "stiffness" | "torsion" | "group" | "gap" | "weight";

/** What is to be seen of all objects. */
export interface Look {
  mesh: boolean;
  wire: boolean;
  particles: boolean;
  ellipsoids: boolean;
  edges: boolean;
  handles: boolean;
  points: boolean;
  bindings: boolean;
  clear: boolean;
  rest: boolean;
  selected: boolean;
  color: ColorBy;
}

const ball = new THREE.SphereGeometry(1, 14, 10);
const SELECTED = parse("#ffb000");
const WHITE: Rgb = [1, 1, 1];
const PINNED = parse("#d1495b");

export class Visual {
  readonly group = new THREE.Group();
  readonly geometry = new THREE.BufferGeometry();
  readonly mesh: THREE.Mesh<THREE.BufferGeometry, THREE.MeshLambertMaterial>;
  /** Bodies have the numbers of particles as instances. */
  particles: THREE.InstancedMesh | null = null;
  handles: THREE.InstancedMesh | null = null;
  private wire: THREE.Mesh;
  private edges: THREE.LineSegments<THREE.BufferGeometry, THREE.LineBasicMaterial>;
  private links: THREE.LineSegments;
  private points: THREE.Points;
  private chosen: THREE.Points;
  private bvh: MeshBVH | null = null;
  private stale = false;
  private seen = new Map<string, unknown>();
  private size = 1;
  highlighted = new Set<number>();

  constructor(
    readonly name: string,
    private store: Store,
  ) {
    const material = new THREE.MeshLambertMaterial({
      flatShading: true,
      side: THREE.DoubleSide,
      polygonOffset: true,
      polygonOffsetFactor: 1,
      polygonOffsetUnits: 1,
    });
    this.mesh = new THREE.Mesh(this.geometry, material);
    this.wire = new THREE.Mesh(
      this.geometry,
      new THREE.MeshBasicMaterial({ wireframe: true, color: 0x1d2733, transparent: true, opacity: 0.35 }),
    );
    this.edges = new THREE.LineSegments(
      new THREE.BufferGeometry(),
      new THREE.LineBasicMaterial({ vertexColors: true, transparent: true }),
    );
    this.links = new THREE.LineSegments(
      new THREE.BufferGeometry(),
      new THREE.LineBasicMaterial({ color: 0x22303f, depthTest: false, transparent: true }),
    );
    this.links.renderOrder = 5;
    const dots = (color: number, size: number) =>
      new THREE.Points(
        new THREE.BufferGeometry(),
        new THREE.PointsMaterial({
          color,
          size,
          sizeAttenuation: false,
          depthTest: false,
          transparent: true,
        }),
      );
    this.points = dots(0x33658a, 3.5);
    this.chosen = dots(0xff9500, 6);
    this.edges.renderOrder = 2;
    this.points.renderOrder = 3;
    this.chosen.renderOrder = 4;
    for (const part of [this.mesh, this.wire, this.edges, this.links, this.points, this.chosen]) {
      part.frustumCulled = false;
      this.group.add(part);
    }
  }

  /** Where vertices are: as they move, or at rest. */
  places(look: Look): Block | undefined {
    return (
      (look.rest ? undefined : this.store.get(this.name, "vertices")) ?? this.store.get(this.name, "rest")
    );
  }

  centres(look: Look): Block | undefined {
    return (
      (look.rest ? undefined : this.store.get(this.name, "particles_now")) ??
      this.store.get(this.name, "particles")
    );
  }

  /** Show what the store has. */
  sync(object: ObjectState, look: Look, size: number): void {
    this.size = size;
    this.group.visible = object.visible;
    this.syncMesh(object, look);
    this.syncParticles(object, look);
    this.syncEdges(look);
    this.syncHandles(object, look);
    this.syncPoints(look);
  }

  /** Whether something has changed since it was last asked, by name. */
  private changed(what: string, ...values: unknown[]): boolean {
    const key = JSON.stringify(values);
    if (this.seen.get(what) === key) return false;
    this.seen.set(what, key);
    return true;
  }

  private syncMesh(object: ObjectState, look: Look): void {
    const places = this.places(look),
      faces = this.store.get(this.name, "faces");
    const there = places !== undefined && faces !== undefined && faces.data.length > 0;
    this.mesh.visible = there && look.mesh;
    this.wire.visible = there && look.wire;
    if (!there) return;
    if (this.changed("faces", faces.version)) {
      this.geometry.setIndex(new THREE.BufferAttribute(faces.data, 1));
      this.bvh = null;
    }
    if (this.changed("places", places.version)) {
      const old = this.geometry.attributes.position;
      if (old instanceof THREE.BufferAttribute && old.array.length === places.data.length) {
        old.array.set(places.data);
        old.needsUpdate = true;
      } else {
        const fresh = new THREE.BufferAttribute(new Float32Array(places.data), 3);
        fresh.setUsage(THREE.DynamicDrawUsage);
        this.geometry.setAttribute("position", fresh);
        this.bvh = null;
      }
      this.stale = true;
    }
    const { material } = this.mesh;
    const painted = this.paint(look);
    if (material.vertexColors !== painted) {
      material.vertexColors = painted;
      material.needsUpdate = true;
    }
    material.color.set(painted ? "#ffffff" : object.color);
    const clear = look.clear && (this.centres(look) !== undefined || look.points);
    if (material.transparent !== clear) {
      material.transparent = clear;
      material.depthWrite = !clear;
      material.needsUpdate = true;
    }
    material.opacity = clear ? 0.32 : 1;
  }

  /** Colour vertices by the particles that carry them; false if there is nothing to colour by. */
  private paint(look: Look): boolean {
    const links = this.store.get(this.name, "links"),
      weights = this.store.get(this.name, "weights");
    if (look.color === "plain" || !links || !weights) return false;
    const chosen = this.store.get(this.name, "selected_particles");
    const values = this.values(look.color);
    const key = [look.color, links.version, weights.version, chosen?.version, values?.version];
    if (!this.changed("paint", ...key)) return true;
    const count = links.shape[0],
      colors = new Float32Array(3 * count);
    const of = this.particleColors(look);
    const picked = new Set(chosen?.data ?? []);
    for (let v = 0; v < count; v++) {
      let share = 0;
      for (let j = 0; j < 4; j++) {
        const particle = links.data[4 * v + j],
          weight = weights.data[4 * v + j];
        if (look.color === "weight" && picked.size) {
          if (picked.has(particle)) share += weight;
          continue;
        }
        const color = look.color === "weight" ? ofGroup(particle) : of(particle);
        for (let i = 0; i < 3; i++) colors[3 * v + i] += weight * color[i];
      }
      if (look.color === "weight" && picked.size) colors.set(ramp(share), 3 * v);
    }
    this.geometry.setAttribute("color", new THREE.BufferAttribute(colors, 3));
    return true;
  }

  private values(color: ColorBy): Block | undefined {
    return color === "plain" || color === "weight" ? undefined : this.store.get(this.name, color);
  }

  private particleColors(look: Look): (particle: number) => Rgb {
    const values = this.values(look.color);
    if (look.color === "weight") return ofGroup;
    if (!values || look.color === "torsion") return () => GREY;
    if (look.color === "group") return (particle) => ofGroup(values.data[particle]);
    const scale = look.color === "gap" ? 0.5 : 1;
    return (particle) => ramp(scale * values.data[particle]);
  }

  private syncParticles(object: ObjectState, look: Look): void {
    const centres = this.centres(look),
      radii = this.store.get(this.name, "radii");
    const shown = (look.particles || look.ellipsoids) && centres !== undefined && radii !== undefined;
    if (!shown) {
      if (this.particles) this.particles.visible = false;
      return;
    }
    const turns =
      (look.rest ? undefined : this.store.get(this.name, "turns_now")) ?? this.store.get(this.name, "turns");
    const chosen = this.store.get(this.name, "selected_particles"),
      pinned = this.store.get(this.name, "pinned");
    const count = centres.shape[0];
    if (!this.particles || this.particles.count !== count) {
      if (this.particles) {
        this.group.remove(this.particles);
        this.particles.dispose();
      }
      const material = new THREE.MeshLambertMaterial();
      this.particles = new THREE.InstancedMesh(ball, material, count);
      this.particles.frustumCulled = false;
      this.group.add(this.particles);
      this.seen.delete("particles");
      this.seen.delete("particle colors");
    }
    this.particles.visible = true;
    if (this.changed("particles", centres.version, radii.version, turns?.version, look.ellipsoids)) {
      const matrix = new THREE.Matrix4(),
        place = new THREE.Vector3(),
        turn = new THREE.Quaternion(),
        scale = new THREE.Vector3();
      for (let k = 0; k < count; k++) {
        place.fromArray(centres.data, 3 * k);
        if (look.ellipsoids) {
          if (turns)
            turn.set(turns.data[4 * k + 1], turns.data[4 * k + 2], turns.data[4 * k + 3], turns.data[4 * k]);
          scale.fromArray(radii.data, 3 * k);
        } else {
          turn.identity();
          scale.setScalar(0.45 * Math.min(radii.data[3 * k], radii.data[3 * k + 1], radii.data[3 * k + 2]));
        }
        this.particles.setMatrixAt(k, matrix.compose(place, turn, scale));
      }
      this.particles.instanceMatrix.needsUpdate = true;
      this.particles.boundingSphere = null;
    }
    const values = this.values(look.color);
    if (
      this.changed(
        "particle colors",
        look.color,
        values?.version,
        chosen?.version,
        pinned?.version,
        object.color,
      )
    ) {
      const own = mixed(WHITE, parse(object.color), 0.5);
      const of = look.color === "plain" ? () => own : this.particleColors(look);
      const picked = new Set(chosen?.data ?? []),
        color = new THREE.Color();
      for (let k = 0; k < count; k++) {
        const isPinned = pinned?.data[k] && look.color === "plain";
        const [r, g, b] = picked.has(k) ? SELECTED : isPinned ? PINNED : of(k);
        this.particles.setColorAt(k, color.setRGB(r, g, b));
      }
      if (this.particles.instanceColor) this.particles.instanceColor.needsUpdate = true;
    }
  }

  private syncEdges(look: Look): void {
    const centres = this.centres(look),
      edges = this.store.get(this.name, "edges");
    this.edges.visible = look.edges && centres !== undefined && edges !== undefined;
    this.edges.material.depthTest = !look.clear; // else seen through the mesh
    if (!this.edges.visible || !centres || !edges) return;
    const torsion = look.color === "torsion" ? this.store.get(this.name, "torsion") : undefined;
    if (!this.changed("edges", centres.version, edges.version, torsion?.version, look.color)) return;
    const ends = edges.data.length,
      places = new Float32Array(3 * ends),
      colors = new Float32Array(3 * ends);
    const plain = parse("#22303f");
    for (let k = 0; k < ends; k++) {
      for (let i = 0; i < 3; i++) places[3 * k + i] = centres.data[3 * edges.data[k] + i];
      colors.set(torsion ? ramp(torsion.data[k >> 1]) : plain, 3 * k);
    }
    this.edges.geometry.dispose();
    this.edges.geometry = new THREE.BufferGeometry();
    this.edges.geometry.setAttribute("position", new THREE.BufferAttribute(places, 3));
    this.edges.geometry.setAttribute("color", new THREE.BufferAttribute(colors, 3));
  }

  private syncHandles(object: ObjectState, look: Look): void {
    const places = this.store.get(this.name, "handles");
    this.links.visible = look.handles && places !== undefined && object.links.length > 0;
    if (places && this.links.visible && this.changed("links", places.version, object.links)) {
      const ends = object.links.flatMap((link) => link.slice(1).flatMap((handle, k) => [link[k], handle]));
      const lines = new Float32Array(
        ends.flatMap((handle) => Array.from(places.data.subarray(3 * handle, 3 * handle + 3))),
      );
      this.links.geometry.dispose();
      this.links.geometry = new THREE.BufferGeometry();
      this.links.geometry.setAttribute("position", new THREE.BufferAttribute(lines, 3));
    }
    if (!places || !look.handles) {
      if (this.handles) this.handles.visible = false;
      return;
    }
    const count = places.shape[0];
    if (!this.handles || this.handles.count !== count) {
      if (this.handles) {
        this.group.remove(this.handles);
        this.handles.dispose();
      }
      const material = new THREE.MeshLambertMaterial({ depthTest: false, transparent: true });
      this.handles = new THREE.InstancedMesh(ball, material, count);
      this.handles.frustumCulled = false;
      this.handles.renderOrder = 5;
      this.group.add(this.handles);
      this.seen.delete("handles");
    }
    this.handles.visible = true;
    if (!this.changed("handles", places.version, [...this.highlighted], this.size)) return;
    const matrix = new THREE.Matrix4(),
      color = new THREE.Color();
    for (let k = 0; k < count; k++) {
      const radius = (this.highlighted.has(k) ? 0.02 : 0.015) * this.size;
      matrix
        .makeScale(radius, radius, radius)
        .setPosition(places.data[3 * k], places.data[3 * k + 1], places.data[3 * k + 2]);
      this.handles.setMatrixAt(k, matrix);
      this.handles.setColorAt(k, color.set(this.highlighted.has(k) ? "#ffb000" : "#1d2b3a"));
    }
    this.handles.instanceMatrix.needsUpdate = true;
    this.handles.boundingSphere = null;
    if (this.handles.instanceColor) this.handles.instanceColor.needsUpdate = true;
  }

  private syncPoints(look: Look): void {
    const points = this.store.get(this.name, "points"),
      vertices = this.places(look);
    this.points.visible = look.points && points !== undefined;
    if (points && this.changed("points", points.version)) {
      this.points.geometry.setAttribute("position", new THREE.BufferAttribute(points.data, 3));
    }
    const what = look.points ? "points" : "vertices";
    const chosen = this.store.get(this.name, `selected_${what}`),
      source = look.points ? points : vertices;
    this.chosen.visible = look.selected && chosen !== undefined && source !== undefined;
    if (!chosen || !source || !this.changed("chosen", what, chosen.version, source.version)) return;
    const places = new Float32Array(3 * chosen.data.length);
    chosen.data.forEach((row, k) => places.set(source.data.subarray(3 * row, 3 * row + 3), 3 * k));
    this.chosen.geometry.setAttribute("position", new THREE.BufferAttribute(places, 3));
  }

  /** Where a ray meets the mesh, nearest first; the tree of triangles is brought up to date only now. */
  hits(ray: THREE.Ray): { point: THREE.Vector3; distance: number; normal: THREE.Vector3 }[] {
    if (!this.group.visible) return [];
    if (!this.store.get(this.name, "faces")?.data.length) return this.particleHits(ray);
    if (!this.geometry.getAttribute("position") || !this.geometry.index) return [];
    if (!this.bvh) this.bvh = new MeshBVH(this.geometry, { indirect: true });
    else if (this.stale) this.bvh.refit();
    this.stale = false;
    return this.bvh
      .raycast(ray, THREE.DoubleSide)
      .map((hit) => ({ point: hit.point, distance: hit.distance, normal: hit.face!.normal.clone() }))
      .sort((a, b) => a.distance - b.distance);
  }

  /** The same for a body without a mesh: where a ray meets its particles, as balls. */
  private particleHits(ray: THREE.Ray): { point: THREE.Vector3; distance: number; normal: THREE.Vector3 }[] {
    const centres = this.store.get(this.name, "particles_now") ?? this.store.get(this.name, "particles");
    const radii = this.store.get(this.name, "radii"),
      found = [];
    const ball = new THREE.Sphere(),
      point = new THREE.Vector3();
    for (let k = 0; centres && k < centres.shape[0]; k++) {
      ball.center.fromArray(centres.data, 3 * k);
      ball.radius = radii
        ? Math.max(radii.data[3 * k], radii.data[3 * k + 1], radii.data[3 * k + 2])
        : 0.01 * this.size;
      if (!ray.intersectSphere(ball, point)) continue;
      const normal = point.clone().sub(ball.center).normalize();
      found.push({ point: point.clone(), distance: point.distanceTo(ray.origin), normal });
    }
    return found.sort((a, b) => a.distance - b.distance);
  }

  dispose(): void {
    this.group.removeFromParent();
    this.geometry.dispose();
    this.particles?.dispose();
    this.handles?.dispose();
  }
}
