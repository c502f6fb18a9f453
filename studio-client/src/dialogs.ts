/** Opening and saving files, and messages. */

import type { App } from "./app";
import { button, h, row } from "./dom";
import type { Files, Note } from "./messages";

export class Dialogs {
  readonly notes = h("div", { class: "notes", "aria-live": "polite" });
  private banner = h("div", { class: "banner", role: "alert", "data-id": "offline" });
  private dialog = h("dialog", {});
  private folder = "";
  private saving = false;

  constructor(
    private app: App,
    parent: HTMLElement,
  ) {
    parent.append(this.dialog, this.notes, this.banner);
    app.store.onFiles = (files) => this.list(files);
    app.store.onNote = (note) => {
      this.note(note);
      if (note.level === "error") setTimeout(() => app.tell(), 0); // fields show again what is true
    };
    app.store.onConnection = (connected) => {
      document.body.classList.toggle("offline", !connected);
      this.banner.textContent =
        "The studio has stopped, or cannot be reached; the page tries again. If it was ended, " +
        `start pointglue studio again in ${app.store.state?.folder ?? "its folder"} ` +
        "and open the address that it prints: unsaved work is offered there.";
    };
  }

  open(): void {
    this.saving = false;
    this.app.send({ type: "list_files", folder: this.folder });
  }

  save(): void {
    this.saving = true;
    const path = this.app.store.state?.path ?? "";
    this.app.send({
      type: "list_files",
      folder: path.startsWith("/") ? "" : path.split("/").slice(0, -1).join("/"),
    });
  }

  note(note: Note): void {
    const close = button("✕", () => box.remove(), { id: "Close note" });
    const box = h(
      "div",
      { class: `note ${note.level}`, role: note.level === "error" ? "alert" : "status" },
      h("div", { class: "text" }, note.text),
      close,
    );
    this.notes.append(box);
    while (this.notes.children.length > 4) this.notes.firstChild!.remove();
    setTimeout(() => box.remove(), note.level === "error" ? 12000 : 6000);
  }

  private list(files: Files): void {
    this.folder = files.folder;
    const into = (name: string) => (files.folder ? `${files.folder}/${name}` : name);
    const close = () => this.dialog.close();
    const items = files.entries
      .filter((entry) => !this.saving || entry.kind === "folder" || entry.kind === "scene")
      .map((entry) =>
        h(
          "li",
          {
            "data-id": entry.name,
            click: () => {
              if (entry.kind === "folder") this.app.send({ type: "list_files", folder: into(entry.name) });
              else if (this.saving) name.value = entry.name;
              else {
                const { state } = this.app.store,
                  lost = entry.kind === "scene" && state && !state.saved && this.app.objects.length > 0;
                if (
                  lost &&
                  !confirm(
                    "The scene that is open has not been saved. Open another one? (Undo brings it back.)",
                  )
                )
                  return;
                this.app.send({ type: "open", path: into(entry.name) });
                close();
              }
            },
          },
          h("span", { class: "name" }, entry.name),
          h("small", {}, entry.kind),
        ),
      );
    if (files.folder) {
      const above = files.folder.split("/").slice(0, -1).join("/");
      items.unshift(
        h(
          "li",
          { click: () => this.app.send({ type: "list_files", folder: above }) },
          h("span", { class: "name" }, "↑ up"),
          h("small", {}, "folder"),
        ),
      );
    }
    const name = h("input", { type: "text", required: true, "data-id": "File name" });
    name.value = this.app.store.state?.path.split("/").at(-1) || "scene.toml";
    const write = () => {
      const typed = name.value.trim(),
        ended = /\.toml$/i.test(typed);
      if (/^(\.toml)?$/i.test(typed)) name.value = ""; // which the browser then asks for
      if (!name.reportValidity()) return;
      const file = ended ? typed : `${typed}.toml`,
        path = into(file);
      const there = path !== this.app.store.state?.path && files.entries.some((entry) => entry.name === file);
      if (there && !confirm(`${path} is there already. Replace it?`)) return;
      this.app.write({ type: "save", path, replace: there });
      close();
    };
    name.addEventListener("keydown", (event) => event.key === "Enter" && write());
    this.dialog.replaceChildren(
      h("h2", {}, this.saving ? "Save the scene" : "Open a mesh, a scene or a finished run"),
      h(
        "p",
        { class: "note" },
        `In ${[this.app.store.state?.folder, files.folder].filter(Boolean).join("/")}`,
      ),
      items.length
        ? h("ul", { class: "files" }, ...items)
        : h("p", { class: "empty" }, "There is nothing here that can be opened."),
      row(
        this.saving && name,
        this.saving && button("Save", write, { id: "Save here", primary: true }),
        button("Cancel", close),
      ),
    );
    if (!this.dialog.open) this.dialog.showModal();
  }
}
