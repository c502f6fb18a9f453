/** The picture: camera, lights and all objects. It is drawn when something has changed. */

import * as THREE from "three";
import { OrbitControls } from "three/examples/jsm/controls/OrbitControls.js";
import type { Store } from "./store";
import { Visual, type Look } from "./visual";

export interface Hit {
  object: string;
  point: THREE.Vector3;
  normal: THREE.Vector3;
  /** Where the ray leaves the mesh again. */
  exit: THREE.Vector3;
}

/** Whether there is no graphics card: smooth edges, unless asked for, would then cost half the frames. */
function inSoftware(): boolean {
  if (new URLSearchParams(location.search).has("smooth")) return false;
  const gl = document.createElement("canvas").getContext("webgl2");
  const told = gl?.getExtension("WEBGL_debug_renderer_info");
  const name = told ? String(gl!.getParameter(told.UNMASKED_RENDERER_WEBGL)) : "";
  gl?.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|software/i.test(name);
}

/** The longest side of a box. */
function extent(box: THREE.Box3): number {
  const { x, y, z } = box.getSize(new THREE.Vector3());
  return Math.max(x, y, z);
}

export class View {
  readonly renderer: THREE.WebGLRenderer;
  readonly camera = new THREE.PerspectiveCamera(40, 1, 0.01, 100);
  readonly controls: OrbitControls;
  readonly visuals = new Map<string, Visual>();
  readonly cursor: THREE.Group;
  readonly scene = new THREE.Scene();
  look: Look;
  frames = 0;
  private bindings = new THREE.Group();
  private hand: THREE.Line;
  private mirror: THREE.Mesh;
  private grid: THREE.GridHelper;
  private ground: THREE.Mesh;
  private wanted = true;
  /** Boxes around objects at rest, by name, and of which version of their arrays they are. */
  private boxes = new Map<string, { box: THREE.Box3; version: number }>();
  private framed = false;
  private height: number | null = null;
  private rays = new THREE.Raycaster();
  size = 1;
  centre = new THREE.Vector3();

  constructor(
    private store: Store,
    private parent: HTMLElement,
    look: Look,
  ) {
    this.look = look;
    this.renderer = new THREE.WebGLRenderer({ antialias: !inSoftware() });
    this.renderer.setPixelRatio(Math.min(window.devicePixelRatio, 2));
    this.renderer.setClearColor(0xe9edf2);
    parent.append(this.renderer.domElement);
    this.controls = new OrbitControls(this.camera, this.renderer.domElement);
    this.controls.addEventListener("change", () => {
      this.clip();
      this.draw();
    });
    this.controls.zoomSpeed = 0.8;
    this.scene.add(new THREE.HemisphereLight(0xffffff, 0xb8bfc8, 2.0));
    const sun = new THREE.DirectionalLight(0xffffff, 1.8);
    sun.position.set(2, 4, 3);
    this.camera.add(new THREE.DirectionalLight(0xffffff, 0.5));
    this.grid = new THREE.GridHelper(2, 20, 0x9aa7b5, 0xccd4dd);
    const plane = new THREE.MeshLambertMaterial({
      color: 0xd8d2c6,
      transparent: true,
      opacity: 0.6,
      side: THREE.DoubleSide,
    });
    this.ground = new THREE.Mesh(new THREE.PlaneGeometry(1, 1).rotateX(-Math.PI / 2), plane);
    const glass = new THREE.MeshBasicMaterial({
      color: 0x1f6f8b,
      transparent: true,
      opacity: 0.12,
      side: THREE.DoubleSide,
      depthWrite: false,
    });
    this.mirror = new THREE.Mesh(new THREE.PlaneGeometry(1, 1), glass);
    this.mirror.visible = false;
    this.cursor = this.makeCursor();
    const thread = new THREE.LineBasicMaterial({ color: 0xe4572e, depthTest: false, transparent: true });
    this.hand = new THREE.Line(new THREE.BufferGeometry(), thread);
    this.hand.frustumCulled = false;
    this.scene.add(
      sun,
      this.camera,
      this.grid,
      this.ground,
      this.mirror,
      this.cursor,
      this.bindings,
      this.hand,
    );
    new ResizeObserver(() => this.resize()).observe(parent);
    this.resize();
    const loop = () => {
      requestAnimationFrame(loop);
      if (!this.wanted) return;
      this.wanted = false;
      this.renderer.render(this.scene, this.camera);
      this.frames++;
    };
    loop();
  }

