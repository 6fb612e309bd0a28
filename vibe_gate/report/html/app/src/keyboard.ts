// Keys of the page, and the dialog that lists them.

import { h } from "./dom";

export interface Key {
  keys: string[];
  does: string;
  run: () => void;
}

/** Listens for keys; returns what opens the list of them. */
export function listen(keys: readonly Key[]): () => void {
  const close = h("button", { type: "button" }, "Close");
  const dialog = h("dialog", { "aria-label": "Keys" }, h("h2", {}, "Keys"),
    h("dl", { class: "keys" }, ...keys.map((key) => h("div", {}, h("dt", {}, ...key.keys.map((name) => h("kbd", {}, name))), h("dd", {}, key.does)))), close);
  document.body.append(dialog);
  close.addEventListener("click", () => dialog.close());
  const open = (): void => dialog.showModal();
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    const isTyping = target.matches("input:not([type=checkbox]), select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.key === "Escape" && isTyping) return target.blur();
    if (isTyping) return;
    if (event.key === "?") open();
    else {
      const key = keys.find((each) => each.keys.includes(event.key));
      if (!key) return;
      key.run();
    }
    event.preventDefault();
  });
  return open;
}