  draw(): void {
    this.wanted = true;
  }

  private makeCursor(): THREE.Group {
    const group = new THREE.Group();
    const ring = new THREE.Mesh(
      new THREE.RingGeometry(0.96, 1, 64),
      new THREE.MeshBasicMaterial({
        color: 0xe4572e,
        side: THREE.DoubleSide,
        depthTest: false,
        transparent: true,
      }),
    );
    const shell = new THREE.Mesh(
      new THREE.SphereGeometry(1, 24, 16),
      new THREE.MeshBasicMaterial({ color: 0xe4572e, transparent: true, opacity: 0.12, depthWrite: false }),
    );
    ring.renderOrder = 6;
    group.add(ring, shell);
    group.visible = false;
    return group;
  }

  private resize(): void {
    const { clientWidth: width, clientHeight: height } = this.parent;
    if (!width || !height) return;
    this.renderer.setSize(width, height);
    this.camera.aspect = width / height;
    this.camera.updateProjectionMatrix();
    this.draw();
  }

  /** Show what the store has. */
  sync(): void {
    const state = this.store.state;
    if (!state) return;
    const names = new Set(state.objects.map((object) => object.name));
    for (const [name, visual] of this.visuals) {
      if (names.has(name)) continue;
      visual.dispose();
      this.visuals.delete(name);
    }
    const fresh = this.measure([...names]);
    for (const object of state.objects) {
      let visual = this.visuals.get(object.name);
      if (!visual) {
        visual = new Visual(object.name, this.store);
        this.visuals.set(object.name, visual);
        this.scene.add(visual.group);
      }
      visual.sync(object, this.look, this.sizeOf(object.name));
    }
    this.ground.visible = state.ground !== null && !state.run;
    this.ground.position.set(this.centre.x, state.ground ?? 0, this.centre.z);
    this.ground.scale.setScalar(6 * this.size);
    const laid = this.ground.visible && this.height === null && !this.sees(this.ground.position);
    this.height = this.ground.visible ? state.ground : null;
    if (fresh || laid) this.frame();
    const hand = this.store.get("", "hand");
    this.hand.visible = hand !== undefined;
    if (hand) this.hand.geometry.setAttribute("position", new THREE.BufferAttribute(hand.data, 3));
    this.syncBindings(state.attach.map((binding) => binding.health));
    this.draw();
  }

  /** Boxes around everything at rest; whether there is something new to be looked at. */
  private measure(names: string[]): boolean {
    const before = this.boxes,
      all = new THREE.Box3();
    this.boxes = new Map();
    for (const name of names) {
      const rest = this.store.get(name, "rest") ?? this.store.get(name, "particles"),
        old = before.get(name);
      if (!rest?.data.length) continue;
      const box = old?.version === rest.version ? old.box : new THREE.Box3().setFromArray(rest.data);
      this.boxes.set(name, { box, version: rest.version });
      all.union(box);
    }
    if (all.isEmpty()) return false;
    this.size = extent(all) || 1;
    all.getCenter(this.centre);
    this.grid.scale.setScalar(this.size);
    const floor = this.store.state?.ground ?? all.min.y - 0.01 * this.size;
    this.grid.position.set(this.centre.x, floor, this.centre.z);
    const gone = [...before].filter(([name]) => !this.boxes.has(name)).map(([, { box }]) => box);
    return [...this.boxes].some(([name, { box }]) => {
      const old = before.get(name)?.box;
      if (!old) return !gone.some((other) => other.equals(box)); // else it has another name only
      const was = extent(old),
        is = extent(box);
      return was > 0 && (is > 10 * was || is < 0.1 * was); // in other units, and out of sight
    });
  }

  /** How large an object is at rest. */
  sizeOf(name: string): number {
    const known = this.boxes.get(name);
    return (known && extent(known.box)) || this.size;
  }

  private sees(place: THREE.Vector3): boolean {
    const { x, y, z } = place.clone().project(this.camera);
    return Math.max(Math.abs(x), Math.abs(y), Math.abs(z)) < 1;
  }

  /** Show the plane through the middle of an object that handles are mirrored at, or none. */
  showMirror(object: string, axis: "" | "x" | "y" | "z"): void {
    const rest = axis ? this.store.get(object, "rest") : undefined;
    this.mirror.visible = rest !== undefined;
    if (!rest) return;
    const box = new THREE.Box3().setFromArray(rest.data);
    const size = box.getSize(new THREE.Vector3());
    box.getCenter(this.mirror.position);
    this.mirror.rotation.set(axis === "y" ? Math.PI / 2 : 0, axis === "x" ? Math.PI / 2 : 0, 0);
    this.mirror.scale.setScalar(1.2 * Math.max(size.x, size.y, size.z));
  }

  /** Bring an object, or everything and the ground, into view, as seen from the same side. */
  frame(only?: string): void {
    const box = new THREE.Box3();
    for (const [name, visual] of this.visuals) {
      const now = visual.places(this.look) ?? visual.centres(this.look);
      if (!now?.data.length || !visual.group.visible || (only && name !== only)) continue;
      box.union(new THREE.Box3().setFromArray(now.data));
    }
    if (box.isEmpty()) box.setFromCenterAndSize(this.centre, new THREE.Vector3().setScalar(this.size));
    if (!only && this.ground.visible)
      box.expandByPoint(box.getCenter(new THREE.Vector3()).setY(this.ground.position.y));
    const ball = box.getBoundingSphere(new THREE.Sphere()),
      radius = ball.radius || 0.5 * this.size;
    const half = Math.min(1, this.camera.aspect) * Math.tan(THREE.MathUtils.degToRad(this.camera.fov / 2));
    const from = this.framed
      ? this.camera.position.clone().sub(this.controls.target)
      : new THREE.Vector3(0.55, 0.35, 1);
    this.framed = true;
    this.controls.target.copy(ball.center);
    this.camera.position.copy(ball.center).add(from.setLength((1.02 * radius) / Math.sin(Math.atan(half))));
    this.controls.update();
    this.clip();
    this.draw();
  }

  /** What is near enough to be drawn: small things too, once they are looked at closely. */
  private clip(): void {
    const away = this.controls.getDistance();
    this.camera.near = 0.01 * away;
    this.camera.far = 10 * away + 100 * this.size;
    this.camera.updateProjectionMatrix();
  }

  private syncBindings(health: string[]): void {
    this.bindings.visible = this.look.bindings;
    if (!this.look.bindings) return;
    this.bindings.clear();
    const colors: Record<string, string> = {
      good: "#2a9d4a",
      fair: "#e0a100",
      poor: "#d1495b",
      broken: "#888888",
    };
    health.forEach((word, k) => {
      const ends = this.store.get("", `tie ${k}`),
        shares = this.store.get("", `share ${k}`);
      if (!ends || !shares) return;
      const geometry = new THREE.BufferGeometry();
      geometry.setAttribute("position", new THREE.BufferAttribute(ends.data, 3));
      const color = new THREE.Color(colors[word]),
        pale = new THREE.Color("#e9edf2");
      const paint = new Float32Array(ends.data.length);
      shares.data.forEach((share, j) => {
        const mixed = pale.clone().lerp(color, 0.3 + 0.7 * share);
        mixed.toArray(paint, 6 * j);
        mixed.toArray(paint, 6 * j + 3);
      });
      geometry.setAttribute("color", new THREE.BufferAttribute(paint, 3));
      const lines = new THREE.LineSegments(
        geometry,
        new THREE.LineBasicMaterial({ vertexColors: true, depthTest: false, transparent: true }),
      );
      lines.renderOrder = 3;
      lines.frustumCulled = false;
      this.bindings.add(lines);
    });
  }

  ray(x: number, y: number): THREE.Ray {
    const box = this.renderer.domElement.getBoundingClientRect();
    const at = new THREE.Vector2(((x - box.left) / box.width) * 2 - 1, 1 - ((y - box.top) / box.height) * 2);
    this.rays.setFromCamera(at, this.camera);
    return this.rays.ray;
  }

  /** How many pixels a metre is at a place. */
  pixels(place: THREE.Vector3): number {
    const away = Math.max(this.camera.position.distanceTo(place), this.camera.near);
    return (
      this.renderer.domElement.clientHeight /
      (2 * Math.tan(THREE.MathUtils.degToRad(this.camera.fov / 2)) * away)
    );
  }

  /** The nearest mesh under a place of the screen. */
  pick(x: number, y: number, only?: string): Hit | null {
    const ray = this.ray(x, y);
    let best: Hit | null = null,
      nearest = Infinity;
    for (const [name, visual] of this.visuals) {
      if (only !== undefined && name !== only) continue;
      const hits = visual.hits(ray);
      if (hits.length && hits[0].distance < nearest) {
        nearest = hits[0].distance;
        best = {
          object: name,
          point: hits[0].point,
          normal: hits[0].normal,
          exit: (hits[1] ?? hits[0]).point,
        };
      }
    }
    return best;
  }

  /** The handle or particle under a place of the screen: those within a few pixels, the nearest first. */
  pickPoint(x: number, y: number, object: string, channel: string, reach = 14): number | null {
    const block = this.store.get(object, channel);
    if (!block) return null;
    const screen = this.project(block.data);
    let best: number | null = null,
      nearest = Infinity;
    for (let k = 0; k < block.shape[0]; k++) {
      const away = Math.hypot(screen[3 * k] - x, screen[3 * k + 1] - y);
      const depth = screen[3 * k + 2];
      if (away < reach && depth < 1 && away + 20 * depth < nearest) {
        nearest = away + 20 * depth;
        best = k;
      }
    }
    return best;
  }

  /** Where points are on the screen: x, y and depth of each. */
  project(points: ArrayLike<number>): Float32Array {
    const box = this.renderer.domElement.getBoundingClientRect();
    const at = new THREE.Vector3(),
      result = new Float32Array(points.length);
    for (let k = 0; k < points.length; k += 3) {
      at.fromArray(points, k).project(this.camera);
      result[k] = box.left + ((at.x + 1) / 2) * box.width;
      result[k + 1] = box.top + ((1 - at.y) / 2) * box.height;
      result[k + 2] = at.z;
    }
    return result;
  }

  /** Where the mouse points to on a plane through a point that faces the camera. */
  onPlane(x: number, y: number, through: THREE.Vector3): THREE.Vector3 {
    const facing = this.camera.getWorldDirection(new THREE.Vector3());
    const plane = new THREE.Plane().setFromNormalAndCoplanarPoint(facing, through);
    return this.ray(x, y).intersectPlane(plane, new THREE.Vector3()) ?? through.clone();
  }

  moveCursor(hit: Hit | null, radius: number): void {
    const shown = hit !== null;
    if (!shown && !this.cursor.visible) return;
    this.cursor.visible = shown;
    if (hit) {
      this.cursor.position.copy(hit.point);
      this.cursor.scale.setScalar(radius);
      this.cursor.children[0].lookAt(hit.point.clone().add(hit.normal));
    }
    this.draw();
  }
}
